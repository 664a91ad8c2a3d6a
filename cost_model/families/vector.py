# SPDX-License-Identifier: Apache-2.0
"""Cost of vector units: exact cycles.

Area, power and the limit of the clock follow from the structure of the emitted hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hwgen.families.vector.operations import CODES
from hwgen.families.vector.schedule import beats_of_row

if TYPE_CHECKING:
    from hwgen.core.operation import Job
    from hwgen.families.vector.params import VectorConfig

OVERHEAD = 1
"""Cycles of a job for its command, taken while no other is worked on."""


def cycles_of_jobs(config: VectorConfig, jobs: Iterable[Job]) -> int:
    """Return the cycles of jobs that follow each other without a pause.

    Counted from the cycle of the first input beat to that of the last output beat, both included.

    Parameters
    ----------
    config : VectorConfig
    jobs : iterable of (Operation, sizes, scalars)

    Notes
    -----
    A beat of a row goes into the unit in every cycle.  A row's first result waits for each of its
    reductions as long as a row takes, once a job, as the rows that follow are reduced meanwhile.
    """
    total = 2  # the buffers at the ports
    for operation, sizes, _ in jobs:
        way = config.ways[operation.name]
        beats = beats_of_row(config, sizes["length"]) + way.tail
        total += (sizes["rows"] + way.passes) * beats + config.job_latency(way) + OVERHEAD
    return total


def cycles_of_command(config: VectorConfig, words: Sequence[int]) -> int:
    """Return the cycles of the job of a command, by its words."""
    code, rows, length = words[:3]
    operation = next(o for o in config.operations if CODES[o.name] == code)
    return cycles_of_jobs(config, [(operation, {"rows": rows, "length": length}, {})])
