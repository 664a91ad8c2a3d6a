# SPDX-License-Identifier: Apache-2.0
"""Reading memory in bursts."""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import BurstSplitter, byte_bits, check_bursts, request_stream
from rtl_templates.axi.channels import address_channel, read_channel
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields, transfers
from rtl_templates.stream.stream import StreamFifo, buffered


def beat_layout(data_width: int) -> data.StructLayout:
    """Return the payload of beats that are read.

    ``first`` is the index of the first valid byte, ``count`` the number of valid bytes, ``last``
    marks the last beat of a request.
    """
    bits = byte_bits(data_width)
    return data.StructLayout({"data": data_width, "first": bits, "count": bits + 1, "last": 1})


class BurstReader(Block):
    """Fetches requests of any address and length, a beat a cycle.

    Beats come in the order of the requests.  With a memory that keeps up and enough bursts in
    flight there is no cycle between beats, also if every request is one beat.

    Parameters
    ----------
    data_width, address_width : int
        Bits of the bus.
    max_burst : int
        Longest burst in beats, a power of two up to 256.
    outstanding : int
        Bursts in flight, an address that waits included.  With L cycles from an address to its
        first beat and bursts of B beats, a beat a cycle needs 1 + (L + 1) / B of them.
    length_width : int
        Bits of the length of a request.

    Members
    -------
    i : In(stream)
        Requests (`rtl_templates.axi.bursts.request_stream`).  Its ready depends on that of `ar` in
        the same cycle.
    ar : Out(stream)
        Read address channel; payload and valid are registers.
    r : In(stream)
        Read data channel.  Its ready depends on that of `o` in the same cycle.
    o : Out(stream)
        Beats (`beat_layout`), registers.
    stop : In(1)
        Drop all requests and beats, issue nothing new; it must stay high until `busy` is low.
    busy : Out(1)
        A request is in progress or a burst in flight.
    error : Out(1)
        Pulse: the memory answered a beat with an error; not later than the beat is valid.
    """

    resettable = True

    def __init__(
        self,
        data_width: int,
        address_width: int,
        max_burst: int,
        outstanding: int,
        length_width: int,
    ) -> None:
        check_bursts(data_width, max_burst, outstanding)
        bits = byte_bits(data_width)
        parameters = (data_width, address_width, max_burst, outstanding, length_width)
        super().__init__(
            f"burst_reader_{'_'.join(map(str, parameters))}",
            {
                "i": In(request_stream(address_width, length_width)),
                "ar": Out(address_channel(address_width)),
                "r": In(read_channel(data_width)),
                "o": Out(stream.Signature(beat_layout(data_width))),
                "stop": In(1),
                "busy": Out(1),
                "error": Out(1),
            },
        )
        self.byte_bits, self.outstanding = bits, outstanding
        self.splitter = BurstSplitter(data_width, address_width, max_burst, length_width)

    def build(self, m: Module) -> None:
        issue, queue_ready = Signal(), Signal()
        burst = place(m, "splitter", self.splitter, i=self.i, drop=self.stop).o
        ar = self.ar
        m.d.comb += [
            burst.ready.eq(issue),
            issue.eq(burst.valid & queue_ready & (~ar.valid | ar.ready) & ~self.stop),
        ]
        address = Signal(len(ar.payload.addr), reset_less=True)
        length = Signal(8, reset_less=True)
        m.d.comb += [ar.payload.addr.eq(address), ar.payload.len.eq(length)]
        with m.If(issue):
            m.d.sync += [address.eq(burst.payload.address), length.eq(burst.payload.length)]
        m.d.sync += ar.valid.eq(issue | (ar.valid & ~ar.ready))

        # What is needed of each burst in flight; the depth limits their number.
        issued = fields(
            first=burst.payload.first, final=burst.payload.final, last=burst.payload.last
        )
        source = Stream(issued, issue, queue_ready)
        flying = buffered(m, "flying", source, partial(StreamFifo, depth=self.outstanding))
        self._beats(m, flying)
        m.d.comb += self.busy.eq(burst.valid | ar.valid | flying.valid | self.o.valid)

    def _beats(self, m: Module, flying: AnyStream) -> None:
        bits, r, burst = self.byte_bits, self.r, flying.payload
        received = Signal()
        full = Signal()
        midway = Signal()  # in a burst, after its first beat
        first_byte = Signal(bits)
        final_byte = Signal(bits)
        beat = [
            Signal(width, name=f"o_{name}_reg", reset_less=True)
            for name, width in self.o.payload.shape().members.items()
        ]
        m.d.comb += [
            r.ready.eq(~full | self.o.ready | self.stop),
            received.eq(transfers(r)),
            flying.ready.eq(received & r.payload.last),
            first_byte.eq(Mux(midway, 0, burst.first)),
            final_byte.eq(Mux(r.payload.last, burst.final, -1)),
            self.o.valid.eq(full & ~self.stop),
            self.o.payload.eq(Cat(beat)),
        ]
        with m.If(received):
            m.d.sync += midway.eq(~r.payload.last)
            count, last = final_byte - first_byte + 1, r.payload.last & burst.last
            new = (r.payload.data, first_byte, count, last)
            m.d.sync += [register.eq(value) for register, value in zip(beat, new, strict=True)]
        with m.If(r.ready):
            m.d.sync += full.eq(r.valid & ~self.stop)
        m.d.sync += self.error.eq(received & r.payload.resp[1])
