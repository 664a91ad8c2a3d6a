# SPDX-License-Identifier: Apache-2.0
"""From scores to weights: scales, the running maximum, powers of two, sums of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.families.attention.formats import SCALE, SUM_GUARD
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.integer.multiply import saturated, shape_of
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig
    from hwgen.formats import IntegerFormat


class SoftmaxUnit(Block):
    """Takes a score a cycle, of ``config.phases`` rows one after the other.

    Members
    -------
    on : In(1)
        There is a score.
    score, seen : In
        The score, and whether the row looks at the key.
    scale : In
        Of the row of queries.
    key_scale : In
        Of the key; only with scales of keys, as the next.
    value_scale : In
        Of the value, a cycle before the weight.
    first : In(1)
        It is the first key of a job.
    weight : Out
        What the value is to be multiplied by, ``config.unit_latency`` cycles later.
    rise, clears : Out
        By how many bits sums of values are to be shifted to the right before, and whether nothing
        is to be left of them.
    sum : Out
        The sum of weights with this one, before it is rounded to `weight`; a cycle earlier if there
        are scales of values.
    """

    def __init__(self, config: AttentionConfig) -> None:
        scales = self._scales(config)
        super().__init__(
            "softmax_unit",
            {
                "on": In(1),
                "score": In(config.score.width),
                "seen": In(1),
                "scale": In(config.row_scale_bits),
                **scales,
                "first": In(1),
                "weight": Out(config.weight_width),
                "rise": Out(range(config.clears)),
                "clears": Out(1),
                "sum": Out(config.state_bits),
            },
        )
        self.config = config

    @staticmethod
    def _scales(config: AttentionConfig) -> dict[str, Member]:
        names = ("key_scale", "value_scale") if config.scaled_keys else ()
        return {name: In(SCALE.width) for name in names}

    def build(self, m: Module) -> None:
        config = self.config
        until_x, powers = 2 + config.scaled_keys, config.pipeline.exponential
        x = self._scaled(m)
        seen = delayed(m, "seen", self.seen, until_x)
        on = delayed(m, "on", self.on, until_x)
        first = delayed(m, "first", self.first, until_x)
        fraction = config.softmax.fraction_bits
        down, rise, clears, _ = self._levels(m, config.level, x >> fraction, (seen, on, first))

        power = Signal(config.powers.target.width)
        place(
            m,
            "powers",
            FunctionBlock(config.powers, powers),
            role="exponential",
            i=x[:fraction],
            o=power,
        )
        shift = delayed(m, "down", down, powers)
        shown = delayed(m, "shown", seen, powers)
        weight = Signal(config.softmax.weight_bits + SUM_GUARD + 1, name="fine", reset_less=True)
        m.d.sync += weight.eq(Mux(shown, Cat(Const(0, SUM_GUARD), power) >> shift, 0))
        on, rise, clears = (
            delayed(m, name, value, powers + 1)
            for name, value in (("adds", on), ("rise", rise), ("clear", clears))
        )
        self._sums(m, weight, (on, rise, clears), self.sum)
        rounded = named(m, "rounded", (weight + (1 << (SUM_GUARD - 1)))[SUM_GUARD:])
        rounded = rounded[: config.softmax.weight_bits + 1]
        if config.scaled_keys:
            product = Signal(len(rounded) + SCALE.width, name="weighted", reset_less=True)
            m.d.sync += product.eq(rounded * self.value_scale)
            rounded = named(m, "rounded_again", product + (1 << (SCALE.width - 1)))[SCALE.width :]
            rise, clears = (
                delayed(m, f"{name}_of_value", value, 1)
                for name, value in (("rise", rise), ("clear", clears))
            )
        m.d.comb += [
            self.weight.eq(rounded),
            self.rise.eq(rise),
            self.clears.eq(clears),
        ]

    def _scaled(self, m: Module) -> Value:
        """Return the scaled score, two cycles later or, with scales of keys, three."""
        config = self.config
        score = Signal(shape_of(config.score), name="exact")
        m.d.comb += score.eq(self.score)
        scale, product = self.scale, score
        if config.scaled_keys:
            factor = score * self.key_scale
            product = Signal(factor.shape(), name="of_key", reset_less=True)
            m.d.sync += product.eq(factor)
            scale = delayed(m, "scale", scale, 1)
        wide = product * scale[: SCALE.width]
        exact = Signal(signed(len(wide) + 2), name="of_query", reset_less=True)
        m.d.sync += exact.eq(wide << 1)
        shift = delayed(m, "shift", scale[SCALE.width :], 1)
        twice = Signal(exact.shape(), name="twice")
        m.d.comb += twice.eq(exact >> shift)
        nearest = Signal(signed(max(len(twice), config.scaled.width + 1)), name="nearest")
        m.d.comb += nearest.eq((twice + 1) >> 1)
        x = Signal(shape_of(config.scaled), name="x", reset_less=True)
        m.d.sync += x.eq(saturated(m, nearest, config.scaled))
        return x

    def _levels(
        self,
        m: Module,
        fmt: IntegerFormat,
        x: Value,
        when: tuple[Value, Value, Value],
        of: str = "",
    ) -> tuple[Value, Value, Value, Value]:
        """Keep running maxima; return by how much weight and sums are shifted, and the maximum.

        Parameters
        ----------
        m : Module
        fmt : IntegerFormat
            Of the maxima.
        x : Value
            What the maximum is to be above.
        when : tuple of Value
            The row sees the key, there is a key, it is the first one.
        of : str
            What names begin with.
        """
        config = self.config
        seen, on, first = when
        level_shape = shape_of(fmt)
        width = fmt.width + 1
        ring = Signal(config.phases * width, name=f"{of}levels", reset_less=True)
        level = Signal(level_shape, name=f"{of}level")
        whole = Signal(level_shape, name=f"{of}whole")
        begun, above, next_level = (
            Signal(name=f"{of}begun"),
            Signal(name=f"{of}above"),
            Signal(level_shape, name=f"next_{of}level"),
        )
        m.d.comb += [
            level.eq(ring[: width - 1]),
            begun.eq(ring[width - 1] & ~first),
            whole.eq(x),
            above.eq(seen & (~begun | (whole >= level))),
            next_level.eq(Mux(above, whole + 1, level)),
        ]
        with m.If(on):
            m.d.sync += ring.eq(Cat(ring[width:], next_level, begun | seen))
        rise = Signal(signed(fmt.width + 1), name=f"{of}rises")
        down = Signal(signed(fmt.width + 1), name=f"{of}falls")
        m.d.comb += [rise.eq(next_level - level), down.eq(next_level - whole)]
        most = config.softmax.weight_bits + SUM_GUARD + 1  # from here on nothing is left
        steps = Signal(range(most + 1), name=f"{of}steps")
        m.d.comb += steps.eq(Mux(down > most, most, down))
        clears = named(m, f"{of}clears_sums", ~begun | (rise >= config.clears))
        bits = named(m, f"{of}rise_bits", rise[: len(self.rise)])
        return steps, bits, clears, next_level

    def _sums(
        self, m: Module, weight: Value, changes: tuple[Value, Value, Value], total: Signal
    ) -> None:
        """Keep the sums of weights; `total` is driven with the next one."""
        on, rise, clears = changes
        bits = self.config.sum_bits
        ring = Signal(self.config.phases * bits, name="sums", reset_less=True)
        scaled = named(m, "scaled_sum", Mux(clears, 0, ring[:bits] >> rise)[:bits])
        m.d.comb += total.eq(scaled + weight)
        with m.If(on):
            m.d.sync += ring.eq(Cat(ring[bits:], total))
