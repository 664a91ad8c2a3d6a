# SPDX-License-Identifier: Apache-2.0
"""Integers in hardware: shapes of formats, wrapping and saturating addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, signed, unsigned

if TYPE_CHECKING:
    from hwgen.config.product import IntegerProductConfig
    from hwgen.numerics import IntegerFormat


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


def accumulate(m: Module, total: Value, addend: Value, config: IntegerProductConfig) -> Value:
    """Return ``total + addend`` in the accumulator's format, wrapped or saturated."""
    if config.saturates:
        return saturated(m, total + addend, config.result)
    return total + addend
