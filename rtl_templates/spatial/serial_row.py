# SPDX-License-Identifier: Apache-2.0
"""Rows of serial PEs with their encoders, and the columns of W that all rows read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.sparse_digits import FINAL_STEPS, GROUP_TERMS
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.serial_pe import SerialFinalAdder, SerialPe
from rtl_templates.arithmetic.integer.sparse_encoder import SparseEncoder
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.arithmetic.sparse_digits import SerialSum
    from hwgen.core.params.spatial import SpatialConfig

ENCODER = ("x", "weight", "fill", "open")
"""Inputs of an encoder."""

DIGIT = ("select", "one", "two", "negative")
"""What says a digit and its factor."""


def encoder_of(config: SpatialConfig) -> SparseEncoder:
    """Return the encoder of a row's lane."""
    return SparseEncoder(config.array.encoding, config.activation, config.array.queue)


def pe_of(config: SpatialConfig, serial_sum: SerialSum) -> SerialPe:
    """Return the PE that gets its digits from an encoder."""
    return SerialPe(serial_sum, config.array.queue, config.pipeline.pe)


class Encoders(Block):
    """The encoders of a row, one for each lane, and what they say together.

    Members
    -------
    x, weight, fill, open : In
        As of `SparseEncoder`; `x` of all lanes.
    finished : Out(queue)
        All lanes have finished the slot.
    select, one, two, negative : Out
        Of all lanes.
    plus_ones : Out
        The two's-complement +1s: the number of negative digits, ``pipeline.pe`` cycles later.
    """

    resettable = True

    def __init__(self, config: SpatialConfig, serial_sum: SerialSum) -> None:
        encoder, lanes = encoder_of(config), serial_sum.lanes
        super().__init__(
            "edge",
            {
                **{name: In(encoder.width(name)) for name in ENCODER},
                "x": In(lanes * encoder.width("x")),
                "finished": Out(encoder.width("finished")),
                **{name: Out(lanes * encoder.width(name)) for name in DIGIT},
                "plus_ones": Out(serial_sum.plus_ones_width),
            },
        )
        self.encoder, self.lanes, self.registers = encoder, lanes, config.pipeline.pe

    def build(self, m: Module) -> None:
        finished = []
        for lane in range(self.lanes):
            done = Signal(len(self.finished), name=f"finished_{lane}")
            finished.append(done)
            place(
                m, f"lane_{lane}", self.encoder, weight=self.weight, fill=self.fill, open=self.open,
                finished=done, x=self.x.word_select(lane, self.encoder.width("x")),
                **{
                    name: getattr(self, name).word_select(lane, self.encoder.width(name))
                    for name in DIGIT
                },
            )  # fmt: skip
        m.d.comb += self.finished.eq(Cat(Cat(*bits).all() for bits in zip(*finished, strict=True)))
        ones = [HeapOperand(bit) for bit in self.negative]
        plus_ones = sum_of(m, "plus_ones", ones, len(self.plus_ones))
        for stage in range(self.registers):
            register = Signal(len(self.plus_ones), name=f"plus_ones_{stage}", reset_less=True)
            m.d.sync += register.eq(plus_ones)
            plus_ones = register
        m.d.comb += self.plus_ones.eq(plus_ones)


class EncodingPe(Block):
    """PE with its encoders: the encoders of a row are repeated in each of its columns.

    Members
    -------
    x, weight, fill, open, finished : In, Out
        As of `Encoders`.
    w, hold, shift, total : In, Out
        As of `SerialPe`.
    """

    resettable = True

    def __init__(self, config: SpatialConfig, serial_sum: SerialSum) -> None:
        self.pe, self.edge = pe_of(config, serial_sum), Encoders(config, serial_sum)
        pe, edge = self.pe.members, self.edge.members
        super().__init__(
            "encoding_pe",
            {
                **{name: edge[name] for name in (*ENCODER, "finished")},
                **{name: pe[name] for name in ("w", "hold", "shift", "total")},
            },
        )

    def build(self, m: Module) -> None:
        signals = {name: Signal(self.edge.width(name), name=name) for name in (*DIGIT, "plus_ones")}
        place(
            m,
            "edge",
            self.edge,
            finished=self.finished,
            **signals,
            **{name: getattr(self, name) for name in ENCODER},
        )
        place(
            m,
            "adder",
            self.pe,
            **signals,
            **{name: getattr(self, name) for name in ("w", "hold", "shift", "total")},
        )


