# SPDX-License-Identifier: Apache-2.0
"""Published function units that are no tables of segments, made again as hardware.

Each is a formula in integers with a few widths. As of published tables, the fewest bits are taken
that add at most a tenth to the error of the exact formula.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from hwgen.arithmetic.functions.curves import sampled
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from rtl_templates.arithmetic.functions.table import Rom
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block

Integers = NDArray[np.int64]

GELU = Domain("gelu", 14, ((0, 4),))
_GELU_A, _GELU_B = -0.2888, -1.769
_EXP_A, _EXP_B, _EXP_C = 0.3585, 1.353, 0.344


def exponential_polynomial(allowed: Callable[[float], float]) -> tuple[Polynomial, float]:
    """Return I-BERT's polynomial of the exponential as one of ``2**f``, and its exact error.

    It is ``0.3585 (p + 1.353)**2 + 0.344`` for p from -ln(2) to 0; here twice that, with
    ``p = (f - 1) ln(2)``.

    Parameters
    ----------
    allowed : callable
        Which error a polynomial with rounded coefficients may have, by the exact one.
    """
    domain, ln2 = Domain("exp2", 16, ((0, 1),)), math.log(2)
    start = _EXP_B - ln2
    exact = (
        2 * (_EXP_A * start**2 + _EXP_C),
        4 * _EXP_A * start * ln2,
        2 * _EXP_A * ln2**2,
    )

    def rounded(precision: int, drop: int) -> Polynomial:
        row = tuple(round(value * 2.0**precision) for value in exact)
        return Polynomial(domain, 0, precision, (0, 0, 0), (drop, drop), (row,))

    def error(table: Polynomial) -> float:
        return float(np.abs(table.errors).max())

    least = error(rounded(30, 0))
    precision = next(p for p in range(4, 30) if error(rounded(p, 0)) <= allowed(least))
    drops = range(domain.width - 1, -1, -1)
    drop = next(d for d in drops if error(rounded(precision, d)) <= allowed(least))
    return rounded(precision, drop), least


class GeluPolynomial(Block):
    """``u (B - u)**2 C`` for magnitudes below B, I-BERT's ``ReLU - GELU``; 0 beyond.

    Parameters
    ----------
    fraction, factor_bits : int
        Bits behind the point of what is multiplied, and of the constant.

    Members
    -------
    i : In(14)
        The magnitude, below 4.
    o : Out
        With `fraction` bits behind the point.
    """

    i: Value
    o: Value

    def __init__(self, fraction: int, factor_bits: int) -> None:
        self.fraction, self.factor_bits = fraction, factor_bits
        self.end = round(-_GELU_B * math.sqrt(2) * 2.0**fraction)
        # a / 2 (u / sqrt(2) + b)**2 u, with 1 / sqrt(2) taken out of the square
        self.factor = round(-_GELU_A / 4 * 2.0**factor_bits)
        super().__init__(
            f"gelu_polynomial_{fraction}_{factor_bits}", {"i": In(14), "o": Out(fraction)}
        )

    def evaluate(self, arguments: Integers) -> Integers:
        """Return results, in units of ``2**-fraction``."""
        u = arguments >> (12 - self.fraction)
        d = np.maximum(self.end - u, 0)
        square = d * d >> self.fraction
        return (square * u >> self.fraction) * self.factor >> self.factor_bits

    def build(self, m: Module) -> None:
        """Describe it."""
        fraction = self.fraction
        u = named(m, "u", self.i[12 - fraction :])
        d = named(m, "d", Mux(u > self.end, 0, self.end - u)[: fraction + 2])
        square = named(m, "square", (d * d) >> fraction)
        cube = named(m, "cube", (square * u) >> fraction)
        m.d.comb += self.o.eq((cube * self.factor) >> self.factor_bits)


class TwoMemories(Block):
    """``e**-x`` as in bitnet-kv260: a memory for 12 bits behind the point, one for those before.

    Parameters
    ----------
    bits : int
        Behind the point, of both memories and of the result.

    Members
    -------
    i : In(17)
        x, with 12 bits behind the point, below 21.
    o : Out
    """

    i: Value
    o: Value

    FRACTION, WHOLE = 12, 21

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(f"two_memories_{bits}", {"i": In(self.FRACTION + 5), "o": Out(bits)})
        one = (1 << bits) - 1  # 1 itself would take a bit more
        steps = np.arange(1 << self.FRACTION) / (1 << self.FRACTION)
        self.fractions = np.minimum(np.rint(np.exp(-steps) * 2.0**bits), one).astype(np.int64)
        whole = np.exp(-np.arange(self.WHOLE))
        self.wholes = np.minimum(np.rint(whole * 2.0**bits), one).astype(np.int64)

    @property
    def table_bits(self) -> int:
        """Bits of both memories."""
        return (len(self.fractions) + len(self.wholes)) * self.bits

    def evaluate(self, arguments: Integers) -> Integers:
        """Return results, in units of ``2**-bits``."""
        low = arguments & ((1 << self.FRACTION) - 1)
        return self.fractions[low] * self.wholes[arguments >> self.FRACTION] >> self.bits

    def build(self, m: Module) -> None:
        """Describe it."""
        low = Rom(m, "fraction", self.i[: self.FRACTION]).words(self.fractions.tolist())
        high = Rom(m, "whole", self.i[self.FRACTION :]).words(self.wholes.tolist())
        m.d.comb += self.o.eq((named(m, "low", low) * named(m, "high", high)) >> self.bits)


class ShiftedWeight(Block):
    """ITA's weight: 256, shifted to the right by the rounded difference from the maximum.

    Members
    -------
    i : In(8)
        The difference, with 5 bits behind the point.
    o : Out(9)
        With 8 bits behind the point.
    """

    i: Value
    o: Value

    def __init__(self) -> None:
        super().__init__("shifted_weight", {"i": In(8), "o": Out(9)})

    def evaluate(self, arguments: Integers) -> Integers:
        """Return results, in units of 1/256."""
        return 256 >> ((arguments + 16) >> 5)

    def build(self, m: Module) -> None:
        """Describe it."""
        m.d.comb += self.o.eq(Const(256, 9) >> ((self.i + 16) >> 5)[:4])


@dataclass(frozen=True)
class Formula:
    """A published unit that is not a table of segments.

    Parameters
    ----------
    name : str
    block : Block
        Without registers.
    error : float
        Absolute, with exact constants.
    made_error : float
        That of `block`.
    table_bits : int
    function, source, target : str
        The unit of hwgen that does the same; none of a formula of `GELU`, where it is a table.
    """

    name: str
    block: Any
    error: float
    made_error: float
    table_bits: int
    function: str = ""
    source: str = ""
    target: str = ""


def gelu_formula(allowed: Callable[[float], float]) -> Formula:
    """Return I-BERT's GELU."""
    arguments = np.arange(1 << GELU.width)
    u = GELU.points(arguments)
    values = sampled("gelu", u)
    d = np.maximum(-_GELU_B - u / math.sqrt(2), 0)
    exact = float(np.abs(-_GELU_A / 2 * d * d * u - values).max())

    def error(block: GeluPolynomial) -> float:
        result = block.evaluate(arguments) * 2.0**-block.fraction
        return float(np.abs(result - values).max())

    blocks = (GeluPolynomial(*bits) for bits in itertools.product(range(3, 13), range(3, 13)))
    best = next(block for block in blocks if error(block) <= allowed(exact))
    return Formula("GELU, polynomial of I-BERT", best, exact, error(best), 0)


def memories_formula(allowed: Callable[[float], float]) -> Formula:
    """Return the exponential of bitnet-kv260, whose memories have 20 bits."""
    block = TwoMemories(20)
    arguments = np.arange(block.WHOLE << block.FRACTION)
    exact = np.exp(-arguments / (1 << block.FRACTION))
    error = float(np.abs(block.evaluate(arguments) * 2.0**-block.bits - exact).max())
    return Formula(
        "e^-x, memories of 4096 and 21", block, error, error, block.table_bits,
        "exp", "q5.12", "uq1.20",
    )  # fmt: skip


def shift_formula(allowed: Callable[[float], float]) -> Formula:
    """Return ITA's weight."""
    block, arguments = ShiftedWeight(), np.arange(256)
    exact = 2.0 ** (-arguments / 32)
    error = float(np.abs(block.evaluate(arguments) / 256 - exact).max())
    return Formula("2^-x, a shift, of ITA", block, error, error, 0, "exp2", "q3.5", "uq1.8")


FORMULAS = (gelu_formula, memories_formula, shift_formula)
