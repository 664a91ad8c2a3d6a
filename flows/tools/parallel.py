# SPDX-License-Identifier: Apache-2.0
"""Jobs that run external tools, some at a time, and end together when one of them fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from flows.tools import guard

T = TypeVar("T")


def processors() -> int:
    """Return the number of processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        return os.cpu_count() or 1


def run_all(
    jobs: Sequence[Callable[[], T]],
    workers: int,
    on_done: Callable[[int, T], None] = lambda index, result: None,
) -> list[T]:
    """Run jobs and return their results in order.

    A job that raises, and Ctrl-C, end the others: tools that run under `flows.tools.process.run`
    are killed, jobs that have not begun never do.

    Parameters
    ----------
    jobs : sequence of callable
    workers : int
        How many run at once.
    on_done : callable
        Called in this thread with the index and the result of each job as it ends.
    """
    if workers < 2 or len(jobs) < 2:
        results = []
        for index, job in enumerate(jobs):
            results.append(job())
            on_done(index, results[-1])
        return results
    with ThreadPoolExecutor(min(workers, len(jobs))) as pool:
        futures = [pool.submit(job) for job in jobs]
        numbers = {future: index for index, future in enumerate(futures)}
        waiting: set[Future[T]] = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: numbers[future]):
                    on_done(numbers[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # Again and again, because a job may be about to start its next tool.
            while not all(future.done() for future in futures):
                guard.kill_all()
                wait(futures, timeout=0.1)
            raise
    return [future.result() for future in futures]
