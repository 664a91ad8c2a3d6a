# SPDX-License-Identifier: Apache-2.0
"""Cost of the GEMM streaming family: cycles from memory to memory.

A job is followed through loads, cores and results; see `cost_model.engine.job`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cost_model.engine.job import job_cycles
from cost_model.families.gemm_stream_memory import buffers, use, weight_bytes
from hwgen.schedules.gemm_stream import Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig

__all__ = [
    "buffers",
    "cycles",
    "cycles_of",
    "job_cycles",
    "plan_cycles",
    "registers_cycles",
    "use",
    "weight_bytes",
]

Size = tuple[int, int, int]
"""M, K and N of one product."""


def cycles(config: GemmStreamConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]``, one job on an idle engine.

    Counted while the job is unfinished, as the counter BUSY does, with aligned rows and a memory
    that answers in the next cycle and never pauses.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: GemmStreamConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of jobs that run one after the other, each on an idle engine."""
    jobs = Counter(sizes)  # layers of a network repeat
    return sum(times * plan_cycles(Plan(config, *size)) for size, times in jobs.items())


def plan_cycles(plan: Plan) -> int:
    """Return the cycles of a plan; see `cycles`."""
    return job_cycles(plan)


def registers_cycles(config: GemmStreamConfig, held: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the cycles of a job by its job window, and the beats that it reads and writes.

    Parameters
    ----------
    config : GemmStreamConfig
    held : mapping of int
        Contents by register name.
    """
    plan = Plan(config, held["M"], held["K"], held["N"])
    traffic, width = plan.traffic, config.memory_bytes
    reads = traffic.total - traffic.results
    return plan_cycles(plan), -(-reads // width), -(-traffic.results // width)
