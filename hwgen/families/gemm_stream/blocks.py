# SPDX-License-Identifier: Apache-2.0
"""The choice of the blocks into which an engine cuts a product.

Looked at are block sizes along M and N that cut an axis into blocks as equal as tiles allow and
that the result buffer holds together, each with the longest block along K that fits the operand
buffers or a half, quarter or eighth of it, for both orders of the outer loops.  Of the plans whose
traffic is within 2 % of the least, the one that is expected to take the fewest cycles is chosen;
among equals that with the least traffic, then the first that was looked at.

The driver in C that ``hwgen build`` generates (``templates/driver.c``) does the same, function by
function, with the constants of `Limits`.  Hence all numbers are integers below 2**64: sums and
products saturate, which only sizes far beyond any memory reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwgen.core.loop_nest import Loops
    from hwgen.families.gemm_stream.params import GemmStreamConfig

HIGHEST = (1 << 64) - 1
"""Where sums and products saturate."""

TOLERANCE = 50
"""The faster plan is taken up to one part in so many above the least traffic."""

FINEST = 128
"""A block size is larger than the one before by at least one part in so many, which bounds their
number and costs less than a percent of traffic."""

PARTS = 4
"""Lengths of blocks along K that are looked at, the longest and halves of it: with shorter blocks
less is left to do when the last one has come."""

STEP_CYCLES = 8
"""Cycles that are lost from one step to the next, about."""

OTHER_PORTS = 64
"""So many beats of any port count as a cycle, so that of equals the one with fewer is taken."""


WHOLE, TILE = 1, 2
"""What cores ask for that sum blocks in their own order: a whole reduction; only of several tiles,
as they go on with one when more of its beats come."""


@dataclass(frozen=True)
class Port:
    """Number of beats of a port of the cores for a block.

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
    """Parameters of the choice of blocks, beside the product.

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
    k_beats : int
        Beats of a row of A of a tile.
    weight_columns : int
        1 if W lies column by column, its rows being columns; else 0.
    whole_k : int
        `WHOLE` if a block has the whole reduction, `TILE` if one that is a tile along M and N may
        have a part of it; else 0.
    memory_bytes : int
        Of a beat, a power of two.
    a_tile, w_tile : int
        Bytes of a tile in a row of A, and of W.
    post_lanes : int
        Elements of C that leave in a cycle.
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
    k_beats: int
    weight_columns: int
    whole_k: int
    memory_bytes: int
    a_tile: int
    w_tile: int
    post_lanes: int
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Extent:
    """A product as the choice sees it.

    Parameters
    ----------
    m, k, n : int
        Tiles.
    rows, columns : int
        Of C.
    a_row, w_row : int
        Bytes of a row of A, and of W or its image; rows follow one another in memory.
    w_rows : int
    c, p : int
        Bytes of C, and of the records of all columns.
    """

    m: int
    k: int
    n: int
    rows: int
    columns: int
    a_row: int
    w_row: int
    w_rows: int
    c: int
    p: int

    @property
    def a(self) -> int:
        """Bytes of A."""
        return self.rows * self.a_row

    @property
    def w(self) -> int:
        """Bytes of W or its image."""
        return self.w_rows * self.w_row


@dataclass(frozen=True)
class Blocks:
    """A way to cut a product.

    Parameters
    ----------
    m, k, n : int
        Tiles of a block.
    m_inner : bool
        Whether the loop over rows of blocks is inside that over columns of blocks.
    a_whole, w_whole : bool
        Whether a block of A, of W, takes all of its buffer; else it takes half.
    """

    m: int
    k: int
    n: int
    m_inner: bool
    a_whole: bool = False
    w_whole: bool = False


def limits_of(config: GemmStreamConfig) -> Limits:
    """Return the limits of an engine."""
    nest = config.loop_nest

    def port(loops: Loops) -> Port:
        counts = {count for count, _ in loops}
        beats = nest.m_lanes if counts & {"rows", "tile_rows"} else 1
        beats *= nest.weight_rows if "weight_rows" in counts else 1
        beats *= nest.k_beats if "k_beats" in counts else 1
        beats *= nest.weight_beats if "weight_beats" in counts else 1
        return Port(
            beats,
            m=bool(counts & {"rows", "row_tiles"}),
            k=bool(counts & {"k_tiles", "k_beats", "weight_rows"}),
            n=bool(counts & {"column_tiles", "weight_beats"}),
        )

    return Limits(
        m_lanes=nest.m_lanes,
        most_m=min(config.out_depth // nest.m_lanes, nest.max_rows),
        most_n=min(config.out_depth, nest.max_column_tiles),
        record_tiles=config.column_groups * config.post_lanes // config.n_lanes,
        act_depth=config.act_depth,
        wgt_depth=config.wgt_depth,
        out_depth=config.out_depth,
        act_beats=config.act_beats,
        wgt_beats=config.wgt_beats,
        weight_rows=nest.weight_rows,
        weight_beats=nest.weight_beats,
        k_beats=nest.k_beats,
        weight_columns=int(nest.weight_columns),
        whole_k=TILE if config.goes_on else WHOLE if config.in_blocks else 0,
        memory_bytes=config.memory_bytes,
        a_tile=config.a_tile_bytes,
        w_tile=config.w_tile_bytes,
        post_lanes=config.post_lanes,
        ports=(port(nest.act), port(nest.wgt), port(nest.out)),
    )


def choose(limits: Limits, extent: Extent, *, least_traffic: bool = False) -> Blocks:
    """Return the blocks of a product; its sizes are below 2**24.

    Parameters
    ----------
    limits : Limits
    extent : Extent
    least_traffic : bool
        Whether blocks that take all of a buffer are looked at as well.
    """
    candidates = [
        (_traffic(extent, blocks), blocks) for blocks in _all(limits, extent, least_traffic)
    ]
    least = min(traffic for traffic, _ in candidates)
    near = (plan for plan in candidates if plan[0] - least <= least // TOLERANCE)
    return min(near, key=lambda plan: (_cost(limits, extent, plan[1]), plan[0]))[1]


def _all(limits: Limits, extent: Extent, least_traffic: bool) -> Iterator[Blocks]:
    most_n = min(limits.most_n, limits.record_tiles) if extent.p else limits.most_n
    for m_inner, whole in product((False, True), range(4 if least_traffic else 1)):
        a_whole, w_whole = bool(whole & 1), bool(whole & 2)
        m = 1
        while 0 < m <= limits.most_m:
            n = 1
            while 0 < n <= most_n and m * limits.m_lanes * n <= limits.out_depth:
                longest = min(_longest(limits, m, n, a_whole, w_whole), extent.k)
                whole = limits.whole_k == WHOLE or (limits.whole_k == TILE and m * n > 1)
                if longest < (extent.k if whole else 1):
                    break
                whole = bool(limits.whole_k) and longest == extent.k
                for part in range(1 if whole else PARTS):
                    k = _ceil(extent.k, _ceil(extent.k, max(1, longest >> part)))
                    yield Blocks(m, k, n, m_inner, a_whole, w_whole)
                n = _larger(extent.n, n)
            m = _larger(extent.m, m)


def _larger(tiles: int, block: int) -> int:
    """Return the next larger block that cuts an axis evenly, 0 if there is none."""
    blocks = _ceil(tiles, block + block // FINEST)
    return _ceil(tiles, blocks - 1) if blocks > 1 else 0


def _longest(limits: Limits, m: int, n: int, a_whole: bool, w_whole: bool) -> int:
    """Return the tiles along K that the operand buffers hold of blocks of so many along M and N."""
    of_a = (limits.act_depth << a_whole) // m * limits.act_beats // limits.k_beats
    wgt_depth = limits.wgt_depth << w_whole
    if limits.weight_columns:
        return min(of_a, wgt_depth // n * limits.wgt_beats // limits.weight_rows)
    words = _ceil(n * limits.weight_beats, limits.wgt_beats) * limits.weight_rows
    return min(of_a, wgt_depth // words)


def _traffic(extent: Extent, blocks: Blocks) -> int:
    """Return the bytes read."""
    ms, ks, ns = _counts(extent, blocks)
    a_times, w_times = reads(blocks.m_inner, ms, ks, ns)
    return _plus(_plus(_times(extent.a, a_times), _times(extent.w, w_times)), extent.p * ms)


def _cost(limits: Limits, extent: Extent, blocks: Blocks) -> int:
    """Return the bytes that the memory could move until the product is done, about.

    Loads, cores and stores overlap, the first block of the first and the last one of the others
    aside; so the longest of the three counts, and a block of the others.
    """
    ms, ks, ns = _counts(extent, blocks)
    a_times, w_times = reads(blocks.m_inner, ms, ks, ns)
    steps = _times(ms * ks, ns)
    a = _times(_times(extent.rows, ks), _on_bus(limits, blocks.k * limits.a_tile, extent.a_row))
    # Rows of W are cut along N, or, where they are its columns, along K.
    cuts, tiles = (ks, blocks.k) if limits.weight_columns else (ns, blocks.n)
    w = _times(_times(extent.w_rows, cuts), _on_bus(limits, tiles * limits.w_tile, extent.w_row))
    first = _plus(a // (ms * ks), w // (ks * ns))
    a, w = _times(a, a_times), _times(w, w_times)
    # A block that takes all of its buffer is loaded while the cores wait.
    alone = _plus(a if blocks.a_whole else 0, w if blocks.w_whole else 0)
    load = _plus(0 if blocks.a_whole else a, 0 if blocks.w_whole else w)
    load = _plus(load, extent.p * ms)
    busiest = everything = 0
    for port in limits.ports:
        # Over the other axes a port takes the same beats again for every block.
        m, k, n = extent.m if port.m else ms, extent.k if port.k else ks, extent.n if port.n else ns
        beats = _times(_times(port.beats * m, k), n)
        busiest, everything = max(busiest, beats), _plus(everything, beats)
    compute = _times(_plus(busiest, everything // OTHER_PORTS), limits.memory_bytes)
    # A row of a block leaves by groups of lanes, after a cycle in which it is announced.
    words = ns + _ceil(extent.columns, limits.post_lanes)
    store = max(_times(_times(extent.rows, words), limits.memory_bytes), extent.c)
    last, stored = compute // steps, store // (ms * ns)
    longest = max(load - min(load, first), compute - last, store - stored)
    ends = _plus(_plus(first, last), _plus(stored, alone))
    return _plus(_plus(longest, ends), _times(steps, STEP_CYCLES * limits.memory_bytes))


def _counts(extent: Extent, blocks: Blocks) -> tuple[int, int, int]:
    """Return the blocks along M, K and N."""
    return _ceil(extent.m, blocks.m), _ceil(extent.k, blocks.k), _ceil(extent.n, blocks.n)


def _on_bus(limits: Limits, size: int, stride: int) -> int:
    """Return the bytes that a row of a block takes on the bus, in beats that it fills or not.

    On average over the places in a beat where rows of that stride begin.  A beat more is counted
    for what a burst costs on the way to a memory, so that long rows are preferred.
    """
    bus = limits.memory_bytes
    aligned = min(stride & -stride, bus)
    return _ceil(size, aligned) * aligned + 2 * bus - aligned


def reads(m_inner: bool, ms: int, ks: int, ns: int) -> tuple[int, int]:
    """Return the number of times that all of A and all of W are read, by blocks along the axes."""
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
