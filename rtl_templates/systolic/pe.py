# SPDX-License-Identifier: Apache-2.0
"""Processing elements of the systolic family."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from operator import mul
from typing import TYPE_CHECKING, ClassVar

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.digit_accumulator import (
    accumulate_digits,
    plus_ones_of_parts,
    signed_factor,
)
from rtl_templates.arithmetic.integer.multiply import accumulate, shape_of
from rtl_templates.arithmetic.integer.recode import Digits
from rtl_templates.hdl.hierarchy import Block

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig
    from hwgen.formats import IntegerFormat


class OutputStationaryPE(Block):
    """A PE that keeps one element of C while operands stream past.

    The moving operand ``x`` is broadcast along the row and zero in a cycle without a beat, so
    that the accumulator holds its value without an enable.

    Attributes
    ----------
    row_signals : tuple of str
        Members that a whole row shares.
    chains : dict
        Members that lead from a row to the next: input to output.
    free_running : bool
        Whether registers advance without `run`.
    flag_delays : dict
        Cycles by which a row signal must reach the PE later than the operand.

    Members
    -------
    x : In
        Row operand, or its digits, already gated by the row.
    clear : In(1)
        Start a new sum with this cycle's product.
    run : In(1)
        Let the column operand move down.
    y, y_out : In, Out
        Column operand and its register.
    total : Out
        The accumulator, or all registers of it.
    """

    row_signals = ("x", "clear")
    chains: ClassVar = {"y": "y_out"}
    free_running = True

    def __init__(self, config: SystolicConfig) -> None:
        y = shape_of(config.column_operand)
        result = config.accumulator_bits if config.digits else shape_of(config.result)
        x = Digits.width(config.row_operand) if config.digits else shape_of(config.row_operand)
        super().__init__(
            "pe",
            {
                "x": In(x),
                "clear": In(1),
                "run": In(1),
                "y": In(y),
                "y_out": Out(y),
                "total": Out(result),
            },
        )
        self.config = config
        # The flag acts behind the pipeline registers of the product.
        self.flag_delays = {"clear": config.pipeline.pe}

    def build(self, m: Module) -> None:
        y = Signal.like(self.y, name="y_reg", reset_less=True)
        with m.If(self.run):
            m.d.sync += y.eq(self.y)
        m.d.comb += self.y_out.eq(y)
        m.d.comb += self.total.eq(self.accumulated(m, y))

    @abstractmethod
    def accumulated(self, m: Module, y: Signal) -> Value:
        """Return the accumulator of products of the row operand and `y`."""


class MultiplierPE(OutputStationaryPE):
    """An `OutputStationaryPE` with a multiplier and an accumulating adder."""

    def accumulated(self, m: Module, y: Signal) -> Value:
        config = self.config
        product = pipelined_product(m, self.x, y, config.pipeline.pe)
        total = Signal(shape_of(config.result), reset_less=True)
        addend = Mux(self.clear, 0, total)
        m.d.sync += total.eq(accumulate(m, addend, product, config.clamp))
        return total


class DigitPE(OutputStationaryPE):
    """An `OutputStationaryPE` that multiplies by digits of the row operand."""

    def accumulated(self, m: Module, y: Signal) -> Value:
        x, depth, accumulation = Value.cast(self.x), self.config.pipeline.pe, self.config.digits
        assert accumulation is not None
        factor = signed_factor(m, y, accumulation)
        if depth > 1:
            operand = Signal.like(x, name="x_reg", reset_less=True)
            stage = Signal.like(factor, name="y_stage", reset_less=True)
            m.d.sync += [operand.eq(x), stage.eq(factor)]
            x, factor = operand, stage
        plus_ones = plus_ones_of_parts(m, "plus_ones", [Digits.of(x)], accumulation)
        if depth:
            register = Signal(len(plus_ones), name="plus_ones_reg", reset_less=True)
            m.d.sync += register.eq(plus_ones)
            plus_ones = register
        digits = [Digits.of(x)]
        return accumulate_digits(
            m, digits, [factor], plus_ones, self.clear, min(depth, 1), accumulation
        )


class KeepingPE(Block):
    """A PE that keeps one element of the column operand while partial sums move down.

    Parameters
    ----------
    config : SystolicConfig
    x, y, psum : ShapeLike
        Of the row operand, the column operand and partial sums.

    Members
    -------
    x : In
        Row operand.
    swap : In(1)
        Make the shadow element the active one.
    load : In(1)
        Load the shadow element from `y`.
    run : In(1)
        Advance; everything else is ignored while low.
    y : In
        Column operand.
    psum, psum_out : In, Out
        Partial sum from above and to below.
    """

    row_signals = ("x", "swap", "load")
    chains: ClassVar = {"psum": "psum_out"}
    free_running = False
    flag_delays: ClassVar[dict[str, int]] = {}

    def __init__(self, config: SystolicConfig, x: ShapeLike, y: ShapeLike, psum: ShapeLike) -> None:
        super().__init__(
            f"pe_{Shape.cast(psum).width}",
            {
                "x": In(x),
                "swap": In(1),
                "load": In(1),
                "run": In(1),
                "y": In(y),
                "psum": In(psum),
                "psum_out": Out(psum),
            },
        )
        self.config = config

    def element(self, m: Module) -> tuple[Signal, Signal]:
        """Return the active element, and the register of the partial sum that leaves the PE."""
        shadow = Signal.like(self.y, name="shadow", reset_less=True)
        active = Signal.like(self.y, name="active", reset_less=True)
        total = Signal.like(self.psum_out, name="total", reset_less=True)
        with m.If(self.run & self.load):
            m.d.sync += shadow.eq(self.y)
        with m.If(self.run & self.swap):
            m.d.sync += active.eq(shadow)
        return active, total


class StationaryPE(KeepingPE):
    """A `KeepingPE` of integers.

    Parameters
    ----------
    config : SystolicConfig
    psum : IntegerFormat
        Format of the partial sums, which holds the one that leaves the PE exactly.
    """

    def __init__(self, config: SystolicConfig, psum: IntegerFormat) -> None:
        super().__init__(config, *map(shape_of, (config.row_operand, config.column_operand, psum)))

    def build(self, m: Module) -> None:
        active, total = self.element(m)
        product = pipelined_product(m, self.x, active, self.config.pipeline.pe, self.run)
        with m.If(self.run):
            m.d.sync += total.eq(self.psum + product)
        m.d.comb += self.psum_out.eq(total)


def pipelined_product(
    m: Module,
    x: Value,
    y: Value,
    depth: int,
    run: Value | None = None,
    multiply: Callable[[Value, Value], Value] = mul,
) -> Value:
    """Return ``x * y`` after `depth` registers, which advance while `run` is high.

    Depth 1 registers the product; depth 2 also the operands.
    """
    statements = []
    if depth >= 2:
        operands = []
        for name, value in (("x_reg", x), ("y_stage", y)):
            register = Signal(value.shape(), name=name, reset_less=True)
            statements.append(register.eq(value))
            operands.append(register)
        x, y = operands
    product = multiply(x, y)
    if depth >= 1:
        register = Signal(product.shape(), name="product", reset_less=True)
        statements.append(register.eq(product))
        product = register
    if run is None:
        m.d.sync += statements
    else:
        with m.If(run):
            m.d.sync += statements
    return product
