# SPDX-License-Identifier: Apache-2.0
"""Edges and processing elements of a datapath of several formats.

`hwgen.formats.block.products` says which, and what its slots are.  A lane has the number of its
format in its highest bits, so a processing element knows of none: edges give it factors, shifts and
exponents in the same form whatever the format is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.params.block_core import BlockProductConfig
from hwgen.formats.block.products import MODE_BITS, PART, SCALABLE, SLOTS
from rtl_templates.arithmetic.block.accumulators import exponent_width
from rtl_templates.arithmetic.block.edge import registers_of
from rtl_templates.arithmetic.block.elements import ElementDecoder, ElementForm, ScaleDecoder
from rtl_templates.arithmetic.block.pe import BlockPe
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import named, shift_left
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.formats.block.products import ScalableProduct

MODES = range(len(SCALABLE))


def mode_of(lane: Value) -> Value:
    """Return the number of the format of a lane."""
    return lane[-MODE_BITS:]


def chosen(mode: Value, values: list[Any]) -> Value:
    """Return the value of a format."""
    return Value.cast(Array(values)[mode])


@cache
def slot_widths(product: ScalableProduct, side: str) -> tuple[int, ...]:
    """Return the bits of the factor of each slot: magnitude, sign and shift."""
    return tuple(PART + 1 + product.shift_width(slot, side) for slot in range(SLOTS))


def scalable_members(product: ScalableProduct, side: str, flow: type) -> dict[str, Member]:
    """Return the members of an edge's outputs, as `operand_members` does for one format.

    The exponent of A is that of its scale and how much the format's unit is above the smallest.
    """
    scale = product.factors[0].scale
    assert scale is not None
    widest = (1 << scale.exponent_width) - 1 + (max(product.rises) if side == "a" else 0)
    return {
        "elements": flow(product.depth * sum(slot_widths(product, side))),
        "nans": flow(1),
        "exponent": flow(widest.bit_length()),
        "none": flow(1),
    }


class ScalableEdge(Block):
    """Decodes a row of A or a column of W.

    Members
    -------
    on, i, elements, nans, exponent, none
        As of `BlockEdge`; of elements the factors of all slots, those of a lane together.
    """

    def __init__(self, config: BlockProductConfig, side: str) -> None:
        product = config.scalable
        assert product is not None
        super().__init__(
            f"edge_{side}",
            {
                "on": In(1),
                "i": In(config.lanes[0].width),
                **scalable_members(product, side, Out),
            },
        )
        self.config, self.product, self.side = config, product, side

    def build(self, m: Module) -> None:
        product = self.product
        mode = named(m, "mode", mode_of(self.i))
        factors: list[Value] = []
        nans: list[tuple[int, Value]] = []
        for lane in range(product.depth):
            decoded = [self._decoded(m, lane, number, nans) for number in MODES]
            for slot, width in enumerate(slot_widths(product, self.side)):
                own = [
                    self._factor(m, numbers, number, lane, slot)
                    for number, numbers in enumerate(decoded)
                ]
                factor = Signal(width, name=f"factor_{lane}_{slot}")
                m.d.comb += factor.eq(chosen(mode, own))
                factors.append(factor)
        elements = Signal(len(self.elements), name="elements_reg", reset_less=True)
        nan = Signal(name="nans_reg", reset_less=True)
        any_nan = Cat(*(flag & (mode == number) for number, flag in nans)).any()
        m.d.sync += [elements.eq(Cat(*factors)), nan.eq(any_nan)]
        m.d.comb += [self.elements.eq(elements), self.nans.eq(nan)]
        self._scale(m, mode)

    def _decoded(
        self, m: Module, lane: int, number: int, nans: list[tuple[int, Value]]
    ) -> list[tuple[Value, Value, Value]]:
        """Return magnitude, sign and shift of the elements of a lane, of a format."""
        product = self.product
        form = ElementForm(product.factors[number], split=True)
        factors, count = [], product.counts[number]
        for index in range(lane * count, (lane + 1) * count):
            o = Signal(form.width, name=f"element_{number}_{index}")
            code = self.i.word_select(index, form.factor.width)
            ports: dict[str, Value] = {"i": code, "o": o}
            if form.factor.has_nan:
                nans.append((number, Signal(name=f"nan_{index}")))
                ports["nan"] = nans[-1][1]
            place(m, f"decode_{number}_{index}", ElementDecoder(form), **ports)
            value, shift, _ = form.parts(o)
            factors.append((value[:-1], value[-1], shift))
        return factors

    def _factor(
        self,
        m: Module,
        factors: list[tuple[Value, Value, Value]],
        number: int,
        lane: int,
        slot: int,
    ) -> Value:
        """Return the factor of a slot among the elements of a lane, of a format; 0 without any."""
        product, side = self.product, self.side
        if product.factors[number].fields is not None:
            if slot >= len(factors):
                return Const(0, 1)
            magnitude, sign, shift = factors[slot]
            parts = [Cat(magnitude, Const(0, PART - len(magnitude))), sign, shift]
        else:
            magnitude, sign, _ = factors[0]
            half = product.half_of(slot, side)
            shift = Const(PART * half, product.shift_width(slot, side))
            whole = Cat(magnitude, Const(0, 2 * PART - len(magnitude)))
            parts = [whole.word_select(half, PART), sign, shift]
        return named(m, f"own_{number}_{lane}_{slot}", Cat(*parts))

    def _scale(self, m: Module, mode: Value) -> None:
        """Put the scale together, decode it, and delay it until the sum of a block is there."""
        product, lanes = self.product, self.config.lanes[0]
        scale = product.factors[0].scale
        assert scale is not None
        width = scale.scale.width
        earlier = Signal(width, name="parts", reset_less=True)
        wholes = []
        for count, beats, factor in zip(
            product.counts, product.beats, product.factors, strict=True
        ):
            start, part = product.depth * count * factor.width, width // beats
            wholes.append(Cat(earlier[part:], self.i[start : start + part]))
        whole = named(m, "whole", chosen(mode, wholes))
        with m.If(self.on):
            m.d.sync += earlier.eq(whole)
        assert lanes.mode_bits == MODE_BITS
        for stage in range(1 + registers_of(self.config)[0]):
            register = Signal(width + MODE_BITS, name=f"scale_{stage}", reset_less=True)
            m.d.sync += register.eq(Cat(whole, mode))
            whole, mode = register[:width], register[width:]
        exponent, none = Signal(scale.exponent_width, name="own_exponent"), Signal(name="own_none")
        place(m, "decode_scale", ScaleDecoder(scale), i=whole, exponent=exponent, none=none)
        risen: Value = exponent
        if self.side == "a":
            risen = exponent + chosen(mode, [Const(rise) for rise in product.rises])
        for name, value in (("exponent", risen), ("none", none)):
            register = Signal(len(getattr(self, name)), name=f"{name}_reg", reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += getattr(self, name).eq(register)


class ScalablePe(BlockPe):
    """One element of C; see `BlockPe`."""

    @staticmethod
    def members_of(config: BlockProductConfig) -> dict[str, dict[str, Member]]:
        """See `BlockPe`."""
        assert config.scalable is not None
        return {side: scalable_members(config.scalable, side, In) for side in "aw"}

    @staticmethod
    def product_of(config: BlockProductConfig) -> Any:
        """See `BlockPe`."""
        return config.scalable

    def terms(self, m: Module) -> list[tuple[Value, Value, Value]]:
        """See `BlockPe`."""
        product = self.product
        total, nan = self._sum(m)
        bits = exponent_width(product)
        exponent = named(m, "exponent_0", (self.a_exponent + self.w_exponent)[:bits])
        flags = named(m, "flags_of_block_0", Cat(nan | self.a_none | self.w_none, Const(0, 2)))
        return [(total.as_signed(), exponent, flags)]

    def _sum(self, m: Module) -> tuple[Value, Value]:
        """Return the sum of a block, and whether a NaN is among its elements."""
        product: ScalableProduct = self.product
        after_products = m.d.sync if registers_of(self.config)[0] else m.d.comb
        sides = [
            (self.a_elements, slot_widths(product, "a")),
            (self.w_elements, slot_widths(product, "w")),
        ]
        operands = []
        for lane in range(product.depth):
            for slot in range(SLOTS):
                (x, x_shift, negative_x), (y, y_shift, negative_y) = (
                    self._factor(elements, widths, lane, slot) for elements, widths in sides
                )
                name = f"{lane}_{slot}"
                width = product.addend_width(slot)
                wide = Signal(width - 1, name=f"wide_{name}")
                m.d.comb += wide.eq(x * y)
                shift = named(m, f"shift_{name}", x_shift + y_shift)
                moved = shift_left(m, f"moved_{name}", wide, shift)
                negative = negative_x ^ negative_y
                product_bits = Signal(width, name=f"product_{name}", reset_less=True)
                after_products += product_bits.eq(
                    Cat(moved ^ negative.replicate(len(moved)), negative)
                )
                # In ones' complement; the sign is the rest of the two's complement.
                operands += [HeapOperand(product_bits.as_signed()), HeapOperand(product_bits[-1])]
        nan_now = Signal(name="nan_now", reset_less=True)
        after_products += nan_now.eq(self.a_nans | self.w_nans)
        total = Signal(shape_of(product.sum), name="sum_0", reset_less=True)
        nan = Signal(name="sum_nan", reset_less=True)
        so_far = named(m, "so_far_0", Mux(self.first, 0, total[:]))
        added = sum_of(m, "heap_0", [*operands, HeapOperand(so_far)], product.sum.width)
        with m.If(self.on):
            m.d.sync += [total.eq(added), nan.eq((~self.first & nan) | nan_now)]
        return total, nan

    @staticmethod
    def _factor(
        elements: Value, widths: tuple[int, ...], lane: int, slot: int
    ) -> tuple[Value, Value, Value]:
        """Return magnitude, shift and sign of a slot's factor."""
        start = lane * sum(widths) + sum(widths[:slot])
        bits = elements[start : start + widths[slot]]
        return bits[:PART], bits[PART + 1 :], bits[PART]
