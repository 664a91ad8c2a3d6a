# SPDX-License-Identifier: Apache-2.0
"""The buffers of an engine, as its hardware has them and its costs count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hwgen.core.params.memory_rows import OperandRows, fill, rows_of_formats, rows_of_lanes
from hwgen.core.params.module_limits import ENGINE_DATA_BITS

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


def broken_rules(config: GemmStreamConfig) -> list[str]:
    """Return the rules between fields that are broken, each ``dotted.field: text``."""
    core, nest = config.compute, config.compute.block_loop_nest
    if isinstance(nest, str):
        return [f"compute.{nest}"]
    broken = _broken_by_floats(config) + config.post.broken_rules(config.result)
    if core.saturates:
        broken.append(
            "compute.overflow: must be wrap in an engine, not saturate: blocks of a reduction"
            f" are added up in an order of the engine's own; use wrap, or accumulator exact"
            f" ({core.partial_sum(core.max_k)})"
        )
    for name, words in (
        ("column", config.column_groups * config.post_lanes // config.n_lanes),
        ("activation", config.act_depth // config.row_words(1)),
        ("weight", config.wgt_depth // config.weight_words(1, 1)),
        ("output", config.out_depth // nest.m_lanes),
    ):
        if not words:
            broken.append(
                f"buffers.{name}_kib: must hold two blocks of at least one tile; raise it"
            )
    return broken


def _broken_by_floats(config: GemmStreamConfig) -> list[str]:
    """Return the rules of cores with results in floating point that are broken."""
    if not config.result.is_float:
        return []
    operands = f"{config.activation} x {config.weight}"
    if config.array.cascade == 1:
        return []
    text = (
        f"array.cascade: must be 1 with {operands}, not {config.array.cascade}: sums of blocks are"
        " rounded, and the order of their additions is the core's"
    )
    return [text]


def too_wide(config: GemmStreamConfig) -> list[str]:
    """Return what makes a module wider than can be emitted."""
    activations = config.act_banks * config.act_rows.beat_bits
    weights = config.wgt_banks * config.wgt_rows.beat_bits
    results = config.n_lanes * config.result.width
    broken = [f"compute.{line}" for line in config.compute.too_wide()]
    for what, bits in (("operands", activations + weights), ("results", results)):
        if bits > ENGINE_DATA_BITS:
            field = "cascade" if what == "operands" and config.array.cascade > 1 else "blocks"
            broken.append(
                f"array.{field}: must be fewer, not {getattr(config.array, field)}: the cores of"
                f" an engine have at most {ENGINE_DATA_BITS:,} bits of operands, and of"
                f" results, in a cycle together, and these have {bits:,} of {what}; or make the"
                " cores smaller"
            )
    return broken
