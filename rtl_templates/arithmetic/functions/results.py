# SPDX-License-Identifier: Apache-2.0
"""Results of function units, in fixed and in floating point."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned

from hwgen.arithmetic.functions.encoding import Result
from hwgen.arithmetic.functions.normalised import Normalised
from hwgen.arithmetic.functions.symmetric import GATED, Symmetric
from hwgen.formats.fixed import RealFormat
from rtl_templates.arithmetic.functions.encoding import named_signed, shifted
from rtl_templates.arithmetic.pipeline import leading_zeros, named, shift_left


class Special(NamedTuple):
    """Whether a result is special, and its sign.

    Parameters
    ----------
    zero, largest, nan, sign : Value
    """

    zero: Value
    largest: Value
    nan: Value
    sign: Value


class FunctionResult(Protocol):
    """Hardware of the results of functions, for one sort of format."""

    def encode(self, m: Module, result: Result, significand: Value, exponent: Value) -> Value:
        """Return the magnitude of a result: rounded, too large ones at the format's end.

        Parameters
        ----------
        m : Module
        result : Result
        significand : Value
            Unsigned.
        exponent : Value
            Signed.
        """

    def with_special(
        self, m: Module, target: RealFormat, magnitude: Value, special: Special
    ) -> Value:
        """Return a result of a magnitude, with its sign and what is special."""

    def reciprocal_special(self, plan: Normalised, special: Special) -> Special:
        """Return the special cases of a reciprocal, or of one of a square root."""

    def rounded(self, m: Module, plan: Symmetric, at: dict[str, Value]) -> Value:
        """Return the result of the sum of a symmetric function."""


def _or_special(m: Module, target: RealFormat, magnitude: Value, special: Special) -> Signal:
    """Return a magnitude, or zero or the largest number instead."""
    value = Signal(target.width, name="unsigned_value")
    largest = Mux(special.largest, target.overflow, magnitude)
    m.d.comb += value.eq(Mux(special.zero, 0, largest))
    return value


class FixedResult:
    """Results in fixed point; see `FunctionResult`."""

    def encode(self, m: Module, result: Result, significand: Value, exponent: Value) -> Value:
        """Return the magnitude of a result: rounded, too large ones at the format's end."""
        target = result.target
        assert target.is_fixed
        lifted = shifted(significand, result.lift)
        if not len(lifted):
            lifted = Const(0, 1)
        amount = Signal(range(max(1, result.top - result.lowest + 1)), name="right")
        m.d.comb += amount.eq(result.top - exponent)
        truncated = named(m, "truncated", (lifted >> amount)[: len(lifted)])
        rounded = named(m, "rounded", truncated + 1)[1:]
        largest = target.integer.max
        over: Value = Const(0, 1)
        if len(rounded) and (1 << len(rounded)) > largest:
            over = rounded > largest
        if result.highest > result.top:
            over = over | (exponent > result.top)
        width = target.width
        magnitude = Signal(width, name="in_range")
        m.d.comb += magnitude.eq(Mux(over, largest, rounded))
        return magnitude

    def with_special(
        self, m: Module, target: RealFormat, magnitude: Value, special: Special
    ) -> Value:
        """Return a result of a magnitude, with its sign; a NaN is 0."""
        value = _or_special(m, target, magnitude, special)
        return Mux(special.nan, 0, Mux(special.sign, (-value)[: target.width], value))

    def reciprocal_special(self, plan: Normalised, special: Special) -> Special:
        """Return the special cases: without a sign negative results are 0."""
        if not plan.result.target.signed:
            return special._replace(zero=special.zero | special.sign, sign=Const(0, 1))
        if plan.normalisation.function == "rsqrt":
            return special._replace(sign=Const(0, 1))
        return special

    def rounded(self, m: Module, plan: Symmetric, at: dict[str, Value]) -> Value:
        """Return the result of a sum."""
        target, source, total = plan.target, plan.magnitude.source, at["total"]
        assert target.is_fixed
        drop = plan.fraction - target.fraction
        moved = (total + (1 << drop >> 1)) >> drop if drop >= 0 else total << -drop
        wide = named_signed(m, "wide", moved)
        low, high = target.integer.min, target.integer.max
        result = Mux(wide > high, high, Mux(wide < low, low, wide))
        if not source.has_nan:
            return result[: target.width]
        if plan.function in GATED:
            result = Mux(at["large"], Mux(at["sign"], 0, high), result)
        return Mux(at["nan"], 0, result)[: target.width]


class FloatResult:
    """Results in floating point; see `FunctionResult`."""

    def encode(self, m: Module, result: Result, significand: Value, exponent: Value) -> Value:
        """Return the magnitude of a result: rounded, too large ones at the format's end."""
        target = result.target
        assert target.is_float
        biased = Signal(
            range(min(-1, result.lowest + target.bias), max(2, result.highest + target.bias + 1)),
            name="biased",
        )
        m.d.comb += biased.eq(exponent + target.bias)
        truncated: Value = Cat(Const(0, result.pad), significand)
        if result.lowest + target.bias < 1:
            most = target.mantissa_bits + result.guard + 2
            missing = named_signed(m, "missing", 1 - biased)
            amount = Signal(range(most + 1), name="down")
            m.d.comb += amount.eq(Mux(missing < 0, 0, Mux(missing > most, most, missing)))
            truncated = named(m, "truncated", (truncated >> amount)[: len(truncated)])
        rounded = named(m, "rounded", truncated + (1 << (result.guard - 1)))[result.guard :]
        above = Signal(unsigned(max(1, len(biased) - 1)), name="above")
        m.d.comb += above.eq(Mux(biased < 1, 0, biased - 1))
        whole = named(m, "whole", Cat(Const(0, target.mantissa_bits), above) + rounded)
        magnitude = Signal(target.width - 1, name="finite")
        m.d.comb += magnitude.eq(Mux(whole >= target.overflow, target.overflow, whole))
        return magnitude

    def with_special(
        self, m: Module, target: RealFormat, magnitude: Value, special: Special
    ) -> Value:
        """Return a result of a magnitude, with its sign, or a NaN."""
        value = _or_special(m, target, magnitude, special)
        signed_value = value | Cat(Const(0, target.width - 1), special.sign)
        return Mux(special.nan, target.nan, signed_value)

    def reciprocal_special(self, plan: Normalised, special: Special) -> Special:
        """Return the special cases as they are."""
        return special

    def rounded(self, m: Module, plan: Symmetric, at: dict[str, Value]) -> Value:
        """Return the result of a sum."""
        target, source, total = plan.target, plan.magnitude.source, at["total"]
        bits = plan.result.precision + 1
        negative = total[-1]
        magnitude = named(m, "absolute", Mux(negative, -total, total)[:bits])
        zeros = leading_zeros(m, "zeros", magnitude)
        normal = shift_left(m, "normal", magnitude, zeros)
        exponent = named_signed(m, "power", (bits - 1 - plan.fraction) - zeros)
        rounded = self.encode(m, plan.result, normal, exponent)
        result: Value = Cat(Mux(magnitude.any(), rounded, 0), negative)
        if plan.passes:
            result = Mux(at["far"] & ~at["sign"], at["bits"], result)
        return Mux(at["nan"], target.nan, result) if source.has_nan else result
