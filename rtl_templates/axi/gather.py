# SPDX-License-Identifier: Apache-2.0
"""From beats with bytes anywhere to words of elements."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import below, byte_bits
from rtl_templates.axi.bus import check_data_width
from rtl_templates.hdl.hierarchy import Block


class Gather(Block):
    """Packs the bytes of a row, which begins anywhere in a beat, into words of whole elements.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    element_bytes : int
        Bytes of an element in memory.
    width : int
        Bits of an element that are kept, the lowest ones.
    lanes : int
        Elements of a word, which holds at least the bytes of a beat.
    counted : bool
        Whether `o_count` says how many bytes of a word are the row's.
    lengths : tuple of int, optional
        Bytes of a word of each kind of rows, where they differ; elements are bytes, and `lanes`
        are those of the longest word.

    Members
    -------
    i_data, i_first, i_count, i_last, i_valid, i_ready : beats in
        As `rtl_templates.axi.reader.BurstReader` gives them, a request for each row.  `i_ready`
        is a register, low for one cycle behind a row whose last beat reaches into a further word.
    i_kind : In
        With several `lengths`: which of them words of the row have, beside its beats.
    o_data, o_last, o_valid : words out, registers
        The first element lowest, zeros behind the last one; `o_last` marks the end of the row.
        They must be taken as they come.
        What is behind a word that is shorter than others is of no meaning.
    """

    resettable = True

    def __init__(
        self,
        data_width: int,
        element_bytes: int,
        width: int,
        lanes: int,
        *,
        counted: bool = False,
        lengths: tuple[int, ...] = (),
    ) -> None:
        check_data_width(data_width)
        if not 1 <= width <= 8 * element_bytes:
            raise ValueError(f"width must be 1..{8 * element_bytes}, not {width!r}")
        self.lengths = lengths or (lanes * element_bytes,)
        if min(self.lengths) < data_width // 8:
            raise ValueError(
                f"a word of {lanes} x {element_bytes} bytes must hold at least a beat,"
                f" {data_width // 8} bytes"
            )
        bits = byte_bits(data_width)
        counts = {"o_count": Out(range(lanes * element_bytes + 1))} if counted else {}
        kinds = {"i_kind": In(range(len(lengths)))} if lengths else {}
        of_kinds = "".join(f"_{length}" for length in lengths)
        super().__init__(
            f"gather_{data_width}_{element_bytes}_{width}_{lanes}{'_counted' * counted}{of_kinds}",
            {
                "i_data": In(data_width),
                "i_first": In(bits),
                "i_count": In(bits + 1),
                "i_last": In(1),
                "i_valid": In(1),
                "i_ready": Out(1, init=1),
                "o_data": Out(lanes * width),
                "o_last": Out(1),
                "o_valid": Out(1),
                **counts,
                **kinds,
            },
        )
        self.element_bytes, self.element_width = element_bytes, width
        self.beat_bytes, self.word_bytes = data_width // 8, lanes * element_bytes

    def build(self, m: Module) -> None:
        whole, beat = self.word_bytes, self.beat_bytes
        word, rest, kind_before = self._lengths(m)
        taken = Signal()
        fresh = Signal(init=1)  # the register holds nothing of the next word
        fill = Signal(range(whole))  # bytes of the word that are there, those in `spare` included
        reach = Signal(range(whole + beat))  # and with those of this beat
        full = Signal()
        over = Signal()
        turn = Signal(len(self.i_first))
        turn_before = Signal(len(self.i_first))
        m.d.comb += [
            taken.eq(self.i_valid & self.i_ready),
            reach.eq(fill + Mux(self.i_ready, self.i_count, 0)),
            full.eq(reach >= word),
            over.eq(reach > word),
            turn.eq(turn_before | self.i_first),
        ]

        # Byte k of the word comes from byte (k + turn) of the beat.  Where a beat ends in the next
        # word it is kept: that word's turn differs by a constant, so no second shift is needed.
        kept = min(8, self.element_width)
        turned: Value = Cat(self.i_data[8 * k : 8 * k + kept] for k in range(beat))
        for stage in range(len(turn)):
            shifted = Signal(len(turned), name=f"turned_{stage}")
            right = turned.rotate_right(kept << stage)
            m.d.comb += shifted.eq(Mux(turn[stage], right, turned))
            turned = shifted
        spare = Signal(len(turned), reset_less=True)
        with m.If(taken):
            m.d.sync += [
                spare.eq(turned),
                turn_before.eq(Mux(self.i_last, 0, Mux(full, turn + rest, turn))),
                fresh.eq(full | self.i_last),
                fill.eq(Mux(full, reach - word, Mux(self.i_last, 0, reach))),
                self.i_ready.eq(~(over & self.i_last)),
            ]
        with m.Elif(~self.i_ready):
            m.d.sync += [fill.eq(0), fresh.eq(1), self.i_ready.eq(1)]
        m.d.sync += [
            self.o_valid.eq(Mux(self.i_ready, self.i_valid & (full | self.i_last), 1)),
            self.o_last.eq(Mux(self.i_ready, self.i_last & ~over, 1)),
        ]

        if "o_count" in self.members:
            count = Signal(range(whole + 1), reset_less=True)
            m.d.comb += self.o_count.eq(count)
            m.d.sync += count.eq(Mux(self.i_ready, Mux(full, word, reach), fill))

        filled, now = Signal(whole), Signal(whole)  # bytes there before; bytes out of this beat
        m.d.comb += [
            filled.eq(below(m, "fill", fill, whole)),
            now.eq(below(m, "reach", reach, whole) & ~filled),
        ]
        width = len(self.o_data)
        incoming, held, chosen = (Signal(width, name=n) for n in ("incoming", "held", "chosen"))
        data = Signal(width, reset_less=True)
        rests: list[Value] = [self._spread(spare, length, beat - 1) for length in self.lengths]
        left = rests[0] if len(rests) == 1 else Value.cast(Array(rests)[kind_before])
        m.d.comb += [
            incoming.eq(self._spread(turned, 0)),
            held.eq(Mux(fresh, left & self._every(filled), data)),
            chosen.eq(self._every(now)),
            self.o_data.eq(data),
        ]
        with m.If(taken | ~self.i_ready):
            m.d.sync += data.eq((incoming & chosen) | (held & ~chosen))

    def _lengths(self, m: Module) -> tuple[Value, Value, Value]:
        """Return the bytes of a word, those beside whole beats, and the kind of the row before."""
        beat = self.beat_bytes
        if len(self.lengths) == 1:
            return Const(self.word_bytes), Const(self.word_bytes % beat), Const(0)
        word, rest = Signal(range(self.word_bytes + 1)), Signal(range(beat))
        m.d.comb += [
            word.eq(Array(Const(length) for length in self.lengths)[self.i_kind]),
            rest.eq(Array(Const(length % beat) for length in self.lengths)[self.i_kind]),
        ]
        # What is left of a row's last beat goes out when the next row may be there.
        before = Signal(len(self.i_kind), reset_less=True)
        with m.If(self.i_valid & self.i_ready):
            m.d.sync += before.eq(self.i_kind)
        return word, rest, before

    def _bits(self, byte: int) -> int:
        """Return how many bits of a byte of the word belong to its element."""
        return max(0, min(8, self.element_width - 8 * (byte % self.element_bytes)))

    def _every(self, mask: Value) -> Value:
        """Repeat a bit for each byte over the bits of the word."""
        return Cat(mask[k].replicate(self._bits(k)) for k in range(self.word_bytes))

    def _spread(self, beat: Value, start: int, count: int | None = None) -> Value:
        """Repeat a beat over the first `count` bytes of the word, from the beat's byte `start`."""
        size = len(beat) // self.beat_bytes
        parts = []
        for k in range(self.word_bytes):
            at = (start + k) % self.beat_bytes * size
            part = beat[at : at + self._bits(k)]
            parts.append(part if count is None or k < count else Const(0, len(part)))
        return Cat(parts)
