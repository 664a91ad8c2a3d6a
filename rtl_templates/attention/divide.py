# SPDX-License-Identifier: Apache-2.0
"""Sums of weighted values divided by sums of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.families.attention.formats import SUM_GUARD
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.integer.multiply import saturated, shape_of
from rtl_templates.arithmetic.pipeline import delayed, leading_zeros, named, shift_left
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class DividedLane(Block):
    """A sum of weighted values times the reciprocal of the sum of weights.

    Members
    -------
    total, zeros : In
        The sum, and by how many bits it is shifted to the left.
    reciprocal, none : In
        ``1 + pipeline.reciprocal`` cycles later; `none`: no weight was added, the result is zero.
    o : Out
        Two cycles behind.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(
            "divided_lane",
            {
                "total": In(config.total.width),
                "zeros": In(range(config.sum_bits)),
                "reciprocal": In(config.reciprocals.target.width),
                "none": In(1),
                "o": Out(config.output.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        sign = config.total.signed
        cut = config.sum_bits - 1 - SUM_GUARD - config.quotient_fraction
        # The quotient is at most twice the largest value, before it is rounded, and that bounds
        # the sum beside its normalised divisor.
        bits = config.value.width + 2 + config.quotient_fraction
        top = cut + bits
        total = Signal(signed(top) if sign else top, name="sum")
        m.d.comb += total.eq(self.total.as_signed() if sign else self.total)
        lifted = shift_left(m, "lifted", total[:], self.zeros)
        moved = named(m, "moved", lifted[cut:])
        along = delayed(m, "along", moved, config.pipeline.reciprocal + 1)
        if sign:
            along = along.as_signed()
        factor = along * self.reciprocal
        product = Signal(factor.shape(), name="product", reset_less=True)
        none = Signal(name="is_none", reset_less=True)
        m.d.sync += [product.eq(factor), none.eq(self.none)]
        rest = config.quotient_fraction + config.reciprocal_bits - config.fraction
        wide = max(len(product) + 1 - rest, config.output.width + 1) + 1
        rounded = Signal(signed(wide), name="nearest")
        m.d.comb += rounded.eq((product + (1 << rest >> 1)) >> rest)
        result = Signal(shape_of(config.output), name="result", reset_less=True)
        m.d.sync += result.eq(Mux(none, 0, saturated(m, rounded, config.output)))
        m.d.comb += self.o.eq(result)


class Divider(Block):
    """A beat of sums of a row, divided by its sum of weights.

    Members
    -------
    totals, weights : In
        Sums of weighted values, and the sum of weights.
    o : Out
        Results, ``5 + pipeline.reciprocal`` cycles later.
    """

    def __init__(self, config: AttentionConfig) -> None:
        lanes = config.array.lanes
        super().__init__(
            "divider",
            {
                "totals": In(lanes * config.total.width),
                "weights": In(config.state_bits),
                "o": Out(lanes * config.output.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        totals = delayed(m, "totals", self.totals, 2)
        weights = delayed(m, "weights", self.weights, 1)
        zeros, mantissa, none = normalised(m, config, weights)
        reciprocal = reciprocal_of(m, config, mantissa)
        is_none = delayed(m, "none", none, config.pipeline.reciprocal + 1)
        lane, width = DividedLane(config), config.total.width
        for i in range(config.array.lanes):
            place(
                m,
                f"lane_{i}",
                lane,
                total=totals.word_select(i, width),
                zeros=zeros,
                reciprocal=reciprocal,
                none=is_none,
                o=self.o.word_select(i, config.output.width),
            )


def normalised(m: Module, config: AttentionConfig, weights: Value) -> tuple[Value, Value, Value]:
    """Return, a cycle later, the shift that normalises a sum of weights, and its mantissa.

    Returns
    -------
    zeros, mantissa, none : Value
        The shift; the bits behind the leading one; whether the sum is zero.
    """
    zeros = Signal(range(config.sum_bits), name="zeros", reset_less=True)
    count = leading_zeros(m, "leading", weights)
    normal = shift_left(m, "normal", weights, count[: len(zeros)])
    mantissa: Value = normal[max(0, config.sum_bits - 1 - config.reciprocal_bits) : -1]
    pad = config.reciprocal_bits - len(mantissa)
    stored = Signal(config.reciprocal_bits, name="mantissa", reset_less=True)
    none = Signal(name="none", reset_less=True)
    m.d.sync += [
        zeros.eq(Mux(weights.any(), count, 0)),
        stored.eq(Cat(Const(0, pad), mantissa)),
        none.eq(~weights.any()),
    ]
    return zeros, stored, none


def reciprocal_of(m: Module, config: AttentionConfig, mantissa: Value) -> Value:
    """Return the reciprocal of one and a mantissa, ``1 + pipeline.reciprocal`` cycles later."""
    block = FunctionBlock(config.reciprocals, config.pipeline.reciprocal)
    reciprocal = place(m, "reciprocals", block, role="reciprocal", i=Cat(mantissa, Const(1, 1))).o
    return delayed(m, "reciprocal", reciprocal, 1)
