# SPDX-License-Identifier: Apache-2.0
"""From scores to weights in floating point: exponents are scales, and values have maxima too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member

from hwgen.families.attention.formats import SCALE, SUM_GUARD
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.integer.multiply import saturated, shape_of
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import place

from .unit import SoftmaxUnit

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class FloatSoftmaxUnit(SoftmaxUnit):
    """As `SoftmaxUnit`, of vectors that have exponents.

    `key_scale` and `value_scale` are those exponents, above each whether an element is no finite
    number; both come with the score. `rise` and `clears` are those of the sums of values. Above the
    sum of weights, `sum` has by how many powers of two the maximum of the values is above that of
    the weights, and whether the row is NaN.
    """

    @staticmethod
    def _scales(config: AttentionConfig) -> dict[str, Member]:
        return {
            "key_scale": In(config.exponent_bits("key") + 1),
            "value_scale": In(config.exponent_bits("value") + 1),
        }

    def build(self, m: Module) -> None:
        config = self.config
        powers, fraction = config.pipeline.exponential, config.softmax.fraction_bits
        special = self.key_scale[-1] | self.value_scale[-1] | self.scale[-1]
        odd = delayed(m, "odd", special & self.seen, 2)
        exponent = delayed(m, "value_exponent", self.value_scale[:-1], 2)
        when = (
            delayed(m, "seen", self.seen, 2),
            delayed(m, "on", self.on, 2),
            delayed(m, "first", self.first, 2),
        )
        x = self._scaled(m)
        down, rise, clears, level = self._levels(m, config.level, x >> fraction, when)
        value_down, value_rise, value_clears, value_level = self._levels(
            m, config.value_level, (x >> fraction) + exponent, when, "value_"
        )
        bad = self._bad(m, odd, when)
        gap = named(m, "gap", (value_level - level)[: config.gap_bits])

        power = Signal(config.powers.target.width)
        place(
            m,
            "powers",
            FunctionBlock(config.powers, powers),
            role="exponential",
            i=x[:fraction],
            o=power,
        )
        shown = delayed(m, "shown", when[0], powers)
        fine = Cat(Const(0, SUM_GUARD), power)
        weights = []
        for name, steps in (("fine", down), ("value_fine", value_down)):
            shift = delayed(m, f"{name}_down", steps, powers)
            bits = config.softmax.weight_bits + SUM_GUARD + 1
            weight = Signal(bits, name=name, reset_less=True)
            m.d.sync += weight.eq(Mux(shown, fine >> shift, 0))
            weights.append(weight)
        changes = tuple(
            delayed(m, name, value, powers + 1)
            for name, value in (("adds", when[1]), ("rise", rise), ("clear", clears))
        )
        total = Signal(config.sum_bits, name="sum_of_weights")
        self._sums(m, weights[0], changes, total)
        rounded = named(m, "rounded", (weights[1] + (1 << (SUM_GUARD - 1)))[SUM_GUARD:])
        m.d.comb += [
            self.weight.eq(rounded[: config.softmax.weight_bits + 1]),
            self.rise.eq(delayed(m, "value_rise", value_rise, powers + 1)),
            self.clears.eq(delayed(m, "value_clear", value_clears, powers + 1)),
            self.sum.eq(Cat(total, delayed(m, "gaps", Cat(gap, bad), powers + 1))),
        ]

    def _bad(self, m: Module, odd: Value, when: tuple[Value, Value, Value]) -> Value:
        """Keep, and return, which rows are NaN."""
        _, on, first = when
        ring = Signal(self.config.phases, name="are_bad", reset_less=True)
        bad = named(m, "is_bad", odd | (ring[0] & ~first))
        with m.If(on):
            m.d.sync += ring.eq(Cat(ring[1:], bad))
        return bad

    def _scaled(self, m: Module) -> Value:
        """Return the scaled score, two cycles later."""
        config = self.config
        score, given = Signal(shape_of(config.score), name="exact"), shape_of(config.row_shift)
        shift = Signal(given, name="row_shift")
        left = Signal(signed(given.width + 2), name="left")
        m.d.comb += [
            score.eq(self.score),
            shift.eq(self.scale[SCALE.width : -1]),
            left.eq(shift - self.key_scale[:-1]),
        ]
        wide = score * self.scale[: SCALE.width]
        exact = Signal(signed(len(wide) + 2), name="of_query", reset_less=True)
        amount = Signal(6, name="amount", reset_less=True)
        beyond = Signal(name="beyond", reset_less=True)  # saturates, unless it is zero
        m.d.sync += [
            exact.eq(wide << 1),
            amount.eq(Mux(left > 63, 63, left)),
            beyond.eq(left < 0),
        ]
        twice = Signal(exact.shape(), name="twice")
        m.d.comb += twice.eq(exact >> amount)
        nearest = Signal(signed(max(len(twice), config.scaled.width + 1)), name="nearest")
        m.d.comb += nearest.eq((twice + 1) >> 1)
        x = Signal(shape_of(config.scaled), name="x", reset_less=True)
        end = Mux(exact[-1], config.scaled.min, Mux(exact.any(), config.scaled.max, 0))
        m.d.sync += x.eq(Mux(beyond, end, saturated(m, nearest, config.scaled)))
        return x
