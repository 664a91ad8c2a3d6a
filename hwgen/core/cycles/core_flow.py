# SPDX-License-Identifier: Apache-2.0
"""Flow through a core: its ports, cycle by cycle, without data.

A core that works inside an engine offers ``core_flow()``.  It returns a `CoreFlow`, which does
what the core's sequencer does.
"""

from __future__ import annotations

from typing import Protocol


class CoreFlow(Protocol):
    """A core, in the state of its reset."""

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, pop: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle.

        Parameters
        ----------
        act, act_last, wgt, wgt_last : bool
            Whether the input ports are valid, and whether their beats are marked as last ones.
        pop : bool
            Whether the receiver of results is ready.

        Returns
        -------
        tuple of bool
            Whether the core accepts a beat of port act, of port wgt, and offers a result.
        """
        ...

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        ...

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        ...


class Queue:
    """Beats that wait for a core, in two registers, with their marks.

    Attributes
    ----------
    count : int
        Beats.
    lasts : int
        A bit for each: whether it is marked; that of the oldest is the lowest.
    """

    __slots__ = ("count", "lasts")

    def __init__(self) -> None:
        self.count = self.lasts = 0

    def pass_cycle(self, valid: bool, last: bool, pop: bool) -> bool:
        """Pass a cycle; return whether the queue was ready for a beat."""
        ready = self.count < 2
        if pop:
            self.count -= 1
            self.lasts >>= 1
        if valid and ready:
            self.lasts |= last << self.count
            self.count += 1
        return ready


class Slices:
    """Registers in a row, each with a handshake; beats without marks.

    Parameters
    ----------
    depth : int
        Registers; the last of them stores two beats.
    """

    __slots__ = ("_slots", "_top", "full")

    def __init__(self, depth: int) -> None:
        self._slots = [0] * (depth - 1)
        self.full = 0  # beats of the last slot
        self._top = depth - 1

    def pass_cycle(self, valid: bool, pop: bool) -> bool:
        """Pass a cycle; return whether the queue was ready for a beat.

        A register accepts a beat when it is empty or its beat leaves in the same cycle.
        """
        ready, slots = self.full < 2, self._slots
        if pop and self.full:
            self.full -= 1
        for number in range(self._top - 1, -1, -1):
            leaves = slots[number] and ready
            if leaves:
                if number == self._top - 1:
                    self.full += 1
                else:
                    slots[number + 1] = 1
                slots[number] = 0
            ready = not slots[number]
        if valid and ready:
            if self._top:
                slots[0] = 1
            else:
                self.full += 1
        return bool(ready)

    def state(self) -> tuple[int, ...]:
        """Return the occupancy of the pipeline."""
        return (self.full, *self._slots)

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        self.full, *self._slots = state
