# SPDX-License-Identifier: Apache-2.0
"""The ternary-LUT core: banks of tables, column sums, accumulators, sequencer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.numerics import dot_format
from rtl_templates.accumulators import Accumulators
from rtl_templates.arithmetic.compressor import sum_of
from rtl_templates.arithmetic.integer import add, shape_of
from rtl_templates.core import StreamCore
from rtl_templates.hierarchy import Block, place

from .table import Bank, Products, value_width

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig


class Column(Block):
    """Sum of what a column has fetched.

    An adder of the tree takes a sign as its carry, so that L reads need L - 1 adders and leave
    one carry to the accumulator.

    Members
    -------
    run : In(1)
        Advance the registers, ``pipeline.reduce`` of them.
    values : In
        One value a table.
    signs : In
        Their signs: a value with the sign is one too small.
    psum : Out
        The sum, but for the carry.
    carry : Out(1)
        What is missing; compressors take the signs as further operands and leave nothing.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        tables = config.array.tables
        super().__init__(
            "column",
            {
                "run": In(1),
                "values": In(tables * value_width(config)),
                "signs": In(tables),
                "psum": Out(shape_of(config.partial_sum(config.terms))),
                "carry": Out(1),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, tables = self.config, self.config.array.tables
        width, mu = value_width(config), config.array.group_size
        signed = config.array.method != "multiply"
        # A node: value, carry, number of tables below it.
        nodes: list[tuple[Value, Value, int]] = [
            (self.values.word_select(i, width).as_signed(), self.signs[i], 1) for i in range(tables)
        ]
        if config.array.reduction == "compressors":
            # One register, if any, behind the fetch, the others behind the sum.
            nodes = self._registered(m, nodes, 0, min(1, config.pipeline.reduce))
            operands = [value for value, _, _ in nodes]
            if signed:
                operands += [carry for _, carry, _ in nodes]
            total = Signal(self.psum.shape(), name="compressed")
            m.d.comb += total.eq(sum_of(m, "fa", operands, len(total)))
            nodes = self._registered(
                m, [(total, Const(0, 1), tables)], 1, max(0, config.pipeline.reduce - 1)
            )
            m.d.comb += self.psum.eq(nodes[0][0])
            return
        levels = (tables - 1).bit_length()
        # The first register stands behind the fetch, the others at equal distances in the tree.
        registers = Counter(
            stage * levels // config.pipeline.reduce for stage in range(config.pipeline.reduce)
        )
        for level in range(levels + 1):
            nodes = self._registered(m, nodes, level, registers[level])
            if level == levels:
                break
            merged = []
            for i in range(0, len(nodes) - 1, 2):
                (a, carry, n), (b, left, more) = nodes[i], nodes[i + 1]
                fmt = dot_format(config.activation, config.weight, (n + more) * mu)
                total = Signal(
                    # Room for the carry that is still missing below zero.
                    shape_of(fmt) if fmt.signed else fmt.width + 1,
                    name=f"sum_{level}_{i // 2}",
                )
                m.d.comb += total.eq(add(a, b, carry if signed else None))
                merged.append((total, left, n + more))
            nodes = merged + nodes[len(nodes) & ~1 :]
        m.d.comb += [self.psum.eq(nodes[0][0]), self.carry.eq(nodes[0][1])]

    def _registered(
        self, m: Module, nodes: list[tuple[Value, Value, int]], level: int, count: int
    ) -> list[tuple[Value, Value, int]]:
        for stage in range(count):
            held = []
            for i, (value, carry, below) in enumerate(nodes):
                register = Signal(value.shape(), name=f"held_{level}_{stage}_{i}", reset_less=True)
                flag = Signal(name=f"carry_{level}_{stage}_{i}", reset_less=True)
                with m.If(self.run):
                    m.d.sync += [register.eq(value), flag.eq(carry)]
                held.append((register, flag, below))
            nodes = held
        return nodes


class TernaryLutCore(StreamCore):
    """Tables that are built while the ones before are read; column groups iterate over them.

    A beat of weights meets the tables that are held; its ``tlast`` lets go of them.  Everything
    behind the tables advances together while `run` is high, which is while the output buffer has
    room; tables advance when nobody needs the held ones any more.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, array = self.config, self.config.array
        run, fire, step = (Signal(name=name) for name in ("run", "fire", "step"))
        act, wgt, _ = config.ports
        x, x_last, x_valid = self.take(m, act, step)
        keys, k_last, k_valid = self.take(m, wgt, fire)

        # Tables on their way, the held ones last: {valid, end of the reduction}.
        stages = config.pipeline.table
        valids, lasts = Signal(stages), Signal(stages)
        held, closes = valids[-1], lasts[-1]
        m.d.comb += [
            fire.eq(run & k_valid & held),
            step.eq(~held | (fire & k_last)),
        ]
        with m.If(step):
            m.d.sync += [valids.eq(Cat(x_valid, valids)), lasts.eq(Cat(x_last, lasts))]
        starts = Signal(init=1)  # the next pass begins a reduction
        with m.If(fire & k_last):
            m.d.sync += starts.eq(closes)

        ports, tables, key = array.fetch_ports, array.tables, config.key_width
        width = value_width(config)
        block = Products(config) if array.method == "multiply" else Bank(config)
        group = len(x) // tables
        values = []
        for t in range(tables):
            out = Signal(ports * width, name=f"values_{t}")
            mine = Cat(keys.word_select(p * tables + t, key) for p in range(ports))
            place(
                m, f"bank_{t}", block,
                step=step, x=x.word_select(t, group), keys=mine, values=out,
            )  # fmt: skip
            values.append(out)

        column = Column(config)
        psum_format = config.partial_sum(config.terms)
        psums, carries = [], []
        for p in range(ports):
            psum = Signal(psum_format.width, name=f"psum_{p}")
            carry = Signal(name=f"carry_{p}")
            signs = Cat(keys.word_select(p * tables + t, key)[-1] for t in range(tables))
            place(
                m, f"column_{p}", column,
                run=run, values=Cat(value.word_select(p, width) for value in values), signs=signs,
                psum=psum, carry=carry,
            )  # fmt: skip
            psums.append(psum)
            carries.append(carry)

        # The beat's flags travel beside it.
        flags: Value = Cat(fire, starts, closes, k_last)
        for stage in range(config.pipeline.reduce):
            register = Signal(4, name=f"flags_{stage}")
            with m.If(run):
                m.d.sync += register.eq(flags)
            flags = register

        results = Signal(ports * config.result.width)
        done = Signal(2)
        signed = array.method != "multiply" and array.reduction == "adders"
        place(
            m,
            "accumulators",
            Accumulators(
                config,
                psum_format,
                ports,
                array.accumulator_depth,
                single_cycle_passes=True,
                carries=signed,
            ),
            run=run,
            valid=flags[0],
            starts=flags[1],
            closes=flags[2],
            ends=flags[3],
            psums=Cat(*psums),
            results=results,
            done=done,
            **({"carries_in": Cat(*carries)} if signed else {}),
        )
        ready, _ = self.give(m, results, done[1], done[0] & run, depth=2)
        m.d.comb += run.eq(ready | ~done[0])
        return m
