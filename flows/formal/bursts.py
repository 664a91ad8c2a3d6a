# SPDX-License-Identifier: Apache-2.0
"""Properties of the blocks that read and write memory in bursts of AXI4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port

LONGEST = 4
"""Cycles in a row in which a block that has work neither moves a beat nor waits, at most."""

PAGE = 4096
"""Bytes whose border no burst crosses."""


@dataclass(frozen=True)
class BurstLimits:
    """Parameters of a block that makes bursts.

    Parameters
    ----------
    data_width : int
        Bits of the bus.
    beats : int
        Longest burst.
    outstanding : int
        Bursts that are requested and have not ended, at most.
    """

    data_width: int
    beats: int
    outstanding: int = 0

    @property
    def byte_bits(self) -> int:
        """Bits of the index of a byte in a beat."""
        return (self.data_width // 8).bit_length() - 1


class BurstRules(Checker):
    """Parts that the checkers of splitters, readers and writers share."""

    def __init__(
        self,
        ports: Mapping[str, Port],
        limits: BurstLimits,
        probes: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        super().__init__(ports, probes)
        self.limits = limits

    def registered(self, m: Module, value: Value, name: str, init: int = 0) -> Signal:
        """Return a value of the cycle before."""
        register = Signal(len(value), name=name, init=init)
        m.d.sync += register.eq(value)
        return register

    def stable(
        self, m: Module, channel: str, fields: tuple[str, ...], unless: Value | int = 0
    ) -> None:
        """Require that a channel keeps valid and payload until it is ready."""
        valid, ready = self[f"{channel}_valid"], self[f"{channel}_ready"]
        stalled = self.registered(m, valid & ~ready & ~Value.cast(unless), f"{channel}_stalled")
        same: Value = valid
        for name in fields:
            signal = self[f"{channel}_{name}"]
            same = same & (signal == self.registered(m, signal, f"{channel}_{name}_before"))
        self.require(
            f"{channel.upper()} stable", ~stalled | same,
            f"valid and payload of {channel.upper()} stay until it is ready",
        )  # fmt: skip

    def legal_burst(self, channel: str, address: Value, length: Value) -> None:
        """Require that bursts are aligned, short enough and within 4 KiB."""
        valid, bits = self[f"{channel}_valid"], self.limits.byte_bits
        first = address[bits:12]
        self.require(
            f"{channel.upper()} within 4 KiB", ~valid | (first + length < PAGE >> bits),
            "no burst crosses an address that is a multiple of 4,096",
        )  # fmt: skip
        self.require(
            f"{channel.upper()} length", ~valid | (length < self.limits.beats),
            f"no burst is longer than {self.limits.beats} beats",
        )  # fmt: skip
        self.require(
            f"{channel.upper()} aligned", ~valid | ~address[:bits].any(),
            "bursts start at a whole beat",
        )  # fmt: skip

    def lawful_requests(self, m: Module) -> None:
        """Assume what drives the requests of a reader or a writer."""
        stop = self["stop"]
        stopped = self.registered(m, stop & self["busy"], "stopped")
        self.assume("stop stays", ~stopped | stop, "stop stays high while the block is busy")
        self.assume(
            "requests not empty", ~self["i_valid"] | (self["i_bytes"] != 0),
            "a request has at least one byte",
        )  # fmt: skip

    def goes_on(self, m: Module, active: Value, waits: Value, moves: Value) -> Signal:
        """Require that the block does something, or waits for its environment, while it is active.

        Returns the number of cycles in a row in which it did neither.
        """
        quiet = Signal(range(2 * LONGEST + 2), name="quiet_cycles")
        with m.If(~active | waits | moves):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet <= 2 * LONGEST):
            m.d.sync += quiet.eq(quiet + 1)
        self.require(
            "goes on", quiet <= LONGEST,
            f"with work, it moves a beat or waits for its environment every {LONGEST} cycles",
        )  # fmt: skip
        return quiet

    def first_cycle(self, m: Module) -> Signal:
        """Return whether this is the first cycle after a reset."""
        first = Signal(name="first_cycle", init=1)
        m.d.sync += first.eq(0)
        return first


class SplitterChecker(BurstRules):
    """The bursts of a request are exactly the beats that it touches, in order."""

    def __init__(self, ports: Mapping[str, Port], limits: BurstLimits, remaining: int) -> None:
        super().__init__(ports, limits, {"remaining": ("remaining", remaining)})

    def check(self, m: Module) -> None:
        """State that bursts are legal and cover each request once."""
        bits = self.limits.byte_bits
        address, size = self["i_address"], self["i_bytes"]
        o_address, length, last = self["o_address"], self["o_length"], self["o_last"]
        valid, drop = self["o_valid"], self["drop"]
        self.assume(
            "requests not empty", ~self["i_valid"] | (size != 0), "a request has at least one byte"
        )
        accepts = self["i_valid"] & self["i_ready"] & ~drop
        leaves = valid & self["o_ready"]
        span = address[:bits] + size - 1
        left = Signal(len(size) + 1)  # beats of the request after the next one
        expected = Signal(len(address) - bits)
        first_byte, final_byte, begun, pending = Signal(bits), Signal(bits), Signal(), Signal()
        with m.If(accepts):
            m.d.sync += [
                left.eq(span[bits:]),
                expected.eq(address[bits:]),
                first_byte.eq(address[:bits]),
                final_byte.eq(span[:bits]),
                begun.eq(0),
                pending.eq(1),
            ]
        with m.Elif(drop | (leaves & last)):
            m.d.sync += pending.eq(0)
        with m.Elif(leaves):
            m.d.sync += [
                left.eq(left - length - 1), expected.eq(expected + length + 1), begun.eq(1)
            ]  # fmt: skip
        self.legal_burst("o", o_address, length)
        self.stable(m, "o", ("address", "length", "first", "final", "last"), drop)
        self.require("request in progress", valid == pending, "bursts come of requests only")
        self.require(
            "burst address", ~valid | (o_address[bits:] == expected),
            "the first burst begins at the request's address, the next where the last one ended",
        )  # fmt: skip
        self.require(
            "burst end",
            ~valid | ((length <= left) & (last == (length == left))),
            "the last burst ends with the last beat of the request, no burst goes on after it",
        )
        self.require(
            "valid bytes",
            ~valid
            | (
                (self["o_first"] == Mux(begun, 0, first_byte))
                & (self["o_final"] == Mux(last, final_byte, (1 << bits) - 1))
            ),
            "the first and last valid byte are those of the request",
        )
        self.require("reset", ~(self.first_cycle(m) & valid), "a reset drops the request")
        self.require(
            "lemma remaining", ~valid | (self.probed["remaining"] == left), "beats are counted"
        )
        self.cover(
            "a request ends with a further burst",
            valid & last & begun & ~drop,
            "a request of several bursts",
        )


class ReaderChecker(BurstRules):
    """Bursts that are read: legal, limited in number, and every answer accepted and passed on."""

    def __init__(self, ports: Mapping[str, Port], limits: BurstLimits) -> None:
        super().__init__(
            ports, limits, {"flying": ("flying.level", limits.outstanding.bit_length())}
        )

    def check(self, m: Module) -> None:
        """State the rules of the read channels."""
        limits = self.limits
        ar_valid, ar_ready = self["ar_valid"], self["ar_ready"]
        r_valid, r_ready, r_last = self["r_valid"], self["r_ready"], self["r_last"]
        o_valid, o_ready, stop, busy = self["o_valid"], self["o_ready"], self["stop"], self["busy"]
        requested, ended = ar_valid & ar_ready, r_valid & r_ready & r_last
        waiting = Signal(range(limits.outstanding + 2))
        m.d.sync += waiting.eq(waiting + requested - ended)
        self.assume(
            "answers", ~r_valid | (waiting != 0), "the memory answers only bursts that it accepted"
        )
        self.lawful_requests(m)
        self.stable(m, "ar", ("addr", "len"))
        self.legal_burst("ar", self["ar_addr"], self["ar_len"])
        self.require(
            "outstanding", waiting + ar_valid <= limits.outstanding,
            f"at most {limits.outstanding} bursts are in flight",
        )  # fmt: skip
        before = self.registered(m, ar_valid, "ar_before")
        stop_before = self.registered(m, stop, "stop_before")
        self.require(
            "no burst after stop", ~(stop_before & ar_valid & ~before),
            "no address is issued after stop",
        )  # fmt: skip
        self.require(
            "answers accepted", r_ready | (o_valid & ~o_ready & ~stop),
            "a beat is refused only while the one before waits at the output",
        )  # fmt: skip
        self.require(
            "busy", busy | ((waiting == 0) & ~ar_valid & ~o_valid),
            "the block is busy while anything is in flight",
        )  # fmt: skip
        failed = self.registered(m, r_valid & r_ready & self["r_resp"][1], "failed")
        self.require("error", self["error"] == failed, "every answer with an error is reported")
        first = self.first_cycle(m)
        self.require(
            "reset", ~first | (~ar_valid & ~o_valid & ~busy), "a reset ends what is in progress"
        )
        self._pass_on(m, r_valid & r_ready, o_valid & o_ready)
        self.require(
            "lemma flying", self.probed["flying"] == waiting + ar_valid, "bursts are counted"
        )
        moves = requested | (r_valid & r_ready) | (o_valid & o_ready)
        moves = moves | (self["i_valid"] & self["i_ready"])
        waits = (ar_valid & ~ar_ready) | ((waiting != 0) & ~r_valid) | (o_valid & ~o_ready)
        self.goes_on(m, busy | self["i_valid"], waits, moves)
        self.cover(
            "all bursts in flight", waiting == limits.outstanding, "the limit can be reached"
        )
        self.cover("an answer after stop", stop & r_valid & r_ready, "beats are dropped after stop")

    def _pass_on(self, m: Module, enters: Value, leaves: Value) -> None:
        """Require that each beat of the memory leaves at the output, once and unchanged."""
        full, payload = Signal(), Signal.like(self["r_data"])
        with m.If(self["stop"]):
            m.d.sync += full.eq(0)
        with m.Elif(enters):
            m.d.sync += [full.eq(1), payload.eq(self["r_data"])]
        with m.Elif(leaves):
            m.d.sync += full.eq(0)
        valid = self["o_valid"]
        self.require(
            "beats passed on",
            self["stop"] | ((valid == full) & (~full | (self["o_data"] == payload))),
            "every beat that is accepted without stop leaves at the output, once and unchanged",
        )  # fmt: skip


class WriterChecker(BurstRules):
    """Bursts that are written: legal, with their beats, and every answer accepted."""

    def __init__(self, ports: Mapping[str, Port], limits: BurstLimits, stored: int) -> None:
        bits = limits.outstanding.bit_length()
        address = max(1, (limits.outstanding - 1).bit_length())
        probes = {
            "flying": ("flying", bits),
            "issued": ("issued.level", bits),
            "position": ("position", 8),
            "unclaimed": ("unclaimed", stored.bit_length()),
            "stored": ("stored", stored.bit_length()),
            "produce": ("issued.entries.w_addr", address),
            "consume": ("issued.entries.r_addr", address),
            **{f"word_{i}": (f"issued.entries.words[{i}]", 8) for i in range(limits.outstanding)},
        }
        super().__init__(ports, limits, probes)

    def check(self, m: Module) -> None:
        """State the rules of the write channels."""
        limits, probe = self.limits, self.probed
        aw_valid, aw_ready = self["aw_valid"], self["aw_ready"]
        w_valid, w_ready, w_last = self["w_valid"], self["w_ready"], self["w_last"]
        b_valid, stop, busy = self["b_valid"], self["stop"], self["busy"]
        length = self["aw_len"]
        waits = self.registered(m, aw_valid & ~aw_ready, "aw_waits")
        issued = aw_valid & ~waits  # a burst that appears in this cycle
        sent, completes = w_valid & w_ready, w_valid & w_ready & w_last

        most = range(limits.outstanding + 2)
        flying, unsent, unanswered = Signal(most), Signal(most), Signal(most)
        flying_now, unsent_now = Signal(most), Signal(most)  # with the burst of this cycle
        m.d.comb += [flying_now.eq(flying + issued), unsent_now.eq(unsent + issued)]
        m.d.sync += [
            flying.eq(flying_now - b_valid),
            unsent.eq(unsent_now - completes),
            unanswered.eq(unanswered + completes - b_valid),
        ]
        accepted = Signal(most)  # addresses whose burst is not answered
        m.d.sync += accepted.eq(accepted + (aw_valid & aw_ready) - b_valid)
        self.assume(
            "answers", ~b_valid | ((unanswered != 0) & (accepted != 0)),
            "the memory answers a burst after its address and its last beat",
        )  # fmt: skip
        self.lawful_requests(m)
        self.stable(m, "aw", ("addr", "len"))
        self.stable(m, "w", ("data", "strb", "last"))
        self.legal_burst("aw", self["aw_addr"], length)
        self.require(
            "outstanding", flying_now <= limits.outstanding,
            f"at most {limits.outstanding} bursts are in flight",
        )  # fmt: skip
        stop_before = self.registered(m, stop, "stop_before")
        self.require(
            "no burst after stop", ~(stop_before & issued), "no address is issued after stop"
        )
        self.require("answers accepted", self["b_ready"], "every answer is accepted at once")
        self.require(
            "beats of bursts only", ~w_valid | (unsent_now != 0), "no beat is sent without a burst"
        )
        self.require(
            "busy", busy | ((flying_now == 0) & (unsent_now == 0)),
            "the block is busy while anything is in flight",
        )  # fmt: skip
        failed = self.registered(m, b_valid & self["b_resp"][1], "failed")
        self.require("error", self["error"] == failed, "every answer with an error is reported")
        first = self.first_cycle(m)
        self.require(
            "reset", ~first | (~aw_valid & ~w_valid & ~busy), "a reset ends what is in progress"
        )
        self._beats(m, issued, sent, unsent, unsent_now)
        self.require("lemma flying", probe["flying"] == flying_now, "bursts are counted")
        self.require("lemma issued", probe["issued"] == unsent_now, "bursts to send are counted")
        self.require(
            "lemma answers",
            (unanswered + unsent_now == flying_now) & (accepted + aw_valid == flying_now),
            "a burst is sent, then answered",
        )
        self.cover("all bursts in flight", flying_now == limits.outstanding, "the limit is reached")

    def _beats(
        self, m: Module, issued: Value, sent: Value, unsent: Value, unsent_now: Value
    ) -> None:
        """Require that an arbitrarily chosen burst has as many beats as its address says."""
        limits, probe = self.limits, self.probed
        last, length = self["w_last"], self["aw_len"]
        followed, ahead = Signal(), Signal.like(unsent)
        burst, beat, slot = Signal(8), Signal(8), Signal.like(probe["produce"])
        chosen = Signal()
        m.d.comb += chosen.eq(issued & ~followed & self.choose("chosen"))
        # The chosen burst may send its first beat in the cycle in which it appears.
        now = Signal()
        position, beats, before = Signal(8), Signal(8), Signal.like(unsent)
        m.d.comb += [
            now.eq(followed | chosen),
            position.eq(Mux(chosen, 0, beat)),
            beats.eq(Mux(chosen, length, burst)),
            before.eq(Mux(chosen, unsent, ahead)),
        ]
        newest = Signal.like(slot)
        produce = probe["produce"]
        m.d.comb += newest.eq(Mux(produce == 0, limits.outstanding - 1, produce - 1))
        with m.If(chosen):
            m.d.sync += slot.eq(newest)
        m.d.sync += [
            followed.eq(now & ~(sent & last & (before == 0))),
            burst.eq(beats),
            ahead.eq(before - ((sent & last) & (before != 0))),
            beat.eq(position + (sent & (before == 0))),
        ]
        valid = self["w_valid"]
        self.require(
            "WLAST", ~(now & valid & (before == 0)) | (last == (position == beats)),
            "an arbitrarily chosen burst has as many beats as its address says; the last is marked",
        )  # fmt: skip
        where = Signal(range(2 * limits.outstanding))
        m.d.comb += where.eq(probe["consume"] + ahead)
        wrapped = Mux(where >= limits.outstanding, where - limits.outstanding, where)
        stored = self._word(m, slot, "followed")
        self.require(
            "lemma burst",
            ~followed
            | (
                (ahead < unsent)
                & (wrapped == slot)
                & (stored == burst)
                & Mux(ahead != 0, beat == 0, probe["position"] == beat)
            ),
            "the chosen burst is in the queue",
        )
        level = Signal(range(2 * limits.outstanding))
        m.d.comb += level.eq(probe["consume"] + probe["issued"])
        self.require(
            "lemma queue",
            (probe["consume"] < limits.outstanding)
            & (probe["produce"] < limits.outstanding)
            & (
                Mux(level >= limits.outstanding, level - limits.outstanding, level)
                == probe["produce"]
            ),
            "the queue is a ring",
        )
        self.require("lemma idle", (unsent != 0) | (probe["position"] == 0), "bursts end")
        self.require(
            "lemma newest", ~issued | (self._word(m, newest, "newest") == length),
            "the burst that appears is the newest of the queue",
        )  # fmt: skip
        self.cover(
            "a burst of two beats behind another", now & valid & last & (position == 1),
            "a chosen burst is sent to its end",
        )  # fmt: skip

    def _word(self, m: Module, address: Value, name: str) -> Signal:
        """Return an entry of the queue of bursts to send."""
        word = Signal(8, name=f"{name}_word")
        for i in range(self.limits.outstanding):
            with m.If(address == i):
                m.d.comb += word.eq(self.probed[f"word_{i}"])
        return word
