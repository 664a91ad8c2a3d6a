# SPDX-License-Identifier: Apache-2.0
"""The components of one module: what each of its cells, sums and memories counts as."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from cost_model.netlist.liveness import Liveness
from cost_model.netlist.model import ONE, ZERO, Bits, Cell, Memory, Module, is_full_adder
from cost_model.netlist.products import made_bits
from cost_model.netlist.sums import Sum, sums, trimmed

FAN_OUT = 16
"""Loads that a gate drives without a tree of buffers."""

Counts = dict[str, float]


def decoder(depth: int) -> int:
    """Return the gates that make a line for each word of an address."""
    return 0 if depth < 2 else depth + decoder(math.isqrt(depth - 1) + 1) if depth > 2 else 1


def count_components(
    module: Module,
    live: Liveness,
    is_output: Callable[[str, str], bool],
    inside: Mapping[str, Mapping[str, list[int]]],
    *,
    macros: bool,
) -> tuple[Counts, dict[str, list[int]]]:
    """Return the components of a module, and how many loads each bit of each input has.

    Parameters
    ----------
    module : Module
    live : Liveness
        Which of its bits are used.
    is_output : callable
        Tells whether a module, by its name, has an output of a name.
    inside : mapping
        The loads of the inputs of the modules in it.
    macros : bool
        Whether its memories are macros, which are not counted.
    """
    return _Counter(module, live, is_output, inside).result(macros=macros)


class _Counter:
    """Counts the components of a module; see `count_components`."""

    def __init__(
        self,
        module: Module,
        live: Liveness,
        is_output: Callable[[str, str], bool],
        inside: Mapping[str, Mapping[str, list[int]]],
    ) -> None:
        self.module, self.live, self.used = module, live, live.used
        self.inside, self.is_output = inside, is_output
        self.counts: Counter[str] = Counter()
        self.loads: Counter[int] = Counter()
        self.seen: set[Any] = set()
        self.gates: set[tuple[str, Bits]] = set()
        self.compared: Counter[Bits] = Counter()

    def result(self, *, macros: bool) -> tuple[Counts, dict[str, list[int]]]:
        """Return the components, and how many loads each bit of each input has."""
        module = self.module
        if module.is_full_adder:
            inputs = {port.name: [1] * port.width for port in module.ports if not port.output}
            return {}, inputs
        totals, summed = sums(module, self.used)
        for total in totals:
            self.count_sum(total)
        for number, (cell, bits) in enumerate(zip(module.cells, self.used, strict=True)):
            if bits and number not in summed and not self.is_repeated(cell):
                count = getattr(self, f"count_{cell.operator}", self.count_other)
                count(cell, bits)
        for memory, used in zip(module.memories, self.live.read, strict=True):
            if macros:
                self.load_macro(memory)
            else:
                self.count_memory(memory, used)
        for number, instance in enumerate(module.instances):
            if number not in self.live.instances:
                continue
            if is_full_adder(instance.module):
                self.count_full_adder(instance.connections)
            for name, nets in instance.connections.items():
                if not self.is_output(instance.module, name):
                    for net, load in zip(nets, self.inside[instance.module][name], strict=True):
                        self.loads[net] += load
        driven = {}
        for port in module.ports:
            if not port.output:
                driven[port.name] = [min(self.loads[net], FAN_OUT) for net in port.bits]
        clocks = {net for cell in module.cells for net in cell.pins.get("clk", ())}
        for net, load in self.loads.items():
            if net >= 0 and load > FAN_OUT and net not in clocks:
                self.counts["buffer"] += load / FAN_OUT  # type: ignore[assignment]
        return {component: float(n) for component, n in self.counts.items() if n}, driven

    def is_repeated(self, cell: Cell) -> bool:
        """Return whether another cell does the same."""
        if cell.operator == "register":
            key: Any = ("register", tuple(cell.pins.get(p, ()) for p in ("d", "en", "srst")))
        else:
            key = (cell.type, tuple(sorted((p, b) for p, b in cell.pins.items() if p != "y")))
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def add(self, component: str, count: float) -> None:
        if count:
            self.counts[component] += count  # type: ignore[assignment]

    def load(self, bits: Bits, times: int = 1) -> None:
        for net in bits:
            if net >= 0:
                self.loads[net] += times

    # -- registers, memories ---------------------------------------------------------------------

    def count_register(self, cell: Cell, used: set[int]) -> None:
        bits = len(used)
        self.add("register_bit", bits)
        self.load(cell.pins["d"])
        for pin, component in (("en", "enable_bit"), ("srst", "reset_bit")):
            if pin in cell.pins:
                self.add(component, bits)
                self.load(cell.pins[pin], bits)

    def count_memory(self, memory: Memory, used: set[int]) -> None:
        """Count a memory as the registers that it becomes, with what writes and chooses words.

        Bits of words that nobody uses are not made, nor is what would choose them at a port.
        """
        width, depth = len(used), memory.depth
        self.add("register_bit", width * depth)
        for port in memory.writes:
            self.add("enable_bit", width * depth)
            self.add("and_bit", decoder(depth) + depth * len({port.enable[bit] for bit in used}))
            self.load(tuple(port.data[bit] for bit in used), depth)
        for port in memory.reads:
            width = sum(net in self.live.nets for net in port.data)
            if not width:
                continue
            self.add("read_bit", width * (depth - 1))
            self.add("and_bit", decoder(depth))
            self.load(port.address, width)
            if port.clocked:
                self.add("register_bit", width)
                self.add("enable_bit", 0 if set(port.enable) <= {ONE} else width)

    def load_macro(self, memory: Memory) -> None:
        """Count the loads that the pins of a macro are; a register behind it is part of it."""
        for port in (*memory.reads, *memory.writes):
            self.load(port.address)
        for port in memory.writes:
            self.load(port.data)

    # -- gates -----------------------------------------------------------------------------------

    def pairs(self, cell: Cell, used: set[int]) -> Counter[int]:
        """Count the used bits with 0, 1 and 2 operands that are no constants."""
        result: Counter[int] = Counter()
        a, b = cell.pins["a"], cell.pins["b"]
        for index in used:
            x = a[min(index, len(a) - 1)]
            y = b[min(index, len(b) - 1)]
            result[0 if x == y else (x >= 0) + (y >= 0)] += 1
            self.load((x, y))
        return result

    def count_and(self, cell: Cell, used: set[int]) -> None:
        self.add("and_bit", self.pairs(cell, used)[2])

    count_or = count_and

    def count_xor(self, cell: Cell, used: set[int]) -> None:
        result = self.pairs(cell, used)
        self.add("xor_bit", result[2])
        self.add("not_bit", result[1])

    def count_not(self, cell: Cell, used: set[int]) -> None:
        self.add("not_bit", len(used))
        self.load(cell.pins["a"])

    def count_mux(self, cell: Cell, used: set[int]) -> None:
        result = self.pairs(cell, used)
        self.add("mux_bit", result[2])
        self.add("mask_bit", result[1])
        self.load(cell.pins["s"], result[1] + result[2])

    def count_pmux(self, cell: Cell, used: set[int]) -> None:
        width = cell.width("y")
        live = constant = 0
        for index in used:
            for net in (cell.pins["a"][index], *cell.pins["b"][index::width]):
                if net >= 0:
                    live += 1
                    self.loads[net] += 1
                elif net == ONE:
                    constant += 1
        self.add("select_bit", live)
        self.add("reduce_bit", constant)
        self.load(cell.pins["s"], max(1, (live + constant) // max(1, cell.width("s"))))

    def count_reduce_and(self, cell: Cell, used: set[int]) -> None:
        bits = tuple(sorted({
            net for net in (*cell.pins["a"], *cell.pins.get("b", ())) if net >= 0
        }))  # fmt: skip
        component = cell.operator
        self.load(bits)
        # What another gate has of the same bits is shared.
        shared = next(
            (n for n in range(len(bits) - 1, 1, -1)
             if (component, bits[:n]) in self.gates or (component, bits[-n:]) in self.gates), 1,
        )  # fmt: skip
        self.gates.add((component, bits))
        self.add("reduce_bit", len(bits) - shared)

    count_reduce_or = count_reduce_and

    def count_reduce_xor(self, cell: Cell, used: set[int]) -> None:
        bits = {net for net in cell.pins["a"] if net >= 0}
        self.add("xor_bit", max(0, len(bits) - 1))
        self.load(tuple(bits))

    def count_shift(self, cell: Cell, used: set[int]) -> None:
        """Count a shifter level by level, from the largest distance: what chooses, what clears."""
        levels = [net for net in cell.pins["b"] if net >= 0]
        a, left = cell.pins["a"], cell.type in ("shl", "sshl")
        size = max(len(a), max(used) + 1)
        fill = a[-1] if cell.type == "sshr" and cell.signed[0] else ZERO
        # Bits that differ are other objects; those that came in behind the end are all the same.
        row: list[object] = [*a, *[fill] * (size - len(a))]
        result = []
        for level in reversed(range(len(levels))):
            step = min(1 << min(level, 30), size)
            other = [ZERO] * step + row[: size - step] if left else row[step:] + [fill] * step
            result.append((level, list(zip(row, other, strict=True))))
            row = [x if x == y else (level, i) for i, (x, y) in enumerate(result[-1][1])]
        needed = used
        for level, pairs in reversed(result):
            step = 1 << min(level, 30)
            components = [
                "mask_bit" if ZERO in pairs[i] else "mux_bit"
                for i in needed
                if i < size and pairs[i][0] != pairs[i][1]
            ]
            for component in ("mask_bit", "mux_bit"):
                self.add(component, components.count(component))
            self.loads[levels[level]] += len(components)
            more = {i - step for i in needed} if left else {i + step for i in needed}
            needed = {i for i in needed | more if 0 <= i < size}
        self.load(cell.pins["a"], max(1, len(levels) // 2))

    # -- arithmetic ------------------------------------------------------------------------------

    def operands(self, cell: Cell) -> tuple[Bits, Bits]:
        signed = all(cell.signed)
        a = trimmed(cell.pins["a"], signed and cell.signed[0])
        b = trimmed(cell.pins.get("b", ()), signed and cell.signed[1])
        self.load(a)
        self.load(b)
        return a, b

    def count_sum(self, adder: Sum) -> None:
        """Count an adder, or one of more than two numbers: full adders and an adder."""
        width = adder.width
        # What is missing on top of a number without sign is zero.
        rows = [
            row if signed else (*row, ZERO)
            for row, (_, signed) in zip(adder.rows, adder.terms, strict=True)
            if any(net >= 0 for net in row)
        ]
        for row in rows:
            self.load(row)
        if any(ONE in row for row in adder.rows) or adder.inverted:
            rows.append(())  # the constant or the carry that makes a complement
        self.add("product_bit", sum(product.bits for product in adder.products))
        self.add("product_extension", sum(
            product.extended * max(0, width - product.width) for product in adder.products
        ))  # fmt: skip
        # How many bits there are in each column, those of products as many in all of theirs.
        live = [
            sum(row[min(index, len(row) - 1)] >= 0 for row in rows if row)
            + sum(product.bits / product.width if index < product.width else product.extended > 0
                  for product in adder.products)
            for index in range(width)
        ]  # fmt: skip
        numbers = len([row for row in rows if row]) + len(adder.products)
        if numbers < 2 and not adder.products:
            self.add("increment_bit", sum(live) if len(rows) > 1 else 0)
            return
        self.add("sum_bit", sum(max(0.0, n - 2) for n in live))
        full = sum(n > 1 for n in live)
        first = next((index for index, n in enumerate(live) if n > 1), width)
        self.add("adder_bit", full)
        self.add("increment_bit", sum(0 < n <= 1 for n in live[first:]))
        self.add("adder_level", full * math.log2(max(full, 1)))

    def count_less(self, cell: Cell, used: set[int]) -> None:
        a, b = self.operands(cell)
        width = max(len(a), len(b))
        full = sum(x >= 0 and y >= 0 for x, y in zip(a, b, strict=False))
        self.add("less_bit", full)
        self.add("and_bit", width - full)

    def count_equal(self, cell: Cell, used: set[int]) -> None:
        a, b = cell.pins["a"], cell.pins["b"]
        full = half = 0
        for index in range(max(len(a), len(b))):
            x = a[index] if index < len(a) else ZERO
            y = b[index] if index < len(b) else ZERO
            live = (x >= 0) + (y >= 0)
            full += live == 2
            half += live == 1
        self.load(a)
        self.load(b)
        self.add("xor_bit", full)
        if not full:
            # Gates of comparisons with several constants are shared: they are a decoder.
            number = tuple(net for net in a if net >= 0) or tuple(net for net in b if net >= 0)
            self.compared[number] += 1
            if self.compared[number] > 2:
                self.add("equal_bit", min(2, half - 1))
                return
        self.add("equal_bit", max(0, full + half - 1))

    def count_mul(self, cell: Cell, used: set[int]) -> None:
        a, b = self.operands(cell)
        if not a or not b:
            return
        if min(len(a), len(b)) == 1:
            self.add("and_bit", max(len(a), len(b)))
            return
        # An unsigned operand of a signed product has a zero on top; two unsigned ones have a row
        # more.
        wide, narrow = len(a), len(b)
        if not any(cell.signed):
            wide += 1
        else:
            wide, narrow = wide + (a[-1] == ZERO), narrow + (b[-1] == ZERO)
        wide, narrow = max(wide, narrow), min(wide, narrow)
        width = max(used) + 1
        # What is above the bits that are used is not made.
        made = made_bits(narrow, wide, width) / (wide * narrow)
        self.add("booth_bit", made * wide * narrow)
        self.add("booth_extension", made * (wide - narrow))
        # The mapper makes both equally wide: of cells that are full adders rows of signs remain.
        self.add("booth_square", made * (wide - narrow) ** 2)
        self.load(a, narrow // 2)
        self.load(b, wide // 2)

    def count_full_adder(self, pins: Mapping[str, Bits]) -> None:
        inputs = [net for pin in ("a", "b", "c") for net in pins.get(pin, ())]
        live = sum(net >= 0 for net in inputs)
        made = sum(net in self.live.nets for pin in ("sum", "carry") for net in pins.get(pin, ()))
        if live == 3 and made == 1:
            self.add("xor_bit", 2)  # or a majority, which takes about as much
        elif live == 3:
            self.add("full_adder", 1)
        elif live == 2:
            self.add("half_adder", 1)

    def count_other(self, cell: Cell, used: set[int]) -> None:
        self.add("and_bit", max(map(len, cell.pins.values()), default=0))
        for _, bits in cell.operands:
            self.load(bits)
