# SPDX-License-Identifier: Apache-2.0
"""Steps of long work, which a command shows while the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

Show = Callable[[str, int, int], None]
"""Takes the name of the steps, how many are done, and how many there are, 0 if that is unknown."""

_show: ContextVar[Show | None] = ContextVar("show", default=None)


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Let a function show the steps of the work inside."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


def report(label: str, done: int, total: int = 0) -> None:
    """Show that some steps are done, if anybody shows them."""
    if show := _show.get():
        show(label, done, total)


def steps(label: str, items: Iterable[T], total: int = 0) -> Iterator[T]:
    """Iterate over items and report each as a step; `total` is for items that cannot be counted."""
    total = len(items) if isinstance(items, Collection) else total
    done = 0
    for done, item in enumerate(items):
        report(label, done, total)
        yield item
    report(label, min(done + 1, total) if total else done, total)
