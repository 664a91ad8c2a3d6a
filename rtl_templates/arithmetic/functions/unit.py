# SPDX-License-Identifier: Apache-2.0
"""Function units: a result a cycle, with registers at chosen places."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.functions.exponential import Exponential
from hwgen.arithmetic.functions.normalised import Normalised
from hwgen.arithmetic.functions.symmetric import GATED, Symmetric
from hwgen.arithmetic.functions.unit import FunctionUnit
from rtl_templates.arithmetic.functions.encoding import named_signed
from rtl_templates.arithmetic.functions.results import Special
from rtl_templates.arithmetic.functions.table import polynomial
from rtl_templates.arithmetic.pipeline import Pipeline, leading_zeros, named, shift_left
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block, place


class FunctionBlock(Block):
    """A function of one number.

    Parameters
    ----------
    unit : FunctionUnit
    stages : int
        Latency in cycles. Registers are, in this order, behind the table, behind the polynomial,
        in front of the table, within the polynomial if it is of degree 2, behind the result, before
        everything, and again behind the result.
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

    role = "function"

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
        points = ["looked_up", "summed", "prepared"]
        if unit.table.degree == 2:
            points.append("inner")
        inside = points[:stages]
        more = stages - len(inside)
        self._input_cuts = ["given"] if more > 1 else []
        self._output_cuts = [f"result_{i}" for i in range(more - len(self._input_cuts))]
        self._cuts = (*self._input_cuts, *inside, *self._output_cuts)

    def build(self, m: Module) -> None:
        pipe = Pipeline(m, self._cuts, self.run if self.enabled else None)
        plan, argument = self.unit.plan, self.i
        for point in self._input_cuts:
            (argument,) = pipe.cut(point, argument=argument)
        if isinstance(plan, Exponential):
            value = _exponential(m, pipe, plan, argument)
        elif isinstance(plan, Normalised):
            value = _normalised(m, pipe, plan, argument)
        else:
            value = _symmetric(m, pipe, plan, argument)
        for point in self._output_cuts:
            (value,) = pipe.cut(point, value=value)
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
    i : In(stream)
        Its ready depends on that of `o` in the same cycle.
    o : Out(stream)

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
                "i": In(stream.Signature(unit.source.width)),
                "o": Out(stream.Signature(unit.target.width)),
            },
        )
        self.unit, self.stages = unit, stages

    def build(self, m: Module) -> None:
        run = Signal()
        tokens = Signal(self.stages)
        m.d.comb += [
            run.eq(self.o.ready | ~self.o.valid),
            self.i.ready.eq(run),
            self.o.valid.eq(tokens[-1]),
        ]
        with m.If(run):
            m.d.sync += tokens.eq(Cat(self.i.valid, tokens))
        block = FunctionBlock(self.unit, self.stages, enabled=True)
        place(m, "unit", block, run=run, i=self.i.payload, o=self.o.payload)


def _cut(pipe: Pipeline, at: str, **values: Value) -> dict[str, Value]:
    """Return values behind a place, as signed as they were."""
    registered = dict(zip(values, pipe.cut(at, **values), strict=True))
    for name, value in values.items():
        if value.shape().signed:
            registered[name] = registered[name].as_signed()
    return registered


def _exponential(m: Module, pipe: Pipeline, plan: Exponential, i: Value) -> Value:
    scaling, target = plan.scaling, plan.result.target
    scaled, nan, above, below = arithmetic(scaling.source).argument().scaled(m, scaling, i)
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
    result = arithmetic(target).result()
    magnitude = result.encode(m, plan.result, at["significand"], at["exponent"])
    special = Special(at["below"], at["above"], at["nan"], Const(0, 1))
    return result.with_special(m, target, magnitude, special)


def _normalised(m: Module, pipe: Pipeline, plan: Normalised, i: Value) -> Value:
    norm, target, bits = plan.normalisation, plan.result.target, plan.normalisation.significand_bits
    nan, infinite, sign, whole, start = arithmetic(norm.source).argument().normal(m, norm, i)
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
    result = arithmetic(target).result()
    magnitude = result.encode(m, plan.result, at["significand"], opposite)
    special = Special(at["infinite"], at["zero"], at["nan"], at["sign"])
    special = result.reciprocal_special(plan, special)
    return result.with_special(m, target, magnitude, special)


def _symmetric(m: Module, pipe: Pipeline, plan: Symmetric, i: Value) -> Value:
    source, table, bounded = plan.magnitude.source, plan.table, plan.magnitude.width
    sign, nan, exact, magnitude, large = arithmetic(source).argument().folded(m, plan.magnitude, i)
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
    return arithmetic(plan.target).result().rounded(m, plan, at)
