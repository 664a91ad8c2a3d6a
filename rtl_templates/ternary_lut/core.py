# SPDX-License-Identifier: Apache-2.0
"""The ternary-LUT core: stream ports, sequencer, datapath, rows of totals."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from rtl_templates.core import StreamCore
from rtl_templates.hierarchy import place
from rtl_templates.stream import StreamSkid, StreamSlice

from .cluster import Cluster
from .rows import Rows


class TernaryLutCore(StreamCore):
    """Tables that are built while the ones before are read; column groups iterate over them.

    A beat of weights waits in the key register for its tables; its ``tlast`` lets go of them.
    Everything behind the tables advances together while `run` is high, which is unless the totals
    are results that nobody has room for; tables advance when nobody needs the held ones any more.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, array = self.config, self.config.array
        run, fire, step = (Signal(name=name) for name in ("run", "fire", "step"))
        act, wgt, _ = config.ports
        x, x_last, x_valid = self.take(m, act, step, StreamSlice)
        keys, k_last, k_valid = self.take(m, wgt, fire, StreamSlice)

        # Tables on their way, the held ones last: {valid, end of the reduction}.
        stages = config.pipeline.table
        valids, lasts = Signal(stages), Signal(stages)
        held, closes = valids[-1], lasts[-1]
        starts = Signal(init=1)  # the next pass begins a reduction
        m.d.comb += [
            fire.eq(run & k_valid & held & self._totals_are_there(m, run, fire, starts, k_last)),
            step.eq(~held | (fire & k_last)),
        ]
        with m.If(step):
            m.d.sync += [valids.eq(Cat(x_valid, valids)), lasts.eq(Cat(x_last, lasts))]
        with m.If(fire & k_last):
            m.d.sync += starts.eq(closes)

        # The beat's flags travel beside it.
        flags: Value = Cat(fire, starts, closes, k_last)
        flags = self._delayed(m, run, "flags", flags, config.reduce_latency)
        first = flags[1]
        flags = self._delayed(m, run, "added", flags, config.pipeline.accumulate)
        valid, _, final, ends = flags
        load, done = Signal(), Signal(2)  # done: the totals are results, the last of their pass
        m.d.comb += load.eq(run & valid)
        with m.If(run):
            m.d.sync += done.eq(Cat(valid & final, ends))

        totals = Signal(array.fetch_ports * config.result.width)
        rows = {}
        if array.accumulator_depth > 1:
            rows = {name: Signal(len(totals), name=name) for name in ("stored", "next")}
            rows["again"] = Signal(name="again")
            write = load & ~final
            place(m, "rows", Rows(config), run=run, fire=fire, ends=k_last, write=write, **rows)
        place(
            m, "cluster", Cluster(config),
            step=step, x=x, run=run, load=load, starts=first, keys=keys, total=totals, **rows,
        )  # fmt: skip
        ready, _ = self.give(m, totals, done[1], done[0], StreamSkid)
        m.d.comb += run.eq(ready | ~done[0])
        return m

    def _delayed(self, m: Module, run: Value, name: str, value: Value, cycles: int) -> Value:
        for stage in range(cycles):
            register = Signal(len(value), name=f"{name}_{stage}")
            with m.If(run):
                m.d.sync += register.eq(value)
            value = register
        return value

    def _totals_are_there(
        self, m: Module, run: Value, fire: Value, starts: Value, last: Value
    ) -> Value:
        """Return whether a beat finds the totals of the pass before, if it is to add to them.

        They take ``pipeline.accumulate`` cycles more than one.  Passes go through their rows in
        the same order, at most one a cycle, so if the first beat of a pass has waited for every
        row of the pass before, less its distance to the first, no other beat has to.
        """
        cycles = self.config.pipeline.accumulate
        if not cycles:
            return Const(1, 1)
        begins = Signal(init=1)  # the next beat is the first of its pass
        waits = Signal(range(cycles + 1), init=cycles)  # for its row, less its distance
        missing = Signal(range(cycles + 1))
        with m.If(fire):
            m.d.sync += [
                begins.eq(last),
                waits.eq(Mux(last, cycles, waits - waits.any())),
                missing.eq(waits),
            ]
        with m.Elif(run & missing.any()):
            m.d.sync += missing.eq(missing - 1)
        return ~begins | starts | ~missing.any()
