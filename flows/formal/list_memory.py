# SPDX-License-Identifier: Apache-2.0
"""Accesses of command lists to memory: descriptors of the list, and the bytes of words only."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port
from hwgen.core.lists.commands import BYTES, LINE

_IDLE, _STORE, _ANSWER, _STORING = 0, 3, 7, 8
_FETCHES, _LOADS = (1, 4, 5), (2, 6)
"""States of an access by their code."""


class ListMemoryChecker(Checker):
    """Requests to reader and writer are those of the access at hand, once.

    Parameters
    ----------
    ports : mapping
    data_width : int
        Bits of the memory port.
    """

    def __init__(self, ports: Mapping[str, Port], data_width: int) -> None:
        self.beat_bytes = data_width // 8
        super().__init__(
            ports,
            {
                "state": ("access_state", 4),
                "read_request": ("read_request", 1),
                "read_address": ("read_address", ports["access_address"].width),
                "count": ("count", (BYTES * LINE).bit_length()),
                "write_request": ("write_request", 1),
                "write_accepted": ("write_accepted", 1),
                "beats_left": ("beats_left", 2),
                "beat_ready": ("write_data_ready", 1),
                "strobe": ("strobe", self.beat_bytes),
                **({"upper_half": ("upper_half", 1)} if data_width < 64 else {}),
            },
        )

    def check(self, m: Module) -> None:
        """State what is read and written."""
        fetch, load, store, stop = (
            self[f"access_{name}"] for name in ("fetch", "load", "store", "stop")
        )
        self._assume(m, fetch, load, store, stop)
        self._reads(fetch, load, stop)
        self._writes(m, store, stop)

    def _assume(self, m: Module, fetch: Value, load: Value, store: Value, stop: Value) -> None:
        """Assume what the sequencer guarantees."""
        asks = fetch | load | store
        waits, drained = Signal(name="waits"), Signal(name="drains")
        withdrawn = Signal(name="withdrawn")  # an access vanished before it was done
        self.vanished = withdrawn | (waits & ~asks)
        m.d.sync += [
            waits.eq(asks & ~self["access_done"] & ~stop), drained.eq(stop & self["access_busy"]),
        ]  # fmt: skip
        with m.If(stop):
            m.d.sync += withdrawn.eq(0)
        with m.Elif(waits & ~asks):
            m.d.sync += withdrawn.eq(1)
        names = ("fetch", "load", "store", "index", "address", "size", "value")
        access = Cat(self[f"access_{name}"] for name in names)
        before = Signal.like(access, name="access_before")
        region = Cat(self["base"], self["length"])
        region_before = Signal.like(region, name="region_before")
        m.d.sync += [before.eq(access), region_before.eq(region)]
        self.assume(
            "one access", (fetch + load + store <= 1) & ~(asks & stop),
            "there is one access, and none while it stops",
        )  # fmt: skip
        relevant = Mux(
            fetch, self["access_index"] == before[3 : 3 + len(self["access_index"])],
            access[3 + len(self["access_index"]) :] == before[3 + len(self["access_index"]) :],
        )  # fmt: skip
        self.assume(
            "access stable",
            ~waits | (~asks & before[0]) | ((access[:3] == before[:3]) & relevant),
            "an access does not change until it is done; only a fetch may be withdrawn",
        )  # fmt: skip
        self.assume(
            "withdrawn", ~withdrawn | ~asks, "after one that vanished there is a stop before others"
        )
        self.assume("stop stays", ~drained | stop, "stop stays while the block is busy")
        self.assume("list", ~waits | (region == region_before), "the list does not change")
        self.assume(
            "inside", ~fetch | (self["access_index"] < self["length"]),
            "only descriptors of the list are fetched",
        )  # fmt: skip
        ones = (1 << self["access_size"]) - 1
        self.assume(
            "aligned", ~(load | store) | ~(self["access_address"][:3] & ones).any(),
            "words lie at multiples of their bytes",
        )  # fmt: skip

    def _reads(self, fetch: Value, load: Value, stop: Value) -> None:
        probe, state = self.probed, self.probed["state"]
        request, address, count = (probe[f"{n}"] for n in ("read_request", "read_address", "count"))
        first = Cat(Const(0, 4), self["access_index"][4:])
        line = self["base"] + Cat(Const(0, 4), first)
        width = len(address)
        self.require(
            "fetches", ~(request & fetch)
            | ((address == line[:width]) & (count != 0) & (count[:4] == 0)
               & (first + count[4:] <= self["length"])),
            "whole descriptors are fetched: the line of the one that is asked, within the list",
        )  # fmt: skip
        self.require(
            "loads",
            ~(request & load)
            | ((address == self["access_address"]) & (count == (1 << self["access_size"]))),
            "the bytes of a word are loaded",
        )  # fmt: skip
        self.require(
            "reads of accesses", ~request | fetch | load | stop | self.vanished,
            "nothing else is read",
        )  # fmt: skip
        fetches = Cat(state == code for code in _FETCHES).any()
        loads = Cat(state == code for code in _LOADS).any()
        self.require(
            "lemma reads",
            (~fetches | fetch | stop | self.vanished)
            & (~loads | load | stop | self.vanished)
            & (~self.vanished | (state != _STORE) | stop) & (state <= _STORING),
            "the state is that of the access",
        )  # fmt: skip

    def _writes(self, m: Module, store: Value, stop: Value) -> None:
        probe, state = self.probed, self.probed["state"]
        address, size = self["access_address"], self["access_size"]
        request, left = probe["write_request"], probe["beats_left"]
        accepted = request & probe["write_accepted"] & ~stop
        moves = (left != 0) & probe["beat_ready"] & ~stop
        two = (size == 3) if self.beat_bytes < 8 else Const(0)
        wanted = Mux(two, 2, 1)
        taken, sent = Signal(name="taken"), Signal(2, name="sent")
        done = self["access_done"]
        with m.If(stop | done | ~store):
            m.d.sync += [taken.eq(0), sent.eq(0)]
        with m.Else():
            m.d.sync += [taken.eq(taken | accepted), sent.eq(sent + moves)]
        self.require(
            "writes of stores",
            stop | ((~request | (store & ~taken)) & ((left == 0) | (store & (sent < wanted)))),
            "the writer gets the request and the beats of a store, once",
        )  # fmt: skip
        offset = address[: (self.beat_bytes - 1).bit_length()]
        bytes_ = 1 << size
        inside = Cat((i >= offset) & (i < offset + bytes_) for i in range(self.beat_bytes))
        self.require(
            "bytes of stores",
            stop | (left == 0) | (probe["strobe"] == Mux(two, (1 << self.beat_bytes) - 1, inside)),
            "the bytes of the word are written, and no others",
        )  # fmt: skip
        self.require(
            "stores are complete", ~(store & done) | (taken & (sent == wanted)),
            "a store is done after its request and its beats",
        )  # fmt: skip
        storing = state == _STORING
        upper = probe.get("upper_half", sent != 0)
        waits = (state == _STORE) | storing | ((state == _ANSWER) & store)
        self.require(
            "lemma writes",
            stop
            | (
                (~waits | store | self.vanished)
                & Mux(
                    storing & store,
                    (request == ~taken) & (left == (wanted - sent)[:2])
                    & (sent <= wanted)
                    & (upper == (sent != 0)),
                    ~request & (left == 0),
                )
                & (~((state == _ANSWER) & store) | (taken & (sent == wanted)))
                & (~((state == _STORE) & store) | (~taken & (sent == 0)))
                & (~((state == _IDLE) & store) | (~taken & (sent == 0)))
            ),
            "the writer has what is left of a store",
        )  # fmt: skip
        self.cover("a word is stored", store & done, "a store is done")
