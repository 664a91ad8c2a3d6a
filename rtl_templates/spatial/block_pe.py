# SPDX-License-Identifier: Apache-2.0
"""Processing elements that multiply blocks, and the edges that decode rows and columns for them.

An edge decodes elements and puts the scale of a block together; so this is done once for a row or a
column, not in each PE.  A PE sums the products of a block exactly, over as many beats as it takes,
then multiplies the sum by the significands of both scales, and accumulates the term.  There is a
register behind each of these steps, so that blocks follow each other without a pause.
"""

from __future__ import annotations

from functools import reduce
from operator import or_, xor
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from rtl_templates.arithmetic.block_accumulators import (
    AlignedTotal,
    ExactTotal,
    exponent_width,
    flagged,
    term_converter,
)
from rtl_templates.arithmetic.block_elements import ElementDecoder, ElementForm, ScaleDecoder
from rtl_templates.arithmetic.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.float_adder import FloatAdder
from rtl_templates.arithmetic.integer import shape_of
from rtl_templates.arithmetic.pipeline import named, shift_left
from rtl_templates.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.config.spatial import SpatialConfig
    from hwgen.numerics.blocks.lanes import BlockLanes
    from hwgen.numerics.blocks.products import BlockProduct


def registers_of(config: SpatialConfig) -> tuple[int, int]:
    """Return the registers behind the multipliers and behind the scales."""
    return int(config.pipeline.pe > 0), int(config.pipeline.pe > 1)


def operand_members(product: BlockProduct, lanes: BlockLanes, flow: type) -> dict[str, Member]:
    """Return what an edge gives: decoded elements, and of each block its scale."""
    factor, count = lanes.factor, lanes.blocks
    form = ElementForm(factor, product.splits)
    members = {"elements": flow(lanes.depth * form.width)}
    if factor.has_nan:
        members["nans"] = flow(count)
    scale = factor.scale
    if scale is not None:
        members |= {
            name: flow(count * (member.shape if isinstance(member.shape, int) else 1))
            for name, member in ScaleDecoder(scale).members.items()
            if name != "i"
        }
    return members


class BlockEdge(Block):
    """Decodes a row of A or a column of W.

    Members
    -------
    on : In(1)
        There is a beat.
    i : In
        The lane.
    elements : Out
        As `ElementForm` says, a cycle later.
    nans : Out
        There is a NaN among those of a block; with the elements, if there can be any.
    significand, exponent, none : Out
        Of the scale of each block, as `ScaleDecoder` gives them, with the sum of its last beat.
    """

    def __init__(self, config: SpatialConfig, lanes: BlockLanes, name: str) -> None:
        product = config.block_product
        assert product is not None
        super().__init__(
            f"edge_{name}",
            {"on": In(1), "i": In(lanes.width), **operand_members(product, lanes, Out)},
        )
        self.config, self.lanes = config, lanes
        self.form = ElementForm(lanes.factor, product.splits)

    def build(self, m: Module) -> None:
        lanes, factor = self.lanes, self.lanes.factor
        places = lanes.depth * factor.width, lanes.blocks * lanes.scale_part
        codes, shared = self.i[: places[0]], self.i[places[0] :][: places[1]]
        special = self.i[sum(places) :]
        decoder = ElementDecoder(self.form)
        elements, nans = [], []
        for term in range(lanes.depth):
            o = Signal(self.form.width, name=f"element_{term}")
            ports: dict[str, Value] = {"i": codes.word_select(term, factor.width), "o": o}
            if factor.special_width:
                block = term * lanes.blocks // lanes.depth
                ports["special"] = special.word_select(block, factor.special_width)
            if factor.has_nan:
                nans.append(Signal(name=f"nan_{term}"))
                ports["nan"] = nans[-1]
            place(m, f"decode_{term}", decoder, **ports)
            elements.append(o)
        register = Signal(len(self.elements), name="elements_reg", reset_less=True)
        m.d.sync += register.eq(Cat(*elements))
        m.d.comb += self.elements.eq(register)
        if nans:
            size = lanes.depth // lanes.blocks
            found = Signal(lanes.blocks, name="nans_reg", reset_less=True)
            groups = (nans[start : start + size] for start in range(0, lanes.depth, size))
            m.d.sync += found.eq(Cat(*(Cat(*group).any() for group in groups)))
            m.d.comb += self.nans.eq(found)
        if factor.scale is not None:
            self._scales(m, shared, ScaleDecoder(factor.scale))

    def _scales(self, m: Module, shared: Value, decoder: ScaleDecoder) -> None:
        """Put scales together, decode them, and delay them until the sum of a block is there."""
        lanes, width = self.lanes, self.lanes.factor.scale_width
        whole = shared
        if lanes.beats > 1:
            kept = Signal((lanes.beats - 1) * lanes.scale_part, name="parts", reset_less=True)
            whole = Cat(kept, shared)
            with m.If(self.on):
                m.d.sync += kept.eq(whole[lanes.scale_part :])
        for stage in range(1 + registers_of(self.config)[0]):
            register = Signal(len(whole), name=f"scale_{stage}", reset_less=True)
            m.d.sync += register.eq(whole)
            whole = register
        names = [name for name in decoder.members if name != "i"]
        decoded: dict[str, list[Value]] = {name: [] for name in names}
        for block in range(lanes.blocks):
            bits = whole if lanes.blocks == 1 else whole.word_select(block, width)
            ports = {name: Signal(decoder.width(name), name=f"{name}_{block}") for name in names}
            place(m, f"decode_scale_{block}", decoder, i=bits[:width], **ports)
            for name, signal in ports.items():
                decoded[name].append(signal)
        for name, signals in decoded.items():
            register = Signal(len(getattr(self, name)), name=f"{name}_reg", reset_less=True)
            m.d.sync += register.eq(Cat(*signals))
            m.d.comb += getattr(self, name).eq(register)


