# SPDX-License-Identifier: Apache-2.0
"""Buffers of A and W: blocks enter as rows of words and leave as beats of a core."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram
from rtl_templates.stream.stream import StreamFifo, buffered

from .formats import by_format, chosen, format_of
from .loops import AddressLoops, BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class HalfTokens:
    """Counts of the free halves of a double buffer and of the full ones.

    Parameters
    ----------
    m : Module
    name : str
    claim, fill, release : Value
        In this cycle a block claims its half; is complete; is not needed any more.
    claims, releases : Value
        Number of halves that a block claims, and that are released, less one.
    leave : Value, optional
        In this cycle the reader leaves the half that it will release; by default it is released
        then.

    Attributes
    ----------
    free : Value
        Whether the halves that the next block claims are free.
    full : Value
        Whether a block is complete.
    """

    def __init__(
        self, m: Module, name: str, *, claim: Value, fill: Value, release: Value,
        leave: Value | None = None, claims: ValueLike = 0, releases: ValueLike = 0,
    ) -> None:  # fmt: skip
        free, full = Signal(2, name=f"{name}_free", init=2), Signal(2, name=f"{name}_full")
        leave = release if leave is None else leave
        released = Mux(release, 1 + Value.cast(releases), 0)
        m.d.sync += [
            free.eq(free + released - Mux(claim, 1 + Value.cast(claims), 0)),
            full.eq(full + fill - leave),
        ]
        self.free, self.full = free > claims, full.any()


class OperandBuffer(Block):
    """Double buffer: one half is filled with a block while the cores work on the other.

    A job's blocks may be as large as both halves instead; then nothing is loaded while the cores
    work.

    Parameters
    ----------
    config : GemmStreamConfig
    name : {"act", "wgt"}
        The port of the cores.
    rows_in_flight : int
        Largest number of rows that are requested and not received.
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    free : Out(1)
        The halves that the next block claims are free.
    claim : In(1)
        The next block claims its half.
    whole : In(1)
        The next block claims both halves.
    row : In(stream)
        A requested row: ``final``, whether it is the last of its block.
    i : In(stream), always ready
        Words: ``data``, and ``last`` of the row.
    job : In(stream)
        Descriptor of the job that the cores work on.
    o : Out(stream)
        Beats of all banks: ``data``, and ``last``.
    starved : Out(1)
        The cores wait for a block.
    """

    resettable = True

    def __init__(
        self, config: GemmStreamConfig, name: str, rows_in_flight: int, job: data.StructLayout
    ) -> None:
        self.config, self.name, self.rows_in_flight = config, name, rows_in_flight
        act = name == "act"
        shape = config.buffer_shapes["activations" if act else "weights"]
        self.banks, self.word, self.depth = shape.memories, shape.width, shape.words // 2
        self.rows = [each.act_rows if act else each.wgt_rows for each in config.formats]
        self.job_layout = job
        words = data.StructLayout({"data": self.word, "last": 1})
        beats = data.StructLayout({"data": self.banks * self.rows[0].beat_bits, "last": 1})
        super().__init__(
            shape.module,
            {
                "free": Out(1),
                "claim": In(1),
                "whole": In(1),
                "row": In(stream.Signature(data.StructLayout({"final": 1}))),
                "i": In(stream.Signature(words, always_ready=True)),
                "job": In(stream.Signature(job.size)),
                "o": Out(stream.Signature(beats)),
                "starved": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        filled, released = Signal(), Signal()
        tokens = HalfTokens(
            m, "halves", claim=self.claim, fill=filled, release=released, claims=self.whole,
            releases=self.job_layout(self.job.payload)[f"{self.name[0]}_whole"],
        )  # fmt: skip
        m.d.comb += self.free.eq(tokens.free)
        writes = self._write(m, filled)
        self._read(m, tokens.full, released, writes)

    def _write(self, m: Module, filled: Signal) -> tuple[Signal, list[Value]]:
        """Write words; return the address and the write enable of each bank."""
        ends = Signal(name="row_ends")
        m.d.comb += ends.eq(self.i.valid & self.i.payload.last)
        row = buffered(m, "rows", self.row, partial(StreamFifo, depth=self.rows_in_flight))
        address, half = Signal(range(2 * self.depth)), Signal()
        whole = Signal(name="whole_block")
        other_half = Mux(half | whole, 0, self.depth)
        # No row is in flight when a block claims the whole buffer; the block starts at address 0.
        restart = Signal(name="restart")
        m.d.comb += [row.ready.eq(ends), restart.eq(self.claim & self.whole)]
        with m.If(self.claim):
            m.d.sync += whole.eq(self.whole)
        m.d.comb += filled.eq(ends & row.payload.final)
        if self.banks == 1:
            enables: list[Value] = [self.i.valid]
            with m.If(self.i.valid):
                m.d.sync += address.eq(address + 1)
        else:
            bank = Signal(self.banks, init=1)  # one hot
            start = Signal(range(2 * self.depth))  # of the row in its bank
            enables = [self.i.valid & bank[i] for i in range(self.banks)]
            with m.If(self.i.valid):
                m.d.sync += address.eq(address + 1)
            with m.If(ends):
                m.d.sync += bank.eq(Cat(bank[-1], bank[:-1]))
                with m.If(bank[-1]):
                    m.d.sync += start.eq(address + 1)
                with m.Else():
                    m.d.sync += address.eq(start)
            with m.If(filled | restart):
                m.d.sync += [bank.eq(1), start.eq(Mux(restart, 0, other_half))]
        with m.If(filled | restart):
            m.d.sync += [
                half.eq(~(half | whole | restart)),
                address.eq(Mux(restart, 0, other_half)),
            ]
        return address, enables

    def _read(
        self, m: Module, full: Value, released: Signal, writes: tuple[Signal, list[Value]]
    ) -> None:
        config, nest, act = self.config, self.config.loop_nest, self.name == "act"
        job = self.job_layout(self.job.payload)
        number = format_of(job, len(config.formats))
        steps = BlockSteps(m, job)
        counts = steps.counts(
            nest,
            by_format(number, [each.loop_nest.k_beats for each in config.formats]),
            by_format(number, [each.loop_nest.weight_rows for each in config.formats]),
        )
        loops = nest.act if act else nest.wgt
        row_beats = counts[next(count for count, stride in loops if stride == "beat")]
        if not act and not nest.weight_columns:
            row_beats = counts["weight_beats"]
        # Each row starts with a new word.
        beats = [rows.beats for rows in self.rows]
        pitch = chosen(number, [_pitch(row_beats, each) for each in beats])
        stride = {"nothing": 0, "beat": 1, "act_row": pitch, "weight_row": pitch}
        width = (2 * self.depth * max(beats)).bit_length()
        addresses = AddressLoops(m, loops, counts, stride, width)
        half, whole = Signal(name="read_half"), job[f"{self.name[0]}_whole"]
        step, advance = Signal(name="step"), Signal(name="advance")
        frees = steps.frees_a if act else steps.frees_w
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid):
                steps.begin()
                m.next = "WAIT"
            with m.State("WAIT"):
                other = chosen(number, [Const(self.depth * each) for each in beats])
                addresses.begin(Mux(half & ~whole, other, 0))
                m.d.comb += self.starved.eq(~full)
                with m.If(full):
                    m.next = "WALK"
            with m.State("WALK"):
                m.d.comb += step.eq(~self.o.valid | self.o.ready)
                with m.If(step):
                    addresses.advance()
                    with m.If(addresses.last):
                        m.d.comb += [advance.eq(1), released.eq(frees)]
                        steps.advance()
                        with m.If(frees):
                            m.d.sync += half.eq(~(half | whole))
                        m.next = "WAIT"
                        with m.If(steps.last):
                            m.d.comb += self.job.ready.eq(1)
                            m.next = "IDLE"
        with m.If(~self.o.valid | self.o.ready):
            # The last beat of a part of a reduction does not end the cores' reduction.
            ends = addresses.ends & steps.k.last if config.goes_on else addresses.ends
            m.d.sync += [self.o.valid.eq(step), self.o.payload.last.eq(ends)]

        address, enables = writes
        word_address = chosen(number, [addresses.address[_select(each) :] for each in beats])
        beat = Signal(range(max(beats)), name="beat_of_word", reset_less=True)
        of_job = Signal(len(number), name="format", reset_less=True)
        with m.If(step):
            m.d.sync += [beat.eq(addresses.address[: len(beat)]), of_job.eq(number)]
        elements = []
        # A block is read while the next one is written into the other half; a block in both halves
        # is alone.
        ram = Ram(2 * self.depth, self.word, halves=True)
        contents = "activations" if act else "weights"
        for bank, enable in enumerate(enables):
            (read,), write = place_ram(m, f"{contents}_{bank}", ram)
            m.d.comb += [
                write.addr.eq(address),
                write.data.eq(self.i.payload.data),
                write.en.eq(enable),
                read.addr.eq(word_address),
                read.en.eq(step),
            ]
            elements.append(self._beat(read.data, beat, of_job))
        m.d.comb += self.o.payload.data.eq(Cat(*elements))

    def _beat(self, word: Value, beat: Value, number: Value) -> Value:
        """Return a beat of a word, in the format of a number."""
        width = self.rows[0].beat_bits
        if not self.rows[0].stored_bits:
            return word.word_select(beat, width) if len(beat) else word
        lanes: dict[tuple[int | None, ...] | None, Value] = {}
        for rows in self.rows:
            if rows.order not in lanes:
                assert rows.order is not None
                bits = [Const(0) if bit is None else word[bit] for bit in rows.order]
                beats = [Cat(*bits[width * i : width * (i + 1)]) for i in range(rows.beats)]
                lanes[rows.order] = Value.cast(Array(beats)[beat[: _select(rows.beats)]])
        lane = chosen(number, [lanes[rows.order] for rows in self.rows])
        return Cat(lane[: width - len(number)], number)


def _select(beats: int) -> int:
    """Return the bits of the number of a beat in a word."""
    return (beats - 1).bit_length()


def _pitch(row_beats: Value, beats: int) -> Value:
    """Return the beats from one row to the next; each row starts with a new word."""
    select = _select(beats)
    return ((row_beats + beats - 1) >> select) << select if select else row_beats
