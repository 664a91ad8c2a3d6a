# SPDX-License-Identifier: Apache-2.0
"""A row of sums of weighted values, which are shifted when the row's maximum rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class WeightedLane(Block):
    """Adds a weighted value to a scaled sum.

    Members
    -------
    v, weight : In
        A cycle before the sum.
    rise, clears : In
        The number of bits by which the sum is shifted to the right, and whether it is cleared.
    total, next : In, Out
        The sum, and the next one.
    """

    def __init__(self, config: AttentionConfig) -> None:
        width = config.total.width
        super().__init__(
            "weighted_lane",
            {
                "v": In(config.inner(config.value).width),
                "weight": In(config.weight_width),
                "rise": In(range(config.clears)),
                "clears": In(1),
                "total": In(width),
                "next": Out(width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        v = Signal(shape_of(config.inner(config.value)), name="value")
        product = Signal(len(self.v) + len(self.weight), name="product", reset_less=True)
        total = Signal(shape_of(config.total), name="sum")
        scaled = Signal(shape_of(config.total), name="scaled")
        term: Value = product.as_signed() if config.inner(config.value).signed else product
        m.d.comb += [v.eq(self.v), total.eq(self.total)]
        m.d.sync += product.eq(v * self.weight)
        m.d.comb += [
            scaled.eq(Mux(self.clears, 0, total >> self.rise)),
            self.next.eq(scaled + term),
        ]


class ValueRow(Block):
    """Sums of weighted values of a row in a ring, a beat of them at its head.

    Members
    -------
    advance : In(1)
        Add a beat of values, or nothing, to the head, which goes to the end of the ring.
    v : In
        The beat, zero if nothing is added.
    weight, rise, clears : In
        Of the row, as of `WeightedLane`.
    copy, shift, next_row : In
        Only of double buffers: sums, with those of the current beat, are finished and copied to the
        register from which they drain; a beat of these has left, and one of the next row enters.
    head : Out
        A beat of sums, a cycle after it was asked to advance; of those that leave if there are
        double buffers.
    """

    def __init__(self, config: AttentionConfig) -> None:
        lanes = config.array.lanes
        beat = In(lanes * config.total.width)
        leaving = {"copy": In(1), "shift": In(1), "next_row": beat} if config.doubled else {}
        super().__init__(
            "value_row",
            {
                "advance": In(1),
                "v": In(lanes * config.inner(config.value).width),
                "weight": In(config.weight_width),
                "rise": In(range(config.clears)),
                "clears": In(1),
                **leaving,
                "head": Out(lanes * config.total.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, beat = self.config, len(self.head)
        ring = Signal(config.steps * beat, name="ring", reset_less=True)
        advance = Signal(name="advance_now", reset_less=True)
        rise = Signal(len(self.rise), name="rise_now", reset_less=True)
        clears = Signal(name="clears_now", reset_less=True)
        m.d.sync += [advance.eq(self.advance), rise.eq(self.rise), clears.eq(self.clears)]
        if not config.doubled:
            m.d.comb += self.head.eq(ring[:beat])
        following = Signal(beat, name="following")
        lane = WeightedLane(config)
        width, bits = config.total.width, config.inner(config.value).width
        for i in range(config.array.lanes):
            place(
                m, f"lane_{i}", lane, v=self.v.word_select(i, bits), weight=self.weight, rise=rise,
                clears=clears, total=ring.word_select(i, width),
                next=following.word_select(i, width),
            )  # fmt: skip
        with m.If(advance):
            m.d.sync += ring.eq(Cat(ring[beat:], following))
        if config.doubled:
            drained = Signal(len(ring), name="drained", reset_less=True)
            m.d.comb += self.head.eq(drained[:beat])
            with m.If(self.copy):
                m.d.sync += drained.eq(Cat(ring[beat:], following))
            with m.Elif(self.shift):
                m.d.sync += drained.eq(Cat(drained[beat:], self.next_row))
