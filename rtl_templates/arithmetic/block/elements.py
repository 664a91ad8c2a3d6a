# SPDX-License-Identifier: Apache-2.0
"""Elements and scales of block formats as the integers that are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.formats.block.factors import Factor, ScaleNumber, exponent_bits, term_count, term_table
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.arithmetic.registry import CODINGS
from rtl_templates.hdl.hierarchy import Block

if TYPE_CHECKING:
    from hwgen.formats.block.lanes import BlockLanes
    from hwgen.formats.block.products import BlockProduct


@dataclass(frozen=True)
class ElementForm:
    """Form of elements at the multipliers: their bits, the lowest first.

    Parameters
    ----------
    factor : Factor
    split : bool
        Whether as significand and shift, else as integers.
    term : bool
        Whether one term of it is given: whether there is one, as significand, and its exponent.
    """

    factor: Factor
    split: bool
    term: bool = False

    @staticmethod
    def of(lanes: BlockLanes, product: BlockProduct) -> ElementForm:
        """Return the form of the elements of an operand."""
        return ElementForm(lanes.factor, product.splits, lanes.serial)

    @property
    def number_width(self) -> int:
        """Bits of the number that is multiplied; of a significand its sign is the top bit."""
        if self.term:
            return 2
        if self.split and self.factor.fields:
            return self.factor.fields[1] + 2
        if self.split:  # a magnitude
            return max(map(abs, self.factor.range)).bit_length() + 1
        return self.factor.integers.width

    @property
    def signed(self) -> bool:
        """Whether that number is in two's complement."""
        return not self.split and self.factor.integers.signed

    @property
    def shift_width(self) -> int:
        """Bits of the shift of the product, 0 if there is none."""
        if self.term:
            return exponent_bits(self.factor)
        return self.factor.fields[0] if self.split and self.factor.fields else 0

    @property
    def width(self) -> int:
        """Bits of an element: number, shift, and whether it is infinite if it can be."""
        return self.number_width + self.shift_width + self.factor.has_infinities

    def parts(self, bits: Value) -> tuple[Value, Value, Value]:
        """Return number, shift and whether it is infinite, of the bits of an element."""
        number = bits[: self.number_width]
        shift = bits[self.number_width :][: self.shift_width]
        infinite = bits[-1] if self.factor.has_infinities else Const(0, 1)
        return (number.as_signed() if self.signed else number), shift, infinite


class TermDecoder(Block):
    """Gives the terms of an element one after the other; combinational.

    Members
    -------
    i : In
        The code.
    special : In
        Which special number the block has; there if the format has any.
    term : In
        Number of the term; there if there are several.
    o : Out
        As `ElementForm` says.
    """

    def __init__(self, form: ElementForm) -> None:
        factor = form.factor
        count = term_count(factor)
        super().__init__(
            f"terms_{factor}",
            {
                "i": In(factor.width),
                **({"special": In(factor.special_width)} if factor.special_width else {}),
                **({"term": In(range(count))} if count > 1 else {}),
                "o": Out(form.width),
            },
        )
        self.form, self.count = form, count

    def build(self, m: Module) -> None:
        form, width = self.form, self.form.width
        code = Cat(self.i, self.special) if "special" in self.members else self.i
        terms = Signal(self.count * width, name="terms")
        words = [
            sum(
                (1 | sign << 1 | place << 2) << i * width
                for i, (sign, place) in enumerate(terms_of_code)
            )
            for terms_of_code in term_table(form.factor)
        ]
        # A multiplexer of constants for each bit: a switch would become a memory.
        for bit in range(len(terms)):
            column = sum((word >> bit & 1) << number for number, word in enumerate(words))
            m.d.comb += terms[bit].eq(Const(column, len(words)).bit_select(code, 1))
        chosen = terms.word_select(self.term, width) if "term" in self.members else terms
        m.d.comb += self.o.eq(chosen)


