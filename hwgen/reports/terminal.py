# SPDX-License-Identifier: Apache-2.0
"""Console and progress bars of programs that run in a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rich is imported when it is needed: it takes a tenth of a second
    from rich.console import Console


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
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} cycles"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    out = console()
    quiet = quiet or not out.is_terminal  # or it leaves an empty line behind
    with Progress(*columns, console=out, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=1, rate="")

        def update(cycles: int, total: int) -> None:
            speed = progress.tasks[0].speed
            rate = f"{speed:,.0f} cycles/s" if speed else ""
            progress.update(task, completed=cycles, total=total, rate=rate)

        yield update
