# SPDX-License-Identifier: Apache-2.0
"""Accesses of a command list to memory: descriptors, through a cache, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.lists.commands import BYTES, LINE
from hwgen.core.memories import Ram
from rtl_templates.axi.channels import MemorySignature
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import Block, Placed, place
from rtl_templates.hdl.memory import place_ram
from rtl_templates.hdl.streams import AnyStream, Stream, fields, new_stream

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

INDEX_BITS = 24
"""Bits of the number of descriptors of a list."""

_LINE_BYTES = BYTES * LINE
_OUTSTANDING = 2
_LONGEST_BURST = 16


class ListAccess(wiring.Signature):
    """Signature of the accesses of a command list to memory, seen from the sequencer.

    Parameters
    ----------
    address_width : int

    Members
    -------
    clear : Out(1)
        Invalidate all lines of the cache.
    index, fetch : Out
        Fetch a descriptor; both are stable until `done`.
    address, size, value, load, store : Out
        Load or store ``1 << size`` bytes; all are stable until `done`.
    stop : Out(1)
        Drop the access in progress; it must stay high until `busy` is low.
    done, error : In(1)
        The access is complete; the memory answered with an error.
    descriptor, loaded : In
        The fetched descriptor, the loaded word, with `done`.
    busy : In(1)
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "clear": Out(1),
                "index": Out(INDEX_BITS),
                "fetch": Out(1),
                "address": Out(address_width),
                "size": Out(2),
                "value": Out(64),
                "load": Out(1),
                "store": Out(1),
                "stop": Out(1),
                "done": In(1),
                "error": In(1),
                "descriptor": In(8 * BYTES),
                "loaded": In(64),
                "busy": In(1),
            }
        )


