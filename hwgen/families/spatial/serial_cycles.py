# SPDX-License-Identifier: Apache-2.0
"""Cycles of the spatial families with serial PEs: counted for given activations, or expected.

They follow from the sequencer of the core (`rtl_templates.spatial.serial`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.digits import Encoding, digit_count, normal, statistics, uniform
from hwgen.arithmetic.sparse_digits import (
    GROUP_TERMS,
    between_passes,
    group_cycles,
    pass_ends,
    window_cycles,
)
from hwgen.core.cycles.counting import Number, as_integer, ceil_div
from hwgen.core.params.spatial_timing import serial_lead
from hwgen.families.spatial.schedule import Schedule
from hwgen.formats import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.spatial import SpatialConfig

SAMPLE = 128
"""Beats of a pass that the expectation of cycles is sampled over; each further one takes what one
of the second half does."""

STEPS = (1, *sorted(base << shift for base in (2, 3) for shift in range(9)), 1024)
"""Lanes that share a queue for which it is sampled: up to 64 rows of 16 lanes."""

Size = tuple[int, int, int]
"""M, K and N of one product."""

Shape = tuple[Number, Number, Number]
"""Rows, depth and columns of arrays."""


def counted_cycles(
    config: SpatialConfig, operands: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> int:
    """Return the cycles of products of given matrices that follow each other."""
    tiles = digits = 0
    for a, w in operands:
        plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1])
        tiles += plan.blocks[0] * plan.blocks[2]
        digits += plan.blocks[2] * int(tile_cycles(config, a).sum())
    return as_integer(_tile_total(config.rows, config.pipeline.pe, config.latency, tiles, digits))


def most_cycles(config: SpatialConfig, plans: Iterable[Schedule]) -> int:
    """Return the cycles of products of values that have no digit of zero."""
    tiles = digits = 0
    for plan in plans:
        count = plan.blocks[0] * plan.blocks[2]
        groups = np.full((config.passes, plan.blocks[1], 1), GROUP_TERMS)
        tiles += count
        digits += count * int(window_cycles(groups, config.array.queue))
    return as_integer(_tile_total(config.rows, config.pipeline.pe, config.latency, tiles, digits))


def tile_cycles(config: SpatialConfig, a: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the cycles of serial PEs from the first digit of a tile to the last.

    Parameters
    ----------
    config : SpatialConfig
    a : ndarray of int, shape (m, k)

    Returns
    -------
    ndarray of int64, shape (tiles along M,)
    """
    plan = Schedule(config, a.shape[0], a.shape[1], 1)
    xs, ks, _ = plan.blocks
    padded = np.zeros((xs * config.rows, ks * config.depth), a.dtype)
    padded[: a.shape[0], : a.shape[1]] = a
    groups = group_cycles(config.array.encoding, padded, config.activation)
    # Tile, row, weight, beat, lane: the most significant weight first, all lanes together.
    groups = groups.reshape(xs, config.rows, config.passes, ks, -1)[:, :, ::-1]
    groups = groups.transpose(2, 3, 0, 1, 4).reshape(config.passes, ks, xs, -1)
    return window_cycles(groups, config.array.queue)


