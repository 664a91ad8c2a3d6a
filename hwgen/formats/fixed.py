# SPDX-License-Identifier: Apache-2.0
"""Fixed-point formats: integers in units of a power of two."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.formats.format import ScalarFormat
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array, DType

MAX_WIDTH = 32
"""Bits of a fixed-point format, at most."""

FLOAT_NAMES = ("fp16", "bf16", "fp32")
"""The floating-point formats of arguments and results of functions."""

_NAME = re.compile(r"(u?)q(\d+)\.(\d+)")


@dataclass(frozen=True)
class FixedFormat(ScalarFormat):
    """Integers in units of a power of two.

    Parameters
    ----------
    integer_bits : int
        Bits before the point, without the sign.
    fraction : int
        Bits after it.
    signed : bool
        Two's complement if true, with one more bit.
    """

    integer_bits: int
    fraction: int
    signed: bool

    is_integer: ClassVar[Literal[False]] = False
    is_float: ClassVar[Literal[False]] = False
    is_fixed: ClassVar[Literal[True]] = True

    @property
    def name(self) -> str:
        """Name: ``q3.12`` of 16 bits, ``uq0.16`` without a sign."""
        return f"{'' if self.signed else 'u'}q{self.integer_bits}.{self.fraction}"

    @property
    def width(self) -> int:
        """Bits."""
        return self.integer_bits + self.fraction + self.signed

    @property
    def integer(self) -> IntegerFormat:
        """Format of the integers."""
        return IntegerFormat(self.width, self.signed)

    @property
    def dtype(self) -> DType:
        """NumPy's type of numbers."""
        return np.dtype(np.float64)

    @property
    def bits_dtype(self) -> DType:
        """NumPy's type of the integers."""
        return self.integer.dtype

    @property
    def ulp(self) -> float:
        """Value of the last bit."""
        return 2.0**-self.fraction

    @property
    def largest(self) -> float:
        """Largest magnitude."""
        return max(-self.integer.min, self.integer.max) * self.ulp

    @property
    def smallest_normal(self) -> float:
        """Smallest magnitude of full relative precision: that of the last bit."""
        return self.ulp

    @property
    def overflow(self) -> int:
        """Integer of what is too large."""
        return self.integer.max

    @property
    def nan(self) -> int:
        """Integer that stands for a NaN."""
        return 0

    # -- operands of exact products ----------------------------------------------------------

    @property
    def unit(self) -> int:
        """Exponent of the last bit."""
        return -self.fraction

    @property
    def coding(self) -> str:
        """Two's complement, or unsigned."""
        return self.integer.coding

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        return self.integer.integer_range

    # -- numbers -----------------------------------------------------------------------------

    def encode(self, values: Array) -> Array:
        """Return the nearest integers, ties to even; too large ones saturate."""
        return self.integer.nearest(np.asarray(values, np.float64) / self.ulp)

    def decode(self, bits: Array) -> NDArray[np.float64]:
        """Return the values of bit patterns, whose higher bits are ignored."""
        return self.values_of(self.integer.decode(bits))

    # -- arguments and results of functions --------------------------------------------------

    def patterns(self) -> NDArray[np.int64]:
        """Return all integers in increasing order."""
        return np.arange(self.integer.min, self.integer.max + 1, dtype=np.int64)

    def values_of(self, raw: Array) -> NDArray[np.float64]:
        """Return the values of integers."""
        return np.asarray(raw, np.float64) * self.ulp

    def ulps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the unit of the last place at each of some values."""
        return np.full(values.shape, self.ulp)

    def is_negative(self, raw: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of negative integers."""
        return np.asarray(raw < 0)

    def is_nan(self, raw: Array) -> NDArray[np.bool_]:
        """Return a mask of NaNs: none."""
        return np.zeros(raw.shape, bool)

    def with_sign(
        self, magnitude: NDArray[np.int64], negative: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return integers of magnitudes and signs; without a sign negative ones are 0."""
        return np.where(negative, -magnitude if self.signed else 0, magnitude)


RealFormat = FixedFormat | FloatFormat
"""Formats of arguments and results of functions."""


def real_format(name: str) -> RealFormat:
    """Return a format by name: ``q3.12``, ``uq0.16``, ``fp16``, ``bf16`` or ``fp32``.

    Raises
    ------
    ValueError
        If there is none, or it has no bits or too many.
    """
    if name in FLOAT_NAMES:
        return FLOATS[name]
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(
            f"must be {', '.join(FLOAT_NAMES)} or fixed point such as q3.12 (sign, 3 bits before"
            f" and 12 behind the point) or uq0.16 (no sign), not {name!r}"
        )
    fmt = FixedFormat(int(match[2]), int(match[3]), not match[1])
    if not 2 <= fmt.width <= MAX_WIDTH:
        raise ValueError(f"must have 2 to {MAX_WIDTH} bits, sign included; {name} has {fmt.width}")
    return fmt
