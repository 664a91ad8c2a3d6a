# SPDX-License-Identifier: Apache-2.0
"""Reading memory in bursts."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import BurstSplitter, byte_bits, check_bursts, request_members
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamFifo


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
    i_address, i_bytes, i_valid, i_ready : request in
        Any address; at least one byte.  `i_ready` follows `ar_ready` in the same cycle.
    ar_addr, ar_len, ar_valid, ar_ready : read address channel
        All but `ar_ready` are registers.
    r_data, r_resp, r_last, r_valid, r_ready : read data channel
        `r_ready` follows `o_ready` in the same cycle.
    o_data, o_first, o_count, o_last, o_valid, o_ready : beats out, registers
        `o_first` is the index of the first valid byte, `o_count` the number of them, `o_last`
        marks the last beat of the request.
    stop : In(1)
        Drop all requests and beats, issue nothing new; to be held until `busy` is low.
    busy : Out(1)
        A request is at work or a burst in flight.
    error : Out(1)
        Pulse: the memory answered a beat with an error; not later than the beat is given.
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
                **request_members(address_width, length_width),
                "ar_addr": Out(address_width),
                "ar_len": Out(8),
                "ar_valid": Out(1),
                "ar_ready": In(1),
                "r_data": In(data_width),
                "r_resp": In(2),
                "r_last": In(1),
                "r_valid": In(1),
                "r_ready": Out(1),
                "o_data": Out(data_width),
                "o_first": Out(bits),
                "o_count": Out(bits + 1),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "stop": In(1),
                "busy": Out(1),
                "error": Out(1),
            },
        )
        self.byte_bits, self.outstanding = bits, outstanding
        self.splitter = BurstSplitter(data_width, address_width, max_burst, length_width)

    def build(self, m: Module) -> None:
        burst = {
            name: Signal(self.splitter.width(f"o_{name}"), name=f"burst_{name}")
            for name in ("address", "length", "first", "final", "last", "valid")
        }
        issue = Signal()
        room = Signal()
        place(
            m,
            "splitter",
            self.splitter,
            **{f"i_{name}": getattr(self, f"i_{name}") for name in ("address", "bytes", "valid")},
            i_ready=self.i_ready,
            drop=self.stop,
            **{f"o_{name}": signal for name, signal in burst.items()},
            o_ready=issue,
        )
        m.d.comb += issue.eq(burst["valid"] & room & (~self.ar_valid | self.ar_ready) & ~self.stop)
        address = Signal(len(self.ar_addr), reset_less=True)
        length = Signal(8, reset_less=True)
        m.d.comb += [self.ar_addr.eq(address), self.ar_len.eq(length)]
        with m.If(issue):
            m.d.sync += [address.eq(burst["address"]), length.eq(burst["length"])]
        m.d.sync += self.ar_valid.eq(issue | (self.ar_valid & ~self.ar_ready))

        # What is to know about each burst in flight; its depth is the limit of those.
        known = Cat(burst["first"], burst["final"], burst["last"])
        head = Signal(len(known))
        flying = Signal()
        ends = Signal()
        place(
            m,
            "flying",
            StreamFifo(len(known), self.outstanding),
            i_data=known,
            i_valid=issue,
            i_ready=room,
            o_data=head,
            o_valid=flying,
            o_ready=ends,
        )
        self._beats(m, head, ends)
        m.d.comb += self.busy.eq(burst["valid"] | self.ar_valid | flying | self.o_valid)

    def _beats(self, m: Module, head: Signal, ends: Signal) -> None:
        bits = self.byte_bits
        taken = Signal()
        full = Signal()
        midway = Signal()  # in a burst, behind its first beat
        first_byte = Signal(bits)
        final_byte = Signal(bits)
        beat = [
            Signal(self.width(name), name=f"{name}_reg", reset_less=True)
            for name in ("o_data", "o_first", "o_count", "o_last")
        ]
        m.d.comb += [
            self.r_ready.eq(~full | self.o_ready | self.stop),
            taken.eq(self.r_valid & self.r_ready),
            ends.eq(taken & self.r_last),
            first_byte.eq(Mux(midway, 0, head[:bits])),
            final_byte.eq(Mux(self.r_last, head[bits : 2 * bits], -1)),
            self.o_valid.eq(full & ~self.stop),
            Cat(self.o_data, self.o_first, self.o_count, self.o_last).eq(Cat(beat)),
        ]
        with m.If(taken):
            m.d.sync += midway.eq(~self.r_last)
            new = (self.r_data, first_byte, final_byte - first_byte + 1, self.r_last & head[-1])
            m.d.sync += [register.eq(value) for register, value in zip(beat, new, strict=True)]
        with m.If(self.r_ready):
            m.d.sync += full.eq(self.r_valid & ~self.stop)
        m.d.sync += self.error.eq(taken & self.r_resp[1])
