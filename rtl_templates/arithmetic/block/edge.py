# SPDX-License-Identifier: Apache-2.0
"""Edges that decode rows and columns of operands in blocks for processing elements.

An edge decodes elements and puts the scale of a block together; so this is done once for a row or a
column, not in each PE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.params.block_core import BlockProductConfig
from rtl_templates.arithmetic.block.elements import (
    ElementDecoder,
    ElementForm,
    ScaleDecoder,
    TermDecoder,
)
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.formats.block.factors import Factor, ScaleNumber
    from hwgen.formats.block.lanes import BlockLanes
    from hwgen.formats.block.products import BlockProduct


def registers_of(config: BlockProductConfig) -> tuple[int, int]:
    """Return the registers behind the multipliers and behind the scales."""
    return int(config.pipeline.pe > 0), int(config.pipeline.pe > 1)


def operand_members(product: BlockProduct, lanes: BlockLanes, flow: type) -> dict[str, Member]:
    """Return the members of an edge's outputs: decoded elements, scales and minima of blocks.

    That is its scale, its minimum, and, if the other operand has minima, the sum of its elements.
    """
    factor, count = lanes.factor, lanes.blocks
    form = ElementForm.of(lanes, product)
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
    return [(name, prefix, number, first) for name, prefix, number, first in both if number]


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
    term : In
        Number of the term of elements of W that is taken; there if they have several.
    first : In(1)
        The beat is the first of a block; there if the other operand has minima, as are:
    sum, sum_infinite : Out
        The sum of the elements of each block, and whether infinities of either sign are among them.
    """

    def __init__(self, config: BlockProductConfig, lanes: BlockLanes, name: str) -> None:
        product = config.block_product
        assert product is not None
        term = {"term": In(range(product.terms))} if product.terms > 1 else {}
        super().__init__(
            f"edge_{name}",
            {"on": In(1), **term, "i": In(lanes.width), **operand_members(product, lanes, Out)},
        )
        self.sums = "sum" in self.members
        if self.sums:
            self.members = {"first": In(1), **self.members}
        self.config, self.lanes, self.product = config, lanes, product
        self.form = ElementForm.of(lanes, product)

    def build(self, m: Module) -> None:
        lanes, factor = self.lanes, self.lanes.factor
        parts = lanes.depth * factor.width, lanes.blocks * lanes.scale_part
        codes, shared = self.i[: parts[0]], self.i[parts[0] :][: parts[1]]
        special = self.i[sum(parts) :]
        decoder = TermDecoder(self.form) if lanes.serial else ElementDecoder(self.form)
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
            if "term" in decoder.members:
                ports["term"] = self.term
            place(m, f"decode_{term}", decoder, **ports)
            if factor.has_infinities and "term" in self.members:
                # It is one of the whole element, and that is told by its first term.
                o = Cat(o[:-1], o[-1] & (self.term == 0))
            elements.append(o)
        register = Signal(len(self.elements), name="elements_reg", reset_less=True)
        m.d.sync += register.eq(Cat(*elements))
        m.d.comb += self.elements.eq(register)
        if nans:
            size = lanes.depth // lanes.blocks
            block_nans = Signal(lanes.blocks, name="nans_reg", reset_less=True)
            groups = (nans[start : start + size] for start in range(0, lanes.depth, size))
            m.d.sync += block_nans.eq(Cat(*(Cat(*group).any() for group in groups)))
            m.d.comb += self.nans.eq(block_nans)
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
            infinite = [(number[-1], flag) for number, _, flag in parts]
            infinities = Cat(
                Cat(~sign & flag for sign, flag in infinite).any(),
                Cat(sign & flag for sign, flag in infinite).any(),
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
                m.d.sync += [total.eq(added), seen.eq(before | infinities)]
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
            earlier = Signal((lanes.beats - 1) * lanes.scale_part, name="parts", reset_less=True)
            whole = Cat(earlier, shared)
            taken: Value = self.on
            if "term" in self.members:
                taken = self.on & (self.term == self.product.terms - 1)
            with m.If(taken):
                m.d.sync += earlier.eq(whole[lanes.scale_part :])
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
