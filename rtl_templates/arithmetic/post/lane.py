# SPDX-License-Identifier: Apache-2.0
"""Lanes of post-processing: settings, zero point and limits, the choice of a result.

`hwgen.core.post` says what is computed.
"""

from __future__ import annotations

from abc import abstractmethod

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.core.post import (
    ACTIVATIONS,
    OUTPUT_TYPES,
    RECORD,
    RECORD_BYTES,
    ROUNDINGS,
    SINGLE,
    PostFeatures,
)
from hwgen.core.post.features import MULTIPLY_STAGES, Stages
from hwgen.core.post.fields import field_bits, first_fields, later_fields
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.narrow import FloatNarrow
from rtl_templates.arithmetic.integer.multiply import add
from rtl_templates.arithmetic.pipeline import Pipeline, named
from rtl_templates.hdl.hierarchy import Block, place


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
    activation, rounding, zero, minimum, maximum, kind : In
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

    @abstractmethod
    def results(self, m: Module, pipe: Pipeline) -> dict[str, Value]:
        """Return the results of all kinds, where one of them is chosen."""

    def build(self, m: Module) -> None:
        pipe = Pipeline(m, [str(i) for i in range(1, self.stages.results + 1)], self.run)
        results = self.results(m, pipe)
        *others, last = results
        if others:
            with m.Switch(self.kind):
                for kind in others:
                    with m.Case(OUTPUT_TYPES.index(kind)):
                        m.d.comb += self.o.eq(results[kind])
                with m.Default():
                    m.d.comb += self.o.eq(results[last])
        else:
            m.d.comb += self.o.eq(results[last])

    def delayed(self, pipe: Pipeline, stage: int, **values: Value) -> list[Value]:
        """Return values that are there after `stage` registers at the choice of a result."""
        for number in range(stage + 1, self.stages.results + 1):
            names = values.keys()
            values = dict(zip(names, pipe.cut(str(number), **values), strict=True))
        return list(values.values())

    def activation_is(self, name: str) -> Value:
        """Return whether the activation is `name`."""
        choices = self.features.activations
        if len(choices) == 1:
            return Const(name in choices, 1)
        return self.activation == ACTIVATIONS.index(name) if name in choices else Const(0, 1)

    @property
    def fields(self) -> dict[str, Value]:
        """The fields of the record."""
        return {f.name: self.record[f.offset : f.offset + f.bits] for f in RECORD}

    @property
    def from_record(self) -> Value:
        """Whether settings are those of the record, if there are records."""
        return self.columns if self.features.tensor else Const(1, 1)

    def chosen(self, name: str) -> Value:
        """Return a setting of the job, or the record's."""
        if not self.features.columns:
            return getattr(self, name)
        if not self.features.tensor:
            return self.fields[name]
        return Mux(self.columns, self.fields[name], getattr(self, name))

    def rounds_up(self, m: Module, by: dict[str, Value]) -> Value:
        """Return whether a number is rounded up, of what each rounding says."""
        choices = self.features.roundings
        if len(choices) == 1:
            return named(m, "round_up", by[choices[0]])
        chosen = [by[name] & (self.rounding == ROUNDINGS.index(name)) for name in choices]
        return named(m, "round_up", Cat(*chosen).any())

    @property
    def quotient(self) -> IntegerFormat:
        """Format of a number before the zero point: beyond twice the limits it ends at them."""
        return IntegerFormat(self.features.limit_bits + 2, True)

    def limited(self, pipe: Pipeline, quotient: Value, up: Value) -> Value:
        """Return a rounded number with the zero point and within the limits."""
        stages = self.stages
        total = Signal(signed(self.quotient.width + 1), name="offset_quotient")
        pipe.m.d.comb += total.eq(add(quotient, self.zero.as_signed(), up))
        (result,) = pipe.cut(str(stages.rounding + 1), result=total)
        (result,) = self.delayed(pipe, stages.rounding + 1, result=result)
        lowest, highest = self.minimum.as_signed(), self.maximum.as_signed()
        result = result.as_signed()
        m = pipe.m
        below, above = named(m, "below", result < lowest), named(m, "above", result > highest)
        return Mux(below, lowest, Mux(above, highest, result))

    def scaled(self, m: Module, number: Value, scale: Value) -> Value:
        """Return the product of two numbers of single precision, `MULTIPLY_STAGES` later."""
        product = Signal(SINGLE.width, name="scaled")
        place(
            m,
            "scale",
            FloatMultiplier(SINGLE, MULTIPLY_STAGES, enabled=True),
            run=self.run,
            a=number,
            b=scale,
            o=product,
        )
        return product

    def floats(self, m: Module, pipe: Pipeline, product: Value) -> dict[str, Value]:
        """Return a scaled sum in every floating-point format."""
        (single,) = self.delayed(pipe, self.stages.scaled, float_result=product)
        results: dict[str, Value] = {}
        for fmt in self.features.floats:
            results[fmt.name] = single
            if fmt != SINGLE:
                results[fmt.name] = narrow = Signal(fmt.width, name=fmt.name)
                place(m, f"to_{fmt.name}", FloatNarrow(SINGLE, fmt), i=single, o=narrow)
        return results
