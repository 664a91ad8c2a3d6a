# SPDX-License-Identifier: Apache-2.0
"""Fixed-point formats by name, and what they have in common with floating point for functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_WIDTH = 32
"""Bits of a fixed-point format, at most."""

FLOAT_NAMES = ("fp16", "bf16", "fp32")
"""The floating-point formats that function units take and give."""

_NAME = re.compile(r"(u?)q(\d+)\.(\d+)")


@dataclass(frozen=True)
class FixedFormat:
    """Integers in units of a power of two.

    Parameters
    ----------
    integer_bits : int
        Bits before the point, without the sign.
    fraction : int
        Bits behind it.
    signed : bool
        Two's complement if true, with one more bit.
    """

    integer_bits: int
    fraction: int
    signed: bool

    @property
    def name(self) -> str:
        """Its name: ``q3.12`` of 16 bits, ``uq0.16`` without a sign."""
        return f"{'' if self.signed else 'u'}q{self.integer_bits}.{self.fraction}"

    @property
    def width(self) -> int:
        """Bits."""
        return self.integer_bits + self.fraction + self.signed

    @property
    def integer(self) -> IntegerFormat:
        """The format of its integers."""
        return IntegerFormat(self.width, self.signed)

    @property
    def unit(self) -> float:
        """What its last bit stands for."""
        return 2.0**-self.fraction

    @property
    def max(self) -> float:
        """Largest value."""
        return self.integer.max * self.unit

    def __str__(self) -> str:
        return self.name

    def all(self) -> NDArray[np.int64]:
        """Return all its integers in increasing order."""
        return np.arange(self.integer.min, self.integer.max + 1, dtype=np.int64)

    def to_float64(self, integers: NDArray[Any]) -> NDArray[np.float64]:
        """Return what integers stand for."""
        return np.asarray(integers, np.float64) * self.unit


Format = FixedFormat | FloatFormat


def format_named(name: str) -> Format:
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


def patterns(fmt: Format) -> NDArray[np.int64]:
    """Return every number of a format in increasing order, as integers or bit patterns.

    Floating point: all finite numbers, both zeros.
    """
    if isinstance(fmt, FixedFormat):
        return fmt.all()
    positive = np.arange(fmt.overflow, dtype=np.int64)
    return np.concatenate([positive[::-1] | fmt.sign_mask, positive])


def values_of(fmt: Format, raw: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what integers or bit patterns of a format stand for."""
    if isinstance(fmt, FixedFormat):
        return fmt.to_float64(raw)
    return fmt.to_float64(raw.astype(fmt.bits_dtype))
