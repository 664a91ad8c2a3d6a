# SPDX-License-Identifier: Apache-2.0
"""A buffer whose writes and reads can be undone until they are committed."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class ReplayBuffer(wiring.Component):
    """First in, first out, in a memory.

    What is written is read only after `write_commit`, and what is read stays until `read_commit`.
    Of a commit and an undo in one cycle with a write or a read, the former come first.

    Parameters
    ----------
    width : int
        Bits of a word.
    depth : int
        Words, a power of two.

    Attributes
    ----------
    write_data, write : Signal
        A word to write; nothing is written while `free` is 0.
    write_commit, write_undo : Signal
        Keep what was written, or forget it. `write_commit` includes the word of this cycle.
    free : Signal
        Words that can be written yet.
    read_data, valid : Signal
        The next word.
    read : Signal
        Go on to the word after it.
    read_commit, read_undo : Signal
        Free what was read, or read it again.
    level : Signal
        Words that are committed and not read yet.
    """

    def __init__(self, width: int, depth: int) -> None:
        count = range(depth + 1)
        super().__init__({
            "write_data": In(width), "write": In(1), "write_commit": In(1), "write_undo": In(1),
            "free": Out(count),
            "read_data": Out(width), "valid": Out(1), "read": In(1), "read_commit": In(1),
            "read_undo": In(1), "level": Out(count),
        })  # fmt: skip
        self._width, self._depth = width, depth

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        pointers = range(2 * self._depth)
        written, committed, freed, position = (
            Signal(pointers, name=name) for name in ("written", "committed", "freed", "position")
        )
        following = Signal.like(position)  # the word that the memory shows in the next cycle
        accepted = Signal()
        bits = len(write.addr)
        m.d.comb += [
            self.free.eq((self._depth - (written - freed))[: len(written)]),
            accepted.eq(self.write & (self.free != 0)),
            write.data.eq(self.write_data),
            write.addr.eq(written[:bits]),
            write.en.eq(accepted),
            self.level.eq((committed - position)[: len(written)]),
            following.eq(position + (self.read & self.valid)),
            read.addr.eq(following[:bits]),
            read.en.eq(1),
            self.read_data.eq(read.data),
        ]
        m.d.sync += [
            written.eq(written + accepted),
            position.eq(following),
            # Words that were committed before this cycle are in the memory.
            self.valid.eq(following != committed),
        ]
        with m.If(self.write_commit):
            m.d.sync += committed.eq(written + accepted)
        with m.Elif(self.write_undo):
            m.d.sync += written.eq(committed)
        with m.If(self.read_undo):
            m.d.comb += following.eq(freed)
        with m.Elif(self.read_commit):
            m.d.sync += freed.eq(position)
        return m
