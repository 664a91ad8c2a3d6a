# SPDX-License-Identifier: Apache-2.0
"""Writing memory in bursts."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import writer_beats
from rtl_templates.axi.bursts import BurstSplitter, check_bursts, request_stream
from rtl_templates.axi.channels import address_channel, response_channel, write_channel
from rtl_templates.axi.scatter import strobe_layout
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields, transfers
from rtl_templates.stream.stream import StreamFifo, StreamStore, buffered


class BurstWriter(Block):
    """Stores requests of any address and length, a beat a cycle.

    The address of a burst is issued when all its data is stored, so the bus never waits for the
    engine.

    Parameters
    ----------
    data_width, address_width, max_burst, outstanding, length_width : int
        As of `rtl_templates.axi.reader.BurstReader`; a burst is in flight until its response.
    reports : bool
        Whether there is `done`.

    Members
    -------
    i : In(stream)
        Requests (`rtl_templates.axi.bursts.request_stream`).  Its ready depends on that of `aw` in
        the same cycle.
    d : In(stream)
        Exactly the beats that the requests touch (`rtl_templates.axi.scatter.strobe_layout`), in
        order; they may come before the request.  Their number says where a request ends: ``last``
        is ignored.
    aw : Out(stream)
        Write address channel; payload and valid are registers.
    w : Out(stream)
        Write data channel.
    b : In(stream)
        Write response channel, always ready.
    stop : In(1)
        Finish the issued bursts, drop everything else; it must stay high until `busy` is low.
    busy : Out(1)
        A request or data is stored, or a burst without its response.
    error : Out(1)
        Pulse: the memory answered a burst with an error; while `busy` is still high, or with its
        fall.
    done : Out(1)
        Pulse: a request is in memory; with `error` if that came of its last burst.
    """

    resettable = True

    def __init__(
        self,
        data_width: int,
        address_width: int,
        max_burst: int,
        outstanding: int,
        length_width: int,
        *,
        reports: bool = False,
    ) -> None:
        check_bursts(data_width, max_burst, outstanding)
        parameters = (data_width, address_width, max_burst, outstanding, length_width)
        super().__init__(
            f"burst_writer_{'_'.join(map(str, parameters))}{'_reports' * reports}",
            {
                "i": In(request_stream(address_width, length_width)),
                "d": In(stream.Signature(strobe_layout(data_width))),
                "aw": Out(address_channel(address_width)),
                "w": Out(write_channel(data_width)),
                "b": In(response_channel()),
                "stop": In(1),
                "busy": Out(1),
                "error": Out(1),
                **({"done": Out(1)} if reports else {}),
            },
        )
        self.outstanding = outstanding
        self.splitter = BurstSplitter(data_width, address_width, max_burst, length_width)
        # The oldest beat is in a register of its own, so that the memory's depth is a power of two.
        self.depth = writer_beats(data_width, max_burst) + 1

    def build(self, m: Module) -> None:
        burst = place(m, "splitter", self.splitter, i=self.i, drop=self.stop).o
        aw, b = self.aw, self.b
        issue = Signal()
        address = Signal(len(aw.payload.addr), reset_less=True)
        length = Signal(8, reset_less=True)
        flying = Signal(range(self.outstanding + 1))
        answered = Signal()
        stored = Signal(range(self.depth + 1))  # beats
        unclaimed = Signal(range(self.depth + 1))  # beats of no issued burst
        m.d.comb += [
            burst.ready.eq(issue),
            issue.eq(
                burst.valid
                & (unclaimed > burst.payload.length)
                & (flying != self.outstanding)
                & (~aw.valid | aw.ready)
                & ~self.stop
            ),
            aw.payload.addr.eq(address),
            aw.payload.len.eq(length),
            b.ready.eq(1),
            answered.eq(b.valid),
            self.busy.eq(burst.valid | (flying != 0) | (stored != 0)),
        ]
        with m.If(issue):
            m.d.sync += [address.eq(burst.payload.address), length.eq(burst.payload.length)]
        m.d.sync += [
            aw.valid.eq(issue | (aw.valid & ~aw.ready)),
            flying.eq(flying + issue - answered),
            self.error.eq(answered & b.payload.resp[1]),
        ]
        # Queues of issued bursts are as deep as the number of bursts in flight: always ready.
        queue = partial(StreamFifo, depth=self.outstanding)
        if "done" in self.members:
            source = Stream(burst.payload.last, issue, Signal(name="request_ready"))
            ends_request = buffered(m, "requests", source, queue)
            m.d.comb += ends_request.ready.eq(answered)
            m.d.sync += self.done.eq(answered & ends_request.payload)
        pushed = Signal()
        claimed = Mux(issue, burst.payload.length + 1, 0)
        m.d.sync += unclaimed.eq(Mux(self.stop, 0, unclaimed + pushed - claimed))
        source = Stream(burst.payload.length, issue, Signal(name="issued_ready"))
        self._data(m, buffered(m, "issued", source, queue), pushed, stored)

    def _data(self, m: Module, issued: AnyStream, pushed: Signal, stored: Signal) -> None:
        """Store the beats, and send those of issued bursts."""
        d, w = self.d, self.w
        payload = fields(data=d.payload.data, strb=d.payload.strobe)
        source = Stream(payload, pushed, Signal(name="beats_ready"))
        sink = Stream(
            fields(data=w.payload.data, strb=w.payload.strb),
            Signal(name="beat_valid"), Signal(name="beat_pop"),
        )  # fmt: skip
        store = StreamStore(len(payload.as_value()), self.depth - 1)
        place(m, "beats", store, i=source, o=sink, level=stored)
        position = Signal(8)
        sent = Signal()
        m.d.comb += [
            issued.ready.eq(sent & w.payload.last),
            pushed.eq(d.valid & source.ready & ~self.stop),
            d.ready.eq(source.ready | self.stop),
            w.valid.eq(sink.valid & issued.valid),
            w.payload.last.eq(position == issued.payload),
            sent.eq(transfers(w)),
            sink.ready.eq(sent | (self.stop & ~issued.valid)),
        ]
        with m.If(sent):
            m.d.sync += position.eq(Mux(w.payload.last, 0, position + 1))
