# SPDX-License-Identifier: Apache-2.0
"""Stream plumbing: register slices, FIFOs and delay lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.memory import place_ram
from rtl_templates.hdl.streams import AnyStream, new_stream


def word_layout(width: int, lanes: int) -> data.StructLayout:
    """Return the payload of words: `lanes` elements in `width` bits, ``count`` of them valid."""
    return data.StructLayout({"data": width, "count": lanes.bit_length(), "last": 1})


def _members(width: int) -> dict[str, Member]:
    signature = stream.Signature(width)
    return {"i": In(signature), "o": Out(signature)}


class StreamBuffer(Block):
    """A two-entry register slice: full throughput, both handshakes cut by registers.

    Parameters
    ----------
    width : int
        Payload bits.

    Members
    -------
    i : In(stream)
        Its ready is a register.
    o : Out(stream)
        Payload and valid are registers, one cycle after the input.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(f"buffer_{width}", _members(width))
        self.data_width = width

    def build(self, m: Module) -> None:
        head = Signal(self.data_width, reset_less=True)
        spare = Signal(self.data_width, reset_less=True)
        ready = Signal(init=1, name="ready")
        m.d.comb += [self.o.payload.eq(head), self.i.ready.eq(ready)]
        # The spare entry is filled only when the head cannot move, so it is empty exactly when
        # the slice is ready.
        with m.If(ready):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                head.eq(Mux(ready, self.i.payload, spare)),
                self.o.valid.eq(self.i.valid | ~ready),
                ready.eq(1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += ready.eq(0)


class StreamSlice(Block):
    """One register: full throughput; see `StreamBuffer` for the members.

    The input is ready when the output is, in the same cycle: the output's ready must come from
    registers where no path may lead through.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(f"slice_{width}", _members(width))
        self.data_width = width

    def build(self, m: Module) -> None:
        head = Signal(self.data_width, reset_less=True)
        m.d.comb += [self.o.payload.eq(head), self.i.ready.eq(~self.o.valid | self.o.ready)]
        with m.If(self.i.ready):
            m.d.sync += [head.eq(self.i.payload), self.o.valid.eq(self.i.valid)]


class StreamSkid(Block):
    """A spare register after one that has a beat; see `StreamBuffer` for the members.

    The input passes through until the receiver stalls; a beat that arrives then is stored.  The
    input's ready is a register; the output comes from registers if the input does.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(f"skid_{width}", _members(width))
        self.data_width = width

    def build(self, m: Module) -> None:
        spare, full = Signal(self.data_width, reset_less=True), Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(full | self.i.valid),
            self.o.payload.eq(Mux(full, spare, self.i.payload)),
        ]
        with m.If(~full):
            m.d.sync += spare.eq(self.i.payload)
        m.d.sync += full.eq(self.o.valid & ~self.o.ready)


class StreamFifo(Block):
    """A FIFO of any depth with one cycle of latency; see `StreamBuffer` for the members.

    Parameters
    ----------
    width, depth : int
        Payload bits and entries.
    """

    resettable = True

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(f"fifo_{width}x{depth}", _members(width))
        self.data_width, self.depth = width, depth

    def build(self, m: Module) -> None:
        (read,), write = place_ram(
            m, "entries", Ram(self.depth, self.data_width, asynchronous=True)
        )
        level = Signal(range(self.depth + 1))
        push, pop = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(level != self.depth),
            self.o.valid.eq(level != 0),
            write.addr.eq(_counter(m, "produce", self.depth, push)),
            write.data.eq(self.i.payload),
            write.en.eq(push),
            read.addr.eq(_counter(m, "consume", self.depth, pop)),
            self.o.payload.eq(read.data),
        ]
        m.d.sync += level.eq(level + push - pop)


class StreamStore(Block):
    """A FIFO whose reads are synchronous, for memory macros; two cycles of latency.

    The oldest entry is the data of the read port.

    Parameters
    ----------
    width, depth : int
        Payload bits, and entries of the memory; the output is one more.

    Members
    -------
    i : In(stream)
    o : Out(stream)
    level : Out
        Number of entries.
    """

    resettable = True

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(
            f"store_{width}x{depth}", {**_members(width), "level": Out(range(depth + 2))}
        )
        self.data_width, self.depth = width, depth

    def build(self, m: Module) -> None:
        (read,), write = place_ram(m, "beats", Ram(self.depth, self.data_width))
        inside = Signal(range(self.depth + 1))
        push, fetch = self.i.valid & self.i.ready, Signal()
        m.d.comb += [
            fetch.eq((inside != 0) & (~self.o.valid | self.o.ready)),
            self.i.ready.eq(inside != self.depth),
            self.level.eq(inside + self.o.valid),
            write.addr.eq(_counter(m, "produce", self.depth, push)),
            write.data.eq(self.i.payload),
            write.en.eq(push),
            read.addr.eq(_counter(m, "consume", self.depth, fetch)),
            read.en.eq(fetch),
            self.o.payload.eq(read.data),
        ]
        m.d.sync += [
            inside.eq(inside + push - fetch),
            self.o.valid.eq(fetch | (self.o.valid & ~self.o.ready)),
        ]


def _counter(m: Module, name: str, count: int, advance: Value) -> Signal:
    """Return a counter from 0 to ``count - 1`` that starts again at 0."""
    value = Signal(range(count), name=name)
    with m.If(advance):
        m.d.sync += value.eq(Mux(value == count - 1, 0, value + 1))
    return value


def buffered(
    m: Module, name: str, source: AnyStream, buffer: Callable[[int], Block] = StreamBuffer
) -> stream.Interface:
    """Return a stream after a buffer, the instance `name`.

    Parameters
    ----------
    m : Module
    name : str
    source : stream
    buffer : callable
        Makes the buffer for a number of bits.
    """
    payload = source.payload
    sink = new_stream(name, payload.shape())
    place(m, name, buffer(len(Value.cast(payload))), i=source, o=sink)
    return sink


class DelayLines(Block):
    """Parallel delay lines, one per lane: the skew at the edges of an array.

    Parameters
    ----------
    name : str
        Module name.
    lanes : sequence of (int, int)
        Bits and cycles of each lane, lane 0 in the least significant bits.
    enabled : bool
        Whether the lines advance only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled`.
    i, o : In, Out
        All lanes.
    """

    def __init__(self, name: str, lanes: Sequence[tuple[int, int]], *, enabled: bool) -> None:
        bits = sum(width for width, _ in lanes)
        run = {"run": In(1)} if enabled else {}
        super().__init__(name, {**run, "i": In(bits), "o": Out(bits)})
        self.lanes, self.enabled = lanes, enabled

    def build(self, m: Module) -> None:
        outputs = []
        shifts = []
        start = 0
        for lane, (width, delay) in enumerate(self.lanes):
            value = self.i[start : start + width]
            start += width
            if delay:
                # One vector a lane, the newest word at the bottom: text stays linear in lanes.
                line = Signal(width * delay, name=f"lane_{lane}", reset_less=True)
                shifts.append(line.eq(Cat(value, line)))
                value = line[-width:]
            outputs.append(value)
        if self.enabled:
            with m.If(self.run):
                m.d.sync += shifts
        else:
            m.d.sync += shifts
        m.d.comb += self.o.eq(Cat(*outputs))
