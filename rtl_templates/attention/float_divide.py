# SPDX-License-Identifier: Apache-2.0
"""Sums of weighted values divided by sums of weights, and rounded to floating point."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal

from rtl_templates.arithmetic.float.from_scaled import ScaledToFloat
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import delayed
from rtl_templates.hdl.hierarchy import place

from .divide import Divider, normalised, reciprocal_of


class FloatDivider(Divider):
    """A beat of sums of a row, divided by its sum of weights.

    Members
    -------
    totals, weights : In
        Sums of weighted values; the sum of weights, what its scale is below theirs, and whether the
        results are NaN.
    o : Out
        Results, ``6 + pipeline.reciprocal`` cycles later.
    """

    def build(self, m: Module) -> None:
        config, stages = self.config, self.config.pipeline.reciprocal
        weights = delayed(m, "weights", self.weights, 1)
        zeros, mantissa, none = normalised(m, config, weights[: config.sum_bits])
        gap = delayed(m, "gap", weights[config.sum_bits :], 1)
        reciprocal = reciprocal_of(m, config, mantissa)
        exponents = range(config.sum_bits + (1 << config.gap_bits))
        exponent = Signal(range(exponents[-1] + 1), name="exponent", reset_less=True)
        m.d.sync += exponent.eq(zeros + gap[:-1])
        exponent = delayed(m, "exponent", exponent, stages + 1)
        special = delayed(m, "special", gap[-1], stages + 2)
        nothing = delayed(m, "none", none, stages + 1)
        totals = delayed(m, "totals", self.totals, 3 + stages)
        block = ScaledToFloat(config.quotient, exponents, config.quotient_scale, config.output, 2)
        for i in range(config.array.lanes):
            total = Signal(shape_of(config.total), name=f"total_{i}")
            product = Signal(shape_of(config.quotient), name=f"product_{i}", reset_less=True)
            m.d.comb += total.eq(totals.word_select(i, config.total.width))
            m.d.sync += product.eq(Mux(nothing, 0, total * reciprocal))
            place(
                m, f"lane_{i}", block, i=product, exponent=exponent, special=special,
                o=self.o.word_select(i, config.output.width),
            )  # fmt: skip
