# SPDX-License-Identifier: Apache-2.0
"""Executors of independent pieces of work: processes of this machine, or a Dask cluster.

An executor takes a function that other processes can import and some items, and yields each item
with its result as it is finished.  Closing the iterator ends the work in a clean way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, Self, TypeVar

from hwgen.errors import HwgenError, InputError, ToolMissing

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 2
"""Pieces per worker that are handed out: no worker waits, and little is lost if one dies."""

_RETRIES = 3
_TIMEOUT_S = 20


@dataclass
class LocalProcesses:
    """Processes of this machine; a single piece or a single job runs in this process.

    As a context manager it keeps its processes from one run to the next, else each run has its own.

    Parameters
    ----------
    jobs : int
        Processes at once.
    """

    jobs: int
    _pool: ProcessPoolExecutor | None = field(default=None, repr=False)
    _reused: bool = field(default=False, repr=False)

    def __enter__(self) -> Self:
        self._reused = True
        return self

    def __exit__(self, *_: object) -> None:
        self._reused = False
        self._end(finished=True)

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with its result."""
        jobs = min(self.jobs, len(items))
        if jobs <= 1:
            for item in items:
                yield item, function(item)
            return
        if self._pool is None:
            # Not forked: the parent may hold threads and locks.
            context = multiprocessing.get_context("spawn")
            processes = self.jobs if self._reused else jobs
            self._pool = ProcessPoolExecutor(processes, context, initializer=_live_with_parent)
        waiting = iter(items)
        running: dict[Future[R], T] = {}
        finished = False
        try:
            while True:
                for item in _some(waiting, jobs * _AHEAD - len(running)):
                    running[self._pool.submit(function, item)] = item
                if not running:
                    finished = True
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise HwgenError(
                "a worker process was killed, perhaps for want of memory; continue with --resume,"
                " with fewer --jobs if it happens again"
            ) from None
        finally:
            if not finished or not self._reused:
                self._end(finished=finished)

    def _end(self, *, finished: bool) -> None:
        """End the processes, at once if they are still at work."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if not finished:  # what they are at is of no use to anybody
            _terminate(pool)
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class DaskCluster:
    """An existing Dask cluster whose workers have hwgen installed.

    Parameters
    ----------
    address : str
        Of its scheduler, such as ``tcp://host:8786``.
    """

    address: str

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with its result, once each, also if workers die meanwhile."""
        try:
            import distributed
        except ImportError:
            raise ToolMissing("--scheduler needs Dask; pip install 'hwgen[dask]'") from None
        try:
            make: Any = distributed.Client
            client = make(self.address, timeout=_TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {self.address} ({error}); give the address that"
                " `dask scheduler` prints"
            ) from None
        with client:
            workers = sum(client.nthreads().values())
            if not workers:
                raise InputError(f"the Dask cluster at {self.address} has no workers; start some")
            yield from _on_cluster(
                client, distributed.as_completed, function, items, workers * _AHEAD
            )


def _on_cluster(
    client: Any, as_completed: Any, function: Callable[[T], R], items: Sequence[T], ahead: int
) -> Iterator[tuple[T, R]]:
    waiting = iter(items)
    running: dict[Any, T] = {}

    def submit(item: T) -> Any:
        future = client.submit(function, item, pure=False, retries=_RETRIES)
        running[future] = item
        return future

    first = [submit(item) for item in _some(waiting, ahead)]
    finished = as_completed(first, loop=client.loop)
    try:
        for future in finished:
            item = running.pop(future)
            yield item, future.result()
            for other in _some(waiting, 1):
                finished.add(submit(other))
    finally:
        client.cancel(list(running))


def _some(items: Iterator[T], count: int) -> Iterator[T]:
    for _ in range(count):
        try:
            yield next(items)
        except StopIteration:
            return


def _live_with_parent() -> None:
    """Leave Ctrl-C to the parent, which ends its workers itself; end if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _terminate(pool: ProcessPoolExecutor) -> None:
    """Kill the workers, as ``kill_workers`` of Python 3.14 does."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        with suppress(OSError, ValueError):
            process.kill()
