# SPDX-License-Identifier: Apache-2.0
"""Function units: a result a cycle, with registers at chosen places."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.functions.exponential import Exponential
from hwgen.arithmetic.functions.normalised import Normalised
from hwgen.arithmetic.functions.symmetric import GATED, Symmetric
from hwgen.arithmetic.functions.unit import FunctionUnit
from hwgen.formats.fixed import FixedFormat
from rtl_templates.arithmetic.pipeline import Pipeline, leading_zeros, named, shift_left
from rtl_templates.hdl.hierarchy import Block, place

from .encoding import aligned, encoded, fields, named_signed
from .table import polynomial


class FunctionBlock(Block):
    """A function of one number.

    Parameters
    ----------
    unit : FunctionUnit
    stages : int
        Latency in cycles. Registers are, in this order, behind the table, behind the polynomial,
        in front of the table, within the polynomial if it is of degree 2, and behind the result.
    enabled : bool
        Whether the registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    i, o : In, Out
        Integers or bit patterns; `o` is there `stages` cycles later.

    Raises
    ------
    ValueError
        If `stages` is negative.
    """

    def __init__(self, unit: FunctionUnit, stages: int = 0, *, enabled: bool = False) -> None:
        if stages < 0:
            raise ValueError(f"stages must be 0 or more, not {stages}")
        self.enabled = enabled and stages > 0
        super().__init__(
            f"{unit.name}_{stages}{'e' if self.enabled else ''}",
            {
                **({"run": In(1)} if self.enabled else {}),
                "i": In(unit.source.width),
                "o": Out(unit.target.width),
            },
        )
        self.unit, self.stages = unit, stages
        places = ["looked_up", "summed", "prepared"]
        if unit.table.degree == 2:
            places.append("inner")
        inside = places[:stages]
        self._behind = [f"result_{i}" for i in range(stages - len(inside))]
        self._cuts = (*inside, *self._behind)

    def build(self, m: Module) -> None:
        pipe = Pipeline(m, self._cuts, self.run if self.enabled else None)
        plan = self.unit.plan
        if isinstance(plan, Exponential):
            value = _exponential(m, pipe, plan, self.i)
        elif isinstance(plan, Normalised):
            value = _normalised(m, pipe, plan, self.i)
        else:
            value = _symmetric(m, pipe, plan, self.i)
        for place_of_register in self._behind:
            (value,) = pipe.cut(place_of_register, value=value)
        m.d.comb += self.o.eq(value)


class FunctionStream(Block):
    """A function of the words of a stream, one a cycle while nobody stalls.

    Parameters
    ----------
    unit : FunctionUnit
    stages : int
        Latency in cycles, at least 1; see `FunctionBlock`.

    Members
    -------
    i_data, i_valid, i_ready : stream in
        `i_ready` follows `o_ready` in the same cycle.
    o_data, o_valid, o_ready : stream out

    Raises
    ------
    ValueError
        If `stages` is not positive.
    """

    resettable = True

    def __init__(self, unit: FunctionUnit, stages: int) -> None:
        if stages < 1:
            raise ValueError(f"stages of a stream must be 1 or more, not {stages}")
        super().__init__(
            f"stream_{unit.name}_{stages}",
            {
                "i_data": In(unit.source.width),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_data": Out(unit.target.width),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )
        self.unit, self.stages = unit, stages

    def build(self, m: Module) -> None:
        run = Signal()
        tokens = Signal(self.stages)
        m.d.comb += [
            run.eq(self.o_ready | ~self.o_valid),
            self.i_ready.eq(run),
            self.o_valid.eq(tokens[-1]),
        ]
        with m.If(run):
            m.d.sync += tokens.eq(Cat(self.i_valid, tokens))
        block = FunctionBlock(self.unit, self.stages, enabled=True)
        place(m, "unit", block, run=run, i=self.i_data, o=self.o_data)


def _cut(pipe: Pipeline, at: str, **values: Value) -> dict[str, Value]:
    """Return values behind a place, as signed as they were."""
    behind = dict(zip(values, pipe.cut(at, **values), strict=True))
    for name, value in values.items():
        if value.shape().signed:
            behind[name] = behind[name].as_signed()
    return behind


def _number(i: Value, fmt: FixedFormat) -> Value:
    return i.as_signed() if fmt.signed else i


def _with_specials(
    m: Module,
    target: Any,
    magnitude: Value,
    *,
    zero: Value,
    largest: Value,
    nan: Value,
    sign: Value,
) -> Value:
    """Return a result of a magnitude, with its sign and what is special."""
    most = target.overflow if target.is_float else target.integer.max
    value = Signal(target.width, name="unsigned_value")
    m.d.comb += value.eq(Mux(zero, 0, Mux(largest, most, magnitude)))
    if target.is_float:
        return Mux(nan, target.nan, value | Cat(Const(0, target.width - 1), sign))
    return Mux(nan, 0, Mux(sign, (-value)[: target.width], value))


def _exponential(m: Module, pipe: Pipeline, plan: Exponential, i: Value) -> Value:
    scaling, never = plan.scaling, Const(0, 1)
    source, width = scaling.source, scaling.width
    above = below = nan = never
    if source.is_float:
        number = fields(m, source, i)
        magnitude, large = aligned(m, scaling.alignment, number)
        scaled = named_signed(m, "scaled", Mux(number.sign, -magnitude, magnitude))[:width]
        nan, above, below = number.nan, large & ~number.sign, large & number.sign
    else:
        product = _number(i, source) * scaling.factor if scaling.factor != 1 else _number(i, source)
        moved = product >> scaling.cut if scaling.cut >= 0 else product << -scaling.cut
        scaled = Signal(signed(width), name="scaled")
        m.d.comb += scaled.eq(moved)
    fraction = scaled[: scaling.fraction]
    exponent = scaled[scaling.fraction :].as_signed()
    at = _cut(
        pipe,
        "prepared",
        fraction=fraction,
        exponent=exponent,
        nan=nan,
        above=above,
        below=below,
    )
    fraction = at.pop("fraction")
    significand, at = polynomial(m, pipe, plan.table, fraction, **at)
    at = _cut(pipe, "summed", significand=significand, **at)
    magnitude = encoded(m, plan.result, at["significand"], at["exponent"])
    return _with_specials(
        m,
        plan.result.target,
        magnitude,
        zero=at["below"],
        largest=at["above"],
        nan=at["nan"],
        sign=never,
    )


def _normalised(m: Module, pipe: Pipeline, plan: Normalised, i: Value) -> Value:
    norm, target, never = plan.normalisation, plan.result.target, Const(0, 1)
    source, bits = norm.source, norm.significand_bits
    nan = infinite = sign = never
    if source.is_float:
        number = fields(m, source, i)
        nan, infinite, sign, whole = number.nan, number.infinite, number.sign, number.significand
        start: Any = number.exponent - source.bias
    else:
        if source.signed:
            sign = i[-1]
        whole = named(m, "whole_magnitude", Mux(sign, (-i)[:bits], i))
        start = Const(bits - 1 - source.fraction, signed(8))
    zeros = leading_zeros(m, "zeros", whole)
    normal = shift_left(m, "normal", whole, zeros)
    low, high = norm.exponents
    exponent = Signal(range(min(low, -1), max(high, 1) + 1), name="power")
    m.d.comb += exponent.eq(start - zeros)
    zero = named(m, "is_zero", ~whole.any())
    argument = normal[norm.drop : bits - 1]
    if norm.function == "rsqrt":
        nan = named(m, "none", nan | (sign & ~zero))
        argument = Cat(argument, exponent[0])
        exponent = exponent >> 1
    at = _cut(
        pipe,
        "prepared",
        argument=argument,
        exponent=exponent,
        zero=zero,
        nan=nan,
        infinite=infinite,
        sign=sign,
    )
    argument = at.pop("argument")
    significand, at = polynomial(m, pipe, plan.table, argument, **at)
    at = _cut(pipe, "summed", significand=significand, **at)
    opposite = named_signed(m, "opposite", ~at["exponent"])
    magnitude = encoded(m, plan.result, at["significand"], opposite)
    sign, nothing = at["sign"], at["infinite"]
    if target.is_fixed:
        if not target.signed:
            nothing, sign = nothing | sign, never
        elif norm.function == "rsqrt":
            sign = never
    return _with_specials(
        m, target, magnitude, zero=nothing, largest=at["zero"], nan=at["nan"], sign=sign
    )


def _symmetric(m: Module, pipe: Pipeline, plan: Symmetric, i: Value) -> Value:
    source, table, bounded = plan.magnitude.source, plan.table, plan.magnitude.width
    never = Const(0, 1)
    if source.is_float:
        number = fields(m, source, i)
        magnitude, large = aligned(m, plan.magnitude.alignment, number)
        sign, nan, exact = number.sign, number.nan, magnitude
    else:
        sign = i[-1] if source.signed else never
        exact = named(m, "whole_magnitude", Mux(sign, (-i)[: source.width], i))
        magnitude = exact[plan.magnitude.drop :]
        large, nan = magnitude[bounded:].any() if len(magnitude) > bounded else never, never
    argument = named(m, "argument", magnitude[:bounded])
    far = large
    segment = argument[table.offset_bits :]
    if len(segment) and table.segments < 1 << len(segment):
        far = large | (segment >= table.segments)
    along = {"far": named(m, "far", far), "large": large, "sign": sign, "nan": nan}
    if plan.function in GATED:
        along["exact"] = exact
    if plan.passes:
        along["bits"] = i
    at = _cut(pipe, "prepared", argument=argument, **along)
    argument = at.pop("argument")
    curve, at = polynomial(m, pipe, table, argument, **at)
    curve = Mux(at["far"], plan.far, curve)
    total = Signal(signed(plan.largest.bit_length() + 2), name="total")
    if plan.function == "sigmoid":
        m.d.comb += total.eq(Mux(at["sign"], curve, (1 << table.precision) - curve))
    elif plan.function == "tanh":
        m.d.comb += total.eq(Mux(at["sign"], -curve, curve))
    else:
        step = at.pop("exact") & (~at["sign"]).replicate(len(exact))
        step = Cat(Const(0, plan.fraction - plan.exact_argument), step)
        m.d.comb += total.eq(step - (curve << (plan.fraction - table.precision)))
    at = _cut(pipe, "summed", total=total, **at)
    return _rounded(m, plan, at)


def _rounded(m: Module, plan: Symmetric, at: dict[str, Value]) -> Value:
    """Return the result of a sum."""
    target, source, total = plan.target, plan.magnitude.source, at["total"]
    floats = source.is_float
    if target.is_fixed:
        drop = plan.fraction - target.fraction
        moved = (total + (1 << drop >> 1)) >> drop if drop >= 0 else total << -drop
        wide = named_signed(m, "wide", moved)
        low, high = target.integer.min, target.integer.max
        result = Mux(wide > high, high, Mux(wide < low, low, wide))
        if floats and plan.function in GATED:
            result = Mux(at["large"], Mux(at["sign"], 0, high), result)
        return Mux(at["nan"], 0, result)[: target.width] if floats else result[: target.width]
    bits = plan.result.precision + 1
    negative = total[-1]
    magnitude = named(m, "absolute", Mux(negative, -total, total)[:bits])
    zeros = leading_zeros(m, "zeros", magnitude)
    normal = shift_left(m, "normal", magnitude, zeros)
    exponent = named_signed(m, "power", (bits - 1 - plan.fraction) - zeros)
    rounded = encoded(m, plan.result, normal, exponent)
    result = Cat(Mux(magnitude.any(), rounded, 0), negative)
    if plan.passes:
        result = Mux(at["far"] & ~at["sign"], at["bits"], result)
    return Mux(at["nan"], target.nan, result) if floats else result


__all__ = ["FunctionBlock", "FunctionStream"]
