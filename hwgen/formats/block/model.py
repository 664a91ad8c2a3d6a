# SPDX-License-Identifier: Apache-2.0
"""Block formats: numbers that share a scale, a minimum or a choice of values along K.

A number is ``element * scale``, in formats with a minimum ``element * scale + minimum``, in those
with zero points ``(element - zero point) * scale``, and in formats with a second scale all of that
times the tensor's.  Blocks run along K, each column of a matrix of
shape (K, N) has its own; the last one is filled with zeros.

The scale of a block follows from its numbers by a named rule, `Rule`.  ``floor``, ``ceil``,
``even`` and ``rceil`` are those of power-of-two scales (OCP Microscaling Formats 1.0, section 6.3,
and the variants in use), `a` being the largest magnitude of the block and `m` that of the element
format:

============  ================================================================================
``floor``     ``2**(floor(log2 a) - emax)``
``ceil``      ``2**(ceil(log2 a) - emax)``
``even``      as ``floor``, of `a` rounded to the elements' precision first
``rceil``     the smallest power of two that is at least ``a / m``: nothing saturates
``absmax``    ``a / m``
``mean``      the mean magnitude, of ternary numbers as in BitNet b1.58
``extreme``   the number of largest magnitude, with its sign, over the smallest element
``range``     ``(largest - smallest) / m``; the smallest number is the minimum, or, with a zero
              point, zero is made one of both at least, and stands at ``round(-smallest / scale)``
============  ================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from hwgen.formats.block.elements import Element, Rounding
from hwgen.formats.block.scales import Scale
from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import enclosing_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rule = Literal["floor", "ceil", "even", "rceil", "absmax", "mean", "extreme", "range"]

POWERS: tuple[Rule, ...] = ("floor", "ceil", "even", "rceil")
"""Rules whose scales are powers of two."""


@dataclass(frozen=True)
class BlockFormat:
    """A format of blocks.

    Parameters
    ----------
    name, summary : str
    element : Element
    block : int
        Numbers of a block.
    scale : Scale
    rule : str
        How the scale of a block is found; see the module's description.
    rounding : {"even", "away", "up", "zero"}
        Of quotients to elements.
    reciprocal : bool
        Whether the quotient is the product, in single precision, with the reciprocal of the scale
        before the scale is rounded, as packers of GGUF do; otherwise the quotient by the scale as
        it is kept, in double precision.
    minimum : FloatFormat or None
        Format of the minimum, of formats that have one.
    second : {"tensor", "column"} or None
        What has a second scale, of single precision.
    special : tuple of float
        Numbers of which each block takes one, for the code `special_code` (BitMoD).
    special_code : int or None
    zero_width : int
        Bits of a zero point, 0 in formats without.
    poisoned : bool
        Whether a NaN or an infinity makes its block one of NaNs; else it is refused.
    halves : bool
        Whether images hold a block's first half in the low bits and the second in the high bits of
        bytes.
    together : int
        Blocks whose scales stand in front of the elements of all of them.
    """

    name: str
    summary: str
    element: Element
    block: int
    scale: Scale
    rule: Rule
    rounding: Rounding = "even"
    reciprocal: bool = False
    minimum: FloatFormat | None = None
    second: Literal["tensor", "column"] | None = None
    special: tuple[float, ...] = ()
    special_code: int | None = None
    zero_width: int = 0
    poisoned: bool = False
    halves: bool = False
    together: int = 1

    def __str__(self) -> str:
        return self.name

    @property
    def minimum_width(self) -> int:
        """Bits of a minimum, 0 without one."""
        return self.minimum.width if self.minimum else 0

    @property
    def choices(self) -> int:
        """What a block chooses among: special numbers or zero points; 1 without any."""
        return 1 << self.zero_width if self.zero_width else max(1, len(self.special))

    @property
    def special_width(self) -> int:
        """Bits of the choice, of a special number or a zero point, 0 without any."""
        return (self.choices - 1).bit_length()

    @property
    def block_bits(self) -> int:
        """Bits of a block, before it is filled up to bytes."""
        beside = self.scale.width + self.minimum_width + self.special_width
        return beside + self.block * self.element.width

    @property
    def bits_per_value(self) -> float:
        """Bits of a number, its share of what the block shares included."""
        return self.block_bits / self.block

    def dot_width(self) -> int:
        """Return the bits of the exact sum of the products of two blocks' elements."""
        kinds = [self.elements_of(i) for i in range(self.choices)]
        unit = min(kind.exponent for kind in kinds)
        numbers = {Fraction(value) / Fraction(2) ** unit for k in kinds for value in k.finite}
        products = [int(a * b) for a in numbers for b in numbers]
        return enclosing_format(self.block * min(products), self.block * max(products)).width

    def elements_of(self, special: int) -> Element:
        """Return the elements of a block that has chosen a special number, or a zero point."""
        if self.zero_width:
            zero = math.ldexp(special, self.element.exponent)
            return replace(self.element, values=tuple(v - zero for v in self.element.values))
        if self.special_code is None:
            return self.element
        values = list(self.element.values)
        values[self.special_code] = self.special[special]
        return replace(self.element, values=tuple(values))


def no_second_scale() -> NDArray[np.float32]:
    """Return the second scale of formats without one."""
    return np.ones(1, np.float32)


@dataclass(frozen=True)
class Blocks:
    """A quantised matrix.

    Parameters
    ----------
    format : BlockFormat
    shape : (int, int)
        K and N.
    codes : ndarray of uint8, shape (N, blocks, block)
    scales : ndarray of unsigned int, shape (N, blocks)
        Bit patterns.
    minima : ndarray of unsigned int, shape (N, blocks), or None
        Bit patterns.
    chosen : ndarray of uint8, shape (N, blocks), or None
        Which special number a block has, or its zero point.
    second : ndarray of float32, shape (1,) or (N,)
        Second scales; 1 in formats without any.
    """

    format: BlockFormat
    shape: tuple[int, int]
    codes: NDArray[np.uint8]
    scales: NDArray[Any]
    minima: NDArray[Any] | None = None
    chosen: NDArray[np.uint8] | None = None
    second: NDArray[np.float32] = field(default_factory=no_second_scale)

    def decode(self) -> NDArray[np.float64]:
        """Return the numbers, shape (K, N), exactly."""
        fmt = self.format
        if self.chosen is None:
            values = fmt.element.decode(self.codes)
        else:
            tables = np.array([fmt.elements_of(i).values for i in range(fmt.choices)])
            values = tables[self.chosen[..., None], self.codes]
        values = values * fmt.scale.decode(self.scales)[..., None]
        if self.minima is not None and fmt.minimum:
            values = values + fmt.minimum.to_float64(self.minima)[..., None]
        k, n = self.shape
        return values.reshape(n, -1)[:, :k].T * self.second.astype(np.float64)
