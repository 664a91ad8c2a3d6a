# SPDX-License-Identifier: Apache-2.0
"""Stream plumbing: register slices, FIFOs and delay lines."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram


def _stream_members(width: int) -> dict[str, Member]:
    return {
        "i_data": In(width),
        "i_valid": In(1),
        "i_ready": Out(1),
        "o_data": Out(width),
        "o_valid": Out(1),
        "o_ready": In(1),
    }


class StreamBuffer(Block):
    """A two-entry register slice: full throughput, both handshakes cut by registers.

    Parameters
    ----------
    width : int
        Payload bits.

    Members
    -------
    i_data, i_valid, i_ready : stream in
        `i_ready` is a register.
    o_data, o_valid, o_ready : stream out
        `o_data` and `o_valid` are registers, one cycle after the input.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(
            f"buffer_{width}",
            {**_stream_members(width), "i_ready": Out(1, init=1)},
        )
        self.data_width = width

    def build(self, m: Module) -> None:
        head = Signal(self.data_width, reset_less=True)
        spare = Signal(self.data_width, reset_less=True)
        m.d.comb += self.o_data.eq(head)
        # The spare entry is filled only when the head cannot move, so it is empty exactly when
        # the slice is ready.
        with m.If(self.i_ready):
            m.d.sync += spare.eq(self.i_data)
        with m.If(self.o_ready | ~self.o_valid):
            m.d.sync += [
                head.eq(Mux(self.i_ready, self.i_data, spare)),
                self.o_valid.eq(self.i_valid | ~self.i_ready),
                self.i_ready.eq(1),
            ]
        with m.Elif(self.i_valid):
            m.d.sync += self.i_ready.eq(0)


class StreamSlice(Block):
    """One register: full throughput; see `StreamBuffer` for the members.

    `i_ready` follows `o_ready` in the same cycle, so `o_ready` must come from registers wherever
    no path may lead through.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(f"slice_{width}", _stream_members(width))
        self.data_width = width

    def build(self, m: Module) -> None:
        head = Signal(self.data_width, reset_less=True)
        m.d.comb += [self.o_data.eq(head), self.i_ready.eq(~self.o_valid | self.o_ready)]
        with m.If(self.i_ready):
            m.d.sync += [head.eq(self.i_data), self.o_valid.eq(self.i_valid)]


class StreamSkid(Block):
    """A spare register behind one that holds a beat; see `StreamBuffer` for the members.

    The input passes through until the receiver stalls; what arrives then is kept.  `i_ready` is a
    register; `o_data` and `o_valid` come from registers if `i_data` and `i_valid` do.
    """

    resettable = True

    def __init__(self, width: int) -> None:
        super().__init__(f"skid_{width}", _stream_members(width))
        self.data_width = width

    def build(self, m: Module) -> None:
        spare, full = Signal(self.data_width, reset_less=True), Signal()
        m.d.comb += [
            self.i_ready.eq(~full),
            self.o_valid.eq(full | self.i_valid),
            self.o_data.eq(Mux(full, spare, self.i_data)),
        ]
        with m.If(~full):
            m.d.sync += spare.eq(self.i_data)
        m.d.sync += full.eq(self.o_valid & ~self.o_ready)


class StreamFifo(Block):
    """A FIFO of any depth with one cycle of latency; see `StreamBuffer` for the members.

    Parameters
    ----------
    width, depth : int
        Payload bits and entries.
    """

    resettable = True

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(
            f"fifo_{width}x{depth}",
            _stream_members(width),
        )
        self.data_width, self.depth = width, depth

    def build(self, m: Module) -> None:
        (read,), write = place_ram(
            m, "entries", Ram(self.depth, self.data_width, asynchronous=True)
        )
        level = Signal(range(self.depth + 1))
        put, take = self.i_valid & self.i_ready, self.o_valid & self.o_ready
        m.d.comb += [
            self.i_ready.eq(level != self.depth),
            self.o_valid.eq(level != 0),
            write.addr.eq(_counter(m, "produce", self.depth, put)),
            write.data.eq(self.i_data),
            write.en.eq(put),
            read.addr.eq(_counter(m, "consume", self.depth, take)),
            self.o_data.eq(read.data),
        ]
        m.d.sync += level.eq(level + put - take)


class StreamStore(Block):
    """A FIFO whose reads are synchronous, so that a macro can be its memory; two cycles of latency.

    The oldest entry is the data of the read port; see `StreamBuffer` for the other members.

    Parameters
    ----------
    width, depth : int
        Payload bits, and entries of the memory; it holds one more.

    Members
    -------
    level : Out
        Entries.
    """

    resettable = True

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(
            f"store_{width}x{depth}",
            {**_stream_members(width), "level": Out(range(depth + 2))},
        )
        self.data_width, self.depth = width, depth

    def build(self, m: Module) -> None:
        (read,), write = place_ram(m, "beats", Ram(self.depth, self.data_width))
        inside = Signal(range(self.depth + 1))
        put, fetch = self.i_valid & self.i_ready, Signal()
        m.d.comb += [
            fetch.eq((inside != 0) & (~self.o_valid | self.o_ready)),
            self.i_ready.eq(inside != self.depth),
            self.level.eq(inside + self.o_valid),
            write.addr.eq(_counter(m, "produce", self.depth, put)),
            write.data.eq(self.i_data),
            write.en.eq(put),
            read.addr.eq(_counter(m, "consume", self.depth, fetch)),
            read.en.eq(fetch),
            self.o_data.eq(read.data),
        ]
        m.d.sync += [
            inside.eq(inside + put - fetch),
            self.o_valid.eq(fetch | (self.o_valid & ~self.o_ready)),
        ]


def _counter(m: Module, name: str, count: int, advance: Value) -> Signal:
    """Return a signal that goes through ``0 ... count - 1`` again and again."""
    place = Signal(range(count), name=name)
    with m.If(advance):
        m.d.sync += place.eq(Mux(place == count - 1, 0, place + 1))
    return place


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
