# SPDX-License-Identifier: Apache-2.0
"""Modules that are a function of a few bits: decoders, and tables of constants.

A mapper makes of these what the function needs, whatever they are written as, so they are counted
by their truth tables: as a binary decision diagram that is shared by all bits of the result, in the
best order of the variables that moving one at a time finds.  (R. E. Bryant, "Graph-based algorithms
for Boolean function manipulation", IEEE TC 1986; R. Rudell, "Dynamic variable ordering for ordered
binary decision diagrams", ICCAD 1993.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache

from cost_model.netlist.fabric import elaborate
from cost_model.netlist.fabric.gates import FALSE, TRUE, Gates
from cost_model.netlist.fabric.lut_cover import reached
from cost_model.netlist.liveness import Liveness
from cost_model.netlist.model import ONE, Bits, Cell, Module
from cost_model.netlist.order import strongly_connected

FEW = 10
"""Inputs of the largest function that is looked at."""

ROUNDS = 2
"""How often each variable is moved to its best place, at most."""

WEIGHTS = {"mask_bit": 1.0, "xor_bit": 2.0, "mux_bit": 3.0}
"""About what nodes of a diagram take; by them an order is chosen."""

_ARITHMETIC = frozenset(("add", "sub", "neg", "mul", "less"))


def function_of(module: Module, live: Liveness) -> tuple[int, tuple[int, ...]] | None:
    """Return the function that a module is: its inputs that matter, and a truth table a bit.

    Parameters
    ----------
    module : Module
    live : Liveness

    Returns
    -------
    (int, tuple of int) or None
        Bit ``n`` of a table is the result for the inputs that are the binary digits of ``n``, in
        the order of the ports.  None if the module keeps something, consists of others, or has more
        than `FEW` inputs.
    """
    cells = [cell for cell, used in zip(module.cells, live.used, strict=True) if used]
    inputs = [net for port in module.ports if not port.output for net in port.bits]
    if (
        module.instances
        or module.memories
        or not cells
        or len([net for net in inputs if net in live.nets]) > FEW
        or any(cell.operator not in elaborate.GATED | _ARITHMETIC for cell in cells)
    ):
        return None
    gates = Gates()
    variables = {net: gates.input() for net in inputs if net >= 0}
    if not _elaborated(gates, cells, variables):
        return None
    outputs = [net for port in module.ports if port.output for net in port.bits
               if net in live.nets]  # fmt: skip
    return _tables(gates, [variables.get(net, FALSE) for net in outputs])


def few_input_counts(count: int, tables: Sequence[int]) -> dict[str, float]:
    """Return the components that a function of a few bits takes.

    Parameters
    ----------
    count : int
        Number of inputs.
    tables : sequence of int
        As `function_of` returns them.
    """
    different = set(tables)
    variables, whole = _variables(count)
    result = dict(_least(count, tuple(sorted(different))))
    if inverses := len(different & {variable ^ whole for variable in variables}):
        result["not_bit"] = float(inverses)
    return result


def _elaborated(gates: Gates, cells: list[Cell], literal_of: dict[int, int]) -> bool:
    """Make the gates of cells; return whether these have no loop."""
    driver = {net: number for number, cell in enumerate(cells) for net in cell.result}
    reads = [
        list(dict.fromkeys(driver[net] for _, bits in cell.operands for net in bits
                           if net in driver))
        for cell in cells
    ]  # fmt: skip

    def literals(bits: Bits) -> list[int]:
        return [TRUE if net == ONE else literal_of.get(net, FALSE) for net in bits]

    for group in strongly_connected(reads):
        if len(group) > 1 or group[0] in reads[group[0]]:
            return False
        cell = cells[group[0]]
        a, b, select = (literals(cell.pins.get(pin, ())) for pin in ("a", "b", "s"))
        make = elaborate.gates_of if cell.operator in elaborate.GATED else _arithmetic
        word = make(gates, cell, a, b, select)
        pairs = zip(cell.result, word, strict=True)
        literal_of.update((net, bit) for net, bit in pairs if net >= 0)
    return True


def _arithmetic(
    gates: Gates, cell: Cell, a: list[int], b: list[int], select: list[int]
) -> list[int]:
    width = len(cell.result)
    if cell.operator == "less":
        signed, wide = all(cell.signed), max(len(a), len(b))
        x, y = (elaborate.extended(word, wide, signed=signed) for word in (a, b))
        if cell.type in ("gt", "ge"):
            x, y = y, x
        bit = elaborate.less(gates, x, y, signed=signed, same=cell.type in ("le", "ge"))
        return elaborate.extended([bit], width, signed=False)
    signed = cell.signed[0] if cell.type in ("neg", "pos") else all(cell.signed)
    x, y = (elaborate.extended(word, width, signed=signed) for word in (a, b))
    if cell.type == "neg":
        x, y = y, x
    if cell.operator != "mul":
        inverted = cell.operator in ("sub", "neg")
        return _added(gates, x, [bit ^ inverted for bit in y], TRUE if inverted else FALSE)
    total = [FALSE] * width
    for index, bit in enumerate(y):
        row = [FALSE] * index + [gates.both(bit, other) for other in x[: width - index]]
        total = _added(gates, total, row, FALSE)
    return total


def _added(gates: Gates, x: list[int], y: list[int], carry: int) -> list[int]:
    result = []
    for bits in zip(x, y, strict=True):
        total, carry = gates.full_adder(*bits, carry)
        result.append(total)
    return result


def _tables(gates: Gates, outputs: list[int]) -> tuple[int, tuple[int, ...]]:
    """Return the number of inputs that literals depend on, and their truth tables over them."""
    order = reached(gates, outputs)
    inputs = sorted(node for node in order if gates.ands[node] is None)
    variables, whole = _variables(len(inputs))
    values = {0: 0, **dict(zip(inputs, variables, strict=True))}

    def value(literal: int) -> int:
        return values[literal >> 1] ^ (whole if literal & 1 else 0)

    for node in order:
        inside = gates.ands[node]
        if inside is not None:
            values[node] = value(inside[0]) & value(inside[1])
    return len(inputs), tuple(value(literal) for literal in outputs)


@cache
def _variables(count: int) -> tuple[list[int], int]:
    """Return the truth tables of variables, and that of what is always true."""
    size = 1 << count
    whole = (1 << size) - 1
    return [whole // ((1 << (1 << n)) + 1) << (1 << n) for n in range(count)], whole


@lru_cache(maxsize=256)
def _least(count: int, tables: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """Return the components of the best diagram of functions."""
    order = list(range(count))
    best = _diagram(count, tables, order)
    least = _weight(best)
    for _ in range(ROUNDS):
        before = least
        for variable in range(count):
            others = [each for each in order if each != variable]
            for index in range(count):
                trial = [*others[:index], variable, *others[index:]]
                result = _diagram(count, tables, trial)
                if _weight(result) < least:
                    order, best, least = trial, result, _weight(result)
        if least == before:
            break
    return tuple(best.items())


def _weight(counts: Counter[str]) -> float:
    return sum(WEIGHTS[operator] * n for operator, n in counts.items())


def _diagram(count: int, tables: tuple[int, ...], order: list[int]) -> Counter[str]:
    """Count the nodes of a diagram, a function and its inverse being one, by what they take.

    A node that chooses between two functions is a multiplexer, but an and (an or) if one of them is
    constant, two of these if one implies the other, three if they exclude each other, and an
    exclusive or if one is the inverse of the other.
    """
    variables, whole = _variables(count)
    result: Counter[str] = Counter()
    waiting = [(table, 0) for table in tables]
    seen = {0, whole}
    while waiting:
        table, level = waiting.pop()
        if table in seen:
            continue
        seen |= {table, table ^ whole}
        while True:
            variable, step = variables[order[level]], 1 << order[level]
            one, other = table & variable, table & ~variable
            one, other = one | one >> step, other | other << step
            level += 1
            if one != other:
                break
        if one == other ^ whole:
            result["xor_bit"] += one not in (0, whole)
            waiting.append((one, level))
            continue
        if {one, other} & {0, whole}:
            result["mask_bit"] += 1
        elif one & other in (one, other):
            result["mask_bit"] += 2
        elif one | other == whole or not one & other:
            result["mask_bit"] += 3
        else:
            result["mux_bit"] += 1
        waiting += [(one, level), (other, level)]
    return +result
