# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows: sums in single precision, largest elements and where they are."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import Block, place

from .rescaled import Rescaled


class RowSum(Block):
    """The sums of rows, a beat of lanes a cycle.

    Lanes are added by a tree; beats to one partial sum after the other, as many as the cycles of
    an addition and one; at the end these by a tree.

    Parameters
    ----------
    lanes, stages : int
        Lanes, and registers of an adder, at least one.
    level_bits : int
        Bits of the exponent of what the lanes of a beat are over; 0 if they are over nothing.
        What was summed is rescaled when it rises.

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    i : In(stream), always ready
        Beats: ``data``, the lanes; ``last``, whether it is the last of its row; ``level``, the
        exponent that never falls along a row, if it has bits.
    o : Out(stream), always ready
        Sums of rows: ``data``, and ``level``, the last one of the row, if it has bits.
    """

    resettable = True

    def __init__(self, lanes: int, stages: int, level_bits: int = 0) -> None:
        level = {"level": level_bits} if level_bits else {}
        beats = data.StructLayout({"data": 32 * lanes, "last": 1, **level})
        sums = data.StructLayout({"data": 32, **level})
        super().__init__(
            f"row_sum_{lanes}x{stages}{f'_{level_bits}' if level_bits else ''}",
            {
                "run": In(1),
                "i": In(stream.Signature(beats, always_ready=True)),
                "o": Out(stream.Signature(sums, always_ready=True)),
            },
        )
        self.lanes, self.stages, self.count = lanes, stages, stages + 1
        self.level_bits = level_bits

    def build(self, m: Module) -> None:
        run, stages, count = self.run, self.stages, self.count
        terms = [self.i.payload.data.word_select(lane, 32) for lane in range(self.lanes)]
        total, levels = self._tree(m, "lanes", terms)
        valid = delayed(m, "valid", self.i.valid, levels * stages, run, token=True)
        last = delayed(m, "last", self.i.payload.last, levels * stages, run)

        next_partial, begun = Signal(range(count), name="next_partial"), Signal(name="begun")
        begins = Signal(init=1, name="begins")
        now = named(m, "now", Mux(begins, 0, next_partial))
        again = named(m, "again", begun & ~begins)
        with m.If(run & valid):
            m.d.sync += [
                begins.eq(last),
                next_partial.eq(Mux(now == count - 1, 0, now + 1)),
                begun.eq(again | (now == count - 1)),
            ]
        partial = [Signal(32, name=f"partial_{i}", reset_less=True) for i in range(count)]
        partial_sum = Signal(32, name="partial_sum")
        with m.Switch(now):
            for i, each in enumerate(partial):
                with m.Case(i):
                    m.d.comb += partial_sum.eq(each)
        before = levels * stages
        if self.level_bits:
            level = delayed(m, "level", self.i.payload.level, before, run)
            over = [
                Signal(self.level_bits, name=f"over_{i}", reset_less=True) for i in range(count)
            ]
            partial_sum = self._rescaled(m, "partial", partial_sum, level, Array(over)[now])
        adder = FloatAdder(REAL, stages, enabled=True)
        added = place(m, "accumulate", adder, run=run, a=Mux(again, partial_sum, 0), b=total).o
        written = delayed(m, "written", valid, stages, run, token=True)
        where = delayed(m, "where", now, stages, run)
        first = delayed(m, "first", begins, stages, run)
        ended = delayed(m, "ended", last, stages, run)
        with m.If(run & written):
            for i, each in enumerate(partial):
                with m.If(where == i):
                    m.d.sync += each.eq(added)
                with m.Elif(first):
                    m.d.sync += each.eq(0)
        done = Signal(name="done")
        with m.If(run):
            m.d.sync += done.eq(written & ended)
        terms = list(partial)
        if self.level_bits:
            at = delayed(m, "written_level", level, stages, run)
            end = Signal(self.level_bits, name="end_level", reset_less=True)
            with m.If(run & written):
                m.d.sync += end.eq(at)
                for i, each in enumerate(over):
                    with m.If(where == i):
                        m.d.sync += each.eq(at)
            terms = [self._rescaled(m, f"end_{i}", each, end, over[i])
                     for i, each in enumerate(partial)]  # fmt: skip
        total, levels = self._tree(m, "end", terms)
        if self.level_bits:
            m.d.comb += self.o.payload.level.eq(delayed(m, "o_level", end, levels * stages, run))
        m.d.comb += [
            self.o.payload.data.eq(total),
            self.o.valid.eq(delayed(m, "answer", done, levels * stages, run, token=True)),
        ]

    def _rescaled(self, m: Module, name: str, number: Value, level: Value, over: Value) -> Value:
        """Return a partial sum over a level that is not below its own."""
        down = Signal(self.level_bits, name=f"{name}_down")
        m.d.comb += down.eq(level - over)
        return place(m, f"rescale_{name}", Rescaled(self.level_bits), i=number, down=down).o

    def _tree(self, m: Module, name: str, terms: list[Value]) -> tuple[Value, int]:
        """Return the sum by a balanced tree, and its levels."""
        adder, level = FloatAdder(REAL, self.stages, enabled=True), 0
        while len(terms) > 1:
            sums: list[Value] = []
            for i in range(0, len(terms) - 1, 2):
                label, a, b = f"{name}_add_{level}_{i // 2}", terms[i], terms[i + 1]
                sums.append(place(m, label, adder, run=self.run, a=a, b=b).o)
            if len(terms) % 2:
                over = delayed(m, f"{name}_over_{level}", terms[-1], self.stages, self.run)
                sums.append(over)
            terms, level = sums, level + 1
        return terms[0], level


