# SPDX-License-Identifier: Apache-2.0
"""Processing elements of the spatial families, and the edge that feeds a row of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hwgen.formats import TERNARY
from rtl_templates.arithmetic.integer.digit_accumulator import (
    accumulate_digits,
    plus_ones_of_parts,
    signed_factor,
)
from rtl_templates.arithmetic.integer.multiply import accumulate, shape_of
from rtl_templates.arithmetic.integer.recode import Digits, recode
from rtl_templates.hdl.hierarchy import Block

from .sums import accumulated

if TYPE_CHECKING:
    from hwgen.arithmetic.digit_sums import DigitAccumulation
    from hwgen.families.spatial.params import SpatialConfig


def operand_width(config: SpatialConfig) -> int:
    """Return the bits of an activation on its way to the PEs: its digits, if they take digits."""
    return Digits.width(config.activation) if config.digits else config.activation.width


def plus_ones_width(config: SpatialConfig) -> int:
    """Return the bits of the two's-complement +1s that come with the activations of a row."""
    return config.digits.plus_ones_width if config.digits else 0


class Edge(Block):
    """Registers of a row's activations, which are zero in a cycle without a beat.

    Activations are recoded here, once for all columns, if the PEs take digits.

    Members
    -------
    on : In(1)
        There is a beat.
    x : In
        Its activations.
    operand : Out
        What PEs take, a cycle later.
    short : Out
        Two's-complement +1s of the digits, ``config.lead`` cycles later.
    """

    def __init__(self, config: SpatialConfig) -> None:
        members = {
            "on": In(1),
            "x": In(config.depth * config.activation.width),
            "operand": Out(config.depth * operand_width(config)),
        }
        if config.digits:
            members["short"] = Out(plus_ones_width(config))
        super().__init__("edge", members)
        self.config = config

    def build(self, m: Module) -> None:
        operand = Signal(len(self.operand), name="operand_reg", reset_less=True)
        m.d.comb += self.operand.eq(operand)
        if self.config.digits:
            self._recoded(m, operand, self.config.digits)
        else:
            m.d.sync += operand.eq(Mux(self.on, self.x, 0))

    def _recoded(self, m: Module, operand: Signal, accumulation: DigitAccumulation) -> None:
        config, fmt = self.config, self.config.activation
        digits_of_terms = []
        for term in range(config.depth):
            x = Signal(shape_of(fmt), name=f"x_{term}")
            m.d.comb += x.eq(self.x.word_select(term, fmt.width))
            digits_of_terms.append(
                recode(m, f"recode_{term}", config.array.encoding, fmt, x, self.on)
            )
        m.d.sync += operand.eq(Cat(*(digits.joined for digits in digits_of_terms)))
        stages = config.lead
        if stages > 1:  # there is time to count the +1s behind the register
            digits_of_terms, stages = digits_of(operand, config.depth), stages - 1
        plus_ones: Value = plus_ones_of_parts(m, "short", digits_of_terms, accumulation)
        for stage in range(stages):
            register = Signal(len(plus_ones), name=f"short_{stage}_reg", reset_less=True)
            m.d.sync += register.eq(plus_ones)
            plus_ones = register
        m.d.comb += self.short.eq(plus_ones)


def digits_of(operand: Value, depth: int) -> list[Digits]:
    """Return the digits of the activations of a beat."""
    return [Digits.of(operand.word_select(i, len(operand) // depth)) for i in range(depth)]


class PE(Block):
    """One element of C: adds the products of a beat in every cycle.

    Members
    -------
    x, w : In
        The terms of a row of A, from the row's edge, and of a column of W.
    short : In
        With digits: the row's two's-complement +1s, ``pipeline.pe`` cycles later.
    clear : In(1)
        Start a new sum with the products of ``pipeline.pe`` cycles before.
    total : Out
        The accumulator, or all registers of it.
    """

    def __init__(self, config: SpatialConfig) -> None:
        members = {
            "x": In(config.depth * operand_width(config)),
            "w": In(config.depth * config.weight.width),
            "clear": In(1),
            "total": Out(config.held_width),
        }
        if config.digits:
            members["short"] = In(plus_ones_width(config))
        super().__init__("pe", members)
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        factors = []
        for term in range(config.depth):
            w = Signal(shape_of(config.weight), name=f"w_{term}")
            m.d.comb += w.eq(self.w.word_select(term, config.weight.width))
            factors.append(w)
        if config.digits:
            digits = digits_of(self.x, config.depth)
            factors = [signed_factor(m, w, config.digits) for w in factors]
            total = accumulate_digits(
                m, digits, factors, self.short, self.clear, config.pipeline.pe, config.digits
            )
        elif config.weight == TERNARY:
            total = self._chosen(m, factors)
        else:
            total = self._multiplied(m, factors)
        m.d.comb += self.total.eq(total)

    def _chosen(self, m: Module, factors: list[Signal]) -> Value:
        """Add, subtract or leave out activations: with ternary weights nothing is multiplied."""
        config = self.config
        after_product = m.d.sync if config.pipeline.pe > 1 else m.d.comb
        terms: list[tuple[Value, Value | None]] = []
        for term, w in enumerate(factors):
            x = Signal(shape_of(config.activation), name=f"x_{term}")
            wide = signed(len(x) + (not config.activation.signed))
            chosen = Signal(wide, name=f"term_{term}", reset_less=True)
            negative = Signal(name=f"negative_{term}", reset_less=True)
            m.d.comb += x.eq(self.x.word_select(term, len(x)))
            extended = Signal(wide, name=f"extended_{term}")
            m.d.comb += extended.eq(x)
            # The one of a two's complement is the carry of an adder.  Without a beat weights are
            # anything.
            after_product += [
                chosen.eq(Mux(w[0], Mux(w[1], ~extended, extended), 0)),
                negative.eq(w[0] & w[1]),
            ]
            terms.append((chosen, negative))
        return accumulated(m, config, terms, self.clear)

    def _multiplied(self, m: Module, factors: list[Signal]) -> Value:
        config, registers = self.config, self.config.pipeline.pe
        after_product = m.d.sync if registers > 1 else m.d.comb
        after_sum = m.d.sync if registers else m.d.comb
        terms: list[Value] = []
        for term, w in enumerate(factors):
            x = Signal(shape_of(config.activation), name=f"x_{term}")
            m.d.comb += x.eq(self.x.word_select(term, len(x)))
            product = Signal(shape_of(config.product), name=f"product_{term}", reset_less=True)
            after_product += product.eq(x * w)
            terms.append(product)
        while len(terms) > 1:
            pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(terms) & ~1 :]
        addend = Signal(shape_of(config.partial_sum(config.depth)), name="addend", reset_less=True)
        after_sum += addend.eq(terms[0])
        total = Signal(shape_of(config.result), name="total_reg", reset_less=True)
        m.d.sync += total.eq(accumulate(m, Mux(self.clear, 0, total), addend, config))
        return total
