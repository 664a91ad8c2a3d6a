# SPDX-License-Identifier: Apache-2.0
"""Floating-point numbers as integers of one exponent: the largest exponent, and the alignment."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.pipeline import named, shift_right
from rtl_templates.hdl.hierarchy import Block


class LargestExponent(Block):
    """The largest biased exponent of some numbers, and whether one of them is not finite.

    Parameters
    ----------
    fmt : FloatFormat
    lanes : int
        How many numbers.

    Members
    -------
    i : In
        Bit patterns, the first in the least significant bits.
    exponent : Out
        At least 1, the exponent of subnormals and zeros.  Any value if `special`.
    special : Out(1)
        An infinity or a NaN is among the numbers.
    """

    def __init__(self, fmt: FloatFormat, lanes: int) -> None:
        super().__init__(
            f"largest_exponent_{fmt.name}_{lanes}",
            {"i": In(lanes * fmt.width), "exponent": Out(fmt.exponent_bits), "special": Out(1)},
        )
        self.fmt, self.lanes = fmt, lanes

    def build(self, m: Module) -> None:
        patterns = [self.i.word_select(lane, self.fmt.width) for lane in range(self.lanes)]
        fields: list[Value] = [pattern[self.fmt.mantissa_bits : -1] for pattern in patterns]
        level = 0
        while len(fields) > 1:
            pairs = zip(fields[::2], fields[1::2], strict=False)
            larger: list[Value] = [
                named(m, f"max_{level}_{i}", Mux(a < b, b, a)) for i, (a, b) in enumerate(pairs)
            ]
            fields, level = larger + fields[len(fields) & ~1 :], level + 1
        (field,) = fields
        m.d.comb += self.exponent.eq(Cat(field[0] | ~field.any(), field[1:]))
        if self.fmt.infinities:  # their exponent is the largest
            m.d.comb += self.special.eq(field.all())
        else:
            m.d.comb += self.special.eq(Cat(special_of(self.fmt, p) for p in patterns).any())


def special_of(fmt: FloatFormat, pattern: Value) -> Value:
    """Return whether a bit pattern is an infinity or a NaN."""
    if not fmt.has_nan:
        return Const(0, 1)
    return pattern[fmt.mantissa_bits : -1].all() if fmt.infinities else pattern[:-1].all()


class Align(Block):
    """A floating-point number as a multiple of ``2**(e - fraction_bits)``, rounded to nearest.

    A number halfway between two multiples is rounded away from zero, so that numbers of opposite
    signs stay opposite.  The rounding costs no adder: what rounds up is the carry that negates.

    Parameters
    ----------
    fmt : FloatFormat
    fraction_bits : int
        Places below the leading one of a number of exponent `e`; at least those of the mantissa.
    exponent_bits : int, optional
        Bits of `exponent`; by default those of the format's exponents.

    Members
    -------
    i : In
        Bit pattern, finite.
    exponent : In
        The biased exponent of `e`, at least that of the number and at least 1.
    o : Out
        Signed, of ``fraction_bits + 2`` bits; the most negative integer does not occur.

    Raises
    ------
    ValueError
        If there are fewer places than the mantissa has bits.
    """

    def __init__(self, fmt: FloatFormat, fraction_bits: int, exponent_bits: int = 0) -> None:
        if fraction_bits < fmt.mantissa_bits:
            raise ValueError(
                f"fraction_bits must be {fmt.mantissa_bits} or more of {fmt}, not {fraction_bits}"
            )
        self.exponent_bits = exponent_bits or fmt.exponent_bits
        wider = f"_{exponent_bits}" if self.exponent_bits > fmt.exponent_bits else ""
        super().__init__(
            f"align_{fmt.name}_{fraction_bits}{wider}",
            {
                "i": In(fmt.width),
                "exponent": In(self.exponent_bits),
                "o": Out(signed(fraction_bits + 2)),
            },
        )
        self.fmt, self.fraction_bits = fmt, fraction_bits

    def build(self, m: Module) -> None:
        fmt, places = self.fmt, self.fraction_bits
        field, sign = self.i[fmt.mantissa_bits : -1], self.i[-1]
        normal = named(m, "normal", field.any())
        own = Cat(field[0] | ~normal, field[1:])
        distance = named(m, "distance", (self.exponent - own)[: self.exponent_bits])
        # One place below the last decides about the rounding.
        below = Const(0, places - fmt.mantissa_bits + 1)
        significand = Cat(below, self.i[: fmt.mantissa_bits], normal)
        bits = len(significand).bit_length()  # shifts by all of these leave nothing
        amount = distance[:bits]
        if len(distance) > bits:
            amount = named(m, "amount", amount | distance[bits:].any().replicate(bits))
        shifted = shift_right(m, "shift", significand, amount)
        # Rounded up, m + 1, or negated, ~m + 1; both at once is ~m.
        up = Signal(name="up")
        m.d.comb += [
            up.eq(shifted[0] ^ sign),
            self.o.eq(Cat(shifted[1:] ^ sign.replicate(places + 1), sign) + up),
        ]
