# SPDX-License-Identifier: Apache-2.0
"""Processing elements in which each product of floating-point numbers is a term by itself.

Products of a beat and the total are aligned at the largest of their exponents, as tensor cores do.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from hwgen.core.params.block_core import BlockProductConfig
from rtl_templates.arithmetic.block.accumulators import exponent_width
from rtl_templates.arithmetic.block.edge import registers_of
from rtl_templates.arithmetic.block.elements import ElementForm
from rtl_templates.arithmetic.block.pe import BlockPe
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import named


class FusedPe(BlockPe):
    """One element of C; see `BlockPe`."""

    def __init__(self, config: BlockProductConfig) -> None:
        super().__init__(config)
        self._delayed_nans: dict[str, Value] = {}

    def terms(self, m: Module) -> list[tuple[Value, Value, Value]]:
        """See `BlockPe`: those of the products of a beat."""
        lanes = self.config.lanes
        forms = [ElementForm.of(each, self.product) for each in lanes]
        elements = list(zip(forms, (self.a_elements, self.w_elements), strict=True))
        products = []
        for number in range(lanes[0].depth):
            parts = [form.parts(bits.word_select(number, form.width)) for form, bits in elements]
            products.append(self._product(m, number, parts))
        return [self._term(m, number, product) for number, product in enumerate(products)]

    def _product(
        self, m: Module, number: int, parts: list[tuple[Value, Value, Value]]
    ) -> tuple[Value, Value, Value]:
        """Return significand, shift and infinities of a product, behind as many registers as sums.

        A register is behind multipliers if `pipeline` says so, and one where others have sums.
        """
        (x, x_shift, x_infinite), (y, y_shift, y_infinite) = parts
        negative = x[-1] ^ y[-1]
        magnitude = named(m, f"magnitude_{number}", x[:-1] * y[:-1])
        integer = Signal(shape_of(self.product.term), name=f"product_{number}")
        m.d.comb += integer.eq(Mux(negative, -magnitude, magnitude))
        infinite = x_infinite | y_infinite
        some = x[:-1].any() & y[:-1].any()
        flags = Cat(infinite & ~some, infinite & some & ~negative, infinite & some & negative)
        values = [integer[:], named(m, f"shift_{number}", x_shift + y_shift), flags]
        for stage in range(1 + registers_of(self.config)[0]):
            for place, (name, value) in enumerate(
                zip(("integer", "exponent", "flags"), values, strict=True)
            ):
                register = Signal(len(value), name=f"{name}_{number}_{stage}", reset_less=True)
                m.d.sync += register.eq(value)
                values[place] = register
        integer_kept, shift, flags = values
        return integer_kept.as_signed(), shift, flags

    def _term(
        self, m: Module, number: int, parts: tuple[Value, Value, Value]
    ) -> tuple[Value, Value, Value]:
        """Return the term of a product, with the scales of its block."""
        product, lanes = self.product, self.config.lanes
        integer, exponent, flags = parts
        block = number * lanes[0].blocks // lanes[0].depth
        nan: Value = flags[0]
        for side, factor in zip("aw", (product.a, product.w), strict=True):
            if factor.has_nan:
                nan = nan | self._nans(m, side)[block]
            if factor.scale is None:
                continue
            scale = factor.scale.exponent_width
            exponent = exponent + getattr(self, f"{side}_exponent").word_select(block, scale)
            nan = nan | getattr(self, f"{side}_none")[block]
        whole = named(m, f"exponent_{number}", exponent[: exponent_width(product)])
        return integer, whole, named(m, f"flags_of_term_{number}", Cat(nan, flags[1:]))

    def _nans(self, m: Module, side: str) -> Value:
        """Return flags of blocks with a NaN among their elements, in time with their products."""
        if side not in self._delayed_nans:
            value: Value = getattr(self, f"{side}_nans")
            for stage in range(1 + registers_of(self.config)[0]):
                register = Signal(len(value), name=f"{side}_nans_{stage}", reset_less=True)
                m.d.sync += register.eq(value)
                value = register
            self._delayed_nans[side] = value
        return self._delayed_nans[side]
