# SPDX-License-Identifier: Apache-2.0
"""A row of queries: what it holds, its products with keys, and which keys it looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.pipeline import delayed
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.spatial.pe_table import integer_pe

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class ScoreRow(Block):
    """A row of queries in a ring, the sum of its products with a key, and its range of keys.

    Members
    -------
    load : In(1)
        Take a beat of queries.
    q : In
        The beat.
    advance : In(1)
        There is a beat of a key; the ring turns.
    k : In
        The beat, zero if there is none.
    clear : In(1)
        The beat of ``pipeline.dot`` cycles before is the first of a key.
    bound : In(1)
        Take the range of keys.
    first, last : In
        The first key, and the one behind the last.
    key : In
        Number of the key whose last beat is there a cycle later.
    none : In(1)
        It is no key at all.
    score : Out
        The sum, two cycles and ``pipeline.dot`` after `key`.
    seen : Out(1)
        Whether the row looks at the key, in the same cycle.
    starts, swap : In(1)
        Only of double buffers: the range of keys that was taken last holds from now on, and the
        queries that were take their place in the ring.
    """

    def __init__(self, config: AttentionConfig) -> None:
        lanes = config.array.lanes
        bound = signed(config.bound_bits)
        swaps = {"starts": In(1), "swap": In(1)} if config.doubled else {}
        super().__init__(
            "score_row",
            {
                "load": In(1),
                "q": In(lanes * config.inner(config.query).width),
                "advance": In(1),
                "k": In(lanes * config.inner(config.key).width),
                "clear": In(1),
                "bound": In(1),
                "first": In(bound),
                "last": In(bound),
                "key": In(bound),
                "none": In(1),
                "score": Out(config.score.width),
                "seen": Out(1),
                **swaps,
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        ring = Signal(config.steps * len(self.q), reset_less=True)
        head, rest = ring[: len(self.q)], ring[len(self.q) :]
        if config.doubled:
            waits = Signal(len(ring), name="next_queries", reset_less=True)
            with m.If(self.load):
                m.d.sync += waits.eq(Cat(waits, self.q)[len(self.q) :])
            with m.If(self.swap):
                m.d.sync += ring.eq(waits)
            with m.Elif(self.advance):
                m.d.sync += ring.eq(Cat(rest, head))
        else:
            with m.If(self.load | self.advance):
                m.d.sync += ring.eq(Cat(rest, head))
            with m.If(self.load):
                m.d.sync += ring[len(rest) :].eq(self.q)
        total = Signal(config.dots.accumulator_bits)
        place(
            m,
            "dot",
            integer_pe(config.dots),
            role="dot",
            x=head,
            w=self.k,
            clear=self.clear,
            total=total,
        )
        m.d.comb += self.score.eq(total)

        first = Signal(self.first.shape(), name="first_key", reset_less=True)
        last = Signal(self.last.shape(), name="last_key", reset_less=True)
        taken = first, last
        if config.doubled:
            taken = Signal.like(first, name="next_first"), Signal.like(last, name="next_last")
            with m.If(self.starts):
                m.d.sync += [first.eq(taken[0]), last.eq(taken[1])]
        with m.If(self.bound):
            m.d.sync += [taken[0].eq(self.first), taken[1].eq(self.last)]
        seen = Signal(name="in_range")
        m.d.comb += seen.eq((self.key >= first) & (self.key < last) & ~self.none)
        m.d.comb += self.seen.eq(delayed(m, "in_range", seen, 2 + config.pipeline.dot))
