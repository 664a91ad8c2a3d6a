# SPDX-License-Identifier: Apache-2.0
"""The ternary-LUT core: stream ports, sequencer, datapath, rows of totals."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value

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
        m.d.comb += [
            fire.eq(run & k_valid & held),
            step.eq(~held | (fire & k_last)),
        ]
        with m.If(step):
            m.d.sync += [valids.eq(Cat(x_valid, valids)), lasts.eq(Cat(x_last, lasts))]
        starts = Signal(init=1)  # the next pass begins a reduction
        with m.If(fire & k_last):
            m.d.sync += starts.eq(closes)

        # The beat's flags travel beside it.
        flags: Value = Cat(fire, starts, closes, k_last)
        for stage in range(config.pipeline.reduce):
            register = Signal(4, name=f"flags_{stage}")
            with m.If(run):
                m.d.sync += register.eq(flags)
            flags = register
        valid, first, final, ends = flags
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
