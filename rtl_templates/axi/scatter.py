# SPDX-License-Identifier: Apache-2.0
"""From words of elements to beats with bytes anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import below, byte_bits
from rtl_templates.axi.bus import check_data_width
from rtl_templates.hdl.hierarchy import Block


class Scatter(Block):
    """Lays the elements of a row one behind the other, from any byte of a beat on.

    A word goes in pieces of a beat's bytes, one a cycle: a word in every cycle where it fills no
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
    i_data, i_count, i_last, i_valid, i_ready : words in
        The first element lowest; `i_count` of them are valid, at least one; `i_last` ends the
        row.  `i_ready` follows `o_ready` in the same cycle.
    size : In(2)
        Logarithm of an element's bytes in memory, the lowest ones of its container.
    offset : In
        Index of the row's first byte in its first beat.  Both are taken with each word and must
        not change within a row.
    o_data, o_strobe, o_last, o_valid, o_ready : beats out
        All but `o_ready` are registers.  The strobes tell which bytes are the row's.
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
                "i_data": In(8 * lanes * lane_bytes),
                "i_count": In(lanes.bit_length()),
                "i_last": In(1),
                "i_valid": In(1),
                "i_ready": Out(1),
                "size": In(2),
                "offset": In(byte_bits(data_width)),
                "o_data": Out(data_width),
                "o_strobe": Out(data_width // 8),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )
        self.beat_bytes, self.lanes, self.lane_bytes = data_width // 8, lanes, lane_bytes

    def build(self, m: Module) -> None:
        size = self.beat_bytes
        bits = size.bit_length() - 1
        total = Signal(range(self.lanes * self.lane_bytes + 1))  # bytes of the word
        pieces = -(-self.lanes * self.lane_bytes // size)
        piece = Signal(range(pieces))
        left = Signal(len(total))  # bytes from this piece on
        ends = Signal()
        count = Signal(bits + 1)
        m.d.comb += [
            total.eq(self.i_count << self.size),
            left.eq(total - Cat(Const(0, bits), piece)),
            ends.eq(left <= size),
            count.eq(Mux(ends, left, size)),
        ]

        # Bytes of the row in `begun` beats: those before `fill` are in `held`.
        tail = Signal()  # the row's last bytes are in `held`
        midway = Signal()  # in a row, behind its first piece
        entire = Signal()  # in a row, behind its first beat
        fill_reg = Signal(bits)
        fill = Signal(bits)
        reach = Signal(bits + 1)
        free = Signal()
        taken = Signal()
        full = Signal()
        last = Signal()  # the beat, if there is one, ends the row
        m.d.comb += [
            fill.eq(Mux(midway | tail, fill_reg, self.offset)),
            reach.eq(fill + Mux(tail, 0, count)),
            free.eq(~self.o_valid | self.o_ready),
            taken.eq(self.i_valid & ~tail & free),
            self.i_ready.eq(~tail & free & ends),
            full.eq(reach >= size),
            last.eq(tail | (self.i_last & ends & (reach <= size))),
        ]
        with m.If(taken):
            m.d.sync += [
                piece.eq(Mux(ends, 0, piece + 1)),
                fill_reg.eq(reach),
                midway.eq(~(self.i_last & ends)),
                entire.eq((entire | full) & ~(self.i_last & ends)),
                tail.eq(self.i_last & ends & ~last),
            ]
        with m.Elif(free):
            m.d.sync += tail.eq(0)

        turned = self._turned(m, self._piece(m, piece), fill)
        filled = Signal(size)
        beat = Signal(8 * size)
        held = Signal(8 * size, reset_less=True)
        data = Signal(8 * size, reset_less=True)
        strobe = Signal(size, reset_less=True)
        ended = Signal(reset_less=True)
        before = Cat(bit.replicate(8) for bit in filled)
        begin = below(m, "begin", Mux(entire | tail, 0, self.offset), size)
        m.d.comb += [
            filled.eq(below(m, "filled", fill, size)),
            beat.eq((held & before) | (turned & ~before)),
            self.o_data.eq(data),
            self.o_strobe.eq(strobe),
            self.o_last.eq(ended),
        ]
        with m.If(taken):
            m.d.sync += held.eq(Mux(full, turned, beat))
        with m.If(free):
            m.d.sync += [
                data.eq(beat),
                strobe.eq(below(m, "reached", reach, size) & ~begin),
                ended.eq(last),
                self.o_valid.eq(tail | (self.i_valid & (full | (self.i_last & ends)))),
            ]

    def _piece(self, m: Module, piece: Signal) -> Value:
        """Return the bytes of a piece of the word, with the elements packed."""
        packed = []
        for log in range(self.lane_bytes.bit_length()):
            element = 8 << log
            bits = Cat(
                self.i_data.word_select(lane, 8 * self.lane_bytes)[:element]
                for lane in range(self.lanes)
            )
            width = 8 * self.beat_bytes
            parts = [bits[at : at + width] for at in range(0, len(bits), width)]
            elements = Signal(width, name=f"elements_{1 << log}")
            m.d.comb += elements.eq(_choose(piece, parts))
            packed.append(elements)
        chosen = Signal(8 * self.beat_bytes, name="elements")
        m.d.comb += chosen.eq(_choose(self.size, packed))
        return chosen

    def _turned(self, m: Module, beat: Value, places: Signal) -> Value:
        """Return the beat with its bytes rotated upwards."""
        for stage in range(len(places)):
            shifted = Signal(len(beat), name=f"turned_{stage}")
            m.d.comb += shifted.eq(Mux(places[stage], beat.rotate_left(8 << stage), beat))
            beat = shifted
        return beat


def _choose(index: Value, options: Sequence[Value]) -> Value:
    """Return the option at an index; for a larger index, the last one."""
    for bit in index:
        pairs = [options[at : at + 2] for at in range(0, len(options), 2)]
        options = [Mux(bit, pair[1], pair[0]) if len(pair) > 1 else pair[0] for pair in pairs]
    return options[0]
