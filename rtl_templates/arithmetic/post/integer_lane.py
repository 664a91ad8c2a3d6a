# SPDX-License-Identifier: Apache-2.0
"""The datapath of one lane: an integer accumulator to a result; see `hwgen.core.post`."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from hwgen.core.post import BIAS, SINGLE
from hwgen.core.post.features import CONVERT_STAGES
from hwgen.formats.scale import SHIFT_BITS
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat
from rtl_templates.arithmetic.integer.multiply import saturated, shape_of
from rtl_templates.arithmetic.pipeline import Pipeline, named, shift_right_sticky
from rtl_templates.arithmetic.post.lane import PostLane
from rtl_templates.hdl.hierarchy import place

_WORD = BIAS.width


class IntegerLane(PostLane):
    """A lane of integer accumulators."""

    def results(self, m: Module, pipe: Pipeline) -> dict[str, Value]:
        features = self.features
        total, factor, shift = self._first(m)
        total, factor, shift = pipe.cut("1", total=total, factor=factor, shift=shift)
        if features.total.signed:
            total = total.as_signed()

        results: dict[str, Value] = {}
        if features.integers:
            results["integer"] = self._integer(m, pipe, total, factor.as_signed(), shift)
        if features.floats:
            results |= self._floats(m, pipe, total, factor)
        if "raw" in features.output_types:
            (delayed,) = self.delayed(pipe, 1, raw=total)
            results["raw"] = self._raw(m, delayed)
        return results

    def _raw(self, m: Module, total: Value) -> Value:
        """Return the sum, saturated."""
        features, fmt = self.features, self.features.raw
        assert fmt.is_integer
        raw = total.as_signed() if features.total.signed else total
        if features.total.signed and not fmt.signed:
            # Negative because of the bias; then there is no sign.
            raw = named(m, "positive", total[:-1] & (~total[-1]).replicate(len(total) - 1))
        if len(raw) > fmt.width:
            return saturated(m, raw, fmt)
        return raw

    def _first(self, m: Module) -> tuple[Value, Value, Value]:
        """Return the sum, and the multiplier and shift that its sign selects."""
        features = self.features
        acc = self.acc.as_signed() if features.accumulator.signed else self.acc
        if features.columns:
            bias = self.fields["bias"] & self.from_record.replicate(_WORD)
            acc = acc + bias.as_signed()
        total = Signal(shape_of(features.total), name="total")
        m.d.comb += total.eq(acc)

        negative = total[-1] if features.total.signed else Const(0, 1)
        factor, shift = Const(0, 1), Const(0, 1)
        if features.scales:
            factor = self.chosen("multiplier")
            shift = self.chosen("shift") if features.integers else shift
            if "leaky" in features.activations:
                leaks = named(m, "leaks", negative & self.activation_is("leaky"))
                factor = Mux(leaks, self.chosen("slope"), factor)
                if features.integers:
                    shift = Mux(leaks, self.chosen("slope_shift"), shift)
        keep = named(m, "keep", ~(negative & self.activation_is("relu")))
        return total.as_unsigned() & keep.replicate(len(total)), factor, shift

    def _integer(
        self, m: Module, pipe: Pipeline, total: Value, factor: Value, shift: Value
    ) -> Value:
        """Return the requantised sum, with the zero point and within the limits."""
        stages = self.stages
        if stages.split:
            upper = total[_WORD:].as_signed() if total.shape().signed else total[_WORD:]
            high, low = upper * factor, total[:_WORD] * factor
            high, low, shift = pipe.cut("2", high=high, low=low, distance=shift)
            product = high.as_signed().shift_left(_WORD) + low.as_signed()
            product = product[: len(total) + len(factor)]
            product, shift = pipe.cut("3", product=product, distance=shift)
        else:
            product, shift = pipe.cut("2", product=total * factor, distance=shift)

        # One bit more below the quotient: the topmost of those that are lost.
        negative = product[-1]
        moved, sticky = shift_right_sticky(
            m, "quotient", Cat(Const(0, 1), product), shift[:SHIFT_BITS], negative
        )
        before = str(stages.rounding)
        moved, sticky, negative = pipe.cut(before, moved=moved, sticky=sticky, negative=negative)

        quotient = moved[1:].as_signed()
        if len(quotient) > self.quotient.width:
            quotient = saturated(m, quotient, self.quotient)
        guard, odd = moved[0], moved[1]
        up = self.rounds_up(
            m,
            {
                "half_even": guard & (sticky | odd),
                "half_away": guard & (sticky | ~negative),
                "half_up": guard,
                "floor": Const(0, 1),
            },
        )
        return self.limited(pipe, quotient, up)

    def _floats(self, m: Module, pipe: Pipeline, total: Value, scale: Value) -> dict[str, Value]:
        """Return the scaled sum in every floating-point format."""
        integer = Signal(SINGLE.width, name="single")
        place(
            m,
            "convert",
            IntegerToFloat(self.features.total, SINGLE, CONVERT_STAGES, enabled=True),
            run=self.run,
            i=total,
            o=integer,
        )
        for stage in range(2, 2 + CONVERT_STAGES):
            (scale,) = pipe.cut(str(stage), scale=scale)
        return self.floats(m, pipe, self.scaled(m, integer, scale))
