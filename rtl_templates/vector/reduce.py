# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows: sums in single precision, largest elements and where they are."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
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
    i, i_valid, i_last : In
        The lanes of a beat; whether it is the last of its row.
    i_level : In
        What they are over: it never falls along a row; present if it has bits.
    o, o_valid : Out
        The sum of a row.
    o_level : Out
        What it is over: the last level of the row; present if it has bits.
    """

    resettable = True

    def __init__(self, lanes: int, stages: int, level_bits: int = 0) -> None:
        over = {"i_level": In(level_bits), "o_level": Out(level_bits)} if level_bits else {}
        super().__init__(
            f"row_sum_{lanes}x{stages}{f'_{level_bits}' if level_bits else ''}",
            {
                "run": In(1),
                "i": In(32 * lanes),
                "i_valid": In(1),
                "i_last": In(1),
                "o": Out(32),
                "o_valid": Out(1),
                **over,
            },
        )
        self.lanes, self.stages, self.count = lanes, stages, stages + 1
        self.level_bits = level_bits

    def build(self, m: Module) -> None:
        run, stages, count = self.run, self.stages, self.count
        terms = [self.i.word_select(lane, 32) for lane in range(self.lanes)]
        total, levels = self._tree(m, "lanes", terms)
        valid = delayed(m, "valid", self.i_valid, levels * stages, run, token=True)
        last = delayed(m, "last", self.i_last, levels * stages, run)

        place_of, begun = Signal(range(count), name="place"), Signal(name="begun")
        begins = Signal(init=1, name="begins")
        now = named(m, "now", Mux(begins, 0, place_of))
        again = named(m, "again", begun & ~begins)
        with m.If(run & valid):
            m.d.sync += [
                begins.eq(last),
                place_of.eq(Mux(now == count - 1, 0, now + 1)),
                begun.eq(again | (now == count - 1)),
            ]
        partial = [Signal(32, name=f"partial_{i}", reset_less=True) for i in range(count)]
        held = Signal(32, name="held")
        with m.Switch(now):
            for i, each in enumerate(partial):
                with m.Case(i):
                    m.d.comb += held.eq(each)
        before = levels * stages
        if self.level_bits:
            level = delayed(m, "level", self.i_level, before, run)
            over = [
                Signal(self.level_bits, name=f"over_{i}", reset_less=True) for i in range(count)
            ]
            held = self._rescaled(m, "held", held, level, Array(over)[now])
        added = Signal(32, name="added")
        place(m, "accumulate", FloatAdder(REAL, stages, enabled=True), run=run,
              a=Mux(again, held, 0), b=total, o=added)  # fmt: skip
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
            m.d.comb += self.o_level.eq(delayed(m, "o_level", end, levels * stages, run))
        m.d.comb += [
            self.o.eq(total),
            self.o_valid.eq(delayed(m, "answer", done, levels * stages, run, token=True)),
        ]

    def _rescaled(self, m: Module, name: str, held: Value, level: Value, over: Value) -> Value:
        """Return a partial sum over a level that is not below its own."""
        down = Signal(self.level_bits, name=f"{name}_down")
        found = Signal(32, name=f"{name}_rescaled")
        m.d.comb += down.eq(level - over)
        place(m, f"rescale_{name}", Rescaled(self.level_bits), i=held, down=down, o=found)
        return found

    def _tree(self, m: Module, name: str, terms: list[Value]) -> tuple[Value, int]:
        """Return the sum by a balanced tree, and its levels."""
        adder, level = FloatAdder(REAL, self.stages, enabled=True), 0
        while len(terms) > 1:
            sums: list[Value] = []
            for i in range(0, len(terms) - 1, 2):
                total = Signal(32, name=f"{name}_{level}_{i // 2}")
                place(m, f"{name}_add_{level}_{i // 2}", adder, run=self.run,
                      a=terms[i], b=terms[i + 1], o=total)  # fmt: skip
                sums.append(total)
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
    i, i_valid, i_last : In
        The lanes of a beat, minus infinity, or any number if signs do not count, where there is
        none; whether it is the last of its row.
    o, o_valid : Out
        The largest element of a row.
    o_position : Out
        Where it is; present if there are bits for it.
    """

    resettable = True

    def __init__(self, lanes: int, position_bits: int = 0) -> None:
        where = {"o_position": Out(position_bits)} if position_bits else {}
        super().__init__(
            f"row_max_{lanes}_{position_bits}",
            {
                "run": In(1),
                "magnitude": In(1),
                "i": In(32 * lanes),
                "i_valid": In(1),
                "i_last": In(1),
                "o": Out(32),
                "o_valid": Out(1),
                **where,
            },
        )
        self.lanes, self.position_bits = lanes, position_bits

    def build(self, m: Module) -> None:
        run = self.run
        found: list[tuple[Value, Value]] = []
        for lane in range(self.lanes):
            bits = self.i.word_select(lane, 32)
            key = Signal(signed(32), name=f"key_{lane}")
            minus = bits[31] & ~self.magnitude
            m.d.comb += key.eq(Mux(minus, -Cat(bits[:31], Const(0, 1)), bits[:31]))
            found.append((key, Const(lane, max(1, (self.lanes - 1).bit_length()))))
        level = 0
        while len(found) > 1:
            merged = []
            for i in range(0, len(found), 2):
                name = f"{level}_{i // 2}"
                key = Signal(signed(32), name=f"largest_{name}", reset_less=True)
                position = Signal(len(found[i][1]), name=f"at_{name}", reset_less=True)
                greater = named(m, f"greater_{name}", found[i + 1][0] > found[i][0])
                with m.If(run):
                    m.d.sync += [
                        key.eq(Mux(greater, found[i + 1][0], found[i][0])),
                        position.eq(Mux(greater, found[i + 1][1], found[i][1])),
                    ]
                merged.append((key, position))
            found, level = merged, level + 1
        key, position = found[0]
        valid = delayed(m, "valid", self.i_valid, level, run, token=True)
        last = delayed(m, "last", self.i_last, level, run)
        begins, done = Signal(init=1, name="begins"), Signal(name="done")
        largest = Signal(signed(32), name="largest", reset_less=True)
        take = named(m, "take", begins | (key > largest))
        with m.If(run):
            m.d.sync += done.eq(valid & last)
            with m.If(valid):
                m.d.sync += begins.eq(last)
                with m.If(take):
                    m.d.sync += largest.eq(key)
        magnitude = named(m, "size", Mux(largest < 0, -largest, largest)[:31])
        m.d.comb += [self.o.eq(Cat(magnitude, largest < 0)), self.o_valid.eq(done)]
        if self.position_bits:
            self._positions(m, valid & run, begins, last, take, position)

    def _positions(
        self, m: Module, valid: Value, begins: Value, last: Value, take: Value, lane: Value
    ) -> None:
        """Keep where the largest element is."""
        beat = Signal(self.position_bits, name="beat", reset_less=True)
        now = named(m, "beat_now", Mux(begins, 0, beat))
        place_of = Cat(lane, now) if self.lanes > 1 else now
        kept = Signal(self.position_bits, name="position", reset_less=True)
        with m.If(valid):
            m.d.sync += beat.eq(now + 1)
            with m.If(take):
                m.d.sync += kept.eq(place_of)
        m.d.comb += self.o_position.eq(kept)
