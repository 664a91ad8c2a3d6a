# SPDX-License-Identifier: Apache-2.0
"""What the regression of an engine around a stream core runs: operations, stalls, interruptions.

Cases are plain data made from the configuration and a seed, as those of
`flows.simulation.engine_regression`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flows.simulation.engine_regression import CHANNELS, PROBABILITIES, Event
from flows.simulation.operation_cases import JobSpec, shapes
from flows.simulation.regression import OPERANDS

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig

_LARGEST = 6000
"""Arithmetic operations of one job; the core's own regression has larger ones."""


@dataclass(frozen=True)
class StreamEngineCase:
    """Operations whose jobs are queued one after the other.

    Parameters
    ----------
    name : str
    specs : tuple of JobSpec
    odd : bool
        Whether addresses and strides are unaligned.
    latency, idle, event, at
        See `flows.simulation.engine_regression.EngineCase`.
    """

    name: str
    specs: tuple[JobSpec, ...]
    odd: bool = True
    latency: int = 1
    idle: tuple[tuple[str, float], ...] = ()
    event: Event = ""
    at: int = 0


def stream_engine_cases(config: StreamEngineConfig, seed: int) -> list[StreamEngineCase]:
    """Return the regression of an engine, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
    every: list[JobSpec] = []
    cases: list[StreamEngineCase] = []
    for operation in config.operations:
        found = shapes(operation)
        small = [s for s in found if operation.work(dict(s)) <= _LARGEST] or found[:1]
        specs = [JobSpec(operation.name, sizes) for sizes in small]
        every += specs
        some = rng.permutation(len(specs))[:5]
        cases.append(
            StreamEngineCase(
                f"{operation.name}_shapes", tuple(specs[i] for i in some), odd=bool(len(cases) % 2)
            )
        )
        kind = OPERANDS[int(rng.integers(len(OPERANDS) - 1))]
        values = JobSpec(operation.name, small[-1], kind)
        cases.append(StreamEngineCase(f"{operation.name}_{kind}", (values,)))

    def drawn(count: int) -> tuple[JobSpec, ...]:
        return tuple(every[i] for i in rng.integers(len(every), size=count))

    for i in range(6):
        idle = tuple((channel, float(rng.choice(PROBABILITIES))) for channel in CHANNELS)
        latency = int(rng.choice((1, 2, 17, 60)))
        cases.append(StreamEngineCase(f"stalls_{i}", drawn(3), True, latency, idle))
    events: tuple[Event, ...] = ("reset", "abort", "read_error", "write_error")
    for i in range(8):
        cases.append(
            StreamEngineCase(
                f"{events[i % 4]}_{i // 4}", drawn(3), True, int(rng.choice((1, 9))),
                tuple((c, 0.3 * (i // 4)) for c in CHANNELS), events[i % 4],
                int(rng.integers(1, 200)),
            )
        )  # fmt: skip
    for i in range(2):
        cases.append(StreamEngineCase(f"mismatch_{i}", drawn(2), event="mismatch"))
    cases.append(StreamEngineCase("queue", drawn(12)))
    return cases
