# SPDX-License-Identifier: Apache-2.0
"""Floating-point addition."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.float.operator import FloatOperator
from rtl_templates.arithmetic.pipeline import leading_zeros, named, shift_left, shift_right_sticky

CUTS: tuple[tuple[str, ...], ...] = (
    (),
    ("added",),
    ("aligned", "normalised"),
    ("aligned", "added", "normalised"),
    ("ordered", "aligned", "added", "normalised"),
    ("ordered", "aligned", "added", "counted", "normalised"),
)
"""Where the registers of an adder of 0, 1, 2, ... stages are; see `FloatOperator` for more."""


class FloatAdder(FloatOperator):
    """Sum of two numbers by IEEE 754: nearest, ties to even, with subnormals.

    One path: order the operands by magnitude, align the smaller one, add or subtract, shift the
    leading one to the top but not below the smallest exponent, round.

    Parameters
    ----------
    fmt : FloatFormat
        Format of operands and sum.  Every NaN result is ``fmt.nan``.
    stages : int
        Latency in cycles; 0 is combinational.
    enabled : bool
        Whether the registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    a, b, o : In, In, Out
        Bit patterns; ``o = a + b``, `stages` cycles later.
    """

    role = "adder"

    def __init__(self, fmt: FloatFormat, stages: int = 0, *, enabled: bool = False) -> None:
        super().__init__("add", fmt, stages, CUTS, enabled=enabled)

    def build(self, m: Module) -> None:
        fmt = self.fmt
        pipe = self.pipeline(m)

        # Of two equal magnitudes the positive one is the large one: x - x is then +0.
        low = fmt.width - 1
        swap = named(m, "swap", Cat(~self.a[low], self.a[:low]) < Cat(~self.b[low], self.b[:low]))
        large = named(m, "major", Mux(swap, self.b, self.a))
        small = named(m, "minor", Mux(swap, self.a, self.b))
        exponent, significand = self._unpack(m, "major", large)
        small_exponent, small_significand = self._unpack(m, "minor", small)
        sign, subtract, exponent, significand, small_significand, distance = pipe.cut(
            "ordered",
            sign=large[low],
            subtract=self.a[low] ^ self.b[low],
            exponent=exponent,
            significand=significand,
            small_significand=small_significand,
            distance=(exponent - small_exponent)[: fmt.exponent_bits],
        )

        small_significand = self._align(m, small_significand, distance)
        sign, subtract, exponent, significand, small_significand = pipe.cut(
            "aligned",
            sign=sign,
            subtract=subtract,
            exponent=exponent,
            significand=significand,
            small_significand=small_significand,
        )

        total, special, payload = self._add(m, exponent, significand, small_significand, subtract)
        sign, special, payload, exponent, total = pipe.cut(
            "added", sign=sign, special=special, payload=payload, exponent=exponent, total=total
        )

        # A subnormal sum keeps the smallest exponent, a normal one has its leading one on top.
        count = leading_zeros(m, "zeros", total)
        shift = named(
            m, "shift", Mux(exponent < count, exponent[: len(count)], count)[: len(count)]
        )
        sign, special, payload, exponent, total, shift = pipe.cut(
            "counted",
            sign=sign,
            special=special,
            payload=payload,
            exponent=exponent,
            total=total,
            shift=shift,
        )

        total = shift_left(m, "normal", total, shift)
        leading = total[-1]
        sign, special, payload, exponent, leading, mantissa, up = pipe.cut(
            "normalised",
            sign=sign,
            special=special,
            payload=payload,
            exponent=(exponent - shift)[: fmt.exponent_bits] & leading.replicate(fmt.exponent_bits),
            leading=leading,
            mantissa=total[4:-1],
            up=total[3] & (total[4] | total[:3].any()),
        )

        # Exponent and mantissa are one number: the carry of the rounding belongs into the
        # exponent, and the leading one, which is not stored, counts the step that `shift` is short
        # of.
        weights = Cat(up, Const(0, fmt.mantissa_bits - 1), leading)
        rounded = named(m, "rounded", Cat(mantissa, exponent) + weights)
        value = self._finish(m, sign, special, payload, leading, rounded)
        self.drive_output(m, pipe, value)

    def _unpack(self, m: Module, name: str, bits: Value) -> tuple[Value, Value]:
        """Return exponent, at least 1, and significand."""
        fraction = bits[: self.fmt.mantissa_bits]
        exponent = bits[self.fmt.mantissa_bits : -1]
        normal = named(m, f"{name}_normal", exponent.any())
        return Cat(exponent[0] | ~normal, exponent[1:]), Cat(fraction, normal)

    def _align(self, m: Module, significand: Value, distance: Value) -> Value:
        """Return the significand above guard, round and sticky bit, shifted by `distance`."""
        bits = (len(significand) + 2).bit_length()  # shifts by all of these leave nothing
        amount = distance[:bits]
        if len(distance) > bits:
            amount = named(m, "amount", amount | distance[bits:].any().replicate(bits))
        shifted, sticky = shift_right_sticky(m, "align", Cat(Const(0, 2), significand), amount)
        return Cat(sticky, shifted)

    def _add(
        self, m: Module, exponent: Value, large: Value, small: Value, subtract: Value
    ) -> tuple[Value, Value, Value]:
        """Return the sum with a carry on top, and what the large operand says about NaNs."""
        width = len(small)
        total = Signal(width + 2)
        m.d.comb += total.eq(
            Cat(subtract, Const(0, 3), large) + Cat(subtract, small ^ subtract.replicate(width))
        )
        carry = total[width + 1] & ~subtract
        fraction = large[:-1]
        payload = fraction.any() if self.fmt.infinities else fraction.all()
        return Cat(total[1 : width + 1], carry), exponent.all(), payload

    def _finish(
        self, m: Module, sign: Value, special: Value, payload: Value, leading: Value, rounded: Value
    ) -> Value:
        """Return the sum with infinities and NaNs."""
        fmt = self.fmt
        width = fmt.width - 1
        if not fmt.infinities:
            # The largest magnitude is the NaN, and whatever is above it too.
            nan = (special & payload) | rounded[:width].all() | rounded[width:].any()
            return Cat(rounded[:width] | nan.replicate(width), sign & ~nan)
        # Infinities of opposite signs leave no leading one.
        nan = named(m, "nan", special & (payload | ~leading))
        exponent = rounded[fmt.mantissa_bits : width] | special.replicate(fmt.exponent_bits)
        finite = named(m, "finite", ~exponent.all())
        fraction = rounded[: fmt.mantissa_bits] & finite.replicate(fmt.mantissa_bits)
        return Cat(fraction[:-1], fraction[-1] | nan, exponent, sign & ~nan)
