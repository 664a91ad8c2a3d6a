# SPDX-License-Identifier: Apache-2.0
"""Processing elements of the spatial families, and the edge that feeds a row of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.digit_accumulator import (
    accumulate_digits,
    plus_ones_of_parts,
    signed_factor,
)
from rtl_templates.arithmetic.integer.multiply import Addend, shape_of
from rtl_templates.arithmetic.integer.recode import Digits, recode
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block

from .sums import accumulated

if TYPE_CHECKING:
    from hwgen.arithmetic.digit_sums import DigitAccumulation
    from hwgen.core.params.spatial import SpatialConfig


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
    plus_ones : Out
        Two's-complement +1s of the digits, ``config.lead`` cycles later.
    """

    def __init__(self, config: SpatialConfig) -> None:
        members = {
            "on": In(1),
            "x": In(config.depth * config.activation.width),
            "operand": Out(config.depth * operand_width(config)),
        }
        if config.digits:
            members["plus_ones"] = Out(plus_ones_width(config))
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
        plus_ones: Value = plus_ones_of_parts(m, "plus_ones", digits_of_terms, accumulation)
        for stage in range(stages):
            register = Signal(len(plus_ones), name=f"plus_ones_{stage}_reg", reset_less=True)
            m.d.sync += register.eq(plus_ones)
            plus_ones = register
        m.d.comb += self.plus_ones.eq(plus_ones)


def digits_of(operand: Value, depth: int) -> list[Digits]:
    """Return the digits of the activations of a beat."""
    return [Digits.of(operand.word_select(i, len(operand) // depth)) for i in range(depth)]


class PE(Block):
    """One element of C: adds the products of a beat in every cycle.

    Members
    -------
    x, w : In
        The terms of a row of A, from the row's edge, and of a column of W.
    plus_ones : In
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
            "total": Out(config.accumulator_bits),
        }
        if config.digits:
            members["plus_ones"] = In(plus_ones_width(config))
        super().__init__("pe", members)
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        factors = []
        for term in range(config.depth):
            w = Signal(shape_of(config.weight), name=f"w_{term}")
            m.d.comb += w.eq(self.w.word_select(term, config.weight.width))
            factors.append(w)
        m.d.comb += self.total.eq(self.accumulated(m, factors))

    @abstractmethod
    def accumulated(self, m: Module, factors: list[Signal]) -> Value:
        """Return the accumulator, given the weights of a beat."""


class DigitPE(PE):
    """A PE that multiplies by digits of A."""

    def accumulated(self, m: Module, factors: list[Signal]) -> Value:
        config = self.config
        assert config.digits is not None
        digits = digits_of(self.x, config.depth)
        signed_factors = [signed_factor(m, w, config.digits) for w in factors]
        return accumulate_digits(
            m, digits, signed_factors, self.plus_ones, self.clear, config.pipeline.pe, config.digits
        )


class MultiplierPE(PE):
    """A PE with a multiplier for each product of a beat, chosen by the format of W."""

    def accumulated(self, m: Module, factors: list[Signal]) -> Value:
        config = self.config
        terms = []
        for term, w in enumerate(factors):
            x = Signal(shape_of(config.activation), name=f"x_{term}")
            m.d.comb += x.eq(self.x.word_select(term, len(x)))
            terms.append(self.product(m, term, x, w))
        exact = all(carry is None for _, carry in terms)
        shape = shape_of(config.partial_sum(config.depth)) if exact else None
        return accumulated(m, config, terms, self.clear, shape=shape)

    def product(self, m: Module, term: int, x: Signal, w: Signal) -> Addend:
        """Return a product, behind a register if there is one, and a bit to be added to it."""
        config = self.config
        multiply = arithmetic(config.weight).multiply
        return multiply(m, term, x, w, config.product, registered=config.pipeline.pe > 1)
