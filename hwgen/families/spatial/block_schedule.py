# SPDX-License-Identifier: Apache-2.0
"""Tile jobs of the spatial families with operands in blocks.

As of integers, but reductions consist of whole blocks, and a lane of a beat is a row of A or a
column of W with its scale; `hwgen.formats.block.lanes` says where what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwgen.core.schedule.block_beats import packed_lanes, unpacked_lanes
from hwgen.core.schedule.checks import check_operand, weight_beats
from hwgen.families.spatial.schedule import Schedule

if TYPE_CHECKING:
    from hwgen.core.port import Beats


@dataclass(frozen=True)
class BlockSchedule(Schedule):
    """The tile jobs of one product; see `StreamProduct` for its parameters."""

    @property
    def weights_per_lane(self) -> int:
        """Weights in a lane of port ``wgt``."""
        return self.config.block_depth

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Tiles along M, beats of one reduction, tiles along N."""
        c = self.config
        return -(-self.m // c.rows), c.lanes[0].steps(self.k), -(-self.n // c.cols)

    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Pack A, shape (m, k), into the beats of port ``act``.

        Returns
        -------
        ndarray of uint8, shape (tiles along M, beats of a reduction, bytes)
        """
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        lanes, rows = self.config.lanes[0], self.config.rows
        return packed_lanes(lanes, self.config.activation, a, rows, self.blocks[0])

    def pack_weights(self, w: NDArray[Any]) -> Beats:
        """Pack W, shape (k, n), into the beats of port ``wgt``.

        Returns
        -------
        ndarray of uint8, shape (tiles along N, beats of a reduction, bytes)
        """
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        lanes, cols = self.config.lanes[1], self.config.cols
        return packed_lanes(lanes, self.config.weight, w.T, cols, self.blocks[2])

    def unpack_weights(self, image: Beats) -> NDArray[Any]:
        """Return W, shape (k, n), from what `pack_weights` made, in any shape.

        Raises
        ------
        InputError
            If the number of bytes is not what `pack_weights` makes.
        """
        (_, ks, ys), lanes, cols = self.blocks, self.config.lanes[1], self.config.cols
        beats = weight_beats(image, self.config.core_ports[1], ys, ks)
        lines = unpacked_lanes(lanes, self.config.weight, beats, cols, self.n, self.k)
        return np.ascontiguousarray(lines.T)
