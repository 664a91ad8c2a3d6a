# SPDX-License-Identifier: Apache-2.0
"""Sums of several numbers that adders of a module form together.

Synthesis joins adders of which one takes the other's result, and nothing else does, into a tree of
full adders with one adder behind it; products of narrow factors are rows of such a tree.  Products
of others are made of Booth digits, each with an adder of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cost_model.netlist.model import ZERO, Bits, Cell, Module
from cost_model.netlist.products import made_bits

BOOTH, BOOTH_PRODUCT = 4, 8
"""Multipliers whose factors have so many bits at least, and their product, are made of Booth
digits."""


@dataclass(frozen=True)
class Rows:
    """The partial products of two narrow factors.

    Parameters
    ----------
    count : int
    bits : int
        Of all of them, as far as they are in bits of the product that are used.
    extended : int
        How many of them are extended to the width of the sum, as they may be negative.
    width : int
        Bits of the product.
    """

    count: int
    bits: int
    extended: int
    width: int


@dataclass
class Sum:
    """A sum of numbers.

    Parameters
    ----------
    width : int
        Bits of the result that are made.
    rows : list of Bits
        The numbers; what is missing on top repeats the highest bit.
    products : list of Rows
        The products of narrow factors that are part of it.
    inverted : bool
        Whether numbers are subtracted.
    result : Bits
        The nets that it drives.
    terms : list of (bool, bool)
        For each number, whether it is subtracted, and whether it is in two's complement.
    signed : bool
        Whether the result is in two's complement.
    """

    width: int
    rows: list[Bits] = field(default_factory=list)
    products: list[Rows] = field(default_factory=list)
    inverted: bool = False
    result: Bits = ()
    terms: list[tuple[bool, bool]] = field(default_factory=list)
    signed: bool = False


def trimmed(bits: Bits, signed: bool) -> Bits:
    """Return bits without those at the top that only repeat the sign, or zeros.

    One zero remains on top of a number that is signed but never negative.
    """
    end = len(bits)
    if signed:
        while end > 1 and bits[end - 1] == bits[end - 2]:
            end -= 1
    else:
        while end and bits[end - 1] == ZERO:
            end -= 1
    return bits[:end]


def sums(
    module: Module, used: Sequence[set[int]], *, products: bool = True
) -> tuple[list[Sum], set[int]]:
    """Return the sums of a module, and the numbers of the cells that are part of them.

    Parameters
    ----------
    module : Module
    used : sequence of set of int
        As `cost_model.netlist.liveness.Liveness` has it.
    products : bool
        Whether products of narrow factors are part of them.
    """
    return _Sums(module, used, products=products).result()


class _Sums:
    def __init__(self, module: Module, used: Sequence[set[int]], *, products: bool) -> None:
        self.cells, self.used = module.cells, used
        self.parts = [
            number
            for number, cell in enumerate(module.cells)
            if used[number]
            and (
                cell.operator in ("add", "sub", "neg")
                or (products and _is_narrow(cell, max(used[number]) + 1))
            )
        ]
        self.at = {
            module.cells[number].pins["y"][0]: number
            for number in self.parts
            if module.cells[number].pins["y"]
        }
        """Sums by the first bit of their results."""
        self.uses: Counter[int] = Counter()
        if self.parts:
            self._count_uses(module)
        self.joined: set[int] = set()

    def _count_uses(self, module: Module) -> None:
        for number, cell in enumerate(module.cells):
            if self.used[number]:
                for pin, bits in cell.operands:
                    signed = cell.signed[1] if pin == "b" else cell.signed[0]
                    arithmetic = cell.operator in ("add", "sub", "neg", "mul", "less")
                    self.uses.update(trimmed(bits, signed) if arithmetic else bits)
        for port in module.ports:
            if port.output:
                self.uses.update(port.bits)
        for instance in module.instances:
            for bits in instance.connections.values():
                self.uses.update(bits)

    def result(self) -> tuple[list[Sum], set[int]]:
        """See `sums`."""
        inner = {number: self._inner(number) for number in self.parts}
        for taken in inner.values():
            self.joined |= {number for number, _ in taken}
        result, seen = [], set()
        for number in self.parts:
            if number in self.joined:
                continue
            key = (self.cells[number].type, *sorted(
                (pin, bits) for pin, bits in self.cells[number].pins.items() if pin != "y"
            ))  # fmt: skip
            if key in seen:
                continue
            seen.add(key)
            cell = self.cells[number]
            signed = all(cell.signed) or cell.operator != "add"
            total = Sum(self._width(cell, self.used[number]), result=cell.result, signed=signed)
            self._collect(number, total, inner)
            result.append(total)
        return result, set(self.parts)

    def _width(self, cell: Cell, used: set[int]) -> int:
        rows = [len(row) for row in self._operands(cell)]
        most = sum(rows) if cell.operator == "mul" else max(rows) + 1
        return min(max(used) + 1, most)

    def _operands(self, cell: Cell) -> list[Bits]:
        signed = all(cell.signed) if "b" in cell.pins else cell.signed[0]
        return [trimmed(cell.pins[pin], signed) for pin in ("a", "b") if pin in cell.pins]

    def _inner(self, number: int) -> list[tuple[int, Bits]]:
        """Return the sums that a sum alone takes, each with what it is of the operands."""
        cell = self.cells[number]
        if cell.operator == "mul":
            return []
        result = []
        for row in self._operands(cell):
            other = self.at.get(row[0]) if row else None
            if other is None or other == number:
                continue
            width = len(row)
            inner = self.cells[other]
            if inner.pins["y"][:width] != row or any(self.uses[net] > 1 for net in row):
                continue
            # What was cut off may not come back.
            whole = self._width(inner, set(range(len(inner.pins["y"])))) <= width
            if whole or self._width(cell, self.used[number]) <= width:
                result.append((other, row))
        return result

    def _collect(
        self,
        number: int,
        total: Sum,
        inner: dict[int, list[tuple[int, Bits]]],
        *,
        minus: bool = False,
    ) -> None:
        cell = self.cells[number]
        operands = self._operands(cell)
        if cell.operator == "mul":
            a, b = operands
            total.products.append(_rows(a, b, self._width(cell, self.used[number]), cell))
            return
        total.inverted |= cell.operator != "add"
        taken = {row: other for other, row in inner[number]}
        signed = all(cell.signed) if "b" in cell.pins else cell.signed[0]
        for index, row in enumerate(operands):
            turned = minus ^ (cell.operator == "neg" or (cell.operator == "sub" and index == 1))
            if row in taken:
                self._collect(taken.pop(row), total, inner, minus=turned)
            else:
                total.rows.append(row)
                total.terms.append((turned, signed))


def _rows(a: Bits, b: Bits, width: int, cell: Cell) -> Rows:
    """Return the rows of a narrow product, `width` bits of which are used."""
    signed = all(cell.signed)
    narrow, wide = sorted((a, b), key=len)
    # A zero on top says that a number is not negative; it makes no row.
    negative = [signed and bool(bits) and bits[-1] != ZERO for bits in (narrow, wide)]
    rows, long = (len(bits) - (signed and bits[-1] == ZERO) for bits in (narrow, wide))
    rows = min(rows, width)
    extended = rows if negative[1] else int(negative[0])
    return Rows(rows, made_bits(rows, long, width), extended, width)


def _is_narrow(cell: Cell, width: int) -> bool:
    """Return whether it is a product too narrow for Booth digits, `width` bits of it used."""
    if cell.operator != "mul":
        return False
    sizes = [len(trimmed(cell.pins[pin], all(cell.signed))) for pin in ("a", "b")]
    return min(sizes) > 1 and (min(sizes) < BOOTH or min(width, sum(sizes)) < BOOTH_PRODUCT)
