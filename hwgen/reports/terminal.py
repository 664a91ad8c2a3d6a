# SPDX-License-Identifier: Apache-2.0
"""Console and progress bars of programs that run in a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hwgen.progress import COMPILING, shown_by

if TYPE_CHECKING:  # rich is imported when it is needed: it takes a tenth of a second
    from rich.console import Console
    from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout, wide enough for tables when it is not a terminal.

    It prints text as it is: names of files may hold what rich takes for markup or an emoji.  What
    is to stand out is a `rich.text.Text`, or has a ``style``.
    """
    from rich.console import Console

    out = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = 120
    return out


def print_whole(table: Table) -> None:
    """Print a table on stdout; where that is no terminal, no cell is broken into lines.

    Programs and pages read such tables.
    """
    out = console()
    if not out.is_terminal:
        unlimited = out.options.update_width(1 << 14)
        out.width = max(out.width, out.measure(table, options=unlimited).maximum)
    out.print(table)


@contextmanager
def cycle_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a simulation with its speed and the time that is left.

    Yields
    ------
    callable
        Takes the cycles done and the cycles in all.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[doing]}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} cycles"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    out = console()
    if not out.is_terminal and not quiet:
        with minute_lines("simulating") as tell, shown_by(tell) as shown:
            yield lambda cycles, total: shown("cycles", cycles, total)
        return
    with Progress(*columns, console=out, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=1, rate="", doing="simulating")

        def show(doing: str, cycles: int, total: int) -> None:
            progress.update(task, completed=cycles, total=total or 1, doing=doing or "simulating")

        def update(cycles: int, total: int) -> None:
            speed = progress.tasks[0].speed
            rate = f"{speed:,.0f} cycles/s" if speed else ""
            progress.update(task, completed=cycles, total=total, rate=rate)

        with shown_by(show):
            yield update


VARIABLE = "HWGEN_PROGRESS"
"""Environment variable that turns lines of progress off by ``none``."""

MINUTE = 60.0
"""Seconds between lines of progress where no terminal shows a bar."""

FIRST_LINE = 8.0
"""Seconds until the first of them."""


@contextmanager
def minute_lines(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """Print a line on stderr soon and then every minute: what is done, how far, the time left.

    Yields
    ------
    callable
        Takes the name of the steps, how many are done, and how many there are, 0 if unknown.
    """
    start, state, ended = time.monotonic(), _State(), threading.Event()
    if os.environ.get(VARIABLE) == "none":
        ended.set()

    def tell() -> None:
        waiting = FIRST_LINE
        while not ended.wait(waiting):
            waiting = MINUTE
            line = state.line(doing, time.monotonic() - start)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield state.update
    finally:
        ended.set()
        thread.join()


_MANY, _PART = 30, 10
"""Steps, and one in how many, from which on their pace says how long the rest takes."""


class _State:
    """Steps of some work: their name, how many are done, and since when."""

    def __init__(self) -> None:
        self._label, self._done, self._total, self._first = "", 0, 0, 0
        self._start = time.monotonic()

    def update(self, label: str, done: int, total: int) -> None:
        # Another part of the work, or its first step again, once what it needs is prepared.
        prepared = self._label.startswith(COMPILING) and label != self._label
        if done < self._done or total != self._total or prepared:
            self._start, self._first = time.monotonic(), done
        self._label, self._done, self._total = label, done, total

    def line(self, doing: str, elapsed: float) -> str:
        """Return the line after some seconds in all."""
        parts = [f"{doing}: {duration_text(elapsed)}"]
        if self._total:
            parts.append(f"{self._done} of {self._total} {self._label}")
        elif self._label:
            parts.append(self._label)
        done = self._done - self._first
        enough = done >= _MANY or done * _PART >= self._total - self._first
        if (
            done > 0
            and enough
            and self._done < self._total
            and not self._label.startswith(COMPILING)
        ):
            left = (time.monotonic() - self._start) / done * (self._total - self._done)
            parts.append(f"about {duration_text(left)} left")
        return ", ".join(parts)


def duration_text(seconds: float) -> str:
    """Return a time in whole seconds, or in minutes from a minute and a half on."""
    return f"{max(1.0, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
