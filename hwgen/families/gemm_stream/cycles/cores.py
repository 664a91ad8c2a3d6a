# SPDX-License-Identifier: Apache-2.0
"""Times at which the cores of an engine finish the steps of a plan.

The walks over both operand buffers, the cores and the collection of results are followed cycle by
cycle.  What repeats, such as tiles that are alike, is passed at once, and so is a step that begins
as an earlier one did.  What is in the
buffers, and when, comes from `hwgen.families.gemm_stream.cycles.loads`, room for results from
`hwgen.families.gemm_stream.cycles.results`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hwgen.core.cycles.core_flow import CoreFlow
    from hwgen.families.gemm_stream.cycles.steps import Step

NEVER = 1 << 62
"""Behind everything."""

_REMEMBERED = 1 << 10
"""States between which repetitions are looked for."""

_AHEAD = 3
"""Steps that are looked at, from that of the activations on, to tell stretches that are alike."""


class Walk:
    """The walk over a buffer: beats of the blocks that are there, a step after the other.

    Parameters
    ----------
    steps : sequence of (int, int, int, bool, bool)
        Of each step the beats, those of the innermost loop, the number of its block, whether it is
        the last one that needs the block, and whether ends of innermost loops are marked.

    Attributes
    ----------
    full : list of int
        When blocks are there, as far as known.
    step, left : int
        The step at hand, and its beats that are still to come; 0 while its block is waited for.
    inner : int
        Beats of its innermost loop.
    offered, last : bool
        A beat is offered to the core, and is the last of an innermost loop.
    """

    __slots__ = ("full", "inner", "last", "left", "offered", "step", "steps")

    def __init__(self, steps: Sequence[tuple[int, int, int, bool, bool]]) -> None:
        self.steps = steps
        self.full: list[int] = []
        self.step = self.left = 0
        self.inner = 1
        self.offered = self.last = False

    def waits_for(self) -> int:
        """Return the number of the block that is waited for, -1 if none is."""
        return -1 if self.left or self.step == len(self.steps) else self.steps[self.step][2]


class _Stretch(NamedTuple):
    """Cycles and events until the activations of a step have been read.

    Parameters
    ----------
    cycles : int
    events : tuple of (str, int)
        Blocks that are left (``a``, ``w``) or complete (``c``), and in which cycle.
    after : tuple
        What is left, as `Cores._now` gives it.
    """

    cycles: int
    events: tuple[tuple[str, int], ...]
    after: tuple[Any, ...]


class Cores:
    """The cores with the walks over their buffers and the collection of results.

    Parameters
    ----------
    flow : CoreFlow
    steps : sequence of Step
    happens : callable
        Gets ``a`` or ``w`` and the cycle in which such a block is not needed any more, and ``c``
        and the cycle in which the last beat of a block of C is collected.

    Attributes
    ----------
    act, wgt : Walk
    free : list of int
        When blocks of C may begin, as far as known.
    """

    def __init__(
        self, flow: CoreFlow, steps: Sequence[Step], happens: Callable[[str, int], None]
    ) -> None:
        self._flow, self._happens = flow, happens
        self.act = Walk([(s.beats[0], s.inner[0], s.a, s.frees_a, s.ends) for s in steps])
        self.wgt = Walk([(s.beats[1], s.inner[1], s.w, s.frees_w, s.ends) for s in steps])
        self._out = [(s.beats[2], s.c, s.begins, s.block.last) for s in steps]
        self.free: list[int] = []
        self._left = 0  # of the collection
        self._step = self._collected(0)
        self._seen: dict[tuple[int, ...], tuple[int, int, int, int]] = {}
        self._shapes = _shapes(steps)
        self._cached: dict[tuple[Any, ...], _Stretch] = {}
        self._events: list[tuple[str, int]] = []
        self._informed = (0, 0, 0)  # of how much it was known at the beginning of a stretch
        self._surprised = False  # more was asked for

    def run(self) -> None:
        """Follow the cores until the last beat is collected."""
        now = 0
        while self.act.step < len(self.act.steps):
            now = self._stretch(now)
        self._seen.clear()
        while self._step < len(self._out):
            now = self._cycle(now + 1)

    def _stretch(self, now: int) -> int:
        """Go on behind cycle `now` until the activations of a step are read; return the cycle."""
        step, state = self.act.step, self._now()
        ahead = slice(min(step, self.wgt.step, self._step), step + _AHEAD)
        key = state, self._shapes[ahead], self._waits(now, step + _AHEAD)
        if key in self._cached:
            stretch = self._cached[key]
            for event, at in stretch.events:
                self._happens(event, now + at)
            self._go_to(step, stretch.after)
            return now + stretch.cycles
        then, self._events, self._surprised = now, [], False
        self._informed = len(self.act.full), len(self.wgt.full), len(self.free)
        self._seen.clear()
        while self.act.step == step:
            now = self._cycle(now + 1)
        if not self._surprised and max(self.wgt.step, self._step) < step + _AHEAD:
            events = tuple((event, at - then) for event, at in self._events)
            self._cached[key] = _Stretch(now - then, events, self._now(step))
        return now

    def _now(self, step: int | None = None) -> tuple[Any, ...]:
        """Return the state, where no beat of a step of the activations is read.

        Steps are counted from `step`, which is that of the activations by default.
        """
        act, wgt = self.act, self.wgt
        step = act.step if step is None else step
        return (
            act.offered, act.last, wgt.step - step, wgt.left, wgt.offered, wgt.last,
            self._step - step, self._left, self._flow.state(),
        )  # fmt: skip

    def _go_to(self, step: int, state: tuple[Any, ...]) -> None:
        """Take the state behind a step of the activations."""
        act, wgt = self.act, self.wgt
        (
            act.offered, act.last, wgt_step, wgt.left, wgt.offered, wgt.last, out_step, self._left,
            flow,
        ) = state  # fmt: skip
        act.step, wgt.step, self._step = step + 1, step + wgt_step, step + out_step
        if wgt.left:
            wgt.inner = wgt.steps[wgt.step][1]
        self._flow.restore(flow)

    def _waits(self, now: int, end: int) -> tuple[tuple[int, ...], ...]:
        """Return until when the steps before `end` wait for blocks and free buffers; -1: unknown.

        That of the activations is the first.
        """
        waits = []
        for times, steps, first in (
            (self.act.full, self.act.steps, self.act.step),
            (self.wgt.full, self.wgt.steps, self.wgt.step + (self.wgt.left > 0)),
            (self.free, self._out, self._step + (self._left > 0)),
        ):
            here = []
            for _, second, third, *_ in steps[first:end]:
                number = third if steps is not self._out else second
                here.append(max(times[number] - now - 1, 0) if number < len(times) else -1)
            waits.append(tuple(here))
        return tuple(waits)

    def _happened(self, event: str, now: int) -> None:
        self._seen.clear()
        self._events.append((event, now))
        self._happens(event, now)

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
                    self._step = self._collected(self._step + 1)
                    self._seen.clear()
                    if last:
                        self._happened("c", now)
        elif self._step < len(self._out):
            beats, number, first, _ = self._out[self._step]
            if not first or self._is_valid(2, number, now):
                self._left = beats
        idle = not (act.left or wgt.left or act.offered or wgt.offered)
        if ended or idle:
            return self._repeat(now)
        return now

    def _collected(self, step: int) -> int:
        """Return the first step from `step` on that has results."""
        while step < len(self._out) and not self._out[step][0]:
            step += 1
        return step

    def _is_valid(self, port: int, number: int, now: int) -> bool:
        """Return whether there is a block of A (0) or of W (1), or a free buffer of C (2)."""
        return self._when(port, number) <= now

    def _when(self, port: int, number: int) -> int:
        times = (self.act.full, self.wgt.full, self.free)[port]
        if number >= self._informed[port]:
            self._surprised = True
        return times[number] if number < len(times) else NEVER

    def _advance(self, walk: Walk, name: str, accepted: bool, now: int) -> bool:
        """Pass a cycle of a walk; return whether a beat that ends an innermost loop is read."""
        if not walk.left:
            if accepted:
                walk.offered = False
            number = walk.waits_for()
            if number >= 0 and self._is_valid(name == "w", number, now):
                walk.left, walk.inner, *_ = walk.steps[walk.step]
            return False
        if walk.offered and not accepted:
            return False
        walk.left -= 1
        ended = walk.left % walk.inner == 0
        walk.offered, walk.last = True, ended and walk.steps[walk.step][4]
        if not walk.left:
            frees = walk.steps[walk.step][3]
            walk.step += 1
            self._seen.clear()
            if frees:
                self._happened(name, now)
        return ended

    def _repeat(self, now: int) -> int:
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
        cycles, times = now - then, self._next_event(now) - now - 1
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

    def _next_event(self, now: int) -> int:
        """Return when something that is waited for happens, `NEVER` if that is not known."""
        numbers = [self.act.waits_for(), self.wgt.waits_for(), -1]
        if not self._left and self._step < len(self._out):
            numbers[2] = self._out[self._step][1]
        times = (self._when(port, n) for port, n in enumerate(numbers) if n >= 0)
        return max(now, min(times, default=NEVER))


def _shapes(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return a number for each step, the same for steps that differ in their addresses only."""
    known: dict[Any, int] = {}
    shapes = []
    for step in steps:
        block = step.block
        shape = (
            step.beats, step.inner, step.frees_a, step.frees_w, block.first, block.last,
            block.loads_a, block.loads_w,
        )  # fmt: skip
        shapes.append(known.setdefault(shape, len(known)))
    return tuple(shapes)
