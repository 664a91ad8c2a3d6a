# SPDX-License-Identifier: Apache-2.0
"""Tile jobs of a systolic array with operands in blocks.

As of integers, but reductions consist of whole blocks, and a lane of a beat is an element of a row
of A or a column of W with a part of its scale, or, of the operand that moves past another that
stays, a whole block of a row; `hwgen.formats.block.lanes` says where what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwgen.core.schedule.block_beats import packed_lanes, unpacked_lanes
from hwgen.core.schedule.checks import check_operand, weight_beats
from hwgen.families.systolic.schedule import Schedule

if TYPE_CHECKING:
    from hwgen.core.port import Beats


@dataclass(frozen=True)
class BlockSchedule(Schedule):
    """The tile jobs of one product; see `StreamProduct` for its parameters."""

    @property
    def slices(self) -> int:
        """Slices of the reduction: whole blocks."""
        return self.config.column_lanes.steps(self.k)

    @property
    def weights_per_lane(self) -> int:
        """Weights in a lane of port ``wgt``."""
        return self.config.lanes[1].depth

    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Pack A, shape (m, k), into the blocks of port ``act``.

        Returns
        -------
        ndarray of uint8, shape (blocks, blocks, beats, bytes)
            Every block once; `stream` repeats them in the order of the passes.
        """
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        fmt = self.config.activation
        return (
            self._pack_columns(fmt, a) if self.config.input_stationary else self._pack_rows(fmt, a)
        )

    def pack_weights(self, w: NDArray[Any]) -> Beats:
        """Pack W, shape (k, n), into the blocks of port ``wgt``; see `pack_activations`."""
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        fmt = self.config.weight
        return (
            self._pack_rows(fmt, w.T)
            if self.config.input_stationary
            else self._pack_columns(fmt, w.T)
        )

    def _pack_rows(self, fmt: Any, lines: NDArray[Any]) -> Beats:
        lanes, xs = self.config.row_lanes, self.blocks[0]
        if self.config.output_stationary:
            return packed_lanes(lanes, fmt, lines, self.config.array.rows, xs)[:, None]
        # One line a beat: its blocks belong to different passes.
        beats = packed_lanes(lanes, fmt, lines, 1, xs * self.x_block)
        return beats.reshape(xs, self.x_block, self.blocks[1], -1).swapaxes(1, 2)

    def _pack_columns(self, fmt: Any, lines: NDArray[Any]) -> Beats:
        _, ks, ys = self.blocks
        beats = packed_lanes(self.config.column_lanes, fmt, lines, self.config.array.cols, ys)
        return beats.reshape(ys, ks, self.k_block, -1).swapaxes(0, 1)

    def unpack_weights(self, image: Beats) -> NDArray[Any]:
        """Return W, shape (k, n), from what `pack_weights` made, in any shape.

        Raises
        ------
        InputError
            If the number of bytes is not what `pack_weights` makes.
        """
        config, (xs, ks, ys) = self.config, self.blocks
        if config.input_stationary:
            beats = weight_beats(image, config.row_port, xs, ks, self.x_block).swapaxes(1, 2)
            lanes, vectors = config.row_lanes, 1
            beats = beats.reshape(xs * self.x_block, ks, -1)
        else:
            beats = weight_beats(image, config.column_port, ks, ys, self.k_block).swapaxes(0, 1)
            lanes, vectors = config.column_lanes, config.array.cols
            beats = beats.reshape(ys, ks * self.k_block, -1)
        lines = unpacked_lanes(lanes, config.weight, beats, vectors, self.n, self.k)
        return np.ascontiguousarray(lines.T)
