# SPDX-License-Identifier: Apache-2.0
"""Beats of an operand: rows of A or columns of W, side by side in the lanes of a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.port import Beats, StreamPort
    from hwgen.formats.block.lanes import BlockLanes


@dataclass(frozen=True)
class OperandBeats:
    """Beats of rows of A, or of columns of W, here called lines.

    Parameters
    ----------
    format : Format
        Format of the operand, scalar or block.
    depth : int
        Scalars of a line in a beat.
    lanes : BlockLanes or None
        Layout of blocks, None of scalars.
    """

    port: StreamPort
    format: Any
    depth: int
    lanes: BlockLanes | None = None

    def pack(self, lines: NDArray[Any], vectors: int, tiles: int, steps: int) -> Beats:
        """Pack lines into beats of `vectors` lines each.

        Parameters
        ----------
        lines : ndarray, shape (lines, k)
            At most ``tiles * vectors``; others are zero.
        vectors, tiles : int
            Lines of a tile, and tiles.
        steps : int
            Beats of a reduction, filled up with zeros.

        Returns
        -------
        ndarray of uint8, shape (tiles, steps, bytes)
        """
        if self.lanes is None:
            # W comes as a transposed view: a copy in its order does not transpose in memory.
            order: Literal["C", "F"] = "F" if lines.flags.f_contiguous else "C"
            padded = np.zeros((tiles * vectors, steps * self.depth), lines.dtype, order)
            padded[: lines.shape[0], : lines.shape[1]] = lines
            beats = padded.reshape(tiles, vectors, steps, self.depth).swapaxes(1, 2)
            return self.port.pack(beats.reshape(tiles, steps, vectors * self.depth))
        bits = self.lanes.pack(self.format, lines)
        padded = np.zeros((tiles * vectors, *bits.shape[1:]), np.uint8)
        padded[: len(bits)] = bits
        beats = padded.reshape(tiles, vectors, steps, self.lanes.width).swapaxes(1, 2)
        return np.packbits(beats.reshape(tiles, steps, -1), axis=-1, bitorder="little")

    def unpack(self, beats: Beats, vectors: int, count: int, k: int) -> NDArray[Any]:
        """Return the first `count` lines, shape (count, k), from what `pack` made."""
        tiles, steps, _ = beats.shape
        if self.lanes is None:
            values = self.port.unpack(beats).reshape(tiles, steps, vectors, self.depth)
            columns = values.transpose(1, 3, 0, 2).reshape(steps * self.depth, tiles * vectors)
            return columns.T[:count, :k]
        width = self.lanes.width
        bits = np.unpackbits(beats, axis=-1, bitorder="little")[..., : vectors * width]
        bits = bits.reshape(tiles, steps, vectors, width).swapaxes(1, 2)
        lines = bits.reshape(tiles * vectors, steps, width)[:count]
        return np.asarray(self.lanes.unpack(self.format, lines, k))
