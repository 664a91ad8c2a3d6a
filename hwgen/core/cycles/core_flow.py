# SPDX-License-Identifier: Apache-2.0
"""Flow through a core: its ports, cycle by cycle, without data.

A family whose cores work inside an engine offers ``core_flow(config)`` among its costs.  It
returns a `CoreFlow`, which does what the core's sequencer does.
"""

from __future__ import annotations

from typing import Protocol


class CoreFlow(Protocol):
    """A core, in the state of its reset."""

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, taken: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle.

        Parameters
        ----------
        act, act_last, wgt, wgt_last : bool
            Whether the input ports are given a beat, and whether it is marked as a last one.
        taken : bool
            Whether a result would be taken.

        Returns
        -------
        tuple of bool
            Whether the core takes a beat of port act, of port wgt, and gives a result.
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

    def pass_cycle(self, given: bool, last: bool, taken: bool) -> bool:
        """Pass a cycle; return whether there was room for the beat that was given."""
        room = self.count < 2
        if taken:
            self.count -= 1
            self.lasts >>= 1
        if given and room:
            self.lasts |= last << self.count
            self.count += 1
        return room


class Slices:
    """Registers in a row, each with a handshake of its own; beats without marks.

    Parameters
    ----------
    depth : int
        Registers; the last of them has room for two beats.
    """

    __slots__ = ("_places", "_top", "full")

    def __init__(self, depth: int) -> None:
        self._places = [0] * (depth - 1)
        self.full = 0  # beats of the last place
        self._top = depth - 1

    def pass_cycle(self, given: bool, taken: bool) -> bool:
        """Pass a cycle; return whether there was room for the beat that was given.

        A register takes a beat when it is empty or its own is taken, all in the same cycle.
        """
        room, places = self.full < 2, self._places
        if taken and self.full:
            self.full -= 1
        for number in range(self._top - 1, -1, -1):
            leaves = places[number] and room
            if leaves:
                if number == self._top - 1:
                    self.full += 1
                else:
                    places[number + 1] = 1
                places[number] = 0
            room = not places[number]
        if given and room:
            if self._top:
                places[0] = 1
            else:
                self.full += 1
        return bool(room)

    def state(self) -> tuple[int, ...]:
        """Return the occupancy of the pipeline."""
        return (self.full, *self._places)

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        self.full, *self._places = state
