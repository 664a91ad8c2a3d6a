# SPDX-License-Identifier: Apache-2.0
"""Cycles of the spatial families with serial PEs: counted for given activations, or expected.

They follow from the sequencer of the core (`rtl_templates.spatial.serial`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.numerics.digits import encode, normal, uniform, values_of
from hwgen.numerics.sparse_digits import GROUP, group_cycles, window_cycles
from hwgen.schedules.spatial import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.config.spatial import SpatialConfig

SAMPLE = 128
"""Beats of a pass that the expectation of cycles is taken over at most."""


def counted(config: SpatialConfig, operands: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> int:
    """Return the cycles of products of given matrices that follow each other."""
    tiles = digits = 0
    for a, w in operands:
        plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1])
        tiles += plan.blocks[0] * plan.blocks[2]
        digits += plan.blocks[2] * int(tile_cycles(config, a).sum())
    return _cycles(config, tiles, digits)


def expected(config: SpatialConfig, plans: Iterable[Schedule], sigma: float | None) -> int:
    """Return the expectation of `counted`; see `cost_model.families.spatial.cycles_of`."""
    tiles, digits = 0, 0.0
    for plan in plans:
        count = plan.blocks[0] * plan.blocks[2]
        tiles += count
        digits += count * expected_tile(config, plan.blocks[1], sigma)
    return _cycles(config, tiles, round(digits))


def most(config: SpatialConfig, plans: Iterable[Schedule]) -> int:
    """Return the cycles of products of values that have no digit of zero."""
    tiles = digits = 0
    for plan in plans:
        count = plan.blocks[0] * plan.blocks[2]
        groups = np.full((config.passes, plan.blocks[1], 1), GROUP)
        tiles += count
        digits += count * int(window_cycles(groups, config.array.queue))
    return _cycles(config, tiles, digits)


def _cycles(config: SpatialConfig, tiles: int, digits: int) -> int:
    """Return the cycles of tiles that take so many for their digits."""
    # Behind its last digit a tile takes that of its sums and all its rows, until the first digit
    # of the next one is there.
    between = config.pipeline.pe + config.rows + 3
    return digits + (tiles - 1) * between + config.rows + config.latency


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


@lru_cache(maxsize=1024)
def expected_tile(config: SpatialConfig, beats: int, sigma: float | None) -> float:
    """Return the expected cycles of serial PEs from the first digit of a tile to the last.

    The mean over a sample of tiles.  Of more than `SAMPLE` beats, each further one takes what one
    of the second half of the sample does.
    """
    fmt = config.activation
    chances = uniform(fmt) if sigma is None else normal(fmt, sigma)
    used = chances @ (encode(config.array.encoding, values_of(fmt), fmt) != 0)
    short = min(beats, SAMPLE)
    tiles = max(8, SAMPLE // short)
    shape = (short, tiles, config.rows * config.depth // GROUP)
    rng = np.random.default_rng(0)
    groups = [np.maximum(1, rng.binomial(GROUP, chance, shape)) for chance in used[::-1]]

    def mean(count: int) -> float:
        sample = np.stack([group[:count] for group in groups])
        return float(window_cycles(sample, config.array.queue).mean())

    found, half = mean(short), short // 2
    if beats == short:
        return found
    return found + (beats - short) * (found - mean(half)) / (short - half)
