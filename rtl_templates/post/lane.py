# SPDX-License-Identifier: Apache-2.0
"""The datapath of one lane: an accumulator to a result; see `hwgen.numerics.post`."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.numerics.integer import IntegerFormat
from hwgen.numerics.post import (
    ACTIVATIONS,
    KINDS,
    RECORD,
    RECORD_BYTES,
    ROUNDINGS,
    SINGLE,
    PostFeatures,
)
from hwgen.numerics.post.fields import field_bits, first_fields, later_fields
from hwgen.numerics.post.stages import MULTIPLY_STAGES, Stages
from hwgen.numerics.scale import SHIFT_BITS
from rtl_templates.arithmetic.float_multiplier import FloatMultiplier
from rtl_templates.arithmetic.float_narrow import FloatNarrow
from rtl_templates.arithmetic.integer import add, saturated, shape_of
from rtl_templates.arithmetic.integer_to_float import IntegerToFloat
from rtl_templates.arithmetic.pipeline import Pipeline, named, shift_right_sticky
from rtl_templates.hierarchy import Block, place

_WORD = 32


class PostLane(Block):
    """One accumulator a cycle.

    Parameters
    ----------
    features : PostFeatures

    Members
    -------
    run : In(1)
        Advance.
    acc : In
        The accumulator.
    record : In(128)
        Its column's record, if there are records.
    activation, columns, multiplier, slope, shift, slope_shift : In
        Settings that belong to `acc`, those of `first_fields`.
    rounding, zero, minimum, maximum, kind : In
        Settings that are that many cycles older, those of `later_fields`.
    o : Out
        The result, in its low bits.
    """

    def __init__(self, features: PostFeatures) -> None:
        self.features, self.stages = features, Stages(features)
        bits = field_bits(features)
        names = (*first_fields(features), *later_fields(features))
        super().__init__(
            "post_lane",
            {
                "run": In(1),
                "acc": In(features.accumulator.width),
                **({"record": In(8 * RECORD_BYTES)} if features.columns else {}),
                **{name: In(bits[name]) for name in names},
                "o": Out(features.lane_width),
            },
        )

    def build(self, m: Module) -> None:
        features = self.features
        pipe = Pipeline(m, [str(i) for i in range(1, self.stages.results + 1)], self.run)
        total, factor, shift = self._first(m)
        total, factor, shift = pipe.cut("1", total=total, factor=factor, shift=shift)
        if features.total.signed:
            total = total.as_signed()

        results: dict[str, Value] = {}
        if features.integers:
            results["integer"] = self._integer(m, pipe, total, factor.as_signed(), shift)
        if features.floats:
            results |= self._floats(m, pipe, total, factor)
        if "raw" in features.kinds:
            (delayed,) = self._delayed(pipe, 1, raw=total)
            results["raw"] = self._raw(m, delayed)
        *others, last = results
        if others:
            with m.Switch(self.kind):
                for kind in others:
                    with m.Case(KINDS.index(kind)):
                        m.d.comb += self.o.eq(results[kind])
                with m.Default():
                    m.d.comb += self.o.eq(results[last])
        else:
            m.d.comb += self.o.eq(results[last])

    def _raw(self, m: Module, total: Value) -> Value:
        """Return the sum, saturated."""
        features, fmt = self.features, self.features.raw
        raw = total.as_signed() if features.total.signed else total
        if features.total.signed and not fmt.signed:
            # Negative because of the bias; then there is no sign.
            raw = named(m, "positive", total[:-1] & (~total[-1]).replicate(len(total) - 1))
        if len(raw) > fmt.width:
            return saturated(m, raw, fmt)
        return raw

    def _delayed(self, pipe: Pipeline, stage: int, **values: Value) -> list[Value]:
        """Return values that are there after `stage` registers at the choice of a result."""
        for number in range(stage + 1, self.stages.results + 1):
            names = values.keys()
            values = dict(zip(names, pipe.cut(str(number), **values), strict=True))
        return list(values.values())

    def _is(self, name: str) -> Value:
        """Return whether the activation is `name`."""
        choices = self.features.activations
        if len(choices) == 1:
            return Const(name in choices, 1)
        return self.activation == ACTIVATIONS.index(name) if name in choices else Const(0, 1)

    def _first(self, m: Module) -> tuple[Value, Value, Value]:
        """Return the sum, and the multiplier and shift that its sign selects."""
        features = self.features
        fmt = features.accumulator
        acc = self.acc.as_signed() if fmt.signed else self.acc
        if features.columns:
            record = {f.name: self.record[f.offset : f.offset + f.bits] for f in RECORD}
            columns = self.columns if features.tensor else Const(1, 1)
            acc = acc + (record["bias"] & columns.replicate(_WORD)).as_signed()
        total = Signal(shape_of(features.total), name="total")
        m.d.comb += total.eq(acc)

        def chosen(name: str) -> Value:
            if not features.columns:
                return getattr(self, name)
            if not features.tensor:
                return record[name]
            return Mux(self.columns, record[name], getattr(self, name))

        negative = total[-1] if features.total.signed else Const(0, 1)
        factor, shift = Const(0, 1), Const(0, 1)
        if features.integers or features.floats:
            factor = chosen("multiplier")
            shift = chosen("shift") if features.integers else shift
            if "leaky" in features.activations:
                leaks = named(m, "leaks", negative & self._is("leaky"))
                factor = Mux(leaks, chosen("slope"), factor)
                if features.integers:
                    shift = Mux(leaks, chosen("slope_shift"), shift)
        keep = named(m, "keep", ~(negative & self._is("relu")))
        return total.as_unsigned() & keep.replicate(len(total)), factor, shift

    def _integer(
        self, m: Module, pipe: Pipeline, total: Value, factor: Value, shift: Value
    ) -> Value:
        """Return the requantised sum, with the zero point and within the limits."""
        stages = self.stages
        if stages.split:
            upper = total[_WORD:].as_signed() if total.shape().signed else total[_WORD:]
            high, low = upper * factor, total[:_WORD] * factor
            high, low, shift = pipe.cut("2", high=high, low=low, places=shift)
            product = high.as_signed().shift_left(_WORD) + low.as_signed()
            product = product[: len(total) + len(factor)]
            product, shift = pipe.cut("3", product=product, places=shift)
        else:
            product, shift = pipe.cut("2", product=total * factor, places=shift)

        # One bit more below the quotient: the topmost of those that are lost.
        negative = product[-1]
        moved, sticky = shift_right_sticky(
            m, "quotient", Cat(Const(0, 1), product), shift[:SHIFT_BITS], negative
        )
        before = str(stages.rounding)
        moved, sticky, negative = pipe.cut(before, moved=moved, sticky=sticky, negative=negative)

        # A quotient beyond twice the limits ends at them, whatever the zero point.
        wide = IntegerFormat(self.features.limit_bits + 2, True)
        quotient = moved[1:].as_signed()
        if len(quotient) > wide.width:
            quotient = saturated(m, quotient, wide)
        up = self._up(m, moved[0], sticky, negative, moved[1])
        total = Signal(signed(wide.width + 1), name="offset_quotient")
        m.d.comb += total.eq(add(quotient, self.zero.as_signed(), up))
        (result,) = pipe.cut(str(stages.rounding + 1), result=total)
        (result,) = self._delayed(pipe, stages.rounding + 1, result=result)
        lowest, highest = self.minimum.as_signed(), self.maximum.as_signed()
        result = result.as_signed()
        below, above = named(m, "below", result < lowest), named(m, "above", result > highest)
        return Mux(below, lowest, Mux(above, highest, result))

    def _up(self, m: Module, guard: Value, sticky: Value, negative: Value, odd: Value) -> Value:
        """Return whether a quotient that was rounded down is rounded up."""
        by = {
            "half_even": guard & (sticky | odd),
            "half_away": guard & (sticky | ~negative),
            "half_up": guard,
            "floor": Const(0, 1),
        }
        choices = self.features.roundings
        if len(choices) == 1:
            return named(m, "round_up", by[choices[0]])
        chosen = [by[name] & (self.rounding == ROUNDINGS.index(name)) for name in choices]
        return named(m, "round_up", Cat(*chosen).any())

    def _floats(self, m: Module, pipe: Pipeline, total: Value, scale: Value) -> dict[str, Value]:
        """Return the scaled sum in every floating-point format."""
        integer, product = Signal(SINGLE.width, name="single"), Signal(SINGLE.width, name="scaled")
        place(
            m,
            "convert",
            IntegerToFloat(self.features.total, SINGLE, 2, enabled=True),
            run=self.run,
            i=total,
            o=integer,
        )
        for stage in ("2", "3"):
            (scale,) = pipe.cut(stage, scale=scale)
        place(
            m,
            "scale",
            FloatMultiplier(SINGLE, MULTIPLY_STAGES, enabled=True),
            run=self.run,
            a=integer,
            b=scale,
            o=product,
        )
        (single,) = self._delayed(pipe, 3 + MULTIPLY_STAGES, float_result=product)
        results: dict[str, Value] = {}
        for fmt in self.features.floats:
            results[fmt.name] = single
            if fmt != SINGLE:
                results[fmt.name] = narrow = Signal(fmt.width, name=fmt.name)
                place(m, f"to_{fmt.name}", FloatNarrow(SINGLE, fmt), i=single, o=narrow)
        return results
