# SPDX-License-Identifier: Apache-2.0
"""What the regression of an engine that executes command lists runs.

Cases are plain data made from the configuration and a seed, as those of
`flows.simulation.engine_regression`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from flows.simulation.engine_regression import CHANNELS, PROBABILITIES

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig

Event = Literal["", "reset", "abort", "read_error"]


@dataclass(frozen=True)
class ListCase:
    """Random lists that run one after the other.

    Parameters
    ----------
    name : str
    lists : int
    latency : int
        Cycles of the memory.
    idle : tuple of (str, float)
        Probability, for each channel, that a cycle is idle.
    event : str
        What breaks off a first run of each list, before the run that counts.
    at : int
        Cycles after the start at which it happens.
    """

    name: str
    lists: int
    latency: int = 1
    idle: tuple[tuple[str, float], ...] = ()
    event: Event = ""
    at: int = 0


def list_cases(config: TransformerConfig, seed: int) -> list[ListCase]:
    """Return the regression of an engine, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
    cases = [ListCase(f"lists_{i}", 6, int(rng.choice((1, 2, 5)))) for i in range(4)]
    for i in range(6):
        idle = tuple((channel, float(rng.choice(PROBABILITIES))) for channel in CHANNELS)
        cases.append(ListCase(f"stalls_{i}", 4, int(rng.choice((1, 2, 17, 60))), idle))
    events: tuple[Event, ...] = ("reset", "abort", "read_error")
    for i in range(9):
        event = events[i % 3]
        idle = tuple((channel, 0.3 * (i // 3 % 2)) for channel in CHANNELS)
        at = int(rng.integers(1, 1200))
        cases.append(ListCase(f"{event}_{i // 3}", 2, int(rng.choice((1, 9))), idle, event, at))
    return cases
