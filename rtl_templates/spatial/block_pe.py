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

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.numerics.integer import enclosing_format
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
    from hwgen.numerics.blocks.factors import Factor, ScaleNumber
    from hwgen.numerics.blocks.lanes import BlockLanes
    from hwgen.numerics.blocks.products import BlockProduct, MinimumSum


def registers_of(config: SpatialConfig) -> tuple[int, int]:
    """Return the registers behind the multipliers and behind the scales."""
    return int(config.pipeline.pe > 0), int(config.pipeline.pe > 1)


def operand_members(product: BlockProduct, lanes: BlockLanes, flow: type) -> dict[str, Member]:
    """Return what an edge gives: decoded elements, and of each block what its elements share.

    That is its scale, its minimum, and, if the other operand has minima, the sum of its elements.
    """
    factor, count = lanes.factor, lanes.blocks
    form = ElementForm(factor, product.splits)
    members = {"elements": flow(lanes.depth * form.width)}
    if factor.has_nan:
        members["nans"] = flow(count)
    for _, prefix, number, _ in shared_numbers(factor):
        members |= {
            f"{prefix}{name}": flow(count * (member.shape if isinstance(member.shape, int) else 1))
            for name, member in ScaleDecoder(number).members.items()
            if name != "i"
        }
    if product.offset is not None and product.offset.factor is not factor:
        members["sum"] = flow(count * product.offset.sum.width)
        if factor.has_infinities:
            members["sum_infinite"] = flow(2 * count)
    return members


