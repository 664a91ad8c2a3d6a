# SPDX-License-Identifier: Apache-2.0
"""What a command list reads and writes in memory: descriptors, through a cache, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.lists.commands import BYTES, LINE
from hwgen.core.memories import Ram
from rtl_templates.axi.channels import bus_members
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.memory import place_ram

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

INDEX_BITS = 24
"""Bits of the number of descriptors of a list."""

_LINE_BYTES = BYTES * LINE
_OUTSTANDING = 2
_LONGEST_BURST = 16


class ListMemory(Block):
    """Fetches descriptors and does LOAD and STORE, one after the other.

    Parameters
    ----------
    memory : Memory
        The port.
    lines : int
        Lines of the cache, a power of two; descriptor i can be in one of them only.

    Members
    -------
    base, length : In
        Address of the list, and its descriptors.
    clear : In(1)
        Forget all lines.
    index, fetch : In
        Fetch a descriptor; both hold until `done`.
    address, size, value, load, store : In
        Load or store ``1 << size`` bytes; all hold until `done`.
    done, error : Out(1)
        It is done; the memory answered with an error.
    descriptor, loaded : Out
        What was fetched or loaded, with `done`.
    stop : In(1)
        Drop what is at work; to be held until `busy` is low.
    busy : Out(1)
    ar_..., r_..., aw_..., w_..., b_...
        Channels of the memory port.
    """

    resettable = True

    def __init__(self, memory: Memory, lines: int) -> None:
        self.memory, self.lines = memory, lines
        address, data = memory.address_width, memory.data_width
        self.burst = min(memory.max_burst, _LONGEST_BURST)
        super().__init__(
            "list_memory",
            {
                "base": In(address),
                "length": In(INDEX_BITS),
                "clear": In(1),
                "index": In(INDEX_BITS),
                "fetch": In(1),
                "address": In(address),
                "size": In(2),
                "value": In(64),
                "load": In(1),
                "store": In(1),
                "done": Out(1),
                "error": Out(1),
                "descriptor": Out(8 * BYTES),
                "loaded": Out(64),
                "stop": In(1),
                "busy": Out(1),
                **bus_members(memory),
            },
        )
        self.word_bits = max(data, 8 * BYTES)

    def build(self, m: Module) -> None:
        data = self.memory.data_width
        skipped = (data // 8).bit_length() - 1
        request, accepted = Signal(name="request"), Signal(name="accepted")
        where = Signal(len(self.base), name="where")
        count = Signal(range(_LINE_BYTES + 1), name="count")
        beat = {
            "data": Signal(data, name="beat_data"),
            "first": Signal(skipped, name="beat_first"),
            "last": Signal(name="beat_last"),
            "valid": Signal(name="beat_valid"),
        }
        reading, failed = Signal(name="reading"), Signal(name="read_fails")
        parameters = (data, len(self.base), self.burst, _OUTSTANDING, len(count))
        place(
            m, "reader", BurstReader(*parameters),
            i_address=where, i_bytes=count, i_valid=request, i_ready=accepted,
            **self._channel("ar", "r"),
            o_data=beat["data"], o_first=beat["first"], o_count=Signal(skipped + 1),
            o_last=beat["last"], o_valid=beat["valid"], o_ready=1,
            stop=self.stop, busy=reading, error=failed,
        )  # fmt: skip
        writing, stored = self._writer(m, parameters)
        m.d.comb += self.busy.eq(reading | writing)

        trouble = Signal(name="trouble")  # a beat so far was answered with an error
        cache = self._cache(m, beat)
        first = Cat(Const(0, 4), self.index[4:])
        left = Signal(INDEX_BITS, name="descriptors_left")
        m.d.comb += left.eq(self.length - first)
        accumulated = self._loads(m, beat)
        with m.If(failed):
            m.d.sync += trouble.eq(1)
        with m.FSM(name="access"):
            with m.State("IDLE"):
                m.d.sync += trouble.eq(0)
                m.d.comb += cache["read"].eq(self.fetch)
                with m.If(self.stop):
                    pass
                with m.Elif(self.fetch):
                    m.next = "LOOK"
                with m.Elif(self.load):
                    m.next = "LOAD"
                with m.Elif(self.store):
                    m.next = "STORE"
            with m.State("LOOK"):
                m.d.comb += self.done.eq(cache["hit"] & ~self.stop)
                m.next = "IDLE"
                with m.If(~cache["hit"] & ~self.stop):
                    m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [
                    request.eq(1),
                    where.eq(self.base + Cat(Const(0, 4), first)),
                    count.eq(Mux(left < LINE, left << 4, _LINE_BYTES)),
                ]
                self._leave(m, accepted, "BEATS")
            with m.State("BEATS"):
                m.d.comb += cache["write"].eq(beat["valid"])
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(beat["valid"] & beat["last"]):
                    m.next = "IDLE"
                    with m.If(trouble | failed):
                        m.d.comb += [self.done.eq(1), self.error.eq(1)]
                    with m.Else():
                        m.d.comb += cache["fill"].eq(1)
            with m.State("LOAD"):
                m.d.comb += [request.eq(1), where.eq(self.address), count.eq(1 << self.size)]
                self._leave(m, accepted, "LOADED")
            with m.State("LOADED"):
                m.d.comb += accumulated.eq(beat["valid"])
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(beat["valid"] & beat["last"]):
                    m.d.sync += trouble.eq(trouble | failed)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [self.done.eq(~self.stop), self.error.eq(trouble)]
                m.next = "IDLE"
            with m.State("STORE"):
                m.d.comb += stored["begin"].eq(1)
                self._leave(m, 1, "STORING")
            with m.State("STORING"):
                m.d.sync += trouble.eq(trouble | stored["error"])
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(stored["done"] & ~writing):
                    m.next = "ANSWER"

    def _leave(self, m: Module, condition: Any, state: str) -> None:
        """Go on when a condition holds, but back to the beginning when all is to stop."""
        with m.If(self.stop):
            m.next = "IDLE"
        with m.Elif(condition):
            m.next = state

    def _channel(self, *prefixes: str) -> dict[str, Any]:
        names = [n for n in bus_members(self.memory) if n.split("_")[0] in prefixes]
        return {name: getattr(self, name) for name in names}

    # -- descriptors -----------------------------------------------------------------------------

    def _cache(self, m: Module, beat: dict[str, Signal]) -> dict[str, Signal]:
        """Make the cache: `read` looks one up, `write` takes a beat, `fill` ends a line."""
        signals = {name: Signal(name=f"cache_{name}") for name in ("read", "write", "fill", "hit")}
        words = _LINE_BYTES * 8 // self.word_bits  # of a line
        beats = self.word_bits // self.memory.data_width  # of a word
        line_bits = (self.lines - 1).bit_length()
        line = self.index[4 : 4 + line_bits]
        tag = self.index[4 + line_bits :]
        tags = [Signal(len(tag), name=f"tag_{i}", reset_less=True) for i in range(self.lines)]
        valid = Signal(self.lines, name="lines_valid")
        (read,), write = place_ram(m, "list", Ram(self.lines * words, self.word_bits))
        word_bits = (words - 1).bit_length()
        within = self.index[4 - word_bits : 4]  # which word of the line
        place_in_line = Signal(max(1, word_bits), name="word_of_line")
        gathered = Signal(self.word_bits - self.memory.data_width, name="gathered", reset_less=True)
        part = Signal(range(max(2, beats)), name="part_of_word")
        m.d.comb += [
            read.addr.eq(Cat(within, line)),
            read.en.eq(signals["read"]),
            write.addr.eq(Cat(place_in_line[:word_bits], line)),
            write.data.eq(Cat(gathered, beat["data"])),
            # A line that ends in mid-word is of whole descriptors, each at least a word.
            write.en.eq(signals["write"] & ((part == beats - 1) | beat["last"])),
        ]
        with m.If(signals["write"]):
            if beats > 1:
                m.d.sync += gathered.eq(Cat(gathered, beat["data"])[self.memory.data_width :])
                m.d.sync += part.eq(Mux(part == beats - 1, 0, part + 1))
            with m.If(write.en):
                m.d.sync += place_in_line.eq(place_in_line + 1)
            with m.If(beat["last"]):
                m.d.sync += [place_in_line.eq(0), part.eq(0)]
        with m.If(self.stop):
            m.d.sync += [place_in_line.eq(0), part.eq(0)]
        hits = Signal(self.lines, name="hits")
        for i, held in enumerate(tags):
            here = (line == i) if line_bits else Const(1)
            m.d.comb += hits[i].eq(here & valid[i] & (held == tag))
            with m.If(here & (signals["fill"] | signals["write"])):
                m.d.sync += [valid[i].eq(signals["fill"]), held.eq(tag)]
        with m.If(self.clear):
            m.d.sync += valid.eq(0)
        m.d.comb += signals["hit"].eq(hits.any())
        descriptors = self.word_bits // (8 * BYTES)
        chosen: Value = read.data
        if descriptors > 1:
            chosen = read.data.word_select(self.index[: (descriptors - 1).bit_length()], 8 * BYTES)
        m.d.comb += self.descriptor.eq(chosen)
        return signals

    # -- words -----------------------------------------------------------------------------------

    def _loads(self, m: Module, beat: dict[str, Signal]) -> Signal:
        """Gather what is loaded; return the signal that takes a beat."""
        take = Signal(name="take_beat")
        held, second = Signal(64, name="held", reset_less=True), Signal(name="second_beat")
        shifted = Signal(64, name="shifted")
        m.d.comb += shifted.eq(beat["data"] >> Cat(Const(0, 3), beat["first"]))
        with m.If(take):
            m.d.sync += second.eq(~beat["last"])
            with m.If(second):
                m.d.sync += held.eq(Cat(held[:32], beat["data"][:32]))
            with m.Else():
                m.d.sync += held.eq(shifted)
        with m.If(self.stop):
            m.d.sync += second.eq(0)
        with m.Switch(self.size):
            for size in range(3):
                with m.Case(size):
                    m.d.comb += self.loaded.eq(held[: 8 << size])
            with m.Default():
                m.d.comb += self.loaded.eq(held)
        return take

    def _writer(self, m: Module, parameters: tuple[int, ...]) -> tuple[Signal, dict[str, Signal]]:
        """Place the writer; return whether it is busy, and what starts and ends a STORE."""
        data = self.memory.data_width
        skipped = (data // 8).bit_length() - 1
        signals = {name: Signal(name=f"store_{name}") for name in ("begin", "done", "error")}
        busy, ready, taken = (
            Signal(name="writing"),
            Signal(name="w_accepts"),
            Signal(name="d_takes"),
        )
        asking, sending = Signal(name="w_asks"), Signal(2, name="beats_left")
        offset = self.address[:skipped]
        moved, strobe = Signal(max(64, data), name="moved"), Signal(data // 8, name="strobe")
        bytes_there = Signal(8, name="bytes_there")
        size = Signal(parameters[-1], name="store_bytes")
        m.d.comb += [size.eq(1 << self.size), bytes_there.eq((1 << size[:4]) - 1)]
        upper = Signal(name="upper_half")  # of a word that takes two beats
        if data >= 64:
            m.d.comb += [
                moved.eq(self.value << Cat(Const(0, 3), offset)),
                strobe.eq(bytes_there << offset),
            ]
        else:
            with m.If(upper):
                m.d.comb += [moved.eq(self.value[32:]), strobe.eq(0xF)]
            with m.Else():
                m.d.comb += [
                    moved.eq(self.value[:32] << Cat(Const(0, 3), offset)),
                    strobe.eq(bytes_there << offset),
                ]
        place(
            m, "writer", BurstWriter(*parameters),
            i_address=self.address, i_bytes=size,
            i_valid=asking, i_ready=ready,
            d_data=moved[:data], d_strobe=strobe, d_last=sending == 1, d_valid=sending != 0,
            d_ready=taken, **self._channel("aw", "w", "b"),
            stop=self.stop, busy=busy, error=signals["error"],
        )  # fmt: skip
        m.d.comb += signals["done"].eq(~asking & (sending == 0))
        with m.If(asking & ready):
            m.d.sync += asking.eq(0)
        with m.If((sending != 0) & taken):
            m.d.sync += [sending.eq(sending - 1), upper.eq(1)]
        with m.If(signals["begin"]):
            two = (self.size == 3) if data == 32 else 0
            m.d.sync += [asking.eq(1), sending.eq(Mux(two, 2, 1)), upper.eq(0)]
        with m.If(self.stop):
            m.d.sync += [asking.eq(0), sending.eq(0)]
        return busy, signals
