# SPDX-License-Identifier: Apache-2.0
"""Properties of stream buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port


@dataclass(frozen=True)
class BufferContract:
    """Promises of a stream buffer.

    Parameters
    ----------
    capacity : int
        Beats that it stores at most.
    accepts : int
        It accepts a beat while it stores fewer than this.
    latency : int
        Cycles in which a stored beat may be absent from the output.
    transparent : bool
        Whether a beat may leave in the cycle in which it arrives; then the output is only as
        stable as the input.
    registered : bool
        Whether the input's ready does not depend on the output's in the same cycle.
    """

    capacity: int
    accepts: int
    latency: int = 0
    transparent: bool = False
    registered: bool = True


@dataclass(frozen=True)
class Ring:
    """The memory of a FIFO, for lemmas.

    Parameters
    ----------
    memory : str
        Instance of the memory.
    words : int
    level : str
        Register with the number of its entries.
    ahead : bool
        Whether the oldest entry is in the output's register.
    """

    memory: str
    words: int
    level: str
    ahead: bool = False


class BufferChecker(Checker):
    """Follows an arbitrarily chosen beat through a buffer.

    Members of the block are the streams ``i`` and ``o`` with one field of any width.

    Parameters
    ----------
    ports : mapping
    contract : BufferContract
    ring : Ring, optional
        Makes the proof of a long FIFO one step of induction.
    """

    def __init__(
        self, ports: Mapping[str, Port], contract: BufferContract, ring: Ring | None = None
    ) -> None:
        probes = {}
        self.contract, self.ring = contract, ring
        if ring:
            address = max(1, (ring.words - 1).bit_length())
            probes = {
                "produce": (f"{ring.memory}.w_addr", address),
                "consume": (f"{ring.memory}.r_addr", address),
                "level": (ring.level, ring.words.bit_length()),
            }
            bits = ports["i_data"].width
            probes |= {f"word_{i}": (f"{ring.memory}.words[{i}]", bits) for i in range(ring.words)}
        super().__init__(ports, probes)

    def check(self, m: Module) -> None:
        """State what the buffer promises."""
        contract = self.contract
        i_valid, i_ready, i_data = self["i_valid"], self["i_ready"], self["i_data"]
        o_valid, o_ready, o_data = self["o_valid"], self["o_ready"], self["o_data"]
        enters, leaves = Signal(), Signal()
        fill = Signal(range(contract.capacity + 2))
        m.d.comb += [enters.eq(i_valid & i_ready), leaves.eq(o_valid & o_ready)]
        m.d.sync += fill.eq(fill + enters - leaves)
        present = fill + (enters if contract.transparent else 0)

        stalled, before = Signal(), Signal.like(o_data)
        m.d.sync += [stalled.eq(o_valid & ~o_ready), before.eq(o_data)]
        steady: Value = Const(1, 1)
        condition = ""
        if contract.transparent:
            waiting, offered, so_far = Signal(), Signal.like(i_data), Signal(init=1)
            m.d.sync += [waiting.eq(i_valid & ~i_ready), offered.eq(i_data)]
            steady = so_far & (~waiting | (i_valid & (i_data == offered)))
            m.d.sync += so_far.eq(steady)
            condition = ", if those of the input do"
        self.require(
            "stable", ~stalled | ~steady | (o_valid & (o_data == before)),
            f"valid and payload stay until the beat is accepted{condition}",
        )  # fmt: skip
        self.require(
            "nothing created", ~leaves | (present != 0), "no more beats leave than have entered"
        )
        self.require(
            "no overflow", fill <= contract.capacity, "at most as many beats are stored as fit"
        )
        self.require(
            "accepts", (fill >= contract.accepts) | i_ready, "a beat is accepted while one fits"
        )
        first = Signal(init=1)
        m.d.sync += first.eq(0)
        empty = o_valid == i_valid if contract.transparent else ~o_valid
        self.require("reset", ~first | (empty & i_ready), "a reset empties the buffer")
        absent = Signal(range(contract.latency + 2))
        m.d.sync += absent.eq(Mux((fill != 0) & ~o_valid, absent + (absent <= contract.latency), 0))
        missing = (fill != 0) & ~o_valid
        self.require(
            "nothing lost", ~missing | (absent < contract.latency),
            f"a stored beat is at the output within {contract.latency} cycles",
        )  # fmt: skip
        self._follow(m, enters, leaves, fill, present)

    def _follow(
        self, m: Module, enters: Value, leaves: Value, fill: Signal, present: Value
    ) -> None:
        """Require that a chosen beat leaves unchanged after those that entered before it."""
        i_data, o_data = self["i_data"], self["o_data"]
        followed, ahead = Signal(), Signal.like(fill)
        payload, full = Signal.like(i_data), Signal()
        start = Signal()
        m.d.comb += start.eq(enters & self.choose("chosen") & ~followed)
        arrives = fill - leaves  # beats ahead of one that enters
        if self.contract.transparent:
            passing = start & (fill == 0)
            self.require(
                "order of passing beats", ~(passing & leaves) | (o_data == i_data),
                "a beat that passes an empty buffer is unchanged",
            )  # fmt: skip
            start = start & ~(passing & leaves)
        with m.If(start):
            m.d.sync += [followed.eq(1), ahead.eq(arrives), payload.eq(i_data), full.eq(0)]
        with m.Elif(followed & leaves):
            with m.If(ahead == 0):
                m.d.sync += followed.eq(0)
            m.d.sync += ahead.eq(ahead - 1)
        with m.If(followed & (fill == self.contract.capacity)):
            m.d.sync += full.eq(1)
        self.require(
            "order", ~(followed & leaves & (ahead == 0)) | (o_data == payload),
            "a chosen beat leaves once, unchanged, after the beats before it",
        )  # fmt: skip
        self.cover(
            "a chosen beat leaves after the buffer was full",
            followed & leaves & (ahead == 0) & full,
            "the buffer was full while the chosen beat was in it",
        )  # fmt: skip
        self.require("lemma position", ~followed | (ahead < fill), "the chosen beat is stored")
        if self.ring:
            self._lemmas(m, self.ring, start, followed, ahead, payload, fill)

    def _lemmas(
        self, m: Module, ring: Ring, start: Value, followed: Value, ahead: Value, payload: Value,
        fill: Value,
    ) -> None:  # fmt: skip
        probe, words = self.probed, ring.words
        slot = Signal.like(probe["produce"])
        with m.If(start):
            m.d.sync += slot.eq(probe["produce"])
        outside = self["o_valid"] if ring.ahead else 0  # entries that are not in the memory
        within = ahead - outside
        level, produce, consume = probe["level"], probe["produce"], probe["consume"]

        def after(address: Value, count: Value) -> Value:
            total = address + count
            return Mux(total >= words, total - words, total)

        in_memory = followed & ((ahead != 0) | ~Value.cast(outside).any())
        stored = Array(probe[f"word_{i}"] for i in range(words))[slot]
        self.require(
            "lemma level", (level <= words) & (fill == level + outside), "the level counts entries"
        )
        self.require(
            "lemma addresses",
            (produce < words) & (consume < words) & (after(consume, level) == produce),
            "the memory is a ring",
        )
        self.require(
            "lemma entry",
            ~in_memory | ((after(consume, within[: len(level)]) == slot) & (stored == payload)),
            "the chosen beat is at its address",
        )
        if ring.ahead:
            self.require(
                "lemma head", ~followed | in_memory | (self["o_data"] == payload),
                "the chosen beat is in the output's register",
            )  # fmt: skip