# -- expectations ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """Parameters of the time that random activations take, but for sizes.

    Parameters
    ----------
    encoding : {"booth4", "ent"}
    fmt : IntegerFormat
        Of the activations.
    sigma : float or None
        Of a normal distribution, rounded and clipped to the format; None: all values alike.
    queue : int
        Groups that are there at a time.
    """

    encoding: Encoding
    fmt: IntegerFormat
    sigma: float | None
    queue: int

    @property
    def at_most(self) -> NDArray[np.float64]:
        """Probability that a group takes at most 1, 2, ... cycles, shape (passes, GROUP_TERMS)."""
        chances = uniform(self.fmt) if self.sigma is None else normal(self.fmt, self.sigma)
        used = np.array(statistics(self.encoding, self.fmt, chances).nonzero)[:, None]
        n = np.arange(GROUP_TERMS + 1)
        ways = np.array([comb(GROUP_TERMS, each) for each in n])
        exactly = ways * used**n * (1 - used) ** (GROUP_TERMS - n)
        return np.asarray(exactly.cumsum(axis=1)[:, 1:])

    def tile(self, beats: Number, lanes: Number) -> Number:
        """Return the expected cycles of a tile, from its first digit to its last.

        Parameters
        ----------
        beats : number
            Of a pass.
        lanes : number
            Rows times lanes of a PE: what goes through the queue together.
        """
        sampled = np.clip(beats, 1, SAMPLE).astype(np.int64)
        between = between_passes(self.queue) * (digit_count(self.fmt) - 1)
        return (
            self._interpolated(lanes, lambda curves, at: curves[at, sampled - 1])
            + (beats - sampled) * self.beat(lanes)
            + between
        )

    def beat(self, lanes: Number) -> Number:
        """Return the expected cycles of one more beat of long passes, of all passes together."""
        half = SAMPLE // 2
        return self._interpolated(
            lanes, lambda curves, at: (curves[at, -1] - curves[at, half - 1]) / half
        )

    def _interpolated(
        self, lanes: Number, of: Callable[[NDArray[np.float64], Any], Number]
    ) -> Number:
        """Return a figure of `_curve`, linear in the logarithm of the lanes between `STEPS`."""
        places = np.interp(np.log2(np.maximum(lanes, 1)), np.log2(STEPS), np.arange(len(STEPS)))
        low, high = np.floor(places), np.ceil(places)
        needed = np.unique(np.stack([low, high]))
        curves = np.stack([_curve(self, STEPS[int(place)]) for place in needed])
        below, above = (of(curves, np.searchsorted(needed, place)) for place in (low, high))
        return below + (above - below) * (places - low)


@lru_cache(maxsize=4096)
def _curve(law: Law, lanes: int) -> NDArray[np.float64]:
    """Return the expected cycles of passes of 1, 2, ... `SAMPLE` beats, all passes together."""
    at_most = law.at_most
    if law.queue == 1:
        # All wait for the slowest, and a cycle until the slot is filled.
        slowest = GROUP_TERMS - (at_most[:, :-1] ** lanes).sum(axis=1)
        beats = np.arange(1, SAMPLE + 1)
        return np.asarray(beats * slowest.sum() + (beats - 1) * len(slowest))
    tiles = min(64, max(4, 1024 // lanes))
    chance = np.random.default_rng(0).random((SAMPLE, len(at_most), tiles, lanes), np.float32)
    cycles = np.ones(chance.shape, np.int8)
    for bound in at_most[:, :-1].T:
        cycles += chance > bound[:, None, None]
    return np.asarray(pass_ends(cycles, law.queue).mean(axis=-1).sum(axis=-1))


def expected_cycles(config: SpatialConfig, sizes: Iterable[Size], sigma: float | None) -> int:
    """Return the expectation of `counted_cycles`; see `gemm_cycles`."""
    law = Law(config.array.encoding, config.activation, sigma, config.array.queue)
    shape = config.rows, config.depth, config.cols
    return as_integer(count_expected(law, shape, config.pipeline.pe, config.latency, sizes))


def count_expected(
    law: Law,
    shape: Shape,
    stages: Number,
    latency: Number,
    sizes: Iterable[Size],
) -> Number:
    """Return the expected cycles of products, of one array or of many at once."""
    rows, depth, cols = shape
    tiles: Number = 0
    digits: Number = 0.0
    for (m, k, n), repeats in Counter(sizes).items():
        count = repeats * ceil_div(m, rows) * ceil_div(n, cols)
        tiles = tiles + count
        digits = digits + count * law.tile(ceil_div(k, depth), rows * depth / GROUP_TERMS)
    return _tile_total(rows, stages, latency, tiles, np.rint(digits))


def expected_macs(config: SpatialConfig) -> float:
    """Return the expected multiply-accumulates of a cycle."""
    law = Law(
        config.array.encoding, config.activation, config.target.activation_sigma, config.array.queue
    )
    lanes = config.rows * config.depth
    result: float = lanes * config.cols / law.beat(lanes / GROUP_TERMS)
    return result


def _tile_total(
    rows: Number, stages: Number, latency: Number, tiles: Number, digits: Number
) -> Number:
    """Return the cycles of tiles that take so many for their digits."""
    # Behind its last digit a tile takes that of its sums and all its rows, until the first digit
    # of the next one is there.
    return digits + (tiles - 1) * (serial_lead(stages) + rows + 1) + rows + latency
