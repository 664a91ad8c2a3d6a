# SPDX-License-Identifier: Apache-2.0
"""The buffers of an engine, as its hardware has them and its costs count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hwgen.core.params.memory_rows import OperandRows, fill, rows_of_formats, rows_of_lanes

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


@dataclass(frozen=True)
class BufferShape:
    """A buffer: memories of one shape that are accessed together.

    Parameters
    ----------
    name : str
        What it holds.
    module : str
        The module that its memories are in.
    memories : int
    words, width : int
        Of one memory: both halves, but of results, which have a memory for each; bits of a word.
    """

    name: str
    module: str
    memories: int
    words: int
    width: int


def rows_of(config: GemmStreamConfig, operand: Literal["a", "w"]) -> OperandRows:
    """Return how rows of an operand lie in memory and in the words of their buffer."""
    if config.in_blocks:
        return _rows_of_blocks(config, "aw".index(operand))
    if operand == "a":
        size, beat, width = (
            config.activation.lane_width // 8,
            config.k_lanes,
            config.activation.width,
        )
    else:
        size, beat, width = config.weight_bytes, config.weight_beat, config.weight_width
    beats = fill(config.memory_bytes, beat * size)
    return OperandRows(size, width, 1, beats * beat, beats, beat * width)


def _rows_of_blocks(config: GemmStreamConfig, side: int) -> OperandRows:
    """Return the rows of A (0) or of columns of W (1), of cores that multiply blocks."""
    cores = config.compute.formats
    each = [((core.activation, core.weight)[side], core.lanes[side]) for core in cores]
    if len(cores) == 1:
        return rows_of_lanes(*each[0], config.memory_bytes)
    return rows_of_formats(each, config.memory_bytes)[config.format_number]
