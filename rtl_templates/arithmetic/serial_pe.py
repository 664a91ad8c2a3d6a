# SPDX-License-Identifier: Apache-2.0
"""Sums of products, one digit at a time: a processing element, and columns that share digits."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import In, Out

from hwgen.numerics.sparse_digits import GROUP, PassSum
from rtl_templates.hierarchy import Block, place

from .compressor import Operand, compress
from .sparse_encoder import NAMES, SparseEncoder


class SerialPe(Block):
    """Adds one multiple of a factor a cycle: -2, -1, 0, 1 or 2 times it.

    All digits of a sum have the same weight, so nothing is shifted.  The factor is chosen in one
    cycle; its multiple is made and added, by a full adder a bit, in the next.

    Parameters
    ----------
    what : PassSum
        Format of the factors, bits of the sum, and which carries are kept instead of added:
        with a spacing of 1 all of them, the sum and carry vectors of textbooks.

    Members
    -------
    run : In(1)
        Registers move.
    factors : In(GROUP * bits of a factor)
    position : In(GROUP)
        One-hot: which of the factors is the next.
    one, two, negative : In(1)
        The digit of the factor that was chosen in the cycle before.
    on : In(1)
        There is such a digit.
    clear : In(1)
        It is the first of a sum.
    held : Out
        The sum, and above its bits the carries that are kept, in the order of ``what.carries``.
    """

    def __init__(self, what: PassSum) -> None:
        super().__init__(
            f"serial_pe_{what.factor}_{what.total}_{what.spacing}",
            {
                "run": In(1),
                "factors": In(GROUP * what.factor.width),
                "position": In(GROUP),
                **{name: In(1) for name in NAMES},
                "on": In(1),
                "clear": In(1),
                "held": Out(what.held),
            },
        )
        self.what = what

    def build(self, m: Module) -> None:
        what, fmt = self.what, self.what.factor
        row, width = fmt.width + 1, what.total.width
        chosen = Signal(fmt.width)
        factor = Signal(fmt.width, reset_less=True)
        held = Signal(what.held, reset_less=True)
        kept = Signal(what.held)
        choices = [
            self.factors.word_select(i, fmt.width) & self.position[i].replicate(fmt.width)
            for i in range(GROUP)
        ]
        m.d.comb += chosen.eq(choices[0] | choices[1] | choices[2] | choices[3])
        with m.If(self.run):
            m.d.sync += factor.eq(chosen)

        single = Cat(factor, factor[-1] if fmt.signed else Const(0, 1))
        doubled = Cat(Const(0, 1), factor)
        exact = Signal(row)
        multiple = Signal(width)
        m.d.comb += exact.eq(
            ((single & self.one.replicate(row)) | (doubled & self.two.replicate(row)))
            ^ self.negative.replicate(row)
        )
        # All columns above have its sign: a constant instead would need a second carry in each.
        sign = exact[-1] if fmt.signed else self.negative
        m.d.comb += [
            multiple.eq(Cat(exact, sign.replicate(width - row))),
            kept.eq(held & (~self.clear).replicate(what.held)),
            self.held.eq(held),
        ]
        operands = [
            Operand(kept[:width]),
            Operand(multiple),
            # What an inverted row is short of: column 0 has no carry to add.
            Operand(self.negative),
            *(Operand(kept[width + i], column) for i, column in enumerate(what.carries)),
        ]
        total, carries = compress(m, "sum", operands, width, 0, what.carries)
        with m.If(self.run & self.on):
            m.d.sync += held.eq(Cat(total, *(carries[column] for column in what.carries)))


class SerialColumn(Block):
    """Processing elements that share an encoder, and so the digits of one operand.

    A stream of groups of digits meets a stream of factors, a group of them for every element.  The
    end of a group's digits takes its factors, which must have stayed until then, as streams do.  A
    sum stays in the accumulators until it is taken, in which cycle the next one may begin: there
    are no bubbles.  `i_ready` and `f_ready` follow `o_ready` in the same cycle.

    Parameters
    ----------
    what : PassSum
        Of every element; see `SerialPe`.
    size : int
        Elements.

    Members
    -------
    i_valid, i_ready, i_one, i_two, i_negative, i_ends : stream of groups in
        See `SparseEncoder`.
    f_valid, f_ready, f_data : stream of factors in
        For each element the factors of a group.
    o_valid, o_ready, o_held : stream of sums out
        Of each element; see `SerialPe`.  The first is there three cycles behind the first digit.
    """

    resettable = True

    def __init__(self, what: PassSum, size: int) -> None:
        self.pe, self.size = SerialPe(what), size
        super().__init__(
            self.pe.module_name.replace("pe", "column", 1) + f"_{size}",
            {
                **{f"i_{name}": In(GROUP) for name in NAMES},
                **{name: In(1) for name in ("i_ends", "i_valid", "f_valid", "o_ready")},
                "f_data": In(size * self.pe.width("factors")),
                **{name: Out(1) for name in ("i_ready", "f_ready", "o_valid")},
                "o_held": Out(size * what.held),
            },
        )

    def build(self, m: Module) -> None:
        run = Signal()
        position = Signal(GROUP)
        valid = Signal()
        last = Signal()
        ends = Signal()
        # A digit and its factors are there.
        met = Signal()
        lines = {name: Signal(name=name) for name in NAMES}
        place(
            m,
            "encoder",
            SparseEncoder(),
            **{f"i_{name}": getattr(self, f"i_{name}") for name in (*NAMES, "ends", "valid")},
            i_ready=self.i_ready,
            **{f"o_{name}": line for name, line in lines.items()},
            o_position=position,
            o_last=last,
            o_ends=ends,
            o_valid=valid,
            o_ready=run & self.f_valid,
        )
        on = Signal()
        ended = Signal(reset_less=True)
        clear = Signal(init=1)
        chosen = {name: Signal(name=f"{name}_reg", reset_less=True) for name in NAMES}
        m.d.comb += [
            run.eq(~self.o_valid | self.o_ready),
            met.eq(valid & self.f_valid),
            self.f_ready.eq(run & met & last),
        ]
        with m.If(run):
            m.d.sync += [
                *(chosen[name].eq(line) for name, line in lines.items()),
                on.eq(met),
                ended.eq(ends),
                self.o_valid.eq(on & ended),
            ]
            with m.If(on):
                m.d.sync += clear.eq(ended)
        for i in range(self.size):
            place(
                m,
                f"pe_{i}",
                self.pe,
                run=run,
                factors=self.f_data.word_select(i, self.pe.width("factors")),
                position=position,
                **chosen,
                on=on,
                clear=clear,
                held=self.o_held.word_select(i, self.pe.width("held")),
            )
