# SPDX-License-Identifier: Apache-2.0
"""From beats with bytes anywhere to words of elements."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.bursts import below
from rtl_templates.axi.bus import check_data_width
from rtl_templates.axi.reader import beat_layout
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.streams import transfers


class Gather(Block):
    """Packs the bytes of a row, which begins anywhere in a beat, into words of whole elements.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    element_bytes : int
        Bytes of an element in memory.
    width : int
        Bits of an element that are used, the lowest ones.
    lanes : int
        Elements of a word, which holds at least the bytes of a beat.
    counted : bool
        Whether words have a ``count`` of the bytes that belong to the row.
    lengths : tuple of int, optional
        Bytes of a word for each row format, where they differ; elements are bytes, and `lanes`
        are those of the longest word.

    Members
    -------
    i : In(stream)
        Beats (`rtl_templates.axi.reader.beat_layout`), a request for each row.  Its ready is a
        register, low for one cycle after a row whose last beat reaches into a further word.
    row_format : In
        With several `lengths`: index of the length of the words of the row, with its beats.
    o : Out(stream), always ready
        Words, registers: ``data``, the first element lowest, zeros after the last one; ``last``
        marks the end of the row.  Bits after a word that is shorter than others are undefined.
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
        counts = {"count": (lanes * element_bytes).bit_length()} if counted else {}
        word = {"data": lanes * width, **counts, "last": 1}
        formats = {"row_format": In(range(len(lengths)))} if lengths else {}
        suffix = "".join(f"_{length}" for length in lengths)
        super().__init__(
            f"gather_{data_width}_{element_bytes}_{width}_{lanes}{'_counted' * counted}{suffix}",
            {
                "i": In(stream.Signature(beat_layout(data_width))),
                "o": Out(stream.Signature(data.StructLayout(word), always_ready=True)),
                **formats,
            },
        )
        self.counted = counted
        self.element_bytes, self.element_width = element_bytes, width
        self.beat_bytes, self.word_bytes = data_width // 8, lanes * element_bytes

    def build(self, m: Module) -> None:
        whole, beat = self.word_bytes, self.beat_bytes
        word, rest, previous_format = self._lengths(m)
        source, ready = self.i.payload, Signal(init=1, name="ready")
        transfer = Signal()
        fresh = Signal(init=1)  # the register has nothing of the next word
        fill = Signal(range(whole))  # bytes of the word so far, those in `spare` included
        reach = Signal(range(whole + beat))  # and with those of this beat
        full = Signal()
        over = Signal()
        rotation = Signal(len(source.first))
        rotation_before = Signal(len(source.first))
        m.d.comb += [
            self.i.ready.eq(ready),
            transfer.eq(self.i.valid & ready),
            reach.eq(fill + Mux(ready, source.count, 0)),
            full.eq(reach >= word),
            over.eq(reach > word),
            rotation.eq(rotation_before | source.first),
        ]

        # Byte k of the word is byte (k + rotation) of the beat.  Where a beat ends in the next
        # word it is stored: the rotation of that word differs by a constant, so no second shift is
        # needed.
        used = min(8, self.element_width)
        rotated: Value = Cat(source.data[8 * k : 8 * k + used] for k in range(beat))
        for stage in range(len(rotation)):
            shifted = Signal(len(rotated), name=f"rotated_{stage}")
            right = rotated.rotate_right(used << stage)
            m.d.comb += shifted.eq(Mux(rotation[stage], right, rotated))
            rotated = shifted
        spare = Signal(len(rotated), reset_less=True)
        with m.If(transfer):
            m.d.sync += [
                spare.eq(rotated),
                rotation_before.eq(Mux(source.last, 0, Mux(full, rotation + rest, rotation))),
                fresh.eq(full | source.last),
                fill.eq(Mux(full, reach - word, Mux(source.last, 0, reach))),
                ready.eq(~(over & source.last)),
            ]
        with m.Elif(~ready):
            m.d.sync += [fill.eq(0), fresh.eq(1), ready.eq(1)]
        m.d.sync += [
            self.o.valid.eq(Mux(ready, self.i.valid & (full | source.last), 1)),
            self.o.payload.last.eq(Mux(ready, source.last & ~over, 1)),
        ]

        if self.counted:
            count = Signal(range(whole + 1), reset_less=True)
            m.d.comb += self.o.payload.count.eq(count)
            m.d.sync += count.eq(Mux(ready, Mux(full, word, reach), fill))

        filled, now = Signal(whole), Signal(whole)  # bytes of beats before; bytes of this beat
        m.d.comb += [
            filled.eq(below(m, "fill", fill, whole)),
            now.eq(below(m, "reach", reach, whole) & ~filled),
        ]
        width = len(self.o.payload.data)
        incoming, stored, mask = (Signal(width, name=n) for n in ("incoming", "stored", "mask"))
        packed = Signal(width, reset_less=True)
        rests: list[Value] = [self._spread(spare, length, beat - 1) for length in self.lengths]
        left = rests[0] if len(rests) == 1 else Value.cast(Array(rests)[previous_format])
        m.d.comb += [
            incoming.eq(self._spread(rotated, 0)),
            stored.eq(Mux(fresh, left & self._every(filled), packed)),
            mask.eq(self._every(now)),
            self.o.payload.data.eq(packed),
        ]
        with m.If(transfer | ~ready):
            m.d.sync += packed.eq((incoming & mask) | (stored & ~mask))

    def _lengths(self, m: Module) -> tuple[Value, Value, Value]:
        """Return the bytes of a word, those after whole beats, and the format of the last row."""
        beat = self.beat_bytes
        if len(self.lengths) == 1:
            return Const(self.word_bytes), Const(self.word_bytes % beat), Const(0)
        word, rest = Signal(range(self.word_bytes + 1)), Signal(range(beat))
        m.d.comb += [
            word.eq(Array(Const(length) for length in self.lengths)[self.row_format]),
            rest.eq(Array(Const(length % beat) for length in self.lengths)[self.row_format]),
        ]
        # The rest of a row's last beat leaves when the next row may have started.
        previous = Signal(len(self.row_format), reset_less=True)
        with m.If(transfers(self.i)):
            m.d.sync += previous.eq(self.row_format)
        return word, rest, previous

    def _bits(self, byte: int) -> int:
        """Return the number of bits of a byte of the word that belong to its element."""
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