class ElementDecoder(Block):
    """Decodes an element; combinational.

    Members
    -------
    i : In
        The code.
    special : In
        Which special number the block has, or its zero point; there if the format has any.
    o : Out
        As `ElementForm` says.
    nan : Out(1)
        It is a NaN; there if it can be one.
    """

    def __init__(self, form: ElementForm) -> None:
        factor = form.factor
        super().__init__(
            f"decode_{factor}",
            {
                "i": In(factor.width),
                **({"special": In(factor.special_width)} if factor.special_width else {}),
                "o": Out(form.width),
                **({"nan": Out(1)} if factor.has_nan else {}),
            },
        )
        self.form = form

    def build(self, m: Module) -> None:
        form, factor = self.form, self.form.factor
        if factor.fields is not None:
            self._decode_float(m, *factor.fields)
            return
        decode = CODINGS[factor.coding]
        number = self.i - self.special if factor.zero_width else decode(m, self.i)
        if form.split and not number.shape().signed:
            m.d.comb += self.o.eq(number)
            return
        if form.split:
            sign = named(m, "sign", number < 0)
            magnitude = Signal(form.number_width - 1, name="magnitude")
            m.d.comb += [magnitude.eq(Mux(sign, -number, number)), self.o.eq(Cat(magnitude, sign))]
            return
        if factor.zero_width:
            m.d.comb += self.o.eq(number)
            return
        wide = Signal(form.number_width, name="number")
        m.d.comb += [wide.eq(number), self.o.eq(self._or_special(m, wide))]

    def _decode_float(self, m: Module, exponent_bits: int, mantissa_bits: int) -> None:
        form, factor = self.form, self.form.factor
        sign, biased = self.i[-1], self.i[mantissa_bits:-1]
        mantissa = self.i[:mantissa_bits]
        normal = named(m, "normal", biased.any())
        significand = Cat(mantissa, normal)
        # Subnormal elements have the exponent of the smallest normal ones.
        shift = named(m, "shift", (biased - normal)[:exponent_bits])
        infinite = nan = Const(0, 1)
        if factor.has_infinities:
            top = named(m, "top", biased.all())
            infinite, nan = top & ~mantissa.any(), top & mantissa.any()
        elif factor.has_nan:
            nan = self.i[:-1].all()
        if form.split:
            parts = [significand, sign, shift]
        else:
            moved = Signal(form.number_width, name="moved")
            scale = factor.below_unit
            # An infinity has a sign, and is not zero.
            whole = (significand << shift) << scale
            m.d.comb += moved.eq(Mux(infinite, 1, whole) if factor.has_infinities else whole)
            number = Signal(form.number_width, name="number")
            m.d.comb += number.eq(Mux(sign, -moved, moved))
            parts = [self._or_special(m, number)]
        m.d.comb += self.o.eq(Cat(*parts, *([infinite] if factor.has_infinities else [])))
        if factor.has_nan:
            m.d.comb += self.nan.eq(nan)

    def _or_special(self, m: Module, number: Value) -> Value:
        """Return the number, or the special one that the block has."""
        factor, width = self.form.factor, self.form.number_width
        if not factor.special_width:
            return number
        code = factor.special_code
        choices = factor.special_numbers
        special = Signal(signed(width), name="special_number")
        m.d.comb += special.eq(Array([Const(c, signed(width)) for c in choices])[self.special])
        return Mux(self.i == code, special, number)


class ScaleDecoder(Block):
    """Decodes a scale; combinational.

    Members
    -------
    i : In
        The bit pattern.
    significand : Out
        There if it is not always one.
    exponent : Out
        How much it is above the lowest one; there if it is not always the same.
    none : Out(1)
        It is no finite number; there if there are such scales.
    """

    def __init__(self, scale: ScaleNumber) -> None:
        super().__init__(
            f"scale_{scale.scale.name}",
            {
                "i": In(scale.scale.width),
                **({"significand": Out(scale.significand.width)} if scale.range != (1, 1) else {}),
                **({"exponent": Out(scale.exponent_width)} if scale.exponent_width else {}),
                **({"none": Out(1)} if scale.has_nan else {}),
            },
        )
        self.scale = scale

    def build(self, m: Module) -> None:
        scale, floating = self.scale, self.scale.scale.floating
        if floating is None:
            if scale.range == (1, 1):
                m.d.comb += [self.exponent.eq(self.i), self.none.eq(self.i.all())]
            else:
                m.d.comb += self.significand.eq(self.i)
            return
        mantissa = self.i[: floating.mantissa_bits]
        biased = self.i[floating.mantissa_bits : -1]
        normal = named(m, "normal", biased.any())
        magnitude = Cat(mantissa, normal)
        sign = self.i[-1] if scale.significand.signed else Const(0, 1)
        none = biased.all() if floating.infinities else self.i[:-1].all()
        m.d.comb += [
            self.significand.eq(Mux(sign, -magnitude, magnitude)),
            self.exponent.eq(biased - normal),
            self.none.eq(none),
        ]
