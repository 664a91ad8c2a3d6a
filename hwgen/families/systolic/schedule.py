# SPDX-License-Identifier: Apache-2.0
"""Tile jobs of a systolic array.

Every dataflow computes ``Z[X,Y] = X[X,K] . Y[K,Y]`` where operand X moves along the rows of PEs
and operand Y enters from the top.  X is A and Y is W, except in an input-stationary array, which
computes the transposed product: X is W transposed, Y is A transposed.

A *pass* is what the array does between two ``tlast`` of the row operand:

- output-stationary: all K slices of one tile of Z, one slice a beat on both ports;
- otherwise: one tile of Y (K slices ``k0 .. k0 + rows``) stays in the PEs while rows of X stream
  by, one a beat; the passes over K of one tile accumulate.
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
    from hwgen.core.port import Beats, StreamPort
    from hwgen.families.systolic.params import SystolicConfig

    Chunk = tuple[Beats, bool]
    """Consecutive beats of a port and whether ``tlast`` is set on the final one."""


@dataclass(frozen=True)
class Pass:
    """One pass: `beats` beats of operand X against tile (`k`, `y`) of operand Y.

    Parameters
    ----------
    x, k, y : int
        Block indices along the three axes.
    beats : int
        Beats of the row operand.
    outputs : int
        Beats of results, zero unless the pass ends the reduction.
    """

    x: int
    k: int
    y: int
    beats: int
    outputs: int


@dataclass(frozen=True)
class Schedule(StreamProduct):
    """The tile jobs of one product; see `StreamProduct` for its parameters."""

    config: SystolicConfig

    # -- tiling ----------------------------------------------------------------------------

    @property
    def _xy(self) -> tuple[int, int]:
        return (self.n, self.m) if self.config.input_stationary else (self.m, self.n)

    @property
    def x_block(self) -> int:
        """Rows of X in one pass."""
        array = self.config.array
        if self.config.output_stationary:
            return array.rows
        # One tile covers the whole reduction: nothing accumulates, so no memory bounds the pass.
        return self._xy[0] if self.k <= array.rows else min(self._xy[0], array.accumulator_depth)

    @property
    def slices(self) -> int:
        """Slices of the reduction, of blocks whole ones; one a beat outside of the array."""
        config = self.config
        return config.column_lanes.steps(self.k) if config.block_product else self.k

    @property
    def weights_per_lane(self) -> int:
        """Weights in a lane of port ``wgt``."""
        return self.config.lanes[1].depth if self.config.block_product else 1

    @property
    def k_block(self) -> int:
        """Terms of the reduction in one pass."""
        return self.slices if self.config.output_stationary else self.config.array.rows

    @property
    def exact_terms(self) -> int:
        """Terms added exactly before each (wrapping or saturating) accumulation."""
        return 1 if self.config.output_stationary else self.config.array.rows

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Blocks along X, K and Y."""
        x, y = self._xy
        return (
            -(-x // self.x_block),
            -(-self.slices // self.k_block),
            -(-y // self.config.array.cols),
        )

    def passes(self) -> Iterator[Pass]:
        """Yield the passes in the order in which the core runs them."""
        xs, ks, ys = self.blocks
        if self.config.output_stationary:
            for x in range(xs):
                for y in range(ys):
                    yield Pass(x, 0, y, self.slices, self.config.array.rows)
            return
        for y in range(ys):
            for x in range(xs):
                beats = min(self.x_block, self._xy[0] - x * self.x_block)
                for k in range(ks):
                    yield Pass(x, k, y, beats, beats if k == ks - 1 else 0)

    @property
    def output_beats(self) -> int:
        """Result beats of the whole product."""
        xs, _, ys = self.blocks
        return ys * (xs * self.config.array.rows if self.config.output_stationary else self._xy[0])

    # -- packing ---------------------------------------------------------------------------

    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Pack A, shape (m, k), into the blocks of port ``act``.

        Returns
        -------
        ndarray of uint8, shape (blocks, blocks, beats, bytes)
            Every block once; `stream` repeats them in the order of the passes.
        """
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        return self._pack_columns(a) if self.config.input_stationary else self._pack_rows(a)

    def pack_weights(self, w: NDArray[Any]) -> Beats:
        """Pack W, shape (k, n), into the blocks of port ``wgt``; see `pack_activations`."""
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        return self._pack_rows(w.T) if self.config.input_stationary else self._pack_columns(w.T)

    @property
    def _rows(self) -> OperandBeats:
        """Beats of the operand that moves along the rows, of a stationary array a line each."""
        c = self.config
        fmt = c.weight if c.input_stationary else c.activation
        return OperandBeats(
            c.row_port, fmt, c.block_depth, c.row_lanes if c.block_product else None
        )

    @property
    def _columns(self) -> OperandBeats:
        """Beats of the operand that enters from the top, slice by slice."""
        c = self.config
        fmt = c.activation if c.input_stationary else c.weight
        return OperandBeats(c.column_port, fmt, 1, c.column_lanes if c.block_product else None)

    def _pack_rows(self, lines: NDArray[Any]) -> Beats:
        xs, ks, _ = self.blocks
        if self.config.output_stationary:
            return self._rows.pack(lines, self.config.array.rows, xs, self.slices)[:, None]
        # One line a beat: its blocks belong to different passes.
        beats = self._rows.pack(lines, 1, xs * self.x_block, ks)
        return beats.reshape(xs, self.x_block, ks, -1).swapaxes(1, 2)

    def _pack_columns(self, lines: NDArray[Any]) -> Beats:
        _, ks, ys = self.blocks
        beats = self._columns.pack(lines, self.config.array.cols, ys, ks * self.k_block)
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
            operand, vectors = self._rows, 1
            beats = beats.reshape(xs * self.x_block, ks, -1)
        else:
            beats = weight_beats(image, config.column_port, ks, ys, self.k_block).swapaxes(0, 1)
            operand, vectors = self._columns, config.array.cols
            beats = beats.reshape(ys, ks * self.k_block, -1)
        return np.ascontiguousarray(operand.unpack(beats, vectors, self.n, self.k).T)

    def stream(self, port: StreamPort, blocks: Beats) -> Iterator[Chunk]:
        """Yield the beats of an input port, from the blocks that its packer made."""
        ends = self.blocks[1] - 1
        for p in self.passes():
            if port == self.config.row_port:
                yield blocks[p.x, p.k, : p.beats], True
            else:
                yield blocks[p.k, p.y], bool(port.last) and p.k == ends

    def input_beats(self, port: StreamPort) -> int:
        """Beats that the product takes from an input port."""
        xs, ks, ys = self.blocks
        if port == self.config.column_port:
            return xs * ks * ys * self.k_block
        return ys * ks * (xs * self.slices if self.config.output_stationary else self._xy[0])

    def output_columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first column of C of result beats, and how many follow each other with it."""
        for p in self.passes():
            if not self.config.input_stationary:
                yield p.y * self.config.array.cols, p.outputs
                continue
            for i in range(p.outputs):
                yield p.x * self.x_block + i, 1

    def output_last(self) -> Iterator[bool]:
        """Yield the ``tlast`` of every result beat."""
        for p in self.passes():
            for i in range(p.outputs):
                yield i == p.outputs - 1

    def locate_element(self, m: int, n: int) -> tuple[int, tuple[int, int]]:
        """Return the result beat that holds C[m,n], and its tile along M and N."""
        x, y = (n, m) if self.config.input_stationary else (m, n)
        tile = (x // self.x_block, y // self.config.array.cols)
        if self.config.output_stationary:
            rows = self.config.array.rows
            beat = (tile[0] * self.blocks[2] + tile[1]) * rows + x % rows
        else:
            beat = tile[1] * self._xy[0] + x
        return beat, (tile[::-1] if self.config.input_stationary else tile)

    def unpack_outputs(self, beats: Beats) -> NDArray[Any]:
        """Return C, shape (m, n), from the result beats, shape (output_beats, bytes)."""
        values = self.results(beats)
        (xs, _, ys), (x, y), cols = self.blocks, self._xy, self.config.array.cols
        if self.config.output_stationary:
            rows = self.config.array.rows
            z = values.reshape(xs, ys, rows, cols).swapaxes(1, 2).reshape(xs * rows, ys * cols)
        else:
            z = values.reshape(ys, x, cols).swapaxes(0, 1).reshape(x, ys * cols)
        z = z[:x, :y]
        return np.ascontiguousarray(z.T if self.config.input_stationary else z)
