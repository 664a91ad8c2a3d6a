# SPDX-License-Identifier: Apache-2.0
"""The core of the ternary-LUT family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hwgen.core.core import CONTRACT
from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.core_flow import CoreFlow
from hwgen.core.cycles.counting import as_integer, ceil_div
from hwgen.core.gemm_core import GemmCore
from hwgen.core.golden.post import processed
from hwgen.core.operation import Array, Arrays, Job
from hwgen.families.ternary_lut.golden import accumulated_sums
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.families.ternary_lut.schedule import Schedule
from hwgen.lazy import np


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
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, pop: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        done = bool(self._line & 1)
        gives = done or self._spare
        run = not (done and self._spare)
        valid, closes, last = bool(self._valids & 1), bool(self._lasts & 1), self._wgt_last
        fire = run and self._wgt and valid
        step = not valid or (fire and last)
        self._spare = gives and not pop
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


class TernaryLutCore(GemmCore[TernaryLutConfig]):
    """Tables of partial sums that weights of few bits select from."""

    contract = CONTRACT
    summary = "ternary and low-bit weights by look-up tables of activation sums, any group size"
    params_class = TernaryLutConfig

    def schedule(self, job: Job) -> Schedule:
        """Return the beats of a product."""
        return Schedule(self.params, *job.gemm_size, job.post)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the product as the hardware computes it; sums of floats are rounded in order."""
        if not self.params.is_float or self.params.block_product is not None:
            return super().golden(job, operands)
        plan = self.schedule(job).with_records(operands)
        total = accumulated_sums(plan, operands["activations"], operands["weights"])
        return {"result": processed(plan, total)}

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the exact cycles of products that follow each other without a pause.

        Notes
        -----
        Every beat of weights takes one cycle, and there is one for each beat of activations, group
        of columns and bit plane.  The first waits for the first tables: one cycle in the buffer of
        the port and ``pipeline.table`` cycles to build them.  A pass that is not the last of its
        reduction takes at least the cycles after which the next one finds its totals.  Behind the
        last beat come the path to the totals (``core_latency``, which counts the input buffer once
        more) and post-processing.
        """
        config, depth = self.params, self.params.array.accumulator_depth
        again, slots = 1 + config.pipeline.accumulate, 0
        for size, repeats in Counter(job.gemm_size for job in jobs).items():
            plan = Schedule(config, *size)
            tiles = ceil_div(plan.k, config.terms)
            groups = ceil_div(plan.n, config.array.fetch_ports)
            whole = groups // depth
            for blocks, count in ((whole, depth), (1, groups - whole * depth)):
                beats = count * config.planes
                passes = (tiles - 1) * np.maximum(beats, again) + beats
                slots = slots + repeats * plan.m * blocks * passes * (count > np.int64(0))
        latency = config.pipeline.table + config.core_latency
        return Cycles(as_integer(slots + latency) + config.post_latency)

    def core_flow(self) -> CoreFlow:
        """Return the flow of beats through a core that has been reset."""
        return TernaryLut(self.params)
