# SPDX-License-Identifier: Apache-2.0
"""The flow through cores of the spatial families: what `rtl_templates.spatial.core` sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.cycles.core_flow import CoreFlow, Queue, Slices

if TYPE_CHECKING:
    from hwgen.families.spatial.params import SpatialConfig


def core_flow(config: SpatialConfig) -> CoreFlow:
    """Return the flow through a core that has been reset."""
    return Spatial(config)


class Spatial:
    """Tiles; the rows of one leave while the next one streams in."""

    def __init__(self, config: SpatialConfig) -> None:
        self._act, self._wgt = Queue(), Queue()
        self._finished = False
        self._lead = config.lead
        self._under_way = self._waiting = 0  # a bit for each place, the next to leave the highest
        self._last_row = config.rows - 1
        self._slots, self._slot = config.slots, 0  # of a beat
        self._slices = Slices(config.output_registers)

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, taken: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        x, y, slices = self._act, self._wgt, self._slices
        arrives = self._under_way >> (self._lead - 1) & 1
        leaves = bool(arrives or self._waiting)
        gives = slices.full > 0
        ready = slices.pass_cycle(leaves, taken)
        free = ready and not self._under_way and not self._waiting
        drain = self._finished and free
        fire = x.count > 0 and y.count > 0 and (not self._finished or free)
        if fire and self._slots > 1:  # a beat leaves with its last term
            self._slot = (self._slot + 1) % self._slots
            fire = self._slot == 0
        self._finished = (self._finished and not drain) or (fire and bool(x.lasts & 1))
        self._under_way = (self._under_way << 1 | drain) & ((1 << self._lead) - 1)
        if arrives or ready:
            self._waiting = (self._waiting << 1 | arrives) & ((1 << self._last_row) - 1)
        act_room = x.pass_cycle(act, act_last, fire)
        wgt_room = y.pass_cycle(wgt, False, fire)
        return act_room, wgt_room, gives

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        x, y = self._act, self._wgt
        return (
            x.count, x.lasts, y.count, self._finished, self._under_way, self._waiting,
            self._slot, *self._slices.state(),
        )  # fmt: skip

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        x, y = self._act, self._wgt
        (
            x.count, x.lasts, y.count, finished, self._under_way, self._waiting, self._slot,
            *slices,
        ) = state  # fmt: skip
        self._finished = bool(finished)
        self._slices.restore(tuple(slices))
