# SPDX-License-Identifier: Apache-2.0
"""The ternary-LUT core: stream ports, sequencer, datapath, rows of totals."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from rtl_templates.hdl.core import StreamCore
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import Stream, fields
from rtl_templates.stream.stream import StreamSkid, StreamSlice

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
        act, wgt, _ = config.core_ports
        x = self.pop_input(m, act, step, StreamSlice)
        keys = self.pop_input(m, wgt, fire, StreamSlice)
        k_last = keys.payload.last

        # Pipeline stages of tables, the readable ones last: {valid, end of the reduction}.
        stages = config.pipeline.table
        valids, lasts = Signal(stages), Signal(stages)
        readable, closes = valids[-1], lasts[-1]
        starts = Signal(init=1)  # the next pass begins a reduction
        m.d.comb += [
            fire.eq(run & keys.valid & readable & self._totals_ready(m, run, fire, starts, k_last)),
            step.eq(~readable | (fire & k_last)),
        ]
        with m.If(step):
            m.d.sync += [valids.eq(Cat(x.valid, valids)), lasts.eq(Cat(x.payload.last, lasts))]
        with m.If(fire & k_last):
            m.d.sync += starts.eq(closes)

        # What a group of columns does once happens in its first bit plane, or in its last one.
        first, last = self._planes(m, fire)

        # The beat's flags travel beside it.
        planes = {"first": first, "last": last} if config.planes > 1 else {}
        flags: Value = Cat(fire, starts, closes & last, k_last, *planes.values())
        flags = self._delayed(m, run, "flags", flags, config.reduce_latency)
        begins = flags[1]
        planes = dict(zip(planes, flags[4:], strict=True))
        flags = self._delayed(m, run, "added", flags[:4], config.pipeline.accumulate)
        valid, _, final, ends = flags
        load, done = Signal(), Signal(2)  # done: the totals are results, the last of their pass
        m.d.comb += load.eq(run & valid)
        with m.If(run):
            m.d.sync += done.eq(Cat(valid & final, ends))

        totals = Signal(array.fetch_ports * config.total_width)
        each = {"keys": keys.payload.data, "total": totals}
        again = {}
        if array.accumulator_depth > 1:
            each |= {name: Signal(len(totals), name=name) for name in ("stored", "next")}
            again = {"again": Signal(name="again")}
            complete = planes.get("last", Const(1, 1))
            place(
                m, "rows", Rows(config),
                run=run, fire=fire & last, ends=k_last, write=load & complete & ~final,
                stored=each["stored"], next=each["next"], **again,
            )  # fmt: skip
        cluster = Cluster(config)
        for c in range(array.clusters):
            mine = {name: value.word_select(c, cluster.width(name)) for name, value in each.items()}
            place(
                m, f"cluster_{c}", cluster,
                step=step, x=x.payload.data, run=run, load=load, starts=begins,
                **planes, **again, **mine,
            )  # fmt: skip
        # Totals of several bit planes are twice the results.
        results = [
            totals.word_select(p, config.total_width)[-config.result.width :]
            for p in range(array.fetch_ports)
        ]
        ready = Signal(name="out_ready")
        payload = fields(data=Cat(*results), last=done[1])
        self.push_output(m, Stream(payload, done[0], ready), StreamSkid)
        m.d.comb += run.eq(ready | ~done[0])
        return m

    def _delayed(self, m: Module, run: Value, name: str, value: Value, cycles: int) -> Value:
        for stage in range(cycles):
            register = Signal(len(value), name=f"{name}_{stage}")
            with m.If(run):
                m.d.sync += register.eq(value)
            value = register
        return value

    def _totals_ready(
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

    def _planes(self, m: Module, fire: Value) -> tuple[Value, Value]:
        """Return whether the beat in the key register is the first, and the last bit plane."""
        planes = self.config.planes
        if planes == 1:
            return Const(1, 1), Const(1, 1)
        plane = Signal(range(planes))
        first, last = Signal(name="first_plane"), Signal(name="last_plane")
        m.d.comb += [first.eq(plane == 0), last.eq(plane == planes - 1)]
        with m.If(fire):
            m.d.sync += plane.eq(Mux(last, 0, plane + 1))
        return first, last