def shared_numbers(factor: Factor) -> list[tuple[str, str, ScaleNumber, int]]:
    """Return the numbers of a block: name, prefix of what they are decoded to, and first bit."""
    both = (("scale", "", factor.scale, 0), ("minimum", "min_", factor.minimum, factor.scale_width))
    return [(name, prefix, kept, first) for name, prefix, kept, first in both if kept is not None]


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
    min_significand, min_exponent, min_none : Out
        The same of the minimum; there in formats with minima.
    first : In(1)
        The beat is the first of a block; there if the other operand has minima, as are:
    sum, sum_infinite : Out
        The sum of the elements of each block, and whether infinities of either sign are among them.
    """

    def __init__(self, config: SpatialConfig, lanes: BlockLanes, name: str) -> None:
        product = config.block_product
        assert product is not None
        super().__init__(
            f"edge_{name}",
            {"on": In(1), "i": In(lanes.width), **operand_members(product, lanes, Out)},
        )
        self.sums = "sum" in self.members
        if self.sums:
            self.members = {"first": In(1), **self.members}
        self.config, self.lanes, self.product = config, lanes, product
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
            self._scales(m, shared)
        if self.sums:
            self._sums(m, register)

    def _sums(self, m: Module, elements: Value) -> None:
        """Sum the elements of each block; delayed as the sums of products in PEs are."""
        lanes, fmt = self.lanes, self.product.offset.sum if self.product.offset else None
        assert fmt is not None
        on, first = (
            Signal(name="on_reg", reset_less=True),
            Signal(name="first_reg", reset_less=True),
        )
        m.d.sync += [on.eq(self.on), first.eq(self.first)]
        size = lanes.depth // lanes.blocks
        sums, flags = [], []
        for block in range(lanes.blocks):
            terms = range(block * size, (block + 1) * size)
            parts = [self.form.parts(elements.word_select(i, self.form.width)) for i in terms]
            operands = [HeapOperand(number) for number, _, _ in parts]
            infinite = [(number[-1], found) for number, _, found in parts]
            found = Cat(
                Cat(~sign & there for sign, there in infinite).any(),
                Cat(sign & there for sign, there in infinite).any(),
            )
            total = Signal(fmt.width, name=f"sum_{block}", reset_less=True)
            seen = Signal(2, name=f"infinite_{block}", reset_less=True)
            before: Value = Const(0, 2)
            if lanes.beats > 1:
                so_far = named(m, f"so_far_{block}", Mux(first, 0, total))
                operands.append(HeapOperand(so_far))
                before = Mux(first, 0, seen)
            added = sum_of(m, f"heap_{block}", operands, fmt.width)
            with m.If(on):
                m.d.sync += [total.eq(added), seen.eq(before | found)]
            sums.append(total)
            flags.append(seen)
        results = {"sum": Cat(*sums), "sum_infinite": Cat(*flags)}
        for name, value in results.items():
            if name not in self.members:
                continue
            for stage in range(registers_of(self.config)[0]):
                register = Signal(len(value), name=f"{name}_{stage}", reset_less=True)
                m.d.sync += register.eq(value)
                value = register
            m.d.comb += getattr(self, name).eq(value)

    def _scales(self, m: Module, shared: Value) -> None:
        """Put scales together, decode them, and delay them until the sum of a block is there."""
        lanes, width = self.lanes, self.lanes.factor.shared_width
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
        decoded: dict[str, list[Value]] = {}
        for block in range(lanes.blocks):
            bits = whole if lanes.blocks == 1 else whole.word_select(block, width)
            for kind, prefix, number, first in shared_numbers(lanes.factor):
                decoder = ScaleDecoder(number)
                names = [name for name in decoder.members if name != "i"]
                ports = {
                    name: Signal(decoder.width(name), name=f"{prefix}{name}_{block}")
                    for name in names
                }
                own = bits[first : first + number.scale.width]
                place(m, f"decode_{kind}_{block}", decoder, i=own, **ports)
                for name, signal in ports.items():
                    decoded.setdefault(f"{prefix}{name}", []).append(signal)
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
        if product.offset is not None:
            total, flags = self._with_minimum(m, block, product.offset, total, flags)
        nan, positive, negative = flags
        significand: Value | None = None
        exponent: Value = Const(0, 0)
        for side, factor in zip("aw", (product.a, product.w), strict=True):
            scale, given = factor.scale, self.operands[side]
            if scale is None or factor.minimum is not None:
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

    def _with_minimum(
        self, m: Module, block: int, offset: MinimumSum, total: Value, flags: Value
    ) -> tuple[Value, Value]:
        """Return the sums of a block with its scale and its minimum, aligned, and their flags."""
        product = self.product
        own, other = ("w", "a") if offset.side == "a" else ("a", "w")
        total_of_other = getattr(self, f"{other}_sum").word_select(block, offset.sum.width)
        infinite: Value = Const(0, 2)
        if product.has_infinities:
            infinite = getattr(self, f"{other}_sum_infinite").word_select(block, 2)
        products = product.sum.min, product.sum.max
        given = (total, flags), (total_of_other.as_signed(), Cat(Const(0, 1), infinite))
        sums, ends = [], offset.ends(products)
        found = [Const(0, 1), Const(0, 1), Const(0, 1)]
        for (value, seen), prefix, number, shift, reach in zip(
            given, ("", "min_"), offset.parts, offset.shifts, ends, strict=True
        ):
            bits = number.significand.width
            significand = getattr(self, f"{own}_{prefix}significand").word_select(block, bits)
            factor = significand.as_signed() if number.significand.signed else significand
            places = number.exponent_width
            exponent: Value = Const(0, 0)
            if places:
                exponent = getattr(self, f"{own}_{prefix}exponent").word_select(block, places)
            wide = Signal(signed(enclosing_format(*reach).width), name=f"{prefix}wide_{block}")
            m.d.comb += wide.eq((value * factor) << shift)
            moved = shift_left(m, f"{prefix}placed_{block}", wide[:], exponent)
            sums.append(moved.as_signed())
            nan, positive, negative = seen
            if number.has_nan:
                nan = nan | getattr(self, f"{own}_{prefix}none")[block]
            if product.has_infinities:
                nan = nan | ((positive | negative) & ~significand.any())
                sign = significand[-1] if number.significand.signed else Const(0, 1)
                positive, negative = Mux(sign, negative, positive), Mux(sign, positive, negative)
            found = [old | new for old, new in zip(found, (nan, positive, negative), strict=True)]
        both = Signal(shape_of(enclosing_format(*offset.range(products))), name=f"both_{block}")
        m.d.comb += both.eq(sums[0] + sums[1])
        return both, named(m, f"flags_of_both_{block}", Cat(*found))


def _sign(forms: list[ElementForm], x: Value, y: Value) -> Value:
    """Return the sign of a product that is not zero."""
    signs = [number[-1] for form, number in zip(forms, (x, y), strict=True) if form.signed]
    return reduce(xor, signs, Const(0, 1))
