# SPDX-License-Identifier: Apache-2.0
"""Computation of a vector unit once a row: the scale from what was reduced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig


FLAGS = ("epsilon", "reciprocal", "rsqrt", "guarded", "bounded")
"""What operations choose."""

_SMALLEST = 0x00800000
"""The smallest normal number; its reciprocal is finite, those of smaller ones are not all."""


class ScaleChain(Block):
    """``s``, a function of ``b * c1 + c2``, and ``t = b * c1`` late_t it.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    b : In(stream), always ready
        Reduced values of rows.
    c1, c2 : In(32)
        Constant while a job is executed.
    epsilon, reciprocal, rsqrt, guarded, bounded : In(1)
        Whether `c2` is added; the function of `s`, which is `t` if neither; whether `s` is zero
        where `b` is; whether `t` is the smallest normal number at least where `b` is not zero.
    o : Out(stream), always ready
        ``s`` and ``t``.
    """

    resettable = True

    def __init__(self, config: VectorConfig) -> None:
        self.config = config
        members: dict[str, Member] = {
            "run": In(1),
            "b": In(stream.Signature(32, always_ready=True)),
        }
        members |= {"c1": In(32), "c2": In(32)}
        members |= {name: In(1) for name in FLAGS}
        results = data.StructLayout({"s": 32, "t": 32})
        members |= {"o": Out(stream.Signature(results, always_ready=True))}
        super().__init__("scale_chain", members)

    def build(self, m: Module) -> None:
        config, run, pipeline = self.config, self.run, self.config.pipeline
        multiplier = FloatMultiplier(REAL, pipeline.multiplier, enabled=True)
        weighed = Signal(32, name="weighed")
        place(m, "weigh", multiplier, run=run, a=self.b.payload, b=self.c1, o=weighed)
        ready = delayed(m, "weighed_valid", self.b.valid, pipeline.multiplier, run, token=True)
        zero: Value = ~self.b.payload[:31].any()
        zero = delayed(m, "zero", zero, pipeline.multiplier, run)
        product: Value = weighed
        if config.any_path(lambda path: path.tail):
            below = self.bounded & ~zero & ~weighed[23:31].any()
            product = named(m, "product", Mux(below, _SMALLEST, weighed))
        power = config.any_path(lambda path: path.exponent)
        if power:
            product = named(m, "power", Cat(Const(0, 23), product[23:31], Const(0, 1)))
        argument = product
        if config.any_path(lambda path: path.epsilon):
            total = Signal(32, name="total")
            adder = FloatAdder(REAL, pipeline.adder, enabled=True)
            place(m, "offset", adder, run=run, a=product, b=self.c2, o=total)
            # Only rows that use a unit enter its delay line: the next operation may begin before
            # the line is empty, and would take what is left for its own.
            later = delayed(m, "summed", ready & self.epsilon, pipeline.adder, run, token=True)
            argument = Mux(self.epsilon, total, product)
            through = Mux(self.epsilon, later, ready)
        else:
            through = ready
        valid, scale = ready, product
        for name in ("reciprocal", "rsqrt"):
            if name not in config.functions:
                continue
            block = FunctionBlock(config.functions[name], pipeline.function, enabled=True)
            result = place(m, f"{name}_unit", block, run=run, i=argument).o
            scale = Mux(getattr(self, name), result, scale)
        if power:  # one over it: the exponents add up to that of 2**127
            scale = Cat(Const(0, 23), (254 - product[23:31])[:8], Const(0, 1))
        late, late_t = ready, product
        if {"reciprocal", "rsqrt"} & config.functions.keys():
            functional = self.reciprocal | self.rsqrt
            late = delayed(m, "ready", through & functional, pipeline.function, run, token=True)
            valid = Mux(functional, late, ready)
            zero = delayed(m, "nought", zero, pipeline.function, run)
            late_t = delayed(m, "late_t", product, pipeline.function, run)
            late_t = Mux(functional, late_t, product)
        m.d.comb += [
            self.o.payload.s.eq(Mux(self.guarded & zero, 0, scale)),
            self.o.payload.t.eq(late_t),
            self.o.valid.eq(valid),
        ]
