# SPDX-License-Identifier: Apache-2.0
"""Tile jobs of the families `cube`, `adder_tree` and `broadcast_2d`.

A tile of C is `rows` x `cols`; a beat of either input holds `depth` terms of its reduction.  What
of a tile is outside the matrices is zero, along K as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.schedule.checks import check_operand, weight_beats
from hwgen.core.schedule.operand_beats import OperandBeats
from hwgen.core.schedule.stream import StreamProduct
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig
    from hwgen.core.port import Beats, StreamPort


@dataclass(frozen=True)
class Schedule(StreamProduct):
    """The tile jobs of one product; see `StreamProduct` for its parameters."""

    config: SpatialConfig

    @property
    def exact_terms(self) -> int:
        """Terms added exactly before each (wrapping or saturating) accumulation."""
        return self.config.depth

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Tiles along M, beats of one reduction, tiles along N."""
        c = self.config
        beats = c.lanes[0].steps(self.k) if c.block_product else -(-self.k // c.depth)
        return -(-self.m // c.rows), beats, -(-self.n // c.cols)

    @property
    def weights_per_lane(self) -> int:
        """Weights in a lane of port ``wgt``."""
        return self.config.block_depth if self.config.block_product else 1

    @property
    def output_beats(self) -> int:
        """Result beats of the whole product."""
        return self.blocks[0] * self.blocks[2] * self.config.rows

    # -- packing ---------------------------------------------------------------------------

    def _operand(self, number: int) -> OperandBeats:
        """Return the beats of A, 0, or W, 1."""
        c = self.config
        lanes = c.lanes[number] if c.block_product else None
        return OperandBeats(c.core_ports[number], (c.activation, c.weight)[number], c.depth, lanes)

    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Pack A, shape (m, k), into the beats of port ``act``.

        Returns
        -------
        ndarray of uint8, shape (tiles along M, beats of a reduction, bytes)
        """
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        return self._operand(0).pack(a, self.config.rows, self.blocks[0], self.blocks[1])

    def pack_weights(self, w: NDArray[Any]) -> Beats:
        """Pack W, shape (k, n), into the beats of port ``wgt``.

        Returns
        -------
        ndarray of uint8, shape (tiles along N, beats of a reduction, bytes)
        """
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        return self._operand(1).pack(w.T, self.config.cols, self.blocks[2], self.blocks[1])

    def unpack_weights(self, image: Beats) -> NDArray[Any]:
        """Return W, shape (k, n), from what `pack_weights` made, in any shape.

        Raises
        ------
        InputError
            If the number of bytes is not what `pack_weights` makes.
        """
        _, ks, ys = self.blocks
        beats = weight_beats(image, self.config.core_ports[1], ys, ks)
        lines = self._operand(1).unpack(beats, self.config.cols, self.n, self.k)
        return np.ascontiguousarray(lines.T)

    def stream(self, port: StreamPort, blocks: Beats) -> Iterator[tuple[Beats, bool]]:
        """Yield the beats of an input port, from the blocks that its packer made."""
        act = port.name == "act"
        for x in range(self.blocks[0]):
            for y in range(self.blocks[2]):
                for _ in range(self.config.passes):
                    yield blocks[x if act else y], act

    def input_beats(self, port: StreamPort) -> int:
        """Beats that the product takes from an input port, the same of either."""
        xs, ks, ys = self.blocks
        return xs * ks * ys * self.config.passes

    def output_last(self) -> Iterator[bool]:
        """Yield the ``tlast`` of every result beat."""
        rows = self.config.rows
        for beat in range(self.output_beats):
            yield beat % rows == rows - 1

    def locate_element(self, m: int, n: int) -> tuple[int, tuple[int, int]]:
        """Return the result beat that holds C[m,n], and its tile along M and N."""
        rows = self.config.rows
        tile = (m // rows, n // self.config.cols)
        return (tile[0] * self.blocks[2] + tile[1]) * rows + m % rows, tile

    def output_columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first column of C of result beats, and how many follow each other with it."""
        for _ in range(self.blocks[0]):
            for y in range(self.blocks[2]):
                yield y * self.config.cols, self.config.rows

    def unpack_outputs(self, beats: Beats) -> NDArray[Any]:
        """Return C, shape (m, n), from the result beats, shape (output_beats, bytes)."""
        (xs, _, ys), rows, cols = self.blocks, self.config.rows, self.config.cols
        values = self.results(beats).reshape(xs, ys, rows, cols)
        c = values.swapaxes(1, 2).reshape(xs * rows, ys * cols)
        return np.ascontiguousarray(c[: self.m, : self.n])
