# SPDX-License-Identifier: Apache-2.0
"""Tables of constants as logic, and the polynomials whose coefficients they hold."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.functions.polynomial import Polynomial
from rtl_templates.arithmetic.pipeline import Pipeline
from rtl_templates.hdl.hierarchy import Block


class Rom:
    """Constants chosen by an address: for every bit a decision diagram, all of them sharing nodes.

    Parameters
    ----------
    m : Module
    name : str
        Prefix of the signals' names.
    address : Value
    """

    def __init__(self, m: Module, name: str, address: Value) -> None:
        self.m, self.name, self.address = m, name, address
        self._nodes: dict[tuple[int, ...], Value] = {}

    def column(self, bits: Sequence[int]) -> Value:
        """Return one bit: `bits` by address, as many as there are addresses."""
        if not any(bits):
            return Const(0, 1)
        if all(bits):
            return Const(1, 1)
        key = tuple(bits)
        if key not in self._nodes:
            self._nodes[key] = self._node(key)
        return self._nodes[key]

    def _node(self, bits: tuple[int, ...]) -> Value:
        half = len(bits) // 2
        below, above = bits[:half], bits[half:]
        if below == above:
            return self.column(below)
        choice = self.address[half.bit_length() - 1]
        if half == 1:
            return choice if above[0] else ~choice
        value = Mux(choice, self.column(above), self.column(below))
        signal = Signal(name=f"{self.name}_{len(self._nodes)}")
        self.m.d.comb += signal.eq(value)
        return signal

    def words(self, numbers: Sequence[int]) -> Value:
        """Return a number by address, in two's complement if any is negative.

        Addresses beyond the numbers give the last one.
        """
        entries = [*numbers, *[numbers[-1]] * ((1 << len(self.address)) - len(numbers))]
        negative = min(entries) < 0
        width = max((~n if n < 0 else n).bit_length() for n in entries) + negative
        value = Cat(*(self.column([n >> i & 1 for n in entries]) for i in range(max(1, width))))
        return value.as_signed() if negative else value


def polynomial(
    m: Module, pipe: Pipeline, table: Polynomial, argument: Value, **along: Value
) -> tuple[Value, dict[str, Value]]:
    """Return a table's result for an argument, behind the places ``looked_up`` and ``inner``.

    Parameters
    ----------
    m, pipe : Module, Pipeline
    table : Polynomial
    argument : Value
        Bits enough for all segments; beyond the last one the result is any.
    **along
        What else goes through the registers.

    Returns
    -------
    result : Value
        As wide as it needs to be, signed if it may be negative.
    along : dict
        The same values behind the registers.
    """
    offset = argument[: table.offset_bits]
    address = argument[table.offset_bits :]
    columns = list(zip(*table.coefficients, strict=True))
    if len(address):
        rom = Rom(m, "rom", address)
        rows = [rom.words(column) for column in columns]
    else:
        rows = [_constant(column[0]) for column in columns]
    names = [f"c{k}" for k in range(len(rows))]
    rows, offset, along = _cut(pipe, "looked_up", names, rows, offset, along)
    total = rows[-1]
    low, high = table.ranges[-1]
    for k in range(table.degree - 1, -1, -1):
        drop, shift = table.drops[k], table.shifts[k]
        product = total * offset[drop:]
        total = rows[k] + (product >> shift)
        largest = (1 << (table.offset_bits - drop)) - 1
        below, above = table.ranges[k]
        low = below + (min(0, low * largest) >> shift)
        high = above + (max(0, high * largest) >> shift)
        total = _resized(m, f"sum_{k}", total, low, high)
        if k:
            (total, *rows[:k]), offset, along = _cut(
                pipe, "inner", ["sum", *names[:k]], [total, *rows[:k]], offset, along
            )
    return total, along


def _constant(value: int) -> Value:
    shape = signed((~value).bit_length() + 1) if value < 0 else unsigned(max(1, value.bit_length()))
    return Const(value, shape)


def _resized(m: Module, name: str, value: Value, low: int, high: int) -> Value:
    width = max((~low if low < 0 else low).bit_length(), high.bit_length(), 1)
    signal = Signal(signed(width + 1) if low < 0 else unsigned(width), name=name)
    m.d.comb += signal.eq(value)
    return signal


def _cut(
    pipe: Pipeline,
    point: str,
    names: Sequence[str],
    values: Sequence[Value],
    offset: Value,
    along: dict[str, Value],
) -> tuple[list[Value], Value, dict[str, Value]]:
    """Return values, offset and accompanying signals after a point, as signed as they were."""
    signals = dict(zip(names, values, strict=True))
    if len(offset):
        signals["offset"] = offset
    signals |= along
    registered = dict(zip(signals, pipe.cut(point, **signals), strict=True))
    for name, value in signals.items():
        if value.shape().signed:
            registered[name] = registered[name].as_signed()
    return (
        [registered[name] for name in names],
        registered.get("offset", offset),
        {name: registered[name] for name in along},
    )


class TableBlock(Block):
    """A table of polynomials alone, without registers.

    Parameters
    ----------
    table : Polynomial
    name : str
        Unique for what the table holds.

    Members
    -------
    i, o : In, Out
        Argument, all of its bits; result, in two's complement if any may be negative.
    """

    def __init__(self, table: Polynomial, name: str) -> None:
        low, high = table.result_range
        width = max((~low if low < 0 else low).bit_length(), high.bit_length()) + (low < 0)
        segments = (table.segments - 1).bit_length()
        self.table = table
        super().__init__(name, {"i": In(table.offset_bits + segments), "o": Out(width)})

    def build(self, m: Module) -> None:
        total, _ = polynomial(m, Pipeline(m, ()), self.table, self.i)
        m.d.comb += self.o.eq(total)
