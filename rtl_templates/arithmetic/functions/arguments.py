# SPDX-License-Identifier: Apache-2.0
"""Arguments of function units, in fixed and in floating point."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from hwgen.arithmetic.functions.exponential import Scaling
from hwgen.arithmetic.functions.normalised import Normalisation
from hwgen.arithmetic.functions.symmetric import Magnitude
from rtl_templates.arithmetic.functions.encoding import aligned, fields, lowered, named_signed
from rtl_templates.arithmetic.pipeline import Pipeline, named

_NEVER = Const(0, 1)


class Scaled(NamedTuple):
    """An argument times a constant, in fixed point.

    Parameters
    ----------
    value : Value
        Signed.
    nan, above, below : Value
        Whether it is a NaN, too large, or too small.
    """

    value: Value
    nan: Value
    above: Value
    below: Value


class Normal(NamedTuple):
    """An argument as a magnitude and an exponent, before it is normalised.

    Parameters
    ----------
    nan, infinite, sign, magnitude : Value
    exponent : Value
        That of the magnitude's top bit.
    """

    nan: Value
    infinite: Value
    sign: Value
    magnitude: Value
    exponent: Value


class Folded(NamedTuple):
    """An argument as a sign and a magnitude in fixed point.

    Parameters
    ----------
    sign, nan : Value
    exact : Value
        The magnitude with all its bits.
    magnitude, large : Value
        The bits that a table takes, and whether it is beyond them.
    """

    sign: Value
    nan: Value
    exact: Value
    magnitude: Value
    large: Value


class FunctionArgument(Protocol):
    """Hardware of the arguments of functions, for one sort of format."""

    def scaled(self, m: Module, scaling: Scaling, i: Value) -> Scaled:
        """Return an argument of an exponential, times the logarithm of the base."""

    def power(self, m: Module, pipe: Pipeline, scaling: Scaling, i: Value) -> tuple[Value, ...]:
        """Return the same with a register behind the product.

        Returns
        -------
        tuple of Value
            What is scaled, whether it is infinite or no number, and whether it is minus infinity.
        """

    def normal(self, m: Module, norm: Normalisation, i: Value) -> Normal:
        """Return an argument of a reciprocal."""

    def folded(self, m: Module, magnitude: Magnitude, i: Value) -> Folded:
        """Return an argument of a symmetric function."""


class FixedArgument:
    """Arguments in fixed point; see `FunctionArgument`."""

    def scaled(self, m: Module, scaling: Scaling, i: Value) -> Scaled:
        """Return an argument of an exponential, times the logarithm of the base."""
        number = i.as_signed() if scaling.source.signed else i
        product = number * scaling.factor if scaling.factor != 1 else number
        moved = product >> scaling.cut if scaling.cut >= 0 else product << -scaling.cut
        value = Signal(signed(scaling.width), name="scaled")
        m.d.comb += value.eq(moved)
        return Scaled(value, _NEVER, _NEVER, _NEVER)

    def power(self, m: Module, pipe: Pipeline, scaling: Scaling, i: Value) -> tuple[Value, ...]:
        """Return an argument scaled, behind a register of the product; none is special."""
        product = named_signed(m, "product", i.as_signed() * scaling.factor)
        (product,) = pipe.cut("multiplied", product=product)
        return product[scaling.cut : scaling.cut + scaling.width], _NEVER, _NEVER

    def normal(self, m: Module, norm: Normalisation, i: Value) -> Normal:
        """Return an argument of a reciprocal."""
        source, bits = norm.source, norm.significand_bits
        assert source.is_fixed
        sign = i[-1] if source.signed else _NEVER
        whole = named(m, "whole_magnitude", Mux(sign, (-i)[:bits], i))
        return Normal(_NEVER, _NEVER, sign, whole, Const(bits - 1 - source.fraction, signed(8)))

    def folded(self, m: Module, magnitude: Magnitude, i: Value) -> Folded:
        """Return an argument of a symmetric function."""
        source, bits = magnitude.source, magnitude.width
        sign = i[-1] if source.signed else _NEVER
        exact = named(m, "whole_magnitude", Mux(sign, (-i)[: source.width], i))
        value = exact[magnitude.drop :]
        large = value[bits:].any() if len(value) > bits else _NEVER
        return Folded(sign, _NEVER, exact, value, large)


class FloatArgument:
    """Arguments in floating point; see `FunctionArgument`."""

    def scaled(self, m: Module, scaling: Scaling, i: Value) -> Scaled:
        """Return an argument of an exponential, times the logarithm of the base."""
        assert scaling.source.is_float
        number = fields(m, scaling.source, i)
        magnitude, large = aligned(m, scaling.alignment, number)
        value = named_signed(m, "scaled", Mux(number.sign, -magnitude, magnitude))
        return Scaled(value[: scaling.width], number.nan, large & ~number.sign, large & number.sign)

    def power(self, m: Module, pipe: Pipeline, scaling: Scaling, i: Value) -> tuple[Value, ...]:
        """Return an argument scaled, behind a register of the product."""
        alignment, source = scaling.alignment, scaling.source
        assert source.is_float
        number = fields(m, source, i)
        product = named(m, "product", number.significand * alignment.factor)
        parts = pipe.cut(
            "multiplied", product=product[: alignment.product_bits], **number._asdict()
        )
        product, number = parts[0], type(number)(*parts[1:])
        magnitude, large = lowered(m, alignment, number, product)
        special = named(m, "no_number", number.nan | number.infinite)
        nothing = named(m, "minus_infinity", number.infinite & number.sign)
        end = Const((1 << len(magnitude)) - 1, len(magnitude))
        whole = Mux(large, Mux(number.sign, 0, end), magnitude)
        value = named(m, "signed", Mux(number.sign, -whole, whole)[: scaling.width])
        least = Cat(value[:-1], value[-1] | (large & number.sign))
        return least, special, nothing

    def normal(self, m: Module, norm: Normalisation, i: Value) -> Normal:
        """Return an argument of a reciprocal."""
        assert norm.source.is_float
        number = fields(m, norm.source, i)
        exponent = number.exponent - norm.source.bias
        return Normal(number.nan, number.infinite, number.sign, number.significand, exponent)

    def folded(self, m: Module, magnitude: Magnitude, i: Value) -> Folded:
        """Return an argument of a symmetric function."""
        assert magnitude.source.is_float
        number = fields(m, magnitude.source, i)
        value, large = aligned(m, magnitude.alignment, number)
        return Folded(number.sign, number.nan, value, value, large)
