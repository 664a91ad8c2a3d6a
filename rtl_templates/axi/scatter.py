# SPDX-License-Identifier: Apache-2.0
"""From words of elements to beats with bytes anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import below, byte_bits
from rtl_templates.axi.bus import check_data_width
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.stream.stream import word_layout


def strobe_layout(data_width: int) -> data.StructLayout:
    """Return the payload of beats to write; a bit of ``strobe`` marks a byte of the row."""
    return data.StructLayout({"data": data_width, "strobe": data_width // 8, "last": 1})


class Scatter(Block):
    """Packs the elements of a row, starting at any byte of a beat.

    A word leaves in pieces of a beat's bytes, one a cycle: a word in every cycle where it fills no
    more than a beat, and a beat in every cycle where it fills whole beats.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    lanes : int
        Elements of a word.
    lane_bytes : int
        Bytes of the container in which an element comes, 4 or 8; 1: words are bytes, `size` is 0.

    Members
    -------
    i : In(stream)
        Words (`word_layout`): ``data``, the first element lowest; ``count`` of them are valid, at
        least one; ``last`` ends the row.  Its ready depends on that of `o` in the same cycle.
    size : In(2)
        Logarithm of an element's bytes in memory, the lowest ones of its container.
    offset : In
        Index of the row's first byte in its first beat.  Both are read with each word and must
        not change within a row.
    o : Out(stream)
        Beats (`strobe_layout`); payload and valid are registers.
    """

    resettable = True

    def __init__(self, data_width: int, lanes: int, lane_bytes: int) -> None:
        check_data_width(data_width)
        if lane_bytes not in (1, 4, 8):
            raise ValueError(f"lane_bytes must be 1, 4 or 8, not {lane_bytes!r}")
        if lanes < 1:
            raise ValueError(f"lanes must be at least 1, not {lanes!r}")
        super().__init__(
            f"scatter_{data_width}_{lanes}_{lane_bytes}",
            {
                "i": In(stream.Signature(word_layout(8 * lanes * lane_bytes, lanes))),
                "size": In(2),
                "offset": In(byte_bits(data_width)),
                "o": Out(stream.Signature(strobe_layout(data_width))),
            },
        )
        self.beat_bytes, self.lanes, self.lane_bytes = data_width // 8, lanes, lane_bytes

    def build(self, m: Module) -> None:
        size, word = self.beat_bytes, self.i.payload
        bits = size.bit_length() - 1
        total = Signal(range(self.lanes * self.lane_bytes + 1))  # bytes of the word
        pieces = -(-self.lanes * self.lane_bytes // size)
        piece = Signal(range(pieces))
        left = Signal(len(total))  # bytes from this piece on
        ends = Signal()
        count = Signal(bits + 1)
        m.d.comb += [
            total.eq(word.count << self.size),
            left.eq(total - Cat(Const(0, bits), piece)),
            ends.eq(left <= size),
            count.eq(Mux(ends, left, size)),
        ]

        # Bytes of the row in `begun` beats: those before `fill` are in `stored`.
        tail = Signal()  # the row's last bytes are in `stored`
        midway = Signal()  # in a row, after its first piece
        entire = Signal()  # in a row, after its first beat
        fill_reg = Signal(bits)
        fill = Signal(bits)
        reach = Signal(bits + 1)
        free = Signal()
        transfer = Signal()
        full = Signal()
        last = Signal()  # the beat, if there is one, ends the row
        m.d.comb += [
            fill.eq(Mux(midway | tail, fill_reg, self.offset)),
            reach.eq(fill + Mux(tail, 0, count)),
            free.eq(~self.o.valid | self.o.ready),
            transfer.eq(self.i.valid & ~tail & free),
            self.i.ready.eq(~tail & free & ends),
            full.eq(reach >= size),
            last.eq(tail | (word.last & ends & (reach <= size))),
        ]
        with m.If(transfer):
            m.d.sync += [
                piece.eq(Mux(ends, 0, piece + 1)),
                fill_reg.eq(reach),
                midway.eq(~(word.last & ends)),
                entire.eq((entire | full) & ~(word.last & ends)),
                tail.eq(word.last & ends & ~last),
            ]
        with m.Elif(free):
            m.d.sync += tail.eq(0)

        rotated = self._rotated(m, self._piece(m, piece), fill)
        filled = Signal(size)
        beat = Signal(8 * size)
        stored = Signal(8 * size, reset_less=True)
        packed = Signal(8 * size, reset_less=True)
        strobe = Signal(size, reset_less=True)
        ended = Signal(reset_less=True)
        before = Cat(bit.replicate(8) for bit in filled)
        begin = below(m, "begin", Mux(entire | tail, 0, self.offset), size)
        m.d.comb += [
            filled.eq(below(m, "filled", fill, size)),
            beat.eq((stored & before) | (rotated & ~before)),
            self.o.payload.data.eq(packed),
            self.o.payload.strobe.eq(strobe),
            self.o.payload.last.eq(ended),
        ]
        with m.If(transfer):
            m.d.sync += stored.eq(Mux(full, rotated, beat))
        with m.If(free):
            m.d.sync += [
                packed.eq(beat),
                strobe.eq(below(m, "reached", reach, size) & ~begin),
                ended.eq(last),
                self.o.valid.eq(tail | (self.i.valid & (full | (word.last & ends)))),
            ]

    def _piece(self, m: Module, piece: Signal) -> Value:
        """Return the bytes of a piece of the word, with the elements packed."""
        packed = []
        for log in range(self.lane_bytes.bit_length()):
            element = 8 << log
            bits = Cat(
                self.i.payload.data.word_select(lane, 8 * self.lane_bytes)[:element]
                for lane in range(self.lanes)
            )
            width = 8 * self.beat_bytes
            parts = [bits[at : at + width] for at in range(0, len(bits), width)]
            elements = Signal(width, name=f"elements_{1 << log}")
            m.d.comb += elements.eq(_choose(piece, parts))
            packed.append(elements)
        elements = Signal(8 * self.beat_bytes, name="elements")
        m.d.comb += elements.eq(_choose(self.size, packed))
        return elements

    def _rotated(self, m: Module, beat: Value, amount: Signal) -> Value:
        """Return the beat with its bytes rotated upwards."""
        for stage in range(len(amount)):
            shifted = Signal(len(beat), name=f"rotated_{stage}")
            m.d.comb += shifted.eq(Mux(amount[stage], beat.rotate_left(8 << stage), beat))
            beat = shifted
        return beat


def _choose(index: Value, options: Sequence[Value]) -> Value:
    """Return the option at an index; for a larger index, the last one."""
    for bit in index:
        pairs = [options[at : at + 2] for at in range(0, len(options), 2)]
        options = [Mux(bit, pair[1], pair[0]) if len(pair) > 1 else pair[0] for pair in pairs]
    return options[0]
