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


class _Shown:
    """A function that shows steps, and what it showed last."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.last = ("", 0, 0)

    def update(self, label: str, done: int, total: int) -> None:
        self.last = (label, done, total)
        self._show(label, done, total)


COMPILING = "compiling "
"""Labels of what is prepared for a step begin so: no time left follows from how long it takes."""

_shown: ContextVar[_Shown | None] = ContextVar("shown", default=None)


@contextmanager
def shown_by(show: Show) -> Iterator[Show]:
    """Let a function show the steps of the work inside; yield what the work may call as well."""
    shown = _Shown(show)
    token = _shown.set(shown)
    try:
        yield shown.update
    finally:
        _shown.reset(token)


def report(label: str, done: int, total: int = 0) -> None:
    """Show that some steps are done, if anybody shows them."""
    if shown := _shown.get():
        shown.update(label, done, total)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Show what is compiled for the step at hand; the number of steps stays as it is."""
    shown = _shown.get()
    if shown is None:
        yield
        return
    before, done, total = shown.last
    shown.update(COMPILING + what, done, total)
    try:
        yield
    finally:
        shown.update(before, done, total)


def steps(label: str, items: Iterable[T], total: int = 0) -> Iterator[T]:
    """Iterate over items and report each as a step; `total` is for items that cannot be counted."""
    total = len(items) if isinstance(items, Collection) else total
    done = 0
    for done, item in enumerate(items):
        report(label, done, total)
        yield item
    report(label, min(done + 1, total) if total else done, total)
