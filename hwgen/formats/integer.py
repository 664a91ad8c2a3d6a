# SPDX-License-Identifier: Apache-2.0
"""Two's-complement and unsigned integers of any width up to 64 bits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from hwgen.formats.format import ScalarFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array, DType

MAX_WIDTH = 64
_NAME = re.compile(r"(u?)int([1-9][0-9]?)")


@dataclass(frozen=True)
class IntegerFormat(ScalarFormat):
    """A fixed-width integer format.

    Parameters
    ----------
    width : int
        Bits, 1..64.
    signed : bool
        Two's complement if true.

    Attributes
    ----------
    name : str
        ``int8``, ``uint4``, ...
    min, max : int
        Smallest and largest value.
    lane_width : int
        Bits of the next power-of-two container of at least one byte (8, 16, 32 or 64), the
        lane a result occupies in a stream so that its memory image is a NumPy array.
    dtype : numpy.dtype
        NumPy's type of that lane, in memory and in ``.npy`` files.
    specials : tuple
        Values that arithmetic treats differently from all others: none.
    """

    width: int
    signed: bool

    is_integer: ClassVar[Literal[True]] = True
    is_float: ClassVar[Literal[False]] = False
    is_fixed: ClassVar[Literal[False]] = False

    @property
    def name(self) -> str:
        """Name of the format."""
        return f"{'' if self.signed else 'u'}int{self.width}"

    @property
    def min(self) -> int:
        """Smallest value."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        """Largest value."""
        return (1 << (self.width - self.signed)) - 1

    @property
    def lane_width(self) -> int:
        """Bits of a lane of results."""
        return max(8, 1 << (self.width - 1).bit_length())

    @property
    def raw_output(self) -> IntegerFormat:
        """Format of accumulators as they leave post-processing: 32 or 64 bits."""
        return IntegerFormat(32 if self.width <= 32 else MAX_WIDTH, self.signed)

    @property
    def dtype(self) -> DType:
        """NumPy's type of a lane of results: the lane width with the format's signedness."""
        return np.dtype(f"{'i' if self.signed else 'u'}{self.lane_width // 8}")

    @property
    def zero(self) -> int:
        """Number that stands for nothing: zero, unless the format has none."""
        return 0

    def check(self, values: Array) -> None:
        """Check that all values are of the format.

        Raises
        ------
        ValueError
            Saying what is allowed and what was found.
        """
        if values.dtype.kind not in "iu":
            raise ValueError(f"must be integers, not {values.dtype}")
        low, high = int(values.min()), int(values.max())
        if low < self.min or high > self.max:
            raise ValueError(f"must be {self.min}..{self.max} ({self}), found {low}..{high}")

    # -- operands of exact products ----------------------------------------------------------

    @property
    def unit(self) -> int:
        """Exponent of the unit: numbers are integers."""
        return 0

    @property
    def coding(self) -> str:
        """Two's complement, or unsigned."""
        return "signed" if self.signed else "unsigned"

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest number."""
        return self.min, self.max

    # -- numbers -----------------------------------------------------------------------------

    def encode(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return integers with the codes of `values` as low bits: the values themselves."""
        return values

    def decode(self, bits: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the values of bit patterns, whose higher bits are ignored, as `dtype`."""
        return np.asarray(self.wrap(bits.astype(np.int64)).astype(self.dtype))

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return values that are uniform over the range."""
        return rng.integers(self.min, self.max, size=shape, endpoint=True)

    def dot(self, weight: IntegerFormat, terms: int) -> IntegerFormat:
        """Return the format of sums of products with `weight`: exact."""
        return dot_format(self, weight, terms)

    # -- weights -----------------------------------------------------------------------------

    scales_by_mean: ClassVar[bool] = False
    """Whether the scale of weights is their mean magnitude."""

    def weight_scales(
        self, magnitudes: NDArray[np.float64], axis: int | None
    ) -> NDArray[np.float64]:
        """Return the scales of weights: the largest one becomes the largest number."""
        return np.asarray(magnitudes.max(axis=axis) / self.max)

    def round_weights(
        self, weights: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return weights in units of their scales, rounded, ties to even."""
        return np.round(weights / np.where(scales > 0, scales, 1))

    def nearest(self, values: NDArray[np.float64]) -> Array:
        """Return the nearest numbers, ties to even; large ones saturate, and a NaN gives 0."""
        finite = np.where(np.isnan(values), 0.0, values)
        return np.clip(np.rint(finite), self.min, self.max).astype(self.dtype)

    def wrap(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reduce int64 values modulo ``2**width`` into the range of the format.

        A 64-bit unsigned format returns the same bits as int64.
        """
        if self.width == MAX_WIDTH:
            return values
        low = values & ((1 << self.width) - 1)
        return low - ((low >> (self.width - 1)) << self.width) if self.signed else low

    def saturate(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Clamp int64 values to the range of the format."""
        return np.clip(values, self.min, min(self.max, (1 << 63) - 1))


@cache
def integer(name: str) -> IntegerFormat:
    """Return the integer format called `name`.

    Raises
    ------
    ValueError
        If `name` is not ``int1``..``int64`` or ``uint1``..``uint64``.
    """
    match = _NAME.fullmatch(name)
    if not match or int(match[2]) > MAX_WIDTH:
        raise ValueError(f"must be int1..int{MAX_WIDTH} or uint1..uint{MAX_WIDTH}, not {name!r}")
    return IntegerFormat(int(match[2]), not match[1])


def enclosing_format(low: int, high: int) -> IntegerFormat:
    """Return the narrowest format that holds every integer of ``low..high`` and zero."""
    low, high = min(low, 0), max(high, 0)
    if low >= 0:
        return IntegerFormat(max(1, high.bit_length()), False)
    return IntegerFormat(max((~low).bit_length(), high.bit_length()) + 1, True)


def dot_format(a: IntegerFormat, w: IntegerFormat, terms: int) -> IntegerFormat:
    """Return the narrowest format that holds every sum of up to `terms` products.

    The extremes of a product of two intervals lie at their corners, and a sum of `terms`
    independent products reaches `terms` times them, so the bound is attained, not estimated.
    """
    corners = [x * y for x in (a.min, a.max) for y in (w.min, w.max)]
    return enclosing_format(terms * min(corners), terms * max(corners))
