# SPDX-License-Identifier: Apache-2.0
"""Integers in hardware: shapes of formats, wrapping and saturating addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned

if TYPE_CHECKING:
    from hwgen.core.params.product import ProductConfig
    from hwgen.formats import IntegerFormat


def shape_of(fmt: IntegerFormat) -> Shape:
    """Return the Amaranth shape of an integer format."""
    return signed(fmt.width) if fmt.signed else unsigned(fmt.width)


def saturated(m: Module, value: Value, fmt: IntegerFormat) -> Signal:
    """Clamp `value`, which has at least one bit more than `fmt`, to the range of `fmt`."""
    wide = Signal(value.shape(), name="wide")
    result = Signal(shape_of(fmt), name="clamped")
    # In range exactly when the bits above the result repeat its sign, or are zero.
    above = wide[fmt.width - fmt.signed :]
    negative = wide[-1] if value.shape().signed else Const(0, 1)
    overflow = Mux(negative, ~above.all(), above.any())
    m.d.comb += [
        wide.eq(value),
        result.eq(Mux(overflow, Mux(negative, fmt.min, fmt.max), wide)),
    ]
    return result


def add(a: Value, b: Value, carry: Value | None = None) -> Value:
    """Return ``a + b + carry`` by one adder, exact.

    The carry enters below the least significant bit, so that no tool makes a second adder of it.
    """
    if carry is None:
        return a + b

    def below(value: Value, bit: Value) -> Value:
        joined = Cat(bit, value)
        return joined.as_signed() if value.shape().signed else joined

    total = below(a, Const(1, 1)) + below(b, carry)
    upper = total[1:]
    return upper.as_signed() if total.shape().signed else upper


def accumulate(
    m: Module,
    total: Value,
    addend: Value,
    config: ProductConfig,
    carry: Value | None = None,
) -> Value:
    """Return ``total + addend + carry`` in the accumulator's format, wrapped or saturated."""
    result = add(total, addend, carry)
    return saturated(m, result, config.result) if config.saturates else result