class SerialRow(Block):
    """A row of PEs and its encoders.

    Members
    -------
    x, weight, fill, open, finished : In, Out
        As of `Encoders`.
    w : In
        The factors of all columns, from `Window`.
    pass_starts, tile_starts : In(1)
        The slot that is open from this cycle on is the first of a pass; of a tile.
    total : Out
        The accumulators of the row.
    """

    resettable = True

    def __init__(self, config: SpatialConfig, serial_sum: SerialSum) -> None:
        edge, pe = Encoders(config, serial_sum), pe_of(config, serial_sum)
        super().__init__(
            "row",
            {
                **{name: edge.members[name] for name in (*ENCODER, "finished")},
                "w": In(config.cols * pe.width("w")),
                "pass_starts": In(1),
                "tile_starts": In(1),
                "total": Out(config.cols * serial_sum.register_bits),
            },
        )
        self.config, self.serial_sum = config, serial_sum

    def build(self, m: Module) -> None:
        config, serial_sum = self.config, self.serial_sum
        hold: Value = ~self.pass_starts
        shift: Value = self.pass_starts & ~self.tile_starts
        for stage in range(config.pipeline.pe):
            registers = Signal(2, name=f"feedback_{stage}", reset_less=True)
            m.d.sync += registers.eq(Cat(hold, shift))
            hold, shift = registers
        encoders = {name: getattr(self, name) for name in ENCODER}
        own = config.array.pe == "serial_digit"
        signals: dict[str, Value] = {}
        pe: Block
        if own:
            pe = EncodingPe(config, serial_sum)
        else:
            pe, edge = pe_of(config, serial_sum), Encoders(config, serial_sum)
            signals = {name: Signal(edge.width(name), name=name) for name in (*DIGIT, "plus_ones")}
            place(m, "edge", edge, finished=self.finished, **encoders, **signals)
        for col in range(config.cols):
            if own:
                # All encoders of a row do the same.
                finished = (
                    self.finished if not col else Signal.like(self.finished, name=f"finished_{col}")
                )
                signals = {**encoders, "finished": finished}
            place(
                m, f"col_{col}", pe, hold=hold, shift=shift, **signals,
                w=self.w.word_select(col, pe.width("w")),
                total=self.total.word_select(col, serial_sum.register_bits),
            )  # fmt: skip


class Window(Block):
    """The factors of a column, in the slots of the queue.

    Members
    -------
    fill : In(queue)
        The slot that takes a beat, one hot or none.
    i : In
        The terms of a beat.
    o : Out
        The factors of each lane, those of a slot together.
    """

    def __init__(self, config: SpatialConfig) -> None:
        bits = config.depth * config.weight.width
        super().__init__(
            "window",
            {
                "fill": In(config.array.queue),
                "i": In(bits),
                "o": Out(bits * config.array.queue),
            },
        )
        self.group = GROUP_TERMS * config.weight.width

    def build(self, m: Module) -> None:
        slots = []
        for number, fill in enumerate(self.fill):
            slot = Signal(len(self.i), name=f"slot_{number}", reset_less=True)
            m.d.sync += slot.eq(Mux(fill, self.i, slot))
            slots.append(slot)
        lanes = len(self.i) // self.group
        m.d.comb += self.o.eq(
            Cat(slot.word_select(lane, self.group) for lane in range(lanes) for slot in slots)
        )


class SerialSignConstant(Block):
    """The sign-extension constants that accumulators hold beyond their sums, inverted.

    Members
    -------
    pass_starts, tile_starts : In(1)
        As of `SerialRow`, a cycle before.
    o : Out
        In a cycle in which accumulators hold so much more, but for the first of a pass.
    """

    def __init__(self, config: SpatialConfig, serial_sum: SerialSum) -> None:
        super().__init__(
            "sign_constant",
            {"pass_starts": In(1), "tile_starts": In(1), "o": Out(serial_sum.width)},
        )
        self.config, self.serial_sum = config, serial_sum

    def build(self, m: Module) -> None:
        serial_sum, registers = self.serial_sum, self.config.pipeline.pe
        pe = pe_of(self.config, serial_sum)
        hold, shift = ~self.pass_starts, self.pass_starts & ~self.tile_starts
        # It takes a cycle for each step to put the value together.  One is what `pass_starts` is
        # ahead; in the others accumulators have only grown, by the same as ever.
        for stage in range(registers):
            early = Signal(2, name=f"feedback_{stage}", reset_less=True)
            m.d.sync += early.eq(Cat(hold, shift))
            hold, shift = early
        total = place(
            m, "idle", pe, hold=hold, shift=shift,
            **{name: Const(0, pe.width(name)) for name in ("w", *DIGIT, "plus_ones")},
        ).total  # fmt: skip
        grown = (FINAL_STEPS - 1) * serial_sum.lanes << (serial_sum.row_width - 1)
        value: Value = total
        for number in range(FINAL_STEPS):
            step = SerialFinalAdder(serial_sum, number)
            result = Signal(step.width("o"), name=f"resolved_{number}")
            register = Signal.like(result, name=f"resolved_{number}_reg", reset_less=True)
            sign_constant = {} if number else {"sign_constant": Const(grown - 1, serial_sum.width)}
            place(m, f"resolve_{number}", step, i=value, o=result, **sign_constant)
            last = number + 1 == FINAL_STEPS
            m.d.sync += register.eq(~result if last else result)
            value = register
        m.d.comb += self.o.eq(value)
