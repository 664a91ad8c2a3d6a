# SPDX-License-Identifier: Apache-2.0
"""The buffers of A and W: blocks come in as rows of words and leave as beats of a core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.memory import place_ram
from rtl_templates.stream.stream import StreamFifo

from .formats import by_format, chosen, format_of
from .loops import AddressLoops, BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class Tokens:
    """Halves of a buffer that are free, and that are filled.

    Parameters
    ----------
    m : Module
    name : str
    take, fill, free : Value
        In this cycle a block is given its place; is full; is not needed any more.
    takes, frees : Value
        The halves that are taken, that are free again, less one.
    leave : Value, optional
        In this cycle the reader leaves the half that will be free; by default it is free then.

    Attributes
    ----------
    room : Value
        Whether the halves that would be taken are free.
    full : Value
        Whether a block is there.
    """

    def __init__(
        self, m: Module, name: str, *, take: Any, fill: Any, free: Any, leave: Any = None,
        takes: Any = 0, frees: Any = 0,
    ) -> None:  # fmt: skip
        room, full = Signal(2, name=f"{name}_room", init=2), Signal(2, name=f"{name}_full")
        leave = free if leave is None else leave
        m.d.sync += [
            room.eq(
                room + Mux(free, 1 + Value.cast(frees), 0) - Mux(take, 1 + Value.cast(takes), 0)
            ),
            full.eq(full + fill - leave),
        ]
        self.room, self.full = room > takes, full.any()


class OperandBuffer(Block):
    """Two halves: one is filled with a block while the cores work on the other.

    A job's blocks may take both halves each instead; then nothing is loaded while the cores work.

    Parameters
    ----------
    config : GemmStreamConfig
    name : {"act", "wgt"}
        The port of the cores.
    rows_in_flight : int
        Rows that are on their way from the memory at most.
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    take : In(1)
        A half is taken for the next block, if there is `room`.
    whole : In(1)
        It is both halves that the next block takes.
    row_final, row_valid, row_ready : stream in
        Announces a row that is on its way and whether it is the last of its block.
    i_data, i_last, i_valid : In
        A word; it is the last of its row.
    job, job_valid, job_done
        Descriptor of the job that the cores work on, from the queue.
    o_data, o_last, o_valid, o_ready : stream out
        Beats of all banks side by side.
    hungry : Out(1)
        The cores could take a beat, but the block is not there.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, name: str, rows_in_flight: int, job: Any) -> None:
        self.config, self.name, self.rows_in_flight = config, name, rows_in_flight
        act = name == "act"
        shape = config.buffer_shapes["activations" if act else "weights"]
        self.banks, self.word, self.depth = shape.memories, shape.width, shape.words // 2
        self.rows = [each.act_rows if act else each.wgt_rows for each in config.formats]
        self.job_layout = job
        super().__init__(
            shape.module,
            {
                "take": In(1),
                "whole": In(1),
                "room": Out(1),
                "row_final": In(1),
                "row_valid": In(1),
                "row_ready": Out(1),
                "i_data": In(self.word),
                "i_last": In(1),
                "i_valid": In(1),
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "o_data": Out(self.banks * self.rows[0].beat_bits),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "hungry": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        filled, freed = Signal(), Signal()
        tokens = Tokens(
            m, "halves", take=self.take, fill=filled, free=freed,
            takes=self.whole, frees=self.job_layout(self.job)[f"{self.name[0]}_whole"],
        )  # fmt: skip
        m.d.comb += self.room.eq(tokens.room)
        writes = self._write(m, filled)
        self._read(m, tokens.full, freed, writes)

    def _write(self, m: Module, filled: Signal) -> tuple[Signal, list[Any]]:
        """Put words where they belong; return the address and the write enable of each bank."""
        final = Signal(name="final")
        ends = Signal(name="row_ends")
        m.d.comb += ends.eq(self.i_valid & self.i_last)
        place(
            m,
            "rows",
            StreamFifo(1, self.rows_in_flight),
            i_data=self.row_final,
            i_valid=self.row_valid,
            i_ready=self.row_ready,
            o_data=final,
            o_valid=Signal(name="row_there"),
            o_ready=ends,
        )
        address, half = Signal(range(2 * self.depth)), Signal()
        whole = Signal(name="whole_block")
        other_half = Mux(half | whole, 0, self.depth)
        # Nothing is on its way when a block takes the whole buffer, which begins at its beginning.
        restart = Signal(name="restart")
        m.d.comb += restart.eq(self.take & self.whole)
        with m.If(self.take):
            m.d.sync += whole.eq(self.whole)
        m.d.comb += filled.eq(ends & final)
        if self.banks == 1:
            enables: list[Any] = [self.i_valid]
            with m.If(self.i_valid):
                m.d.sync += address.eq(address + 1)
        else:
            bank = Signal(self.banks, init=1)  # one hot
            start = Signal(range(2 * self.depth))  # of the row in its bank
            enables = [self.i_valid & bank[i] for i in range(self.banks)]
            with m.If(self.i_valid):
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

    def _read(self, m: Module, full: Any, freed: Signal, writes: tuple[Signal, list[Any]]) -> None:
        config, nest, act = self.config, self.config.loop_nest, self.name == "act"
        job = self.job_layout(self.job)
        number = format_of(config, job)
        steps = BlockSteps(m, job)
        counts = steps.counts(
            nest,
            by_format(config, number, lambda each: each.loop_nest.k_beats),
            by_format(config, number, lambda each: each.loop_nest.weight_rows),
        )
        loops = nest.act if act else nest.wgt
        row_beats = counts[next(count for count, stride in loops if stride == "beat")]
        if not act and not nest.weight_columns:
            row_beats = counts["weight_beats"]
        # Rows begin with a word of their own.
        beats = [rows.beats for rows in self.rows]
        pitch = chosen(number, [_pitch(row_beats, each) for each in beats])
        stride = {"nothing": 0, "beat": 1, "act_row": pitch, "weight_row": pitch}
        width = (2 * self.depth * max(beats)).bit_length()
        addresses = AddressLoops(m, loops, counts, stride, width)
        half, whole = Signal(name="read_half"), job[f"{self.name[0]}_whole"]
        step, advance = Signal(name="step"), Signal(name="advance")
        frees = steps.frees_a if act else steps.frees_w
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid):
                steps.begin()
                m.next = "WAIT"
            with m.State("WAIT"):
                other = chosen(number, [Const(self.depth * each) for each in beats])
                addresses.begin(Mux(half & ~whole, other, 0))
                m.d.comb += self.hungry.eq(~full)
                with m.If(full):
                    m.next = "WALK"
            with m.State("WALK"):
                m.d.comb += step.eq(~self.o_valid | self.o_ready)
                with m.If(step):
                    addresses.advance()
                    with m.If(addresses.last):
                        m.d.comb += [advance.eq(1), freed.eq(frees)]
                        steps.advance()
                        with m.If(frees):
                            m.d.sync += half.eq(~(half | whole))
                        m.next = "WAIT"
                        with m.If(steps.last):
                            m.d.comb += self.job_done.eq(1)
                            m.next = "IDLE"
        with m.If(~self.o_valid | self.o_ready):
            # The end of a part of a reduction is none for a core that goes on.
            ends = addresses.ends & steps.k.last if config.goes_on else addresses.ends
            m.d.sync += [self.o_valid.eq(step), self.o_last.eq(ends)]

        address, enables = writes
        word_address = chosen(number, [addresses.address[_select(each) :] for each in beats])
        beat = Signal(range(max(beats)), name="chosen", reset_less=True)
        of_job = Signal(len(number), name="format", reset_less=True)
        with m.If(step):
            m.d.sync += [beat.eq(addresses.address[: len(beat)]), of_job.eq(number)]
        elements = []
        # A block is read while the next one comes, into the other half; one that takes both halves
        # is alone.
        ram = Ram(2 * self.depth, self.word, halves=True)
        holds = "activations" if act else "weights"
        for bank, enable in enumerate(enables):
            (read,), write = place_ram(m, f"{holds}_{bank}", ram)
            m.d.comb += [
                write.addr.eq(address),
                write.data.eq(self.i_data),
                write.en.eq(enable),
                read.addr.eq(word_address),
                read.en.eq(step),
            ]
            elements.append(self._beat(read.data, beat, of_job))
        m.d.comb += self.o_data.eq(Cat(*elements))

    def _beat(self, word: Value, beat: Value, number: Value) -> Value:
        """Return a beat of a word, in the format of a number."""
        width = self.rows[0].beat_bits
        if not self.rows[0].held_bits:
            return word.word_select(beat, width) if len(beat) else word
        lanes: dict[Any, Value] = {}
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
    """Return the beats from one row to the next, each of which begins with a word of its own."""
    select = _select(beats)
    return ((row_beats + beats - 1) >> select) << select if select else row_beats
