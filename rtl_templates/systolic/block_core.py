# SPDX-License-Identifier: Apache-2.0
"""Output-stationary arrays for operands in blocks, and their core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import In, Member

from rtl_templates.arithmetic.block.accumulators import rounded_row
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.block_beats import counted_beats

from .array import OutputStationaryArray
from .block_pe import BlockEdge, BlockOutputStationaryPE
from .core import OutputStationaryCore
from .edges import row_skew

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig


class BlockOutputStationaryArray(OutputStationaryArray):
    """Array of `BlockOutputStationaryPE`; see `OutputStationaryArray`.

    Members
    -------
    on, first, ends : In(1)
        There is a beat; it is the first of a block, its last.
    clear : In(1)
        The block is the first of a tile.
    """

    def tokens(self, config: SystolicConfig) -> dict[str, Member]:
        """See `OutputStationaryArray`."""
        return {name: In(1) for name in ("on", "first", "ends")}

    def pe(self) -> BlockOutputStationaryPE:
        """Return the processing element."""
        return BlockOutputStationaryPE(self.config)

    def columns(self, m: Module) -> Value:
        """Return the operands that enter the columns, decoded."""
        config = self.config
        edge = BlockEdge(config, config.column_lanes, "y", registered=False)
        tokens = {name: getattr(self, name) for name in edge.members if name not in ("i", "o")}
        decoded = Signal(config.array.cols * edge.width("o"), name="y_decoded")
        for col in range(config.array.cols):
            lane = self.y.word_select(col, config.column_lanes.width)
            out = decoded.word_select(col, edge.width("o"))
            place(m, f"column_{col}", edge, i=lane, o=out, **tokens)
        return decoded

    def edges(self, m: Module) -> dict[str, Value]:
        """Return the operands that enter the rows, decoded, and the flags beside them."""
        config, rows = self.config, self.config.array.rows
        lanes = row_skew(m, config.geometry, self.x, 0, self.run)
        waves = {name: self.wave(m, name) for name in ("on", "first", "ends", "clear", "drain")}
        edge = BlockEdge(config, config.row_lanes, "x", registered=True)
        decoded = Signal(rows * edge.width("o"), name="x_decoded")
        for row in range(rows):
            tokens = {
                name: self.run if name == "run" else waves[name][row]
                for name in edge.members
                if name not in ("i", "o")
            }
            lane = lanes[row * config.row_lanes.width : (row + 1) * config.row_lanes.width]
            out = decoded.word_select(row, edge.width("o"))
            place(m, f"row_{row}", edge, i=lane, o=out, **tokens)
        waves["valid"] = waves["on"] & waves["ends"]
        flags = (*self.pe().tokens, "drain")
        return {"x": decoded, **{name: self.masked(m, name, waves[name]) for name in flags}}


class BlockOutputStationaryCore(OutputStationaryCore):
    """Tile jobs of any K, in whole blocks; see `OutputStationaryCore`."""

    def array(self, m: Module, fire: Value, starting: Value, drain: Value, **ports: Value) -> None:
        """Place the array, and count the beats of a block for it."""
        beats = self.config.lanes[0].beats
        first, ends, clear = counted_beats(m, beats, fire, starting)
        place(
            m, "array", BlockOutputStationaryArray(self.config), on=fire, first=first, ends=ends,
            clear=clear, drain=drain, **ports,
        )  # fmt: skip

    def final_add(self, m: Module, totals: Value, sign_constant: Value) -> Value:
        """Round exact totals."""
        if not self.config.rounds_at_end:
            return totals
        return rounded_row(m, self.config.block_product, totals, self.config.array.cols)