class RowMax(Block):
    """The largest elements of rows, or their largest magnitudes; a beat of lanes a cycle.

    A NaN is larger than anything; zeros are equal, and the first of equal elements is taken.

    Parameters
    ----------
    lanes : int
    position_bits : int
        Bits of the position of the largest element; 0 if nobody asks for it.

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    magnitude : In(1)
        Whether signs do not count.
    i : In(stream), always ready
        Beats: ``data``, the lanes, minus infinity, or any number if signs do not count, in empty
        ones; ``last``, whether it is the last of its row.
    o : Out(stream), always ready
        ``data``, the largest element of a row, and ``position``, its index, if it has bits.
    """

    resettable = True

    def __init__(self, lanes: int, position_bits: int = 0) -> None:
        position = {"position": position_bits} if position_bits else {}
        beats = data.StructLayout({"data": 32 * lanes, "last": 1})
        results = data.StructLayout({"data": 32, **position})
        super().__init__(
            f"row_max_{lanes}_{position_bits}",
            {
                "run": In(1),
                "magnitude": In(1),
                "i": In(stream.Signature(beats, always_ready=True)),
                "o": Out(stream.Signature(results, always_ready=True)),
            },
        )
        self.lanes, self.position_bits = lanes, position_bits

    def build(self, m: Module) -> None:
        run = self.run
        candidates: list[tuple[Value, Value]] = []
        for lane in range(self.lanes):
            bits = self.i.payload.data.word_select(lane, 32)
            key = Signal(signed(32), name=f"key_{lane}")
            minus = bits[31] & ~self.magnitude
            m.d.comb += key.eq(Mux(minus, -Cat(bits[:31], Const(0, 1)), bits[:31]))
            candidates.append((key, Const(lane, max(1, (self.lanes - 1).bit_length()))))
        level = 0
        while len(candidates) > 1:
            merged = []
            for i in range(0, len(candidates), 2):
                name = f"{level}_{i // 2}"
                key = Signal(signed(32), name=f"largest_{name}", reset_less=True)
                position = Signal(len(candidates[i][1]), name=f"at_{name}", reset_less=True)
                greater = named(m, f"greater_{name}", candidates[i + 1][0] > candidates[i][0])
                with m.If(run):
                    m.d.sync += [
                        key.eq(Mux(greater, candidates[i + 1][0], candidates[i][0])),
                        position.eq(Mux(greater, candidates[i + 1][1], candidates[i][1])),
                    ]
                merged.append((key, position))
            candidates, level = merged, level + 1
        key, position = candidates[0]
        valid = delayed(m, "valid", self.i.valid, level, run, token=True)
        last = delayed(m, "last", self.i.payload.last, level, run)
        begins, done = Signal(init=1, name="begins"), Signal(name="done")
        largest = Signal(signed(32), name="largest", reset_less=True)
        update = named(m, "update", begins | (key > largest))
        with m.If(run):
            m.d.sync += done.eq(valid & last)
            with m.If(valid):
                m.d.sync += begins.eq(last)
                with m.If(update):
                    m.d.sync += largest.eq(key)
        magnitude = named(m, "size", Mux(largest < 0, -largest, largest)[:31])
        m.d.comb += [self.o.payload.data.eq(Cat(magnitude, largest < 0)), self.o.valid.eq(done)]
        if self.position_bits:
            self._positions(m, valid & run, begins, last, update, position)

    def _positions(
        self, m: Module, valid: Value, begins: Value, last: Value, update: Value, lane: Value
    ) -> None:
        """Store the index of the largest element."""
        beat = Signal(self.position_bits, name="beat", reset_less=True)
        now = named(m, "beat_now", Mux(begins, 0, beat))
        index = Cat(lane, now) if self.lanes > 1 else now
        position = Signal(self.position_bits, name="position", reset_less=True)
        with m.If(valid):
            m.d.sync += beat.eq(now + 1)
            with m.If(update):
                m.d.sync += position.eq(index)
        m.d.comb += self.o.payload.position.eq(position)
