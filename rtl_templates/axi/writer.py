# SPDX-License-Identifier: Apache-2.0
"""Writing memory in bursts."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import writer_beats
from rtl_templates.axi.bursts import BurstSplitter, check_bursts, request_members
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamFifo, StreamStore


class BurstWriter(Block):
    """Stores requests of any address and length, a beat a cycle.

    A burst is announced when all its data is there, so the bus never waits for the engine.

    Parameters
    ----------
    data_width, address_width, max_burst, outstanding, length_width : int
        As of `rtl_templates.axi.reader.BurstReader`; a burst is in flight until its response.
    reports : bool
        Whether there is `done`.

    Members
    -------
    i_address, i_bytes, i_valid, i_ready : request in
        Any address; at least one byte.  `i_ready` follows `aw_ready` in the same cycle.
    d_data, d_strobe, d_last, d_valid, d_ready : beats in
        Exactly the beats that the requests touch, in order; they may come before the request.
        Their number says where a request ends, so that `d_last` is not looked at.
    aw_addr, aw_len, aw_valid, aw_ready : write address channel
        All but `aw_ready` are registers.
    w_data, w_strb, w_last, w_valid, w_ready : write data channel
    b_resp, b_valid, b_ready : write response channel, always ready
    stop : In(1)
        Finish the bursts that were announced, drop everything else; to be held until `busy` is
        low.
    busy : Out(1)
        A request or data is there, or a burst without its response.
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
                **request_members(address_width, length_width),
                "d_data": In(data_width),
                "d_strobe": In(data_width // 8),
                "d_last": In(1),
                "d_valid": In(1),
                "d_ready": Out(1),
                "aw_addr": Out(address_width),
                "aw_len": Out(8),
                "aw_valid": Out(1),
                "aw_ready": In(1),
                "w_data": Out(data_width),
                "w_strb": Out(data_width // 8),
                "w_last": Out(1),
                "w_valid": Out(1),
                "w_ready": In(1),
                "b_resp": In(2),
                "b_valid": In(1),
                "b_ready": Out(1),
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
        burst = {
            name: Signal(self.splitter.width(f"o_{name}"), name=f"burst_{name}")
            for name in ("address", "length", "first", "final", "last", "valid")
        }
        issue = Signal()
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

        address = Signal(len(self.aw_addr), reset_less=True)
        length = Signal(8, reset_less=True)
        flying = Signal(range(self.outstanding + 1))
        answered = Signal()
        spoken_for = Signal()  # the oldest data belongs to a burst that was announced
        held = Signal(range(self.depth + 1))
        unclaimed = Signal(range(self.depth + 1))  # beats that belong to no such burst
        m.d.comb += [
            issue.eq(
                burst["valid"]
                & (unclaimed > burst["length"])
                & (flying != self.outstanding)
                & (~self.aw_valid | self.aw_ready)
                & ~self.stop
            ),
            self.aw_addr.eq(address),
            self.aw_len.eq(length),
            self.b_ready.eq(1),
            answered.eq(self.b_valid),
            self.busy.eq(burst["valid"] | (flying != 0) | (held != 0)),
        ]
        with m.If(issue):
            m.d.sync += [address.eq(burst["address"]), length.eq(burst["length"])]
        m.d.sync += [
            self.aw_valid.eq(issue | (self.aw_valid & ~self.aw_ready)),
            flying.eq(flying + issue - answered),
            self.error.eq(answered & self.b_resp[1]),
        ]
        if "done" in self.members:
            ends = Signal(name="ends_request")
            place(
                m, "requests", StreamFifo(1, self.outstanding),
                i_data=burst["last"], i_valid=issue, i_ready=Signal(name="request_room"),
                o_data=ends, o_valid=Signal(name="request_there"), o_ready=answered,
            )  # fmt: skip
            m.d.sync += self.done.eq(answered & ends)
        pushed = Signal()
        claimed = Mux(issue, burst["length"] + 1, 0)
        m.d.sync += unclaimed.eq(Mux(self.stop, 0, unclaimed + pushed - claimed))
        self._data(m, burst["length"], issue, pushed, spoken_for, held)

    def _data(
        self,
        m: Module,
        announced: Signal,
        issue: Signal,
        pushed: Signal,
        spoken_for: Signal,
        held: Signal,
    ) -> None:
        """Keep the beats, and send those of the bursts that were announced."""
        bits = len(self.w_data) + len(self.w_strb)
        room, there, take = Signal(name="room_for_beat"), Signal(name="beat_there"), Signal()
        place(
            m, "beats", StreamStore(bits, self.depth - 1),
            i_data=Cat(self.d_data, self.d_strobe), i_valid=pushed, i_ready=room,
            o_data=Cat(self.w_data, self.w_strb), o_valid=there, o_ready=take, level=held,
        )  # fmt: skip
        length = Signal(8, name="sending_length")
        position = Signal(8)
        sent = Signal()
        place(
            m,
            "announced",
            StreamFifo(8, self.outstanding),
            i_data=announced,
            i_valid=issue,
            i_ready=Signal(name="room"),  # as many as bursts may be in flight
            o_data=length,
            o_valid=spoken_for,
            o_ready=sent & self.w_last,
        )
        m.d.comb += [
            pushed.eq(self.d_valid & room & ~self.stop),
            self.d_ready.eq(room | self.stop),
            self.w_valid.eq(there & spoken_for),
            self.w_last.eq(position == length),
            sent.eq(self.w_valid & self.w_ready),
            take.eq(sent | (self.stop & ~spoken_for)),
        ]
        with m.If(sent):
            m.d.sync += position.eq(Mux(self.w_last, 0, position + 1))
