# SPDX-License-Identifier: Apache-2.0
"""Integers in hardware: shapes of formats, wrapping and saturating addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned

if TYPE_CHECKING:
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
    clamp: IntegerFormat | None,
    carry: Value | None = None,
) -> Value:
    """Return ``total + addend + carry``, clamped to a format if there is one, else exact."""
    result = add(total, addend, carry)
    return result if clamp is None else saturated(m, result, clamp)


Addend = tuple[Value, Value | None]
"""A term of a sum, and a bit that is to be added to it."""


def multiply(
    m: Module, term: int, x: Signal, w: Signal, product: IntegerFormat, *, registered: bool
) -> Addend:
    """Return ``x * w`` by a multiplier.

    Parameters
    ----------
    m : Module
    term : int
        Number of the product, for names.
    x, w : Signal
    product : IntegerFormat
        Format of products.
    registered : bool
        Whether the product is behind a register.
    """
    result = Signal(shape_of(product), name=f"product_{term}", reset_less=True)
    domain = m.d.sync if registered else m.d.comb
    domain += result.eq(x * w)
    return result, None


def select(
    m: Module, term: int, x: Signal, w: Signal, product: IntegerFormat, *, registered: bool
) -> Addend:
    """Return ``x * w`` of a ternary `w`: `x` is added, subtracted or left out; see `multiply`."""
    wide = signed(len(x) + (not x.shape().signed))
    chosen = Signal(wide, name=f"term_{term}", reset_less=True)
    negative = Signal(name=f"negative_{term}", reset_less=True)
    extended = Signal(wide, name=f"extended_{term}")
    m.d.comb += extended.eq(x)
    domain = m.d.sync if registered else m.d.comb
    # The one of a two's complement is the carry of an adder.  Without a beat weights are anything.
    domain += [
        chosen.eq(Mux(w[0], Mux(w[1], ~extended, extended), 0)),
        negative.eq(w[0] & w[1]),
    ]
    return chosen, negative