class BlockPe(Block):
    """One element of C: adds the products of a beat, and accumulates the terms of blocks.

    Members
    -------
    a_elements, ..., w_elements, ... : In
        From the edges of the row and of the column, as `BlockEdge` gives them.
    on, first : In(1)
        The beat whose products are added now is one; it is the first of a block.
    valid, clear : In(1)
        A term is there; it is the first of a tile.
    total : Out
        The accumulator.
    """

    def __init__(self, config: SpatialConfig) -> None:
        product = config.block_product
        assert product is not None
        self.operands = {
            side: operand_members(product, lanes, In)
            for side, lanes in zip("aw", config.lanes, strict=True)
        }
        members = {
            f"{side}_{name}": member
            for side, given in self.operands.items()
            for name, member in given.items()
        }
        tokens = {name: In(1) for name in ("on", "first", "valid", "clear")}
        super().__init__("pe", {**members, **tokens, "total": Out(config.held_width)})
        self.config, self.product = config, product

    def build(self, m: Module) -> None:
        product, a = self.product, self.config.lanes[0]
        behind_scales = registers_of(self.config)[1]
        terms = [self._term(m, block, *self._summed(m, block)) for block in range(a.blocks)]
        if behind_scales:
            terms = [self._registered(m, f"scaled_{i}", term) for i, term in enumerate(terms)]
        total = Signal(len(self.total), name="total_reg", reset_less=True)
        old = named(m, "old", Mux(self.clear, 0, total))
        after = Signal(len(total), name="after")
        if product.accumulator.kind == "fp32":
            ((integer, exponent, flags),) = terms
            rounded = Signal(product.result.width, name="rounded")
            ports = {"exponent": exponent} if len(exponent) else {}
            converter = term_converter(product)
            place(m, "convert", converter, i=integer, special=Const(0, 1), o=rounded, **ports)
            term = Signal(len(total), name="term", reset_less=True)
            m.d.sync += term.eq(flagged(m, product, rounded, *flags))
            place(m, "accumulate", FloatAdder(product.result), a=old, b=term, o=after)
        else:
            kept = [self._registered(m, f"term_{i}", term) for i, term in enumerate(terms)]
            integers, exponents, flags = (Cat(*part) for part in zip(*kept, strict=True))
            step = (ExactTotal if product.rounds_at_end else AlignedTotal)(product)
            ports = {"exponents": exponents} if len(exponents) else {}
            place(m, "accumulate", step, old=old, integers=integers, flags=flags, o=after, **ports)
        with m.If(self.valid):
            m.d.sync += total.eq(after)
        m.d.comb += self.total.eq(total)

    def _registered(
        self, m: Module, name: str, term: tuple[Value, Value, Value]
    ) -> tuple[Value, Value, Value]:
        registers = []
        for part, value in zip(("integer", "exponent", "flags"), term, strict=True):
            register = Signal(len(value), name=f"{name}_{part}", reset_less=True)
            m.d.sync += register.eq(value)
            registers.append(register)
        integer, exponent, flags = registers
        return integer, exponent, flags

    def _summed(self, m: Module, block: int) -> tuple[Value, Value]:
        """Return the sum of a block, and its flags: NaN, and each infinity.

        Of significands products come in ones' complement, their sign to be added.
        """
        product, (a, _) = self.product, self.config.lanes
        size = self.config.depth // a.blocks
        behind_products = m.d.sync if registers_of(self.config)[0] else m.d.comb
        operands, flags = [], []
        for term in range(block * size, (block + 1) * size):
            value, found = self._product(m, term)
            kept = Signal(shape_of(product.sum_of(1)), name=f"product_{term}", reset_less=True)
            behind_products += kept.eq(value)
            operands.append(HeapOperand(kept))
            if product.splits:  # the rest of the two's complement
                operands.append(HeapOperand(kept[-1]))
            flags.append(found)
        found = reduce(or_, flags)
        for side in "aw":
            if "nans" in self.operands[side]:
                found = found | getattr(self, f"{side}_nans")[block]
        flags_now = Signal(3, name=f"flags_{block}", reset_less=True)
        behind_products += flags_now.eq(found)
        total = Signal(shape_of(product.sum), name=f"sum_{block}", reset_less=True)
        flags_of_sum = Signal(3, name=f"sum_flags_{block}", reset_less=True)
        width = product.sum.width
        if a.beats == 1:
            added = sum_of(m, f"heap_{block}", operands, width)
            m.d.sync += [total.eq(added), flags_of_sum.eq(flags_now)]
            return total, flags_of_sum
        so_far = named(m, f"so_far_{block}", Mux(self.first, 0, total[:]))
        added = sum_of(m, f"heap_{block}", [*operands, HeapOperand(so_far)], width)
        with m.If(self.on):
            m.d.sync += [
                total.eq(added),
                flags_of_sum.eq(Mux(self.first, 0, flags_of_sum) | flags_now),
            ]
        return total, flags_of_sum

    def _product(self, m: Module, term: int) -> tuple[Value, Value]:
        """Return the product of two elements, and its flags."""
        product, (a, w) = self.product, self.config.lanes
        forms = [ElementForm(lanes.factor, product.splits) for lanes in (a, w)]
        given = self.a_elements, self.w_elements
        (x, x_shift, x_infinite), (y, y_shift, y_infinite) = (
            form.parts(elements.word_select(term, form.width))
            for form, elements in zip(forms, given, strict=True)
        )
        if product.splits:
            negative, x, y = x[-1] ^ y[-1], x[:-1], y[:-1]
            wide = Signal(product.sum_of(1).width - 1, name=f"wide_{term}")
            m.d.comb += wide.eq(x * y)
            shift = named(m, f"shift_{term}", x_shift + y_shift)
            moved = shift_left(m, f"moved_{term}", wide, shift)
            value = Cat(moved ^ negative.replicate(len(moved)), negative).as_signed()
        else:
            value = x * y
            negative = _sign(forms, x, y)
        if not product.has_infinities:
            return value, Const(0, 3)
        infinite = x_infinite | y_infinite
        some = x.any() & y.any()
        flags = Cat(infinite & ~some, infinite & some & ~negative, infinite & some & negative)
        return value, named(m, f"flags_of_{term}", flags)

    def _term(
        self, m: Module, block: int, total: Value, flags: Value
    ) -> tuple[Value, Value, Value]:
        """Return the term of a block: integer, exponent above the lowest one, and flags."""
        product = self.product
        nan, positive, negative = flags
        significand: Value | None = None
        exponent: Value = Const(0, 0)
        for side, factor in zip("aw", (product.a, product.w), strict=True):
            scale, given = factor.scale, self.operands[side]
            if scale is None:
                continue
            if "none" in given:
                nan = nan | getattr(self, f"{side}_none")[block]
            if "exponent" in given:
                part = getattr(self, f"{side}_exponent").word_select(block, scale.exponent_width)
                exponent = exponent + part if len(exponent) else part
            if "significand" in given:
                width = scale.significand.width
                part = getattr(self, f"{side}_significand").word_select(block, width)
                part = part.as_signed() if scale.significand.signed else part
                significand = part if significand is None else significand * part
                if product.has_infinities:
                    nan = nan | ((positive | negative) & ~part.any())
                    if scale.significand.signed:
                        positive, negative = (
                            Mux(part[-1], negative, positive),
                            Mux(part[-1], positive, negative),
                        )
        integer = Signal(shape_of(product.term), name=f"integer_{block}")
        m.d.comb += integer.eq(total if significand is None else total * significand)
        bits = exponent_width(product)
        exponent = named(m, f"exponent_{block}", exponent[:bits]) if bits else exponent
        return integer, exponent, named(m, f"flags_of_block_{block}", Cat(nan, positive, negative))


def _sign(forms: list[ElementForm], x: Value, y: Value) -> Value:
    """Return the sign of a product that is not zero."""
    signs = [number[-1] for form, number in zip(forms, (x, y), strict=True) if form.signed]
    return reduce(xor, signs, Const(0, 1))
