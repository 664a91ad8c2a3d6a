# SPDX-License-Identifier: Apache-2.0
"""Accumulators of the terms of blocks; `hwgen.formats.block.products` says what they compute."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.formats.block.products import BlockProduct
from rtl_templates.arithmetic.float.from_scaled import ScaledToFloat
from rtl_templates.arithmetic.float.operator import encoded
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.pipeline import named, shift_left, shift_right_sticky
from rtl_templates.hdl.hierarchy import Block, place


def exponent_width(product: BlockProduct) -> int:
    """Return the bits of how much the exponent of a term is above the lowest one."""
    low, high = product.exponents
    return (high - low).bit_length()


def term_converter(product: BlockProduct) -> ScaledToFloat:
    """Return the converter of terms to the format of results."""
    low, high = product.exponents
    return ScaledToFloat(
        product.term, range(high - low + 1), low - product.fraction, product.result
    )


def total_converter(product: BlockProduct) -> ScaledToFloat:
    """Return the converter of exact totals."""
    return ScaledToFloat(product.total, range(1), product.last_bit, product.result)


class ExactTotal(Block):
    """The next exact total, and what it is instead of a number.

    Members
    -------
    old : In
        Total and flags: a NaN was there, an infinity of either sign, those that there can be.
    integers, exponents, flags : In
        Of the terms of a step, 3 flags each.
    o : Out
    """

    def __init__(self, product: BlockProduct) -> None:
        step = product.addends
        bits = exponent_width(product)
        super().__init__(
            "add_terms",
            {
                "old": In(product.accumulator_bits),
                "integers": In(step * product.term.width),
                **({"exponents": In(step * bits)} if bits else {}),
                "flags": In(3 * step),
                "o": Out(product.accumulator_bits),
            },
        )
        self.product, self.bits = product, bits

    def build(self, m: Module) -> None:
        product, width = self.product, self.product.total.width
        low, high = product.exponents
        reach = min(product.term.width + high - low, width)
        total: Value = self.old[:width]
        for number in range(product.addends):
            integer = self.integers.word_select(number, product.term.width).as_signed()
            wide = Signal(signed(reach), name=f"wide_{number}")
            m.d.comb += wide.eq(integer)
            moved: Value = wide
            if self.bits:
                exponent = self.exponents.word_select(number, self.bits)
                moved = shift_left(m, f"moved_{number}", wide[:], exponent)
            addend = Signal(signed(width), name=f"addend_{number}")
            m.d.comb += addend.eq(moved.as_signed())
            total = named(m, f"total_{number}", (total + addend)[:width])
        flags = [Cat(*self.flags[place::3]).any() for place in range(3)]
        stored_flags = flags[: product.has_nan] + (flags[1:] if product.has_infinities else [])
        m.d.comb += self.o.eq(
            Cat(total, self.old[width:] | Cat(*stored_flags)) if stored_flags else total
        )


class ExactResult(Block):
    """The result of an exact total, rounded.

    Members
    -------
    i : In
        As `ExactTotal` gives it.
    o : Out
    """

    def __init__(self, product: BlockProduct) -> None:
        super().__init__(
            "round_total", {"i": In(product.accumulator_bits), "o": Out(product.result.width)}
        )
        self.product = product

    def build(self, m: Module) -> None:
        product, width = self.product, self.product.total.width
        rounded = Signal(product.result.width, name="rounded")
        converter = total_converter(product)
        place(m, "convert", converter, i=self.i[:width], special=Const(0, 1), o=rounded)
        flags = list(self.i[width:])
        nan = flags.pop(0) if product.has_nan else Const(0, 1)
        positive, negative = flags if product.has_infinities else (Const(0, 1), Const(0, 1))
        m.d.comb += self.o.eq(flagged(m, product, rounded, nan, positive, negative))


def rounded_row(m: Module, product: BlockProduct, totals: Value, count: int) -> Signal:
    """Return the results of a row of `count` exact totals, `round_0` and so on."""
    rounding, width = ExactResult(product), product.result.width
    rounded = Signal(count * width, name="rounded")
    for col in range(count):
        place(
            m,
            f"round_{col}",
            rounding,
            i=totals.word_select(col, product.accumulator_bits),
            o=rounded.word_select(col, width),
        )
    return rounded


class AlignedTotal(Block):
    """The next total of terms that are aligned and cut off, as tensor cores add.

    Members
    -------
    old : In
    integers, exponents, flags : In
        As of `ExactTotal`.
    o : Out
    """

    def __init__(self, product: BlockProduct) -> None:
        step, bits = product.addends, exponent_width(product)
        super().__init__(
            "add_aligned",
            {
                "old": In(product.result.width),
                "integers": In(step * product.term.width),
                **({"exponents": In(step * bits)} if bits else {}),
                "flags": In(3 * step),
                "o": Out(product.result.width),
            },
        )
        self.product, self.bits = product, bits
        # Tensor cores have trees of comparisons and of full adders; others chains of both.
        self.trees = bool(product.accumulator.tensor_core)

    def build(self, m: Module) -> None:
        product, fmt = self.product, self.product.result
        accumulator, lowest = product.accumulator, product.lowest_exponent
        step_format = accumulator.step_format
        # Bits that a step's sum does not have, and neither has the total.
        cut = fmt.mantissa_bits - step_format.mantissa_bits
        fraction, biased = self.old[cut : fmt.mantissa_bits], self.old[fmt.mantissa_bits : -1]
        normal = named(m, "normal", biased.any())
        special = named(m, "special", biased.all())
        # Exponents of all, above the lowest one: of a term or of the smallest total.
        base = min(product.exponents[0], 1 - fmt.bias)
        span = max(product.exponents[1] - base, fmt.bias - base) + 2
        bits = span.bit_length()
        above_base = Cat(biased[0] | ~normal, biased[1:]) - fmt.bias - base
        of_total: Value = named(m, "exponent", above_base)[:bits]
        significand = Cat(fraction, normal)
        if lowest < 1 - fmt.bias:
            some = named(m, "some", significand.any())
            of_total = named(m, "exponent_of_total", Mux(some, of_total, lowest - base))
        exponents = [of_total]
        numbers = [(significand, self.old[-1], step_format.mantissa_bits)]
        for number in range(product.addends):
            integer = self.integers.word_select(number, product.term.width)
            sign = integer[-1]
            magnitude = named(
                m, f"magnitude_{number}", Mux(sign, (-integer.as_signed())[: len(integer)], integer)
            )
            above = self.exponents.word_select(number, self.bits) if self.bits else Const(0, 1)
            exponent = Signal(bits, name=f"exponent_{number}")
            # Zeros do not count: they get the lowest exponent.
            some = integer.any() if self.trees else magnitude.any()
            m.d.comb += exponent.eq(Mux(some, above + (product.exponents[0] - base), lowest - base))
            exponents.append(exponent)
            numbers.append((magnitude, sign, product.fraction))
        largest = self._largest(m, exponents)
        total = self._sum(m, numbers, exponents, largest)
        offset = base - accumulator.fraction_bits
        converter = ScaledToFloat(
            product.aligned, range(span + 1), offset, step_format, nearest=False
        )
        rounded = Signal(step_format.width, name="rounded")
        place(m, "convert", converter, i=total, exponent=largest, special=Const(0, 1), o=rounded)
        after: Value = Cat(Const(0, cut), rounded) if cut else rounded
        if accumulator.tensor_core and product.exponents[0] < 1 - fmt.bias:
            # Only sums of such terms are cut off to zero.
            after = Cat(after[:-1], named(m, "negative", after[-1] & after[:-1].any()))
        nan, positive, negative = (Cat(*self.flags[place::3]).any() for place in range(3))
        # What is infinite remains so, and so does a NaN.
        payload = self.old[: fmt.mantissa_bits]
        infinite = special & ~payload.any()
        nan = nan | (special & payload.any())
        positive = positive | (infinite & ~self.old[-1])
        negative = negative | (infinite & self.old[-1])
        m.d.comb += self.o.eq(flagged(m, product, after, nan, positive, negative))

    def _largest(self, m: Module, exponents: list[Value]) -> Value:
        """Return the largest of some exponents."""
        count, waiting = 0, list(exponents)
        while len(waiting) > 1:
            x, y = waiting[:2]
            larger = named(m, f"largest_{count}", Mux(y > x, y, x))
            # In a tree the result is compared when all others have been, in a chain at once.
            waiting = [*waiting[2:], larger] if self.trees else [larger, *waiting[2:]]
            count += 1
        return waiting[0]

    def _sum(
        self,
        m: Module,
        numbers: list[tuple[Value, Value, int]],
        exponents: list[Value],
        largest: Value,
    ) -> Value:
        """Return the sum of magnitudes with signs and fractional bits, aligned and cut off."""
        product = self.product
        places, width = product.accumulator.fraction_bits, product.aligned.width
        total: Value = Const(0, signed(width))
        operands: list[HeapOperand] = []
        for number, ((magnitude, sign, fraction), exponent) in enumerate(
            zip(numbers, exponents, strict=True)
        ):
            distance = named(m, f"distance_{number}", (largest - exponent)[: len(largest)])
            wide = Cat(Const(0, max(0, places - fraction)), magnitude)
            amount, far = distance, Const(0, 1)
            bits = len(wide).bit_length()
            if len(distance) > bits:
                amount, far = distance[:bits], distance[bits:].any()
            shifted, _ = shift_right_sticky(m, f"shifted_{number}", wide, amount)
            shifted = shifted[max(0, fraction - places) :]
            shifted = named(m, f"aligned_{number}", shifted & (~far).replicate(len(shifted)))
            if self.trees:  # in ones' complement, and the sign to be added
                inverted = Cat(shifted ^ sign.replicate(len(shifted)), sign).as_signed()
                operands += [HeapOperand(inverted), HeapOperand(sign)]
                continue
            addend = Signal(signed(width), name=f"addend_{number}")
            m.d.comb += addend.eq(Mux(sign, -shifted, shifted))
            total = named(m, f"sum_{number}", (total.as_signed() + addend)[:width])
        return sum_of(m, "heap", operands, width) if self.trees else total


def flagged(
    m: Module, product: BlockProduct, bits: Value, nan: Value, positive: Value, negative: Value
) -> Value:
    """Return a number, or what flags say that it is instead."""
    fmt = product.result
    none = named(m, "nan", nan | (positive & negative))
    infinite = positive | negative
    sign = Mux(infinite, negative, bits[-1])
    return encoded(m, fmt, sign, none, named(m, "infinite", infinite | none), bits[:-1])