class ListMemory(Block):
    """Fetches descriptors and executes LOAD and STORE, one after another.

    Parameters
    ----------
    memory : Memory
        The port.
    lines : int
        Lines of the cache, a power of two; each descriptor belongs to one line.

    Members
    -------
    base, length : In
        Address of the list, and number of its descriptors.
    access : In(ListAccess)
    mem : Out(MemorySignature)
        The memory port.
    """

    resettable = True

    def __init__(self, memory: Memory, lines: int) -> None:
        self.memory, self.lines = memory, lines
        self.burst = min(memory.max_burst, _LONGEST_BURST)
        super().__init__(
            "list_memory",
            {
                "base": In(memory.address_width),
                "length": In(INDEX_BITS),
                "access": In(ListAccess(memory.address_width)),
                "mem": Out(MemorySignature(memory)),
            },
        )
        self.word_bits = max(memory.data_width, 8 * BYTES)

    def build(self, m: Module) -> None:
        mem, access = self.mem, self.access
        address = Signal(len(self.base), name="read_address")
        count = Signal(range(_LINE_BYTES + 1), name="count")
        request = Stream(
            fields(address=address, bytes=count), Signal(name="read_request"),
            Signal(name="read_accepted"),
        )  # fmt: skip
        parameters = (
            self.memory.data_width, len(self.base), self.burst, _OUTSTANDING, len(count)
        )  # fmt: skip
        block = BurstReader(*parameters)
        beat = new_stream("beat", block.payload("o"))
        reader = place(
            m, "reader", block, i=request, ar=mem.ar, r=mem.r, stop=access.stop,
            o=Stream(beat.payload, beat.valid, Const(1, 1)),
        )  # fmt: skip
        begin_store, stored = Signal(name="begin_store"), Signal(name="stored")
        writer = self._writer(m, parameters, begin_store, stored)
        m.d.comb += access.busy.eq(reader.busy | writer.busy)

        trouble = Signal(name="trouble")  # a beat of this access was answered with an error
        cache = self._cache(m, beat)
        first = Cat(Const(0, 4), access.index[4:])
        left = Signal(INDEX_BITS, name="descriptors_left")
        m.d.comb += left.eq(self.length - first)
        loads = self._loads(m, beat)
        with m.If(reader.error):
            m.d.sync += trouble.eq(1)
        with m.FSM(name="access"):
            with m.State("IDLE"):
                m.d.sync += trouble.eq(0)
                m.d.comb += cache.read.eq(access.fetch)
                with m.If(access.stop):
                    pass
                with m.Elif(access.fetch):
                    m.next = "LOOK_UP"
                with m.Elif(access.load):
                    m.next = "LOAD"
                with m.Elif(access.store):
                    m.next = "STORE"
            with m.State("LOOK_UP"):
                m.d.comb += access.done.eq(cache.hit & ~access.stop)
                m.next = "IDLE"
                with m.If(~cache.hit & ~access.stop):
                    m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [
                    request.valid.eq(1),
                    address.eq(self.base + Cat(Const(0, 4), first)),
                    count.eq(Mux(left < LINE, left << 4, _LINE_BYTES)),
                ]
                self._leave(m, request.ready, "BEATS")
            with m.State("BEATS"):
                m.d.comb += cache.write.eq(beat.valid)
                with m.If(access.stop):
                    m.next = "IDLE"
                with m.Elif(beat.valid & beat.payload.last):
                    m.next = "IDLE"
                    with m.If(trouble | reader.error):
                        m.d.comb += [access.done.eq(1), access.error.eq(1)]
                    with m.Else():
                        m.d.comb += cache.fill.eq(1)
            with m.State("LOAD"):
                m.d.comb += [
                    request.valid.eq(1),
                    address.eq(access.address),
                    count.eq(1 << access.size),
                ]
                self._leave(m, request.ready, "LOADED")
            with m.State("LOADED"):
                m.d.comb += loads.eq(beat.valid)
                with m.If(access.stop):
                    m.next = "IDLE"
                with m.Elif(beat.valid & beat.payload.last):
                    m.d.sync += trouble.eq(trouble | reader.error)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [access.done.eq(~access.stop), access.error.eq(trouble)]
                m.next = "IDLE"
            with m.State("STORE"):
                m.d.comb += begin_store.eq(1)
                self._leave(m, 1, "STORING")
            with m.State("STORING"):
                m.d.sync += trouble.eq(trouble | writer.error)
                with m.If(access.stop):
                    m.next = "IDLE"
                with m.Elif(stored & ~writer.busy):
                    m.next = "ANSWER"

    def _leave(self, m: Module, condition: ValueLike, state: str) -> None:
        """Go to a state when a condition holds, or to the first state on `stop`."""
        with m.If(self.access.stop):
            m.next = "IDLE"
        with m.Elif(condition):
            m.next = state

    # -- descriptors -----------------------------------------------------------------------------

    def _cache(self, m: Module, beat: AnyStream) -> _Cache:
        """Make the cache of descriptors."""
        cache, access, data = _Cache(), self.access, beat.payload.data
        words = _LINE_BYTES * 8 // self.word_bits  # of a line
        beats = self.word_bits // self.memory.data_width  # of a word
        line_bits = (self.lines - 1).bit_length()
        line = access.index[4 : 4 + line_bits]
        tag = access.index[4 + line_bits :]
        tags = [Signal(len(tag), name=f"tag_{i}", reset_less=True) for i in range(self.lines)]
        valid = Signal(self.lines, name="lines_valid")
        (read,), write = place_ram(m, "list", Ram(self.lines * words, self.word_bits))
        word_bits = (words - 1).bit_length()
        within = access.index[4 - word_bits : 4]  # word of the line
        word_of_line = Signal(max(1, word_bits), name="word_of_line")
        gathered = Signal(self.word_bits - self.memory.data_width, name="gathered", reset_less=True)
        part = Signal(range(max(2, beats)), name="part_of_word")
        m.d.comb += [
            read.addr.eq(Cat(within, line)),
            read.en.eq(cache.read),
            write.addr.eq(Cat(word_of_line[:word_bits], line)),
            write.data.eq(Cat(gathered, data)),
            # A line that ends within a word consists of whole descriptors, each at least a word.
            write.en.eq(cache.write & ((part == beats - 1) | beat.payload.last)),
        ]
        with m.If(cache.write):
            if beats > 1:
                m.d.sync += gathered.eq(Cat(gathered, data)[self.memory.data_width :])
                m.d.sync += part.eq(Mux(part == beats - 1, 0, part + 1))
            with m.If(write.en):
                m.d.sync += word_of_line.eq(word_of_line + 1)
            with m.If(beat.payload.last):
                m.d.sync += [word_of_line.eq(0), part.eq(0)]
        with m.If(access.stop):
            m.d.sync += [word_of_line.eq(0), part.eq(0)]
        hits = Signal(self.lines, name="hits")
        for i, tag_of_line in enumerate(tags):
            here = (line == i) if line_bits else Const(1)
            m.d.comb += hits[i].eq(here & valid[i] & (tag_of_line == tag))
            with m.If(here & (cache.fill | cache.write)):
                m.d.sync += [valid[i].eq(cache.fill), tag_of_line.eq(tag)]
        with m.If(access.clear):
            m.d.sync += valid.eq(0)
        m.d.comb += cache.hit.eq(hits.any())
        descriptors = self.word_bits // (8 * BYTES)
        descriptor: Value = read.data
        if descriptors > 1:
            number = access.index[: (descriptors - 1).bit_length()]
            descriptor = read.data.word_select(number, 8 * BYTES)
        m.d.comb += access.descriptor.eq(descriptor)
        return cache

    # -- words -----------------------------------------------------------------------------------

    def _loads(self, m: Module, beat: AnyStream) -> Signal:
        """Collect the beats of a loaded word; return the signal that accepts a beat."""
        accept, access = Signal(name="accept_beat"), self.access
        data, last = beat.payload.data, beat.payload.last
        word, second = Signal(64, name="word", reset_less=True), Signal(name="second_beat")
        shifted = Signal(64, name="shifted")
        m.d.comb += shifted.eq(data >> Cat(Const(0, 3), beat.payload.first))
        with m.If(accept):
            m.d.sync += second.eq(~last)
            with m.If(second):
                m.d.sync += word.eq(Cat(word[:32], data[:32]))
            with m.Else():
                m.d.sync += word.eq(shifted)
        with m.If(access.stop):
            m.d.sync += second.eq(0)
        with m.Switch(access.size):
            for size in range(3):
                with m.Case(size):
                    m.d.comb += access.loaded.eq(word[: 8 << size])
            with m.Default():
                m.d.comb += access.loaded.eq(word)
        return accept

    def _writer(
        self, m: Module, parameters: tuple[int, ...], begin: Signal, done: Signal
    ) -> Placed:
        """Place the writer; `begin` starts a STORE, and `done` is driven at its end."""
        data, access, mem = self.memory.data_width, self.access, self.mem
        skipped = (data // 8).bit_length() - 1
        sending = Signal(2, name="beats_left")
        offset = access.address[:skipped]
        shifted, strobe = Signal(max(64, data), name="shifted"), Signal(data // 8, name="strobe")
        byte_mask = Signal(8, name="byte_mask")
        size = Signal(parameters[-1], name="store_bytes")
        m.d.comb += [size.eq(1 << access.size), byte_mask.eq((1 << size[:4]) - 1)]
        upper = Signal(name="upper_half")  # of a word of two beats
        if data >= 64:
            m.d.comb += [
                shifted.eq(access.value << Cat(Const(0, 3), offset)),
                strobe.eq(byte_mask << offset),
            ]
        else:
            with m.If(upper):
                m.d.comb += [shifted.eq(access.value[32:]), strobe.eq(0xF)]
            with m.Else():
                m.d.comb += [
                    shifted.eq(access.value[:32] << Cat(Const(0, 3), offset)),
                    strobe.eq(byte_mask << offset),
                ]
        request = Stream(
            fields(address=access.address, bytes=size), Signal(name="write_request"),
            Signal(name="write_accepted"),
        )  # fmt: skip
        beats = Stream(
            fields(data=shifted[:data], strobe=strobe, last=sending == 1), sending != 0,
            Signal(name="write_data_ready"),
        )  # fmt: skip
        writer = place(
            m, "writer", BurstWriter(*parameters), i=request, d=beats, aw=mem.aw, w=mem.w, b=mem.b,
            stop=access.stop,
        )  # fmt: skip
        m.d.comb += done.eq(~request.valid & (sending == 0))
        with m.If(request.valid & request.ready):
            m.d.sync += request.valid.eq(0)
        with m.If((sending != 0) & beats.ready):
            m.d.sync += [sending.eq(sending - 1), upper.eq(1)]
        with m.If(begin):
            two = (access.size == 3) if data == 32 else 0
            m.d.sync += [request.valid.eq(1), sending.eq(Mux(two, 2, 1)), upper.eq(0)]
        with m.If(access.stop):
            m.d.sync += [request.valid.eq(0), sending.eq(0)]
        return writer


class _Cache:
    """Signals of the cache: read a line, write a beat of one, a line is complete; it is a hit."""

    def __init__(self) -> None:
        self.read, self.write = Signal(name="cache_read"), Signal(name="cache_write")
        self.fill, self.hit = Signal(name="cache_fill"), Signal(name="cache_hit")
