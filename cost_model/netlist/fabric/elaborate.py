# SPDX-License-Identifier: Apache-2.0
"""Gates of the word-level cells that an FPGA has no blocks for, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cost_model.netlist.fabric.gates import FALSE, TRUE, Gates
from cost_model.netlist.model import Cell

Word = Sequence[int]
"""Literals, the least significant bit first."""


GATED = frozenset((
    "and", "or", "xor", "not", "mux", "pmux", "reduce_and", "reduce_or", "reduce_xor", "equal",
    "shift",
))  # fmt: skip
"""Kinds of cells that are gates on every target."""


def gates_of(gates: Gates, cell: Cell, a: Word, b: Word, select: Word) -> list[int]:
    """Return the result of a cell of one of the kinds in `GATED`."""
    width = len(cell.result)
    if cell.operator in ("and", "or", "xor", "not"):
        return bitwise(gates, cell, a, b, width)
    if cell.operator == "mux":
        return [gates.choose(select[0], y, x) for x, y in zip(a, b, strict=True)]
    if cell.type == "pmux":
        return selected(gates, a, b, select)
    if cell.type == "bmux":
        return indexed(gates, a, select, width)
    if cell.operator == "shift":
        return shifted(gates, cell, a, b, width)
    bit = equal(gates, cell, a, b) if cell.operator == "equal" else reduced(gates, cell, a, b)
    return extended([bit], width, signed=False)


def extended(word: Word, width: int, *, signed: bool) -> list[int]:
    """Return a word of a width: what is missing repeats the sign, or is zero."""
    top = word[-1] if signed and word else FALSE
    return [*word, *[top] * (width - len(word))][:width]


def bitwise(gates: Gates, cell: Cell, a: Word, b: Word, width: int) -> list[int]:
    """Return the result of an operator that works bit by bit."""
    a = extended(a, width, signed=cell.signed[0])
    if cell.operator == "not":
        return [bit ^ 1 for bit in a]
    b = extended(b, width, signed=cell.signed[1])
    operator: Callable[[int, int], int] = {
        "and": gates.both,
        "or": gates.either,
        "xor": gates.differ,
        "xnor": lambda x, y: gates.differ(x, y) ^ 1,
    }[cell.type]
    return [operator(x, y) for x, y in zip(a, b, strict=True)]


def reduced(gates: Gates, cell: Cell, a: Word, b: Word) -> int:
    """Return the only bit of an operator over all bits of its operands."""
    if cell.type == "reduce_and":
        return gates.all(a)
    if cell.type in ("reduce_xor", "reduce_xnor"):
        return gates.parity(a) ^ (cell.type == "reduce_xnor")
    if cell.type == "logic_and":
        return gates.both(gates.any(a), gates.any(b))
    result = gates.any([*a, *b])  # reduce_or, reduce_bool, logic_or, logic_not
    return result ^ (cell.type == "logic_not")


def selected(gates: Gates, usual: Word, values: Word, select: Word) -> list[int]:
    """Select a value by one signal for each, or the default value."""
    width, result = len(usual), []
    for index, other in enumerate(usual):
        column = values[index::width]
        chosen = gates.any(gates.both(s, v) for s, v in zip(select, column, strict=False))
        if other != FALSE:
            chosen = gates.either(chosen, gates.both(other, gates.any(select) ^ 1))
        result.append(chosen)
    return result


def indexed(gates: Gates, table: Word, select: Word, width: int) -> list[int]:
    """Return the entry of a table that an index selects."""
    entries = [list(table[n : n + width]) for n in range(0, len(table), width)]
    for bit in select:
        entries = [
            [gates.choose(bit, y, x) for x, y in zip(*entries[n : n + 2], strict=True)]
            if n + 1 < len(entries)
            else entries[n]
            for n in range(0, len(entries), 2)
        ]
    return entries[0]


def equal(gates: Gates, cell: Cell, a: Word, b: Word) -> int:
    """Return whether two words are equal, or differ."""
    width, signed = max(len(a), len(b)), all(cell.signed)
    a, b = extended(a, width, signed=signed), extended(b, width, signed=signed)
    return same(gates, a, b) ^ (cell.type in ("ne", "nex"))


def same(gates: Gates, a: Word, b: Word) -> int:
    """Return whether two words of one width are equal."""
    return gates.all(gates.differ(x, y) ^ 1 for x, y in zip(a, b, strict=True))


def less(gates: Gates, a: Word, b: Word, *, signed: bool, same: bool) -> int:
    """Return whether one word is less than another, of the same width, or the same."""
    result = TRUE if same else FALSE
    for index, (x, y) in enumerate(zip(a, b, strict=True)):
        if signed and index == len(a) - 1:
            x, y = y, x
        result = gates.choose(gates.differ(x, y), y, result)
    return result


def shifted(gates: Gates, cell: Cell, a: Word, distance: Word, width: int) -> list[int]:
    """Return a word that is shifted by a distance, level by level as Yosys does, the least first.

    What is far too much of a distance is one more level, in front of the others.
    """
    left = cell.type in ("shl", "sshl")
    size = max(width, len(a))
    fill = a[-1] if cell.type == "sshr" and cell.signed[0] else FALSE
    row = [*a, *[fill] * (size - len(a))]
    enough = ((width if left else size if cell.signed[0] else len(a)) - 1).bit_length() + 1
    if too_far := gates.any(distance[enough:]):
        row = [gates.choose(too_far, fill, x) for x in row]
    for level in range(min(enough, len(distance))):
        step = min(1 << level, size)
        other = [FALSE] * step + row[: size - step] if left else row[step:] + [fill] * step
        row = [gates.choose(distance[level], y, x) for x, y in zip(row, other, strict=True)]
    return row[:width]


def compressed(gates: Gates, rows: Sequence[Word], width: int) -> list[list[int]]:
    """Return two rows of the same sum as several, by full adders, the first bits first."""
    columns = [[row[index] for row in rows if row[index] != FALSE] for index in range(width)]
    while any(len(column) > 2 for column in columns):
        following: list[list[int]] = [[] for _ in range(width + 1)]
        for index, column in enumerate(columns):
            while len(column) > 2:
                total, carry = gates.full_adder(*column[:3])
                column = column[3:]
                following[index].append(total)
                following[index + 1].append(carry)
            following[index] = column + following[index]
        columns = [[bit for bit in column if bit != FALSE] for column in following[:width]]
    return [[column[n] if n < len(column) else FALSE for column in columns] for n in range(2)]
