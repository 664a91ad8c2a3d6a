# SPDX-License-Identifier: Apache-2.0
"""Cycles of jobs on several cores behind one memory port: who gets which share of its beats.

Jobs of a core follow each other.  A job that is alone takes the cycles that its core's model says,
and wants its beats evenly over them.  Where all jobs under way want more than the port has, it
serves each a burst in turn, so that a share is in proportion to the length of bursts: a core whose
rows are short waits for the long bursts of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Phase(NamedTuple):
    """A job on an idle core with the port for itself.

    Parameters
    ----------
    cycles : int
    beats : int
        Of the direction that has more of them, since reads and writes do not share a channel.
    burst : float
        Beats of a burst, on average.
    """

    cycles: int
    beats: int
    burst: float = 1.0

    @property
    def wanted(self) -> float:
        """Beats a cycle."""
        return min(1.0, self.beats / self.cycles)


class Shared(NamedTuple):
    """Jobs of all cores at once.

    Parameters
    ----------
    cycles : float
        Until the last job ends.
    starts : list of list of float
        Cycle in which each job of each core begins.
    """

    cycles: float
    starts: list[list[float]]


def shares(jobs: Sequence[Phase], capacity: float = 1.0) -> list[float]:
    """Return the beats a cycle that each of several jobs gets of a port.

    Parameters
    ----------
    jobs : sequence of Phase
    capacity : float
        Beats a cycle of the memory.
    """
    result, left = [0.0] * len(jobs), capacity
    waiting = sorted(range(len(jobs)), key=lambda i: jobs[i].wanted / jobs[i].burst)
    for number, index in enumerate(waiting):
        rest = sum(jobs[i].burst for i in waiting[number:])
        result[index] = min(jobs[index].wanted, left * jobs[index].burst / rest)
        left -= result[index]
    return result


def at_once(cores: Sequence[Sequence[Phase]], capacity: float = 1.0, submit: float = 0.0) -> Shared:
    """Return the cycles of jobs on several cores at once.

    Parameters
    ----------
    cores : sequence of sequence of Phase
        Jobs of each core, in their order.
    capacity : float
        Beats a cycle of the memory.
    submit : float
        Cycles in which a command list submits a job; it submits one of each core in turn.
    """
    now, following = 0.0, [0] * len(cores)
    remaining = [1.0] * len(cores)  # of the job of each core that is under way
    starts: list[list[float]] = [[] for _ in cores]
    ready = [
        [submit * sum(min(number + (other <= i), len(jobs)) for other, jobs in enumerate(cores))
         for number in range(len(cores[i]))]
        for i in range(len(cores))
    ]  # fmt: skip
    while any(number < len(jobs) for number, jobs in zip(following, cores, strict=True)):
        left = [i for i, jobs in enumerate(cores) if following[i] < len(jobs)]
        active = [i for i in left if ready[i][following[i]] <= now]
        later = [ready[i][following[i]] for i in left if i not in active]
        if not active:
            now = min(later)
            continue
        for i in active:
            if len(starts[i]) == following[i]:
                starts[i].append(now)
        jobs = [cores[i][following[i]] for i in active]
        rates = [
            (share / job.wanted if job.beats else 1.0) / job.cycles
            for job, share in zip(jobs, shares(jobs, capacity), strict=True)
        ]
        ends = [remaining[i] / rate for i, rate in zip(active, rates, strict=True)]
        step = min([*ends, *(time - now for time in later)])
        now = min(later) if step < min(ends) else now + step
        for i, rate in zip(active, rates, strict=True):
            remaining[i] -= rate * step
            if remaining[i] <= 1e-12:
                remaining[i] = 1.0
                following[i] += 1
    return Shared(now, starts)
