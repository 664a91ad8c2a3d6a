# SPDX-License-Identifier: Apache-2.0
"""The lanes of a vector unit: values of elements, and what is made of them in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.families.vector.operations import selects
from hwgen.formats import Format
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.real import REAL, RealToInteger
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.pipeline import delayed
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig

ONE, NOTHING = 0x3F800000, 0x80000000
"""One, and minus zero, which leaves every number as it is when it is added."""


def convert(
    m: Module,
    name: str,
    config: VectorConfig,
    element: Value,
    run: Value,
    output: Value | None = None,
) -> Value:
    """Return an element of the input in single precision, `pipeline.convert` cycles later.

    Parameters
    ----------
    m : Module
    name : str
        Of the converter.
    config : VectorConfig
    element, run : Value
        Registers load only while `run` is high.
    output : Signal, optional
        What the converter drives.
    """
    cycles = config.pipeline.convert
    driven = {} if output is None else {"o": output}
    if cycles and config.input.is_integer:
        block = IntegerToFloat(config.input, REAL, cycles, enabled=True)
        return place(m, name, block, run=run, i=element, **driven).o
    real = place(m, name, arithmetic(config.input).to_real(config.input), i=element, **driven).o
    return delayed(m, f"{name}_late", real, cycles, run)


class ValueLane(Block):
    """An element on its way to ``v``: converted, centred, and a function of it.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    i : In
        The element in the input's format.
    minus : In(32)
        What is added to a centred element, there with the converted one: a cycle after `i`.
    element, centred, exp, gate, square : Out(32)
        The converted element, a cycle after `i`; centred; its exponential; its gate; its square,
        centred as `is_centred` says.  Those that no operation needs are not there.
    is_centred : In(1)
    """

    def __init__(self, config: VectorConfig) -> None:
        self.config = config
        self.needs = {
            "centred": config.any_path(lambda path: path.centred),
            "exp": config.any_path(lambda path: path.value == "exp"),
            "gate": config.any_path(lambda path: path.value == "gate"),
            "square": config.any_path(lambda path: path.second == "squares"),
        }
        members: dict[str, Member] = {
            "run": In(1),
            "i": In(config.input.width),
            "minus": In(32),
            "is_centred": In(1),
            "element": Out(32),
        }
        if config.other_inputs:
            members["is_integer"] = In(1)
        members |= {name: Out(32) for name, needed in self.needs.items() if needed}
        super().__init__("value_lane", members)

    def build(self, m: Module) -> None:
        config, run, needs = self.config, self.run, self.needs
        pipeline = config.pipeline
        converted = convert(m, "convert", config, self.i, run, output=Signal(32, name="converted"))
        if config.other_inputs:
            converted = Mux(self.is_integer, self._integer(m), converted)
        element = delayed(m, "element", converted, 1, run)
        m.d.comb += self.element.eq(element)
        centred: Value = element
        if needs["centred"]:
            adder = FloatAdder(REAL, pipeline.adder, enabled=True)
            place(m, "centre", adder, run=run, a=element, b=self.minus, o=self.centred)
            centred = Mux(self.is_centred, self.centred, element)
        if needs["exp"]:
            block = FunctionBlock(config.functions["exp"], pipeline.function, enabled=True)
            place(m, "exponential", block, run=run, i=self.centred, o=self.exp)
        multiplier = FloatMultiplier(REAL, pipeline.multiplier, enabled=True)
        if needs["gate"] and config.array.gate == "relu2":
            if needs["square"] and not needs["centred"]:  # that of the element is there
                negative = delayed(m, "negative", element[31], pipeline.multiplier, run)
                m.d.comb += self.gate.eq(Mux(negative, 0, self.square))
            else:
                positive = element & (~element[31]).replicate(32)
                place(m, "square_gate", multiplier, run=run, a=positive, b=positive, o=self.gate)
        elif needs["gate"]:
            unit = config.functions[config.array.gate]
            block = FunctionBlock(unit, pipeline.function, enabled=True)
            place(m, "gate_function", block, run=run, i=element, o=self.gate)
        if needs["square"]:
            place(m, "squared", multiplier, run=run, a=centred, b=centred, o=self.square)

    def _integer(self, m: Module) -> Value:
        """Return an integer in single precision, when a number of the input would be there."""
        config = self.config
        widest = max(config.other_inputs, key=lambda fmt: fmt.width)
        cycles, element = config.pipeline.convert, self.i[: widest.width]
        if cycles:
            staged = IntegerToFloat(widest, REAL, cycles, enabled=True)
            return place(m, "convert_integer", staged, run=self.run, i=element).o
        return place(m, "convert_integer", arithmetic(widest).to_real(widest), i=element).o


class ApplyLane(Block):
    """``v * s * g + h`` in the format of the results, and as it is.

    Parameters
    ----------
    config : VectorConfig
    odd : bool
        Whether the lane is the second one of a pair of a rotary embedding.

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    v, s : In(32)
    p, q, y : In
        Two numbers of port ``p`` and one of port ``y``, there with `v`; present if used.
    factor_p, factor_y, term_p, term_y, rope : In(1)
        What ``g`` and ``h`` are; present if used.
    scaled, other : Out(32), In(32)
        ``v * s``, and that of the other lane of the pair; present with rotary embeddings.
    o, o_real : Out
        The result, combinational behind the last register, and before it was rounded.
    """

    def __init__(self, config: VectorConfig, *, odd: bool = False) -> None:
        self.config, self.odd = config, odd
        self.rope_pairs = config.any_path(lambda path: path.factor == "rotate")
        self.factors = [name for name in ("p", "y") if config.any_path(selects("factor", name))]
        self.terms = [name for name in ("p", "y") if config.any_path(selects("term", name))]
        members: dict[str, Member] = {"run": In(1), "v": In(32), "s": In(32)}
        if config.has_p:
            members |= {"p": In(config.parameters.width), "q": In(config.parameters.width)}
        if config.has_y:
            members["y"] = In(config.input.width)
        members |= {f"factor_{name}": In(1) for name in self.factors}
        members |= {f"term_{name}": In(1) for name in self.terms}
        members |= {f"in_{fmt}": In(1) for fmt in config.other_outputs}
        if self.rope_pairs:
            members |= {"rope": In(1), "scaled": Out(32), "other": In(32)}
        members |= {"o": Out(config.output.lane_width), "o_real": Out(32)}
        super().__init__(f"apply_lane{'_odd' * (odd and self.rope_pairs)}", members)

    def build(self, m: Module) -> None:
        config, run = self.config, self.run
        cycles = config.pipeline.multiplier
        multiplier = FloatMultiplier(REAL, cycles, enabled=True)
        value = Signal(32, name="product")
        place(m, "scale", multiplier, run=run, a=self.v, b=self.s, o=value)
        late: dict[str, Value] = {
            name: delayed(m, name, getattr(self, name), cycles, run)
            for name in ("p", "q", "y") if name in self.members
        }  # fmt: skip
        if self.rope_pairs:
            m.d.comb += self.scaled.eq(value)
        if self.factors or self.rope_pairs:
            factor = self._choice(m, "factor", late, ONE)
            if self.rope_pairs:
                sine = self._real(m, "sine", late["q"], config.parameters)
                signed = Cat(sine[:31], sine[31] ^ (not self.odd))
                crossed = place(m, "cross", multiplier, run=run, a=self.other, b=signed).o
            product = Signal(32, name="scaled_product")
            place(m, "multiply", multiplier, run=run, a=value, b=factor, o=product)
            value = product
            late = {
                name: delayed(m, f"{name}_again", each, cycles, run) for name, each in late.items()
            }
        if self.terms or self.rope_pairs:
            term = self._choice(m, "term", late, NOTHING)
            if self.rope_pairs:
                term = Mux(self.rope, crossed, term)
            total = Signal(32, name="total")
            adder = FloatAdder(REAL, config.pipeline.adder, enabled=True)
            place(m, "add", adder, run=run, a=value, b=term, o=total)
            value = total
        stages = config.pipeline.convert if config.other_outputs else 0
        m.d.comb += self.o_real.eq(delayed(m, "real", value, stages, run))
        converter = arithmetic(config.output).from_real(config.output)
        if config.other_outputs:
            m.d.comb += self.o.eq(self._other_result(m, value))
        elif converter is None:
            m.d.comb += self.o.eq(value)
        else:
            o, width = self.o, config.output.width
            if width < len(o):
                o = Signal(width, name="narrow")
                m.d.comb += self.o.eq(o.as_signed())
            place(m, "convert", converter, i=value, o=o)

    def _other_result(self, m: Module, value: Value) -> Value:
        """Return a result as it is, or the nearest integer of the format that is asked for."""
        config, cycles = self.config, self.config.pipeline.convert
        widest, *others = sorted(config.other_outputs, key=lambda fmt: -fmt.width)
        run = {"run": self.run} if cycles else {}
        integer = Signal(signed(widest.width), name="integer")
        bits = Signal(widest.width, name="integer_bits")
        place(m, "convert", RealToInteger(widest, cycles), i=value, o=bits, **run)
        m.d.comb += integer.eq(bits)
        result: Value = Mux(getattr(self, f"in_{widest}"), integer, self.o_real.as_signed())
        for fmt in others:
            high, low = integer > fmt.max, integer < fmt.min
            number = Mux(high, fmt.max, Mux(low, fmt.min, integer[: fmt.width].as_signed()))
            result = Mux(getattr(self, f"in_{fmt}"), number, result)
        return result

    def _choice(self, m: Module, operand: str, late: dict[str, Value], neutral: int) -> Value:
        """Return ``g`` or ``h``: a number of a port, or what changes nothing."""
        config = self.config
        value: Value = Const(neutral, 32)
        names = self.factors if operand == "factor" else self.terms
        if "y" in names:
            number = self._real(m, f"{operand}_from_y", late["y"], config.input)
            value = Mux(getattr(self, f"{operand}_y"), number, value)
        rope = operand == "factor" and self.rope_pairs
        if "p" in names or rope:
            source = late["p"] if operand == "factor" else late["q"]
            number = self._real(m, f"{operand}_from_p", source, config.parameters)
            chosen = getattr(self, f"{operand}_p") if "p" in names else Const(0, 1)
            value = Mux(chosen | self.rope if rope else chosen, number, value)
        return value

    def _real(self, m: Module, name: str, value: Value, fmt: Format) -> Value:
        number = Signal(32, name=name)
        place(m, f"{name}_real", arithmetic(fmt).to_real(fmt), i=value, o=number)
        return number
