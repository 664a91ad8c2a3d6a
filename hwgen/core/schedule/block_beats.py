# SPDX-License-Identifier: Apache-2.0
"""Beats whose lanes are rows of A or columns of W in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.port import Beats
    from hwgen.formats.block.lanes import BlockLanes


def packed_lanes(
    lanes: BlockLanes, fmt: Any, lines: NDArray[Any], vectors: int, tiles: int
) -> Beats:
    """Pack lines into beats of `vectors` lanes each.

    Parameters
    ----------
    lines : ndarray, shape (lines, k)
        At most ``tiles * vectors``; others are zero.
    vectors, tiles : int
        Lines of a tile, and tiles.

    Returns
    -------
    ndarray of uint8, shape (tiles, beats of a reduction, bytes)
    """
    bits = lanes.pack(fmt, lines)
    padded = np.zeros((tiles * vectors, *bits.shape[1:]), np.uint8)
    padded[: len(bits)] = bits
    beats = padded.reshape(tiles, vectors, bits.shape[1], lanes.width).swapaxes(1, 2)
    return np.packbits(beats.reshape(tiles, bits.shape[1], -1), axis=-1, bitorder="little")


def unpacked_lanes(
    lanes: BlockLanes, fmt: Any, beats: Beats, vectors: int, count: int, k: int
) -> NDArray[Any]:
    """Return the first `count` lines, shape (count, k), from what `packed_lanes` made."""
    tiles, steps, _ = beats.shape
    bits = np.unpackbits(beats, axis=-1, bitorder="little")[..., : vectors * lanes.width]
    bits = bits.reshape(tiles, steps, vectors, lanes.width).swapaxes(1, 2)
    lines = bits.reshape(tiles * vectors, steps, lanes.width)[:count]
    return np.asarray(lanes.unpack(fmt, lines, k))
