# SPDX-License-Identifier: Apache-2.0
"""The flow through a ternary-LUT core: what `rtl_templates.ternary_lut.core` sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.cycles.core_flow import CoreFlow

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


def core_flow(config: TernaryLutConfig) -> CoreFlow:
    """Return the flow through a core that has been reset."""
    return TernaryLut(config)


class TernaryLut:
    """Tables that are built while the ones before are read.

    Those of integers: totals are there in the next cycle.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        self._act = self._act_last = self._wgt = self._wgt_last = False
        # Tables on their way, the held ones in the lowest bit.
        self._tables = config.pipeline.table
        self._valids = self._lasts = 0
        self._planes, self._plane = config.planes, 0
        self._line, self._stages = 0, config.total_stages
        self._spare = False

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, taken: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        done = bool(self._line & 1)
        gives = done or self._spare
        run = not (done and self._spare)
        held, closes, last = bool(self._valids & 1), bool(self._lasts & 1), self._wgt_last
        fire = run and self._wgt and held
        step = not held or (fire and last)
        self._spare = gives and not taken
        if run:
            final = fire and closes and self._plane == self._planes - 1
            self._line = self._line >> 1 | final << (self._stages - 1)
        if fire:
            self._plane = (self._plane + 1) % self._planes
        if step:
            top = self._tables - 1
            self._valids = self._valids >> 1 | self._act << top
            self._lasts = self._lasts >> 1 | (self._act_last) << top
        act_room, wgt_room = step or not self._act, fire or not self._wgt
        if act_room:
            self._act, self._act_last = act, act_last
        if wgt_room:
            self._wgt, self._wgt_last = wgt, wgt_last
        return act_room, wgt_room, gives

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        return (
            self._act, self._act and self._act_last, self._wgt, self._wgt and self._wgt_last,
            self._valids, self._lasts & self._valids, self._plane, self._line, self._spare,
        )  # fmt: skip

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        (
            act, act_last, wgt, wgt_last, self._valids, self._lasts, self._plane, self._line,
            spare,
        ) = state  # fmt: skip
        self._act, self._act_last = bool(act), bool(act_last)
        self._wgt, self._wgt_last, self._spare = bool(wgt), bool(wgt_last), bool(spare)
