# SPDX-License-Identifier: Apache-2.0
"""Input of an engine: the steps of a plan, and the regions of its matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from hwgen.core.post.records import RECORD_BYTES

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.schedule import Block, Plan


@dataclass(frozen=True)
class Region:
    """A matrix in memory: bytes to its first row, and from one row to the next."""

    address: int
    stride: int


@dataclass(frozen=True)
class Regions:
    """Regions of A, W or its image, C and the records of columns."""

    a: Region
    w: Region
    c: Region
    p: Region

    @classmethod
    def aligned(cls, plan: Plan) -> Self:
        """Return regions that begin where no burst crosses, their rows one behind the other."""
        a, w, c = plan.activation_row_bytes, plan.weight_row_bytes, plan.n * plan.result_bytes
        return cls(Region(0, a), Region(0, w), Region(0, c), Region(0, 0))

    @classmethod
    def of(cls, regions: Mapping[str, tuple[int, int, int, int]]) -> Self:
        """Return those of a job, from its `hwgen.families.gemm_stream.schedule.Job.regions`."""
        a, w, c = (Region(regions[name][3], regions[name][2]) for name in "AWC")
        return cls(a, w, c, Region(regions["P"][3] if "P" in regions else 0, 0))


@dataclass(frozen=True)
class Load:
    """The rows of a block that is read.

    Parameters
    ----------
    what : {"a", "w", "p"}
        The operand; records of columns.
    rows : int
    address, stride, size : int
        Bytes: to the first row, from one to the next, of each.
    """

    what: str
    rows: int
    address: int
    stride: int
    size: int


@dataclass(frozen=True)
class Step:
    """A step of a plan.

    Parameters
    ----------
    block : Block
    beats, inner : tuple of int
        Beats of the ports act, wgt and out; of those, how many the innermost loop has.
    a, w, c : int
        Number of the block of A, of W, of C that it works on, in the order in which they are read
        and written.
    frees_a, frees_w : bool
        Whether it is the last that needs the block of A, of W.
    ends : bool
        Whether ends of innermost loops are marked: not those of a part of a reduction, where cores
        go on.
    begins : bool
        Whether it takes a place for results.
    """

    block: Block
    beats: tuple[int, int, int]
    inner: tuple[int, int, int]
    a: int
    w: int
    c: int
    frees_a: bool
    frees_w: bool
    ends: bool
    begins: bool


def steps_of(plan: Plan, jobs: int = 1) -> list[Step]:
    """Return the steps of a plan, of some jobs of it one after the other."""
    nest = plan.config.loop_nest
    ports = (nest.act, nest.wgt, nest.out)
    blocks = jobs * list(plan.steps())
    known: dict[tuple[int, ...], tuple[tuple[int, int, int], tuple[int, int, int]]] = {}
    steps = []
    a = w = c = -1
    for number, block in enumerate(blocks):
        shape = (block.m, block.m_tiles, block.k_tiles, block.n_tiles)
        if shape not in known:
            act, wgt, out = (
                (plan.beats(loops, block), plan.beats(loops[-1:], block)) for loops in ports
            )
            known[shape] = (act[0], wgt[0], out[0]), (act[1], wgt[1], out[1])
        a, w, c = a + block.loads_a, w + block.loads_w, c + block.first
        goes_on = plan.config.in_blocks and not block.last
        beats, inner = known[shape]
        if goes_on:  # there are no results yet
            beats = (*beats[:2], 0)
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        steps.append(
            Step(
                block, beats, inner, a, w, c,
                following is None or following.loads_a, following is None or following.loads_w,
                not goes_on, block.last if plan.config.in_blocks else block.first,
            )
        )  # fmt: skip
    return steps


def loads_of(plan: Plan, regions: Regions, block: Block) -> Iterator[Load]:
    """Give what a step loads, in the order of the loader."""
    config = plan.config
    if block.loads_a:
        region, size = regions.a, config.activation_bytes
        row, left = block.k * size, block.term * size
        if config.in_blocks:
            row = block.k_tiles * config.a_tile_bytes
            left = block.term // config.k_lanes * config.a_tile_bytes
        start = region.address + block.row * region.stride + left
        yield Load("a", block.m, start, region.stride, row)
    if block.loads_w:
        region, size = regions.w, config.weight_bytes
        rows, first, columns, left = block.k, block.term, block.n, block.column
        if config.loop_nest.weight_columns:
            rows, first, columns = block.n, block.column, block.k_tiles
            left = block.term // config.k_lanes
            size = config.w_tile_bytes
        elif config.loop_nest.image:
            rows, first = block.k_tiles, block.term // config.k_lanes
            columns, left = block.n_tiles, block.column // config.n_lanes
            size *= config.weight_beat * config.loop_nest.weight_beats
        start = region.address + first * region.stride + left * size
        yield Load("w", rows, start, region.stride, columns * size)
    if block.first and plan.record_bytes:
        start = regions.p.address + block.column * RECORD_BYTES
        yield Load("p", 1, start, 0, block.n * RECORD_BYTES)


def stored_at(plan: Plan, regions: Regions, block: Block) -> int:
    """Return the address of the first element of a block of C."""
    return regions.c.address + block.row * regions.c.stride + block.column * plan.result_bytes
