# SPDX-License-Identifier: Apache-2.0
"""The components of one module on an FPGA: what rules count exactly, and what look-up tables make.

Yosys maps adders to carry chains, products to DSP blocks or to rows that are added pairwise, and
memories to block memories, small memories or registers, by rules that `cost_model.fabric.Fabric`
knows: carry cells, DSP blocks, memories and flip-flops are counted by these.  Gates are covered
by look-up tables as a mapper does (`cost_model.structure.lut_cover`); what one of these and a bit
of an adder or a product takes is fitted to synthesis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cost_model.fabric import product_counts
from cost_model.structure.lut_cover import Network
from cost_model.structure.model import ONE, ZERO, Bits, Cell, Memory, is_full_adder
from cost_model.structure.module_bill import _Bill
from cost_model.structure.sums import Sum

if TYPE_CHECKING:
    from cost_model.fabric import Fabric

KINDS: Mapping[str, tuple[str, float]] = {
    "lut": ("look-up table that covers gates", 1.0),
    "full_adder_lut": ("look-up table of a full adder of the design's own", 0.8),
    "masked_bit": ("and of two bits that is part of an or", 0.1),
    "adder_bit": ("bit of an adder on a carry chain", 0.5),
    "row_bit": ("bit of a row of a product in logic", 0.5),
    "row_adder_bit": ("bit of an adder of such rows", 0.7),
    "memory_bit": ("bit of a memory made of registers", 0.8),
    "memory_word": ("word of a memory made of registers", 1.0),
    "memory_select": ("bit chosen among the parts of a deep small memory", 1.0),
    "memory_emulation": ("bit of a block memory that must not read what is written", 2.0),
}
"""Kinds of components that look-up tables are fitted to: what one is, and about how many it takes,
which stands in where measured designs do not tell."""

EXACT: Mapping[str, str] = {
    "flip_flop": "flip_flops",
    "carry": "carries",
    "dsp": "dsps",
    "bram": "brams",
    "lutram": "lutrams",
}
"""Kinds that are counted by rules, and the resource of which each takes one."""


class _FabricBill(_Bill):
    """The components of a module on an FPGA family."""

    fabric: Fabric
    joins_products = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.network = Network(self.fabric.lut_inputs)
        self.made: dict[Any, Bits] = {}
        self.wide: list[tuple[str, Bits, int]] = []
        self.extra = 0

    def finish(self) -> None:
        """Count the look-up tables of all gates."""
        self.add_wide()
        for number, instance in enumerate(self.module.instances):
            if is_full_adder(instance.module):
                self.add_full_adder(instance.connections)
            elif number in self.live.instances:
                for name, bits in instance.connections.items():
                    if not self.is_output(instance.module, name):
                        self.network.sink(bits)
        for port in self.module.ports:
            if port.output:
                self.network.sink(net for net in port.bits if net in self.live.nets)
        for kind, count in self.network.luts().items():
            self.add(kind, count)
        self.loads.clear()  # nothing is buffered

    def is_repeated(self, cell: Cell) -> bool:
        pins = ("d", "en", "srst") if cell.kind == "register" else sorted({*cell.pins} - {"y"})
        key = (cell.type, *((pin, cell.pins.get(pin, ())) for pin in pins))
        before = self.made.setdefault(key, cell.result)
        if before is cell.result:
            return False
        for net, other in zip(cell.result, before, strict=False):
            self.network.alias(net, other)
        return True

    # -- registers, memories ---------------------------------------------------------------------

    def count_register(self, cell: Cell, used: set[int]) -> None:
        self.add("flip_flop", len(used))
        self.network.sink(cell.pins["d"][index] for index in used)
        for pin in ("en", "srst"):
            self.network.sink(cell.pins.get(pin, ()))

    def count_memory(self, memory: Memory) -> None:
        for port in (*memory.reads, *memory.writes):
            for bits in (port.address, port.enable):
                self.network.sink(bits)
        for port in memory.writes:
            self.network.sink(port.data)
        if memory.depth < 2:
            self.add("flip_flop", memory.width)
            return
        for port in memory.reads:
            bill = self.fabric.memory(memory.width, memory.depth, clocked=port.clocked)
            for kind, count in bill.items():
                self.add(kind, float(count))

    # -- gates -----------------------------------------------------------------------------------

    def columns(self, cell: Cell, used: set[int]) -> Iterator[tuple[int, list[int]]]:
        """Yield each used bit of the result of a bitwise cell, and those of its operands."""
        operands = [cell.pins[pin] for pin in ("a", "b") if pin in cell.pins]
        for index in used:
            yield cell.pins["y"][index], [bits[min(index, len(bits) - 1)] for bits in operands]

    def count_and(self, cell: Cell, used: set[int]) -> None:
        for net, bits in self.columns(cell, used):
            self.network.gate(net, cell.type, [[bit] for bit in set(bits)])

    count_or = count_xor = count_not = count_and

    def count_mux(self, cell: Cell, used: set[int]) -> None:
        select = cell.pins["s"]
        for net, (a, b) in self.columns(cell, used):
            if a == b:
                self.network.alias(net, a)
            else:
                self.network.gate(net, f"mux{select}{a}", [[a, b, *select]])

    def count_pmux(self, cell: Cell, used: set[int]) -> None:
        width, select = cell.width("y"), cell.pins["s"]
        for index in used:
            values = cell.pins["b"][index::width]
            groups = [[value, chosen] for value, chosen in zip(values, select, strict=False)
                      if value != ZERO]  # fmt: skip
            usual = cell.pins["a"][index]
            if usual >= 0:
                groups.append([usual])
            self.network.gate(cell.pins["y"][index], f"pmux{usual}", groups)

    def count_reduce_and(self, cell: Cell, used: set[int]) -> None:
        bits = {net for net in (*cell.pins["a"], *cell.pins.get("b", ())) if net >= 0}
        self.wide.append((cell.kind, tuple(sorted(bits)), cell.pins["y"][0]))

    def add_wide(self) -> None:
        """Add the gates of many inputs; what another one has of the first or last is shared."""
        known: dict[tuple[str, Bits], int] = {}
        for kind, bits, net in sorted(self.wide, key=lambda each: len(each[1])):
            known.setdefault((kind, bits), net)
            groups = [[bit] for bit in bits]
            for n in range(len(bits) - 1, 1, -1):
                first, last = known.get((kind, bits[:n])), known.get((kind, bits[-n:]))
                if first is not None or last is not None:
                    rest = bits[n:] if first is not None else bits[:-n]
                    shared = first if first is not None else last
                    groups = [[bit] for bit in (shared, *rest) if bit is not None]
                    break
            self.network.gate(net, kind, groups)

    count_reduce_or = count_reduce_xor = count_reduce_and

    def count_equal(self, cell: Cell, used: set[int]) -> None:
        a, b = cell.pins["a"], cell.pins["b"]
        pairs = []
        for index in range(max(len(a), len(b))):
            x = a[index] if index < len(a) else ZERO
            y = b[index] if index < len(b) else ZERO
            pairs.append([x, y])
        self.network.gate(cell.pins["y"][0], f"{cell.type}{b}", pairs)

    def count_shift(self, cell: Cell, used: set[int]) -> None:
        levels = [net for net in cell.pins["b"] if net >= 0]
        value, needed = list(cell.pins["a"]), max(used) + 1
        left = cell.type in ("shl", "sshl")
        fill = value[-1] if cell.type == "sshr" and cell.signed[0] else ZERO
        width = needed if left else max(len(value), needed)
        value = (value + [fill] * width)[:width]
        for level in reversed(range(len(levels))):
            step = 1 << min(level, 30)
            last = level == 0
            shifted = []
            for index in range(needed if last else width):
                source = index - step if left else index + step
                other = value[source] if 0 <= source < len(value) else fill if not left else ZERO
                mine = value[index] if index < len(value) else fill
                if mine == other:
                    shifted.append(mine)
                    continue
                net = cell.pins["y"][index] if last else self.inner()
                self.network.gate(net, f"shift{mine}", [[mine, other, levels[level]]])
                shifted.append(net)
            value = shifted

    def add_full_adder(self, pins: Mapping[str, Bits]) -> None:
        """Add the gates of a full adder of the design's own, one for each output."""
        inputs = [net for pin in ("a", "b", "c") for net in pins.get(pin, ())]
        for pin in ("sum", "carry"):
            for net in pins.get(pin, ()):
                if net in self.live.nets:
                    self.network.gate(net, pin, [inputs])

    def count_full_adder(self, pins: Mapping[str, Bits]) -> None:
        return

    def count_other(self, cell: Cell, used: set[int]) -> None:
        bits = [net for _, operand in cell.operands for net in operand]
        for index in used:
            self.network.gate(cell.result[index], f"{cell.type}{index}", [[bit] for bit in bits])

    def inner(self) -> int:
        """Return a net of its own, inside of a cell."""
        self.extra += 1
        return _INNER + self.extra

    # -- arithmetic ------------------------------------------------------------------------------

    def chain(self, width: int, *, carry_in: bool = False) -> bool:
        """Count the carry cells of an adder; return whether it has any."""
        if width <= self.fabric.short_counter:
            return False
        self.add("carry", float(self.fabric.carries(width, carry_in=carry_in)))
        return True

    def ripple(self, columns: Sequence[Sequence[int]], results: Sequence[int]) -> None:
        """Add the gates of an adder without a carry chain; the last result may be its carry."""
        carry: list[int] = []
        for column, net in zip(columns, results, strict=False):
            live = [*column, *carry]
            self.network.gate(net, "sum", [[bit] for bit in live])
            carry = [self.inner()]
            self.network.gate(carry[0], "carry", [live])

    def count_sum(self, found: Sum) -> None:
        rows = [row for row in found.rows if any(net >= 0 for net in row)]
        constant = any(ONE in row for row in found.rows) or found.inverted
        columns = [[row[min(index, len(row) - 1)] for row in rows] for index in range(found.width)]
        live = [sum(net >= 0 for net in column) for column in columns]
        if not rows:
            return
        first = next((index for index, n in enumerate(live) if n > 1), 0)
        if not constant and len(rows) < 2:
            return
        width = found.width if constant else found.width - first
        if self.chain(width, carry_in=len(rows) < 2):
            self.add("adder_bit", width)
            # Numbers more than two are summed by full adders in front of the chain.
            self.add("lut", 2.0 * max(0, sum(live) - 2 * found.width) if len(rows) > 2 else 0)
            for row in rows:
                self.network.sink(row)
        else:
            self.ripple(columns, found.result)

    def count_less(self, cell: Cell, used: set[int]) -> None:
        a, b = self.operands(cell)
        width = max(len(a), len(b))
        full = sum(x >= 0 and y >= 0 for x, y in zip(a, b, strict=False))
        if full and self.chain(width):
            self.add("adder_bit", width)
            self.network.sink((*a, *b))
        else:
            self.network.gate(cell.pins["y"][0], "less", [[bit] for bit in (*a, *b)])

    def count_mul(self, cell: Cell, used: set[int]) -> None:
        a, b = self.operands(cell)
        if not a or not b:
            return
        self.network.sink((*a, *b))
        width = min(max(used) + 1, len(a) + len(b))
        narrow = min(len(a), len(b))
        if self.fabric.multiplies(width, narrow):
            self.count_dsp(len(a), len(b), signed=any(cell.signed))
            return
        shorter = a if len(a) < len(b) else b
        bill = product_counts(
            self.fabric,
            min(len(a), width),
            min(len(b), width),
            top=width,
            signed=(cell.signed[0], cell.signed[1]),
            positive=shorter[-1] == ZERO,
        )
        for kind, count in bill.items():
            self.add(kind, count)

    def count_dsp(self, a: int, b: int, *, signed: bool) -> None:
        """Count the DSP blocks of a product, and the adders of its parts if it has several."""
        wide, narrow = self.fabric.divided(max(a, b), min(a, b), signed=signed)
        self.add("dsp", len(wide) * len(narrow))
        for part in wide:
            self.count_parts(narrow, part)
        self.count_parts(wide, sum(narrow))

    def count_parts(self, parts: list[int], other: int) -> None:
        """Count the adders of products of the parts of one factor by the other one."""
        for index in range(1, len(parts)):
            width = sum(parts[index:]) + other if index == len(parts) - 1 else parts[index] + other
            if self.chain(width):
                self.add("adder_bit", width)


def counting(fabric: Fabric) -> type[_Bill]:
    """Return what counts the components of a module on an FPGA family."""
    return type("_Of", (_FabricBill,), {"fabric": fabric})


_INNER = 1 << 40
"""Nets inside of cells have numbers above this."""
