# SPDX-License-Identifier: Apache-2.0
"""Floating-point multiplication."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.float.operator import FloatOperator, encoded
from rtl_templates.arithmetic.pipeline import leading_zeros, named, shift_left, shift_right_sticky

CUTS: tuple[tuple[str, ...], ...] = (
    (),
    ("multiplied",),
    ("multiplied", "normalised"),
    ("unpacked", "multiplied", "normalised"),
    ("unpacked", "multiplied", "normalised", "aligned"),
)
"""Where the registers of a multiplier of 0, 1, 2, ... stages are; see `FloatOperator` for more."""


class FloatMultiplier(FloatOperator):
    """Product of two numbers by IEEE 754: nearest, ties to even, with subnormals.

    Multiply the significands; shift to the left what a subnormal operand left small, but not
    below the smallest exponent, or to the right what is below that; round.

    Parameters
    ----------
    fmt : FloatFormat
        Format of operands and product.  Every NaN result is ``fmt.nan``.
    stages : int
        Latency in cycles; 0 is combinational.
    enabled : bool
        Whether the registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    a, b, o : In, In, Out
        Bit patterns; ``o = a * b``, `stages` cycles later.
    """

    role = "multiplier"

    def __init__(self, fmt: FloatFormat, stages: int = 0, *, enabled: bool = False) -> None:
        super().__init__("multiply", fmt, stages, CUTS, enabled=enabled)

    def build(self, m: Module) -> None:
        fmt, precision = self.fmt, self.fmt.precision
        pipe = self.pipeline(m)

        a_normal, a_exponent, a = self._unpack(m, "a", self.a)
        _, b_exponent, b = self._unpack(m, "b", self.b)
        sign, nan, infinite = self._special(m)
        # Of a product that is not far too small one factor is normal; the zeros of the other are
        # those of the product, but for one.
        zeros = leading_zeros(m, "zeros", named(m, "smaller", Mux(a_normal, b, a)))
        # The biased exponent of a product with its leading one on top, which may be negative.
        exponent = Signal(signed(fmt.exponent_bits + 2), name="exponent")
        m.d.comb += exponent.eq(a_exponent + b_exponent - (fmt.bias - 1))
        sign, nan, infinite, zeros, exponent, a, b = pipe.cut(
            "unpacked",
            sign=sign,
            nan=nan,
            infinite=infinite,
            zeros=zeros,
            exponent=exponent,
            a=a,
            b=b,
        )

        small = named(m, "small", exponent[-1] | ~exponent[:-1].any())
        headroom = named(m, "headroom", exponent[:-1] - 1)[: len(exponent) - 1]
        shift = named(m, "shift", Mux(headroom < zeros, headroom[: len(zeros)], zeros))
        shift = named(m, "left", shift & (~small).replicate(len(zeros)))
        distance = named(m, "distance", (1 - exponent.as_signed())[: len(exponent)])
        sign, nan, infinite, small, shift, distance, exponent, product = pipe.cut(
            "multiplied",
            sign=sign,
            nan=nan,
            infinite=infinite,
            small=small,
            shift=shift,
            distance=distance,
            exponent=(exponent - shift)[: len(exponent) - 1],
            product=a * b,
        )

        product = shift_left(m, "shifted", product, shift)
        # The zeros did not say whether the product has its leading one on top or below that.
        again = named(m, "again", ~product[-1] & ~small & exponent[1:].any())
        product = named(m, "normal", Mux(again, Cat(Const(0, 1), product[:-1]), product))
        sign, nan, infinite, small, distance, exponent, truncated, sticky = pipe.cut(
            "normalised",
            sign=sign,
            nan=nan,
            infinite=infinite,
            small=small,
            distance=distance,
            exponent=(exponent - again)[: len(exponent)],
            truncated=product[precision - 1 :],
            sticky=product[: precision - 1].any(),
        )

        # Shifts by all ones of these bits leave nothing of the significand and the bit below it.
        bits = (precision + 1).bit_length()
        far = distance[bits:].any().replicate(bits)
        amount = named(m, "amount", (distance[:bits] | far) & small.replicate(bits))
        truncated, more = shift_right_sticky(m, "align", truncated, amount)
        sign, nan, infinite, exponent, truncated, sticky = pipe.cut(
            "aligned",
            sign=sign,
            nan=nan,
            infinite=infinite,
            exponent=exponent & truncated[-1].replicate(len(exponent)),
            truncated=truncated,
            sticky=sticky | more,
        )

        # Exponent and mantissa are one number: the carry of the rounding belongs into the exponent.
        up = named(m, "up", truncated[0] & (truncated[1] | sticky))
        rounded = named(m, "rounded", Cat(truncated[1:-1], exponent) + up)
        value = encoded(m, fmt, sign, nan, infinite, rounded)
        self.drive_output(m, pipe, value)

    def _unpack(self, m: Module, name: str, bits: Value) -> tuple[Value, Value, Value]:
        """Return whether a number is normal, its exponent, at least 1, and its significand."""
        fraction = bits[: self.fmt.mantissa_bits]
        exponent = bits[self.fmt.mantissa_bits : -1]
        normal = named(m, f"{name}_normal", exponent.any())
        return normal, Cat(exponent[0] | ~normal, exponent[1:]), Cat(fraction, normal)

    def _special(self, m: Module) -> tuple[Value, Value, Value]:
        """Return the sign of the product, and whether it is a NaN or infinite at any rate."""
        fmt, top = self.fmt, self.fmt.width - 1
        sign = self.a[top] ^ self.b[top]
        if not fmt.infinities:
            return sign, self.a[:top].all() | self.b[:top].all(), Const(0, 1)
        special, nan = [], []
        for name, x, y in (("a", self.a, self.b), ("b", self.b, self.a)):
            special.append(named(m, f"{name}_special", x[fmt.mantissa_bits : top].all()))
            nan.append(special[-1] & (x[: fmt.mantissa_bits].any() | ~y[:top].any()))
        return sign, nan[0] | nan[1], special[0] | special[1]
