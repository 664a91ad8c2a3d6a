# SPDX-License-Identifier: Apache-2.0
"""The core of the spatial families for operands in blocks.

Sequencer, drain and ports are those of `SpatialCore`; the array counts the beats of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from rtl_templates.arithmetic.block.accumulators import rounded_row
from rtl_templates.arithmetic.block.edge import BlockEdge, registers_of
from rtl_templates.arithmetic.block.scalable import ScalableEdge, chosen, mode_of
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields
from rtl_templates.stream.block_beats import counted_beats, counted_terms

from .core import Array, SpatialCore
from .pe_table import block_pe

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig
    from hwgen.formats.block.products import BlockProduct

TOKENS = ("on", "first", "ends", "clear")
"""There is a beat; it is the first of a block, its last, and of the first block of a tile."""


def term_member(product: BlockProduct) -> dict[str, Member]:
    """Return the port of the number of a term, of elements that have several."""
    return {"term": In(range(product.terms))} if product.terms > 1 else {}


def edge_of(config: SpatialConfig, side: str) -> BlockEdge | ScalableEdge:
    """Return the edge of rows (``a``) or columns (``w``)."""
    if config.scalable is not None:
        return ScalableEdge(config, side)
    return BlockEdge(config, config.lanes["aw".index(side)], side)


class BlockRow(Block):
    """A row of PEs with its edge.

    Members
    -------
    on, first, ends, clear : In(1)
        As `TOKENS`.
    x : In
        The lane of the row.
    w_elements, ... : In
        Of all columns, as their edges give them.
    total : Out
        The accumulators of the row.
    """

    def __init__(self, config: SpatialConfig) -> None:
        product = config.block_product
        assert product is not None
        self.pe = block_pe(config)
        self.columns = self.pe.operands["w"]
        super().__init__(
            "row",
            {
                **{name: In(1) for name in TOKENS},
                **term_member(product),
                "x": In(config.lanes[0].width),
                **{
                    f"w_{name}": In(config.cols * member.shape)
                    for name, member in self.columns.items()
                },
                "total": Out(config.cols * config.accumulator_bits),
            },
        )
        self.config, self.product = config, product

    def build(self, m: Module) -> None:
        config = self.config
        given = self.pe.operands["a"]
        edge = {name: Signal(member.shape, name=f"a_{name}") for name, member in given.items()}
        kind = edge_of(config, "a")
        first_beat = {"first": self.first} if "first" in kind.members else {}
        if "term" in self.members:
            first_beat["term"] = self.term
        place(m, "edge", kind, on=self.on, i=self.x, **edge, **first_beat)
        # Tokens on their way beside the beat: to the sums of blocks, and to the accumulators.
        on, first, valid, clear = self.on, self.first, self.on & self.ends, self.clear
        summed = 1 + registers_of(config)[0]
        tokens: dict[str, Value] = {}
        for stage in range(config.lead):
            stage_tokens = Signal(4, name=f"tokens_{stage}", reset_less=True)
            m.d.sync += stage_tokens.eq(Cat(on, first, valid, clear))
            on, first, valid, clear = stage_tokens
            if stage == summed - 1:
                tokens |= {"on": on, "first": first}
            if stage == summed and config.scale_cycles:
                tokens["load"] = valid
        tokens |= {"valid": valid, "clear": clear}
        for col in range(config.cols):
            place(
                m, f"col_{col}", self.pe, **tokens,
                **{f"a_{name}": signal for name, signal in edge.items()},
                **{
                    f"w_{name}": getattr(self, f"w_{name}").word_select(col, member.shape)
                    for name, member in self.columns.items()
                },
                total=self.total.word_select(col, config.accumulator_bits),
            )  # fmt: skip


class BlockArray(Array):
    """The rows of PEs, and the edges of the columns.

    Members
    -------
    on, first, ends, clear : In(1)
        As `TOKENS`.
    x, w, load, leaves, out
        As of `Array`.
    """

    tokens = TOKENS

    def __init__(self, config: SpatialConfig) -> None:
        super().__init__(config)
        assert config.block_product is not None
        self.members = {**self.members, **term_member(config.block_product)}

    def rows(self, m: Module) -> Callable[[int, Value], None]:
        """See `Array`."""
        config, row = self.config, BlockRow(self.config)
        edge = edge_of(config, "w")
        decoded = {
            f"w_{name}": Signal(config.cols * member.shape, name=f"w_{name}")
            for name, member in row.columns.items()
        }
        for col in range(config.cols):
            ports = {
                name: decoded[f"w_{name}"].word_select(col, member.shape)
                for name, member in row.columns.items()
            }
            lane = self.w.word_select(col, config.lanes[1].width)
            first = {"first": self.first} if "first" in edge.members else {}
            if "term" in self.members:
                first["term"] = self.term
            place(m, f"edge_{col}", edge, on=self.on, i=lane, **ports, **first)
        tokens = {name: getattr(self, name) for name in row.members if name in (*TOKENS, "term")}

        def place_row(r: int, total: Value) -> None:
            lane = self.x.word_select(r, config.lanes[0].width)
            place(m, f"row_{r}", row, x=lane, total=total, **tokens, **decoded)

        return place_row


class BlockCore(SpatialCore):
    """Tile jobs of any K, in whole blocks."""

    def array(
        self, m: Module, fire: Value, starting: Value, x: Value, w: Value, drain: dict[str, Value]
    ) -> None:
        """Place the array, and count the beats of a block for it."""
        config = self.config
        beat = self.popped if self.terms > 1 else fire
        beats, last = config.lanes[0].beats, None
        if config.scalable is not None:
            own = config.scalable.beats
            beats, last = (
                max(own),
                chosen(mode_of(x[: config.lanes[0].width]), [n - 1 for n in own]),
            )
        first, ends, clear = counted_beats(m, beats, beat, starting, last)
        term = {}
        if self.terms > 1:
            first, ends = first & (self.term == 0), ends & self.last_term
            term = {"term": self.term}
        place(
            m, "array", BlockArray(config), on=fire, first=first, ends=ends, clear=clear, x=x, w=w,
            **term, **drain,
        )  # fmt: skip

    @property
    def terms(self) -> int:
        """Slots of a beat."""
        return int(self.config.block_product.terms)

    def pops(self, m: Module, fire: Value) -> Value:
        """Return whether a beat leaves its buffer: its last term is multiplied."""
        if self.terms == 1:
            return fire
        self.term, self.last_term = counted_terms(m, self.terms, fire)
        self.popped = Signal(name="popped")
        m.d.comb += self.popped.eq(fire & self.last_term)
        return self.popped

    def results(
        self, m: Module, fire: Value, starting: Value, drain: Value, rows: Stream
    ) -> AnyStream:
        """Round exact totals, after a register that may stall."""
        config = self.config
        product = config.block_product
        if not product.rounds_at_end:
            return rows
        drained = self.registered(m, rows)
        rounded = rounded_row(m, product, drained.payload.data, config.cols)
        payload = fields(data=rounded, last=drained.payload.last)
        return Stream(payload, drained.valid, drained.ready)
