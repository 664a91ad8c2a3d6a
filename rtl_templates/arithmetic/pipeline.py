# SPDX-License-Identifier: Apache-2.0
"""Registers at chosen places of a feed-forward datapath, and the logic that datapaths share."""

from __future__ import annotations

from collections.abc import Collection

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


class Pipeline:
    """Places registers in a datapath that is written down as if it were combinational.

    Parameters
    ----------
    m : Module
    cuts : collection of str
        Names of the places that get a register.
    run : Value, optional
        Registers load only while it is high.
    """

    def __init__(self, m: Module, cuts: Collection[str], run: Value | None = None) -> None:
        self.m, self.cuts, self.run = m, cuts, run

    def cut(self, point: str, **values: Value) -> list[Value]:
        """Return `values` after a point of the pipeline: registered if it is a cut."""
        signals = [
            Signal(len(value), name=f"{name}_{point}", reset_less=True)
            for name, value in values.items()
        ]
        assignments = [
            signal.eq(value) for signal, value in zip(signals, values.values(), strict=True)
        ]
        if point not in self.cuts:
            self.m.d.comb += assignments
        elif self.run is None:
            self.m.d.sync += assignments
        else:
            with self.m.If(self.run):
                self.m.d.sync += assignments
        return list(signals)


def named(m: Module, name: str, value: Value) -> Signal:
    """Return a signal with the value, which the emitted text then names once."""
    signal = Signal(len(value), name=name)
    m.d.comb += signal.eq(value)
    return signal


def delayed(
    m: Module,
    name: str,
    value: Value,
    cycles: int,
    run: Value | None = None,
    *,
    token: bool = False,
) -> Value:
    """Return a value as it was some cycles before.

    Parameters
    ----------
    m : Module
    name : str
        Of the registers, which are numbered from 1.
    value : Value
    cycles : int
    run : Value, optional
        Only cycles count in which it is high.
    token : bool
        Whether the value says that something else is valid: it is forgotten in a reset.
    """
    for cycle in range(cycles):
        late = Signal(value.shape(), name=f"{name}_{cycle + 1}", reset_less=not token)
        if run is None:
            m.d.sync += late.eq(value)
        else:
            with m.If(run):
                m.d.sync += late.eq(value)
        value = late
    return value


def leading_zeros(m: Module, name: str, value: Value) -> Value:
    """Return the number of zeros above the topmost one of `value`, by a tree.

    Where there is none the count is at least the width of `value`, or all ones if its bits cannot
    hold that.
    """
    width = len(value)
    padded = 1 << (width - 1).bit_length()
    # Ones below the value: all of its zeros are counted, and the tree above them is simplified.
    ones = Const((1 << (padded - width)) - 1, padded - width)
    nodes: list[tuple[Value, Value | None]] = [
        (bit, None) for bit in reversed(list(Cat(ones, value)))
    ]
    level = 0
    while len(nodes) > 1:
        merged = []
        for i in range(0, len(nodes), 2):
            (high, high_count), (low, low_count) = nodes[i], nodes[i + 1]
            count: Value = ~high
            if high_count is not None and low_count is not None:
                count = Cat(Mux(high, high_count, low_count), ~high)
            merged.append(
                (
                    named(m, f"{name}_any_{level}_{i // 2}", high | low),
                    named(m, f"{name}_count_{level}_{i // 2}", count),
                )
            )
        nodes, level = merged, level + 1
    count_of_all = nodes[0][1]
    return Const(0, 1) if count_of_all is None else count_of_all


def shift_left(m: Module, name: str, value: Value, amount: Value) -> Value:
    """Return `value` shifted to the left within its width, a level of multiplexers a bit."""
    for k, bit in enumerate(amount):
        by = min(1 << k, len(value))
        value = named(
            m, f"{name}_{k}", Mux(bit, Cat(Const(0, by), value[: len(value) - by]), value)
        )
    return value


def shift_right(m: Module, name: str, value: Value, amount: Value) -> Value:
    """Return `value` shifted to the right within its width, a level of multiplexers a bit."""
    for k, bit in enumerate(amount):
        by = min(1 << k, len(value))
        value = named(m, f"{name}_{k}", Mux(bit, Cat(value[by:], Const(0, by)), value))
    return value


def shift_right_sticky(
    m: Module, name: str, value: Value, amount: Value, fill: Value | None = None
) -> tuple[Value, Value]:
    """Return `value` shifted to the right within its width, and whether ones were lost.

    What moves in is the bit `fill`, by default zero.
    """
    width, lost = len(value), Const(0, 1)
    for k, bit in enumerate(amount):
        by = min(1 << k, width)
        lost = named(m, f"{name}_lost_{k}", lost | (bit & value[:by].any()))
        above = Const(0, by) if fill is None else fill.replicate(by)
        value = named(m, f"{name}_{k}", Mux(bit, Cat(value[by:], above), value))
    return value, lost
