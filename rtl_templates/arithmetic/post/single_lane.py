# SPDX-License-Identifier: Apache-2.0
"""The datapath of one lane: a sum in single precision to a result; see `hwgen.core.post`."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from hwgen.core.post import SINGLE
from hwgen.core.post.features import ADD_STAGES
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.to_integer import integer_part
from rtl_templates.arithmetic.pipeline import Pipeline, named
from rtl_templates.arithmetic.post.lane import PostLane
from rtl_templates.hdl.hierarchy import place

_SIGN = SINGLE.width - 1


class SingleLane(PostLane):
    """A lane of accumulators in single precision, whose NaNs are the canonical one."""

    def results(self, m: Module, pipe: Pipeline) -> dict[str, Value]:
        features, stages = self.features, self.stages
        total, factor = self._first(m, pipe)
        total, factor = pipe.cut(str(stages.total), total=total, factor=factor)

        results: dict[str, Value] = {}
        if features.scales:
            product = self.scaled(m, total, factor)
            if features.integers:
                results["integer"] = self._integer(m, pipe, product)
            if features.floats:
                results |= self.floats(m, pipe, product)
        if "raw" in features.output_types:
            (results["raw"],) = self.delayed(pipe, stages.total, raw=total)
        return results

    def _first(self, m: Module, pipe: Pipeline) -> tuple[Value, Value]:
        """Return the sum behind the activation, and the scale that its sign selects."""
        features = self.features
        leaky = "leaky" in features.activations
        names = ("multiplier", *(("slope",) if leaky else ())) if features.scales else ()
        scales = {name: self.chosen(name) for name in names}
        total: Value = self.acc
        if features.columns:
            bias, used = self.fields["bias"], self.from_record
            # -0 changes no number, +0 would change -0.
            nothing = Cat(bias[:_SIGN] & used.replicate(_SIGN), bias[_SIGN] | ~used)
            total = Signal(SINGLE.width, name="biased")
            place(
                m,
                "add_bias",
                FloatAdder(SINGLE, ADD_STAGES, enabled=True),
                run=self.run,
                a=self.acc,
                b=nothing,
                o=total,
            )
            for stage in range(1, 1 + ADD_STAGES):
                scales = dict(zip(scales, pipe.cut(str(stage), **scales), strict=True))

        negative = total[_SIGN]
        factor = scales.get("multiplier", Const(0, 1))
        if leaky and features.scales:
            leaks = named(m, "leaks", negative & self.activation_is("leaky"))
            factor = Mux(leaks, scales["slope"], factor)
        keep = named(m, "keep", ~(negative & self.activation_is("relu")))
        return total & keep.replicate(SINGLE.width), factor

    def _integer(self, m: Module, pipe: Pipeline, product: Value) -> Value:
        """Return the scaled sum as an integer, with the zero point and within the limits."""
        stages = self.stages
        (number,) = pipe.cut(str(stages.scaled + 1), number=product)
        magnitude, guard, sticky = integer_part(m, SINGLE, number, self.quotient.width - 1)
        sign, magnitude, guard, sticky = pipe.cut(
            str(stages.rounding),
            sign=number[_SIGN],
            magnitude=magnitude,
            guard=guard,
            sticky=sticky,
        )
        away = self.rounds_up(
            m,
            {
                "half_even": guard & (sticky | magnitude[0]),
                "half_away": guard,
                "half_up": guard & (sticky | ~sign),
                "floor": (guard | sticky) & sign,
            },
        )
        # A negative magnitude, and one that is rounded to the next, have their ones in one carry.
        quotient = Cat(magnitude ^ sign.replicate(len(magnitude)), sign).as_signed()
        return self.limited(pipe, quotient, away ^ sign)
