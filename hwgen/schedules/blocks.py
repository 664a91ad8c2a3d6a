# SPDX-License-Identifier: Apache-2.0
"""The choice of the blocks into which an engine cuts a product.

Looked at are block sizes along M and N that cut an axis into blocks as equal as tiles allow and
that the result buffer holds together, each with the longest block along K that fits the operand
buffers, for both orders of the outer loops.  Of the plans whose traffic is within 2 % of the least,
the one that is expected to take the fewest cycles is chosen; among equals that with the least
traffic, then one with the loop over N inside, then the one with the smallest block along M, and N.

The driver in C that ``hwgen build`` generates (``templates/driver.c``) does the same, function by
function, with the constants of `Limits`.  Hence all numbers are integers below 2**64: sums and
products saturate, which only sizes far beyond any memory reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig
    from hwgen.walks import Loops

HIGHEST = (1 << 64) - 1
"""Where sums and products saturate."""

TOLERANCE = 50
"""The faster plan is taken up to one part in so many above the least traffic."""

FINEST = 128
"""A block size is larger than the one before by at least one part in so many, which bounds their
number and costs less than a percent of traffic."""


@dataclass(frozen=True)
class Port:
    """How many beats a port of the cores takes for a block.

    Parameters
    ----------
    beats : int
        For each tile, of the axes that the port goes over.
    m, k, n : bool
        Whether it goes over the tiles of the axis; else the beats do not depend on them.
    """

    beats: int
    m: bool
    k: bool
    n: bool


@dataclass(frozen=True)
class Limits:
    """What the choice depends on, beside the product.

    Parameters
    ----------
    m_lanes : int
        Rows of a tile.
    most_m, most_n : int
        Tiles of a block.
    record_tiles : int
        Tiles along N of a block for whose columns there is room for records.
    act_depth, wgt_depth, out_depth : int
        Words of half a buffer; in that of results a word is a row of a tile.
    act_beats, wgt_beats : int
        Beats of a port in a word.
    weight_rows, weight_beats : int
        Rows and beats of W of a tile.
    memory_bytes : int
        Of a beat.
    ports : tuple of Port
    """

    m_lanes: int
    most_m: int
    most_n: int
    record_tiles: int
    act_depth: int
    wgt_depth: int
    out_depth: int
    act_beats: int
    wgt_beats: int
    weight_rows: int
    weight_beats: int
    memory_bytes: int
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Extent:
    """A product as the choice sees it.

    Parameters
    ----------
    m, k, n : int
        Tiles.
    a, w, c, p : int
        Bytes of A, of W or its image, of C, and of the records of all columns.
    """

    m: int
    k: int
    n: int
    a: int
    w: int
    c: int
    p: int


@dataclass(frozen=True)
class Blocks:
    """A way to cut a product.

    Parameters
    ----------
    m, k, n : int
        Tiles of a block.
    m_inner : bool
        Whether the loop over rows of blocks is inside that over columns of blocks.
    """

    m: int
    k: int
    n: int
    m_inner: bool


def limits_of(config: GemmStreamConfig) -> Limits:
    """Return the limits of an engine."""
    walk = config.walk

    def port(loops: Loops) -> Port:
        counts = {count for count, _ in loops}
        beats = walk.m_lanes if counts & {"rows", "tile_rows"} else 1
        beats *= walk.weight_rows if "weight_rows" in counts else 1
        beats *= walk.weight_beats if "weight_beats" in counts else 1
        return Port(
            beats,
            m=bool(counts & {"rows", "row_tiles"}),
            k=bool(counts & {"k_tiles", "weight_rows"}),
            n=bool(counts & {"column_tiles", "weight_beats"}),
        )

    return Limits(
        m_lanes=walk.m_lanes,
        most_m=min(config.act_depth, config.out_depth // walk.m_lanes, walk.max_rows),
        most_n=min(config.out_depth, walk.max_column_tiles),
        record_tiles=config.column_groups * config.post_lanes // config.n_lanes,
        act_depth=config.act_depth,
        wgt_depth=config.wgt_depth,
        out_depth=config.out_depth,
        act_beats=config.act_beats,
        wgt_beats=config.wgt_beats,
        weight_rows=walk.weight_rows,
        weight_beats=walk.weight_beats,
        memory_bytes=config.memory_bytes,
        ports=(port(walk.act), port(walk.wgt), port(walk.out)),
    )


def choose(limits: Limits, extent: Extent) -> Blocks:
    """Return the blocks of a product; its sizes are below 2**24."""
    found = [
        (*_expense(limits, extent, blocks), blocks)
        for m_inner in (False, True)
        for blocks in _candidates(limits, extent, m_inner)
    ]
    least = min(traffic for traffic, _, _ in found)
    near = (plan for plan in found if plan[0] - least <= least // TOLERANCE)
    return min(near, key=lambda plan: (plan[1], plan[0]))[2]


def _candidates(limits: Limits, extent: Extent, m_inner: bool) -> Iterator[Blocks]:
    most_n = min(limits.most_n, limits.record_tiles) if extent.p else limits.most_n
    m = 1
    while 0 < m <= limits.most_m:
        n = 1
        while 0 < n <= most_n and m * limits.m_lanes * n <= limits.out_depth:
            k = _longest(limits, m, n)
            if k == 0:
                break
            blocks = _ceil(extent.k, min(k, extent.k))
            yield Blocks(m, _ceil(extent.k, blocks), n, m_inner)
            n = _larger(extent.n, n)
        m = _larger(extent.m, m)


def _larger(tiles: int, block: int) -> int:
    """Return the next larger block that cuts an axis evenly, 0 if there is none."""
    blocks = _ceil(tiles, block + block // FINEST)
    return _ceil(tiles, blocks - 1) if blocks > 1 else 0


def _longest(limits: Limits, m: int, n: int) -> int:
    """Return the tiles along K that the operand buffers hold of blocks of so many along M and N."""
    words = _ceil(n * limits.weight_beats, limits.wgt_beats) * limits.weight_rows
    return min(limits.act_depth // m * limits.act_beats, limits.wgt_depth // words)


def _expense(limits: Limits, extent: Extent, blocks: Blocks) -> tuple[int, int]:
    """Return the bytes read, and the bytes that the memory could move until the product is done."""
    ms = _ceil(extent.m, blocks.m)
    ks = _ceil(extent.k, blocks.k)
    ns = _ceil(extent.n, blocks.n)
    a_times, w_times = reads(blocks.m_inner, ms, ks, ns)
    traffic = _plus(_times(extent.a, a_times), _times(extent.w, w_times))
    traffic = _plus(traffic, extent.p * ms)
    beats = 0
    for port in limits.ports:
        # Over the other axes a port takes the same beats again for every block.
        m, k, n = extent.m if port.m else ms, extent.k if port.k else ks, extent.n if port.n else ns
        beats = max(beats, _times(_times(port.beats * m, k), n))
    busy = max(_times(beats, limits.memory_bytes), traffic)
    # Blocks of A and W come before the first result, a block of C after the last one.
    ends = extent.a // (ms * ks) + extent.w // (ks * ns) + extent.c // (ms * ns)
    return traffic, _plus(busy, ends)


def reads(m_inner: bool, ms: int, ks: int, ns: int) -> tuple[int, int]:
    """Return how often all of A and all of W are read, with so many blocks along the axes."""
    if ks > 1:
        return ns, ms
    if m_inner:
        return (1 if ms == 1 else ns), 1
    return 1, (1 if ns == 1 else ms)


def _ceil(value: int, by: int) -> int:
    return -(-value // by)


def _times(a: int, b: int) -> int:
    return min(a * b, HIGHEST)


def _plus(a: int, b: int) -> int:
    return min(a + b, HIGHEST)
