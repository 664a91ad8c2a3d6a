# SPDX-License-Identifier: Apache-2.0
"""When the cores of an engine are done with the steps of a plan.

The walks over both operand buffers, the cores and the collection of results are followed cycle by
cycle; stretches that repeat, such as tiles that are alike, are passed at once.  What is in the
buffers, and when, comes from `cost_model.engine.loads`, room for results from
`cost_model.engine.results`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cost_model.engine.core_flow import CoreFlow
    from cost_model.engine.steps import Step

NEVER = 1 << 62
"""Behind everything."""

_REMEMBERED = 1 << 10
"""States between which repetitions are looked for."""


class Walk:
    """The walk over a buffer: beats of the blocks that are there, a step after the other.

    Parameters
    ----------
    steps : sequence of (int, int, int, bool)
        Of each step the beats, those of the innermost loop, the number of its block, and whether
        it is the last one that needs the block.

    Attributes
    ----------
    step, left : int
        The step at hand, and its beats that are still to come; 0 while its block is waited for.
    offered, last : bool
        A beat is offered to the core, and is the last of an innermost loop.
    """

    __slots__ = ("full", "inner", "last", "left", "offered", "step", "steps")

    def __init__(self, steps: Sequence[tuple[int, int, int, bool]]) -> None:
        self.steps = steps
        self.full: list[int] = []  # when blocks are there
        self.step = self.left = 0
        self.inner = 1
        self.offered = self.last = False

    def waits_until(self, now: int) -> int:
        """Return when the walk over the next block begins, `NEVER` if that is not known."""
        if self.step == len(self.steps):
            return NEVER
        number = self.steps[self.step][2]
        return max(now, self.full[number]) if number < len(self.full) else NEVER


class Cores:
    """The cores with the walks over their buffers and the collection of results.

    Parameters
    ----------
    flow : CoreFlow
    steps : sequence of Step
    freed : callable
        Gets "a" or "w" and the cycle in which a block is not needed any more.
    complete : callable
        Gets the cycle in which the last beat of a block of C is collected.

    Attributes
    ----------
    act, wgt : Walk
    room : list of int
        When blocks of C may begin, as far as known.
    """

    def __init__(
        self,
        flow: CoreFlow,
        steps: Sequence[Step],
        freed: Callable[[str, int], None],
        complete: Callable[[int], None],
    ) -> None:
        self._flow, self._freed, self._complete = flow, freed, complete
        self.act = Walk([(s.beats[0], s.inner[0], s.a, s.frees_a) for s in steps])
        self.wgt = Walk([(s.beats[1], s.inner[1], s.w, s.frees_w) for s in steps])
        self._out = [(s.beats[2], s.c, s.block.first, s.block.last) for s in steps]
        self.room: list[int] = []
        self._step = self._left = 0  # of the collection
        self._seen: dict[tuple[int, ...], tuple[int, int, int, int]] = {}

    def run(self) -> None:
        """Follow the cores until the last beat is collected."""
        now = 0
        while self._step < len(self._out):
            now += 1
            now = self._cycle(now)

    def _cycle(self, now: int) -> int:
        """Pass cycle `now`, and what repeats behind it; return the last cycle that is passed."""
        act, wgt = self.act, self.wgt
        collects = self._left > 0
        takes_act, takes_wgt, gives = self._flow.cycle(
            act.offered, act.last, wgt.offered, wgt.last, collects
        )
        ended = self._advance(act, "a", takes_act, now)
        self._advance(wgt, "w", takes_wgt, now)
        if collects:
            if gives:
                self._left -= 1
                if not self._left:
                    last = self._out[self._step][3]
                    self._step += 1
                    self._seen.clear()
                    if last:
                        self._complete(now)
        elif self._step < len(self._out):
            beats, number, first, _ = self._out[self._step]
            if not first or (number < len(self.room) and self.room[number] <= now):
                self._left = beats
        idle = not (act.left or wgt.left or act.offered or wgt.offered)
        if ended or idle:
            return self._repeat(now, idle=idle)
        return now

    def _advance(self, walk: Walk, name: str, taken: bool, now: int) -> bool:
        """Pass a cycle of a walk; return whether a beat that ends an innermost loop is read."""
        if not walk.left:
            if taken:
                walk.offered = False
            if walk.waits_until(now) == now:
                walk.left, walk.inner, _, _ = walk.steps[walk.step]
            return False
        if walk.offered and not taken:
            return False
        walk.left -= 1
        walk.offered, walk.last = True, walk.left % walk.inner == 0
        if not walk.left:
            frees = walk.steps[walk.step][3]
            walk.step += 1
            self._seen.clear()
            if frees:
                self._freed(name, now)
        return walk.last

    def _repeat(self, now: int, *, idle: bool) -> int:
        """Pass what repeats behind cycle `now` at once; return the last cycle that is passed."""
        act, wgt = self.act, self.wgt
        state = (
            self._step, act.step, wgt.step, act.left > 0, wgt.left > 0, self._left > 0,
            act.offered, act.last, wgt.offered, wgt.last, *self._flow.state(),
        )  # fmt: skip
        before = self._seen.get(state)
        if len(self._seen) > _REMEMBERED:
            self._seen.clear()
        self._seen[state] = (now, act.left, wgt.left, self._left)
        if before is None:
            return now
        then, act_then, wgt_then, left_then = before
        cycles, times = now - then, self._until_next_event(now) - now - 1
        times //= cycles
        for left, was in ((act.left, act_then), (wgt.left, wgt_then), (self._left, left_then)):
            if was > left:
                times = min(times, (left - 1) // (was - left))
        for walk, was in ((act, act_then), (wgt, wgt_then)):
            beats = was - walk.left
            if beats % walk.inner:
                # No beat of these ends an innermost loop, if none of them does.
                where = walk.left % walk.inner
                alike = (was - 1) % walk.inner + 1 == where + beats
                times = min(times, (where - 1) // beats if alike else 0)
        if times <= 0:
            return now
        if times > NEVER // 4:
            raise RuntimeError("the cores wait for ever")
        act.left -= times * (act_then - act.left)
        wgt.left -= times * (wgt_then - wgt.left)
        self._left -= times * (left_then - self._left)
        self._seen.clear()
        return now + times * cycles

    def _until_next_event(self, now: int) -> int:
        """Return when something that is waited for happens, `NEVER` if that is not known."""
        found = NEVER
        for walk in (self.act, self.wgt):
            if not walk.left:
                found = min(found, walk.waits_until(now))
        if not self._left and self._step < len(self._out):
            number = self._out[self._step][1]
            if number < len(self.room):
                found = min(found, max(now, self.room[number]))
        return found
