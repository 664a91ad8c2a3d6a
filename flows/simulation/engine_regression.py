# SPDX-License-Identifier: Apache-2.0
"""What the regression of a memory engine runs: cases over shapes, values, stalls and interruptions.

Cases are plain data made from the configuration and a seed, as those of
`flows.simulation.regression`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from flows.simulation.post_cases import settings_of
from flows.simulation.regression import OPERANDS, Size, lengths, pairwise

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

CHANNELS = ("ar", "r", "aw", "w", "b")
PROBABILITIES = (0.0, 0.3, 0.85)
Event = Literal["", "reset", "abort", "read_error", "write_error", "mismatch"]
"""What breaks off jobs; ``mismatch``, where the numbers of one do not agree, is of some engines."""


@dataclass(frozen=True)
class EngineCase:
    """Jobs that are queued one after the other.

    Parameters
    ----------
    name : str
    sizes : tuple of (m, k, n)
    kinds : tuple of str
        Of the operands of each job; see `flows.simulation.regression.operands`.
    posts : tuple of int
        Which of `settings_of` each job has.
    odd : bool
        Whether addresses and strides are unaligned.
    latency : int
        Cycles of the memory.
    idle : tuple of (str, float)
        Probability, for each channel, that a cycle is idle.
    event : str
        What breaks off a first run of the same jobs, before the run that counts.
    at : int
        Cycles after the submission at which it happens.
    least_traffic : bool
        Of the plans.
    formats : tuple of int
        Numbers of the formats of the jobs' operands; of the configuration's where there are none.
    """

    name: str
    sizes: tuple[Size, ...]
    kinds: tuple[str, ...]
    posts: tuple[int, ...]
    odd: bool = False
    latency: int = 1
    idle: tuple[tuple[str, float], ...] = ()
    event: Event = ""
    at: int = 0
    least_traffic: bool = False
    formats: tuple[int, ...] = ()


def engine_cases(config: GemmStreamConfig, seed: int) -> list[EngineCase]:
    """Return the regression of an engine, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
    axes = [
        lengths(size, limit)
        for size, limit in zip(config.natural_sizes, (1 << 20, config.max_k, 1 << 20), strict=True)
    ]
    sizes = pairwise(axes)
    posts = len(settings_of(config))

    def drawn(count: int) -> tuple[Size, ...]:
        return tuple(sizes[i] for i in rng.integers(len(sizes), size=count))

    def any_posts(count: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(posts, size=count))

    cases = [
        EngineCase(f"shapes_{i}", (size,), ("random",), (i % posts,), odd=bool(i % 2))
        for i, size in enumerate(sizes)
    ]
    largest = (axes[0][-1], axes[1][-1], axes[2][-1])
    kinds = OPERANDS if config.in_blocks else OPERANDS[:-1]  # integers have no special values
    for i, kind in enumerate(kinds):
        cases.append(
            EngineCase(f"values_{kind}", (largest, largest), (kind, "random"), (i % posts, 0))
        )
    cases += [
        EngineCase(f"post_{i}", (largest, sizes[0]), ("random",) * 2, (i, i), odd=True)
        for i in range(posts)
    ]
    for i in range(8):
        idle = tuple((channel, float(rng.choice(PROBABILITIES))) for channel in CHANNELS)
        latency = int(rng.choice((1, 2, 17, 60)))
        cases.append(
            EngineCase(
                f"stalls_{i}", drawn(3), ("random",) * 3, any_posts(3), True, latency, idle,
                least_traffic=bool(i % 2),
            )
        )  # fmt: skip
    events: tuple[Event, ...] = ("reset", "abort", "read_error", "write_error")
    for i in range(8):
        cases.append(
            EngineCase(
                f"{events[i % 4]}_{i // 4}", drawn(3), ("random",) * 3, any_posts(3), bool(i & 4),
                int(rng.choice((1, 9))), tuple((c, 0.3 * (i // 4)) for c in CHANNELS),
                events[i % 4], int(rng.integers(1, 200)),
            )
        )  # fmt: skip
    # Several blocks along every axis, the operands' kept ones among them.
    m, k, n = config.natural_sizes
    for i, size in enumerate(
        ((10 * m + 1, 9 * k + 2, 11 * n + 1), (12 * m, k, 12 * n), (5 * m, 15 * k, 12 * n))
    ):
        size = (size[0], min(size[1], config.max_k), size[2])
        cases.append(
            EngineCase(
                f"blocks_{i}", (size,), ("random",), (i % posts,), odd=i == 0, least_traffic=i == 2
            )
        )
    cases.append(EngineCase("queue", drawn(12), ("random",) * 12, any_posts(12)))
    return cases + _of_formats(config, rng)


def _of_formats(config: GemmStreamConfig, rng: np.random.Generator) -> list[EngineCase]:
    """Return cases in which jobs of each format follow one another, where there are several."""
    count = len(config.formats)
    if count == 1:
        return []
    posts, jobs, cases = len(settings_of(config)), 3 * count, []
    most = min(each.max_k for each in config.formats)
    for i, probability in enumerate((0.0, 0.3)):
        order = tuple(int(number) for number in rng.permutation([*range(count)] * 3))
        sizes = tuple(
            (int(m), int(k), int(n))
            for m, k, n in rng.integers(1, (4 * config.m_lanes, most + 1, 20), size=(jobs, 3))
        )
        kinds = tuple(OPERANDS[int(kind)] for kind in rng.integers(len(OPERANDS), size=jobs))
        which = tuple(int(post) for post in rng.integers(posts, size=jobs))
        idle = tuple((channel, probability) for channel in CHANNELS)
        cases.append(
            EngineCase(f"formats_{i}", sizes, kinds, which, bool(i), 1 + 8 * i, idle, formats=order)
        )
    return cases
