# SPDX-License-Identifier: Apache-2.0
"""Binary floating-point formats: IEEE 754 and its narrow relatives.

NaN: an operation whose result is a NaN gives the canonical quiet NaN of the result's format, with
sign 0 and no payload of an operand, in golden models and hardware alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from hwgen.formats.format import ScalarFormat
from hwgen.lazy import ml_dtypes, np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hwgen.formats.arrays import Array, DType

_ANY_PATTERN = 0.3  # rows of random values that are random bit patterns
_NUMPY_TYPES = ("float16", "float32")  # the other types are those of ml_dtypes
_TABLE_WIDTH = 16  # formats up to this width are decoded by a table of all their values


@dataclass(frozen=True)
class FloatFormat(ScalarFormat):
    """A floating-point format with subnormals: sign, exponent, mantissa from the top bit down.

    Parameters
    ----------
    name : str
        ``fp16``, ``bf16``, ...
    exponent_bits, mantissa_bits : int
        Fields; the mantissa has no leading one.
    infinities : bool
        Whether the largest exponent is set aside for infinities and NaNs, as in IEEE 754.
        Otherwise it is an ordinary one, only the largest magnitude is a NaN, and what overflows
        becomes that NaN.
    dtype_name : str
        NumPy's name of the type, or ml_dtypes' name.
    nan_pattern : int
        Bits of the NaN that arithmetic has as its result, 0 for the usual one.

    Attributes
    ----------
    width, lane_width : int
        Bits, and those of a lane of results, which are as many.
    signed : bool
        True.
    min, max : float
        Smallest and largest finite value.
    dtype, file_dtype : numpy.dtype
        NumPy's type of the values, and that in ``.npy`` files, float32 where files have no type
        for the format.
    specials : tuple of float
        Values that arithmetic treats differently from all others.
    precision : int
        Bits of a significand, the leading one included.
    bias : int
        A biased exponent `e` stands for ``2**(e - bias)``.
    magnitude_mask, sign_mask : int
        All bits but the sign; the sign.
    nan : int
        Bits of the canonical quiet NaN.
    max_finite : int
        Bits of the largest finite number.
    overflow : int
        Bits, without the sign, of what overflows: infinity, or the NaN where there is none.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    infinities: bool = True
    dtype_name: str = ""
    nan_pattern: int = 0

    is_integer: ClassVar[Literal[False]] = False
    is_float: ClassVar[Literal[True]] = True
    is_fixed: ClassVar[Literal[False]] = False

    @cached_property
    def width(self) -> int:
        """Bits."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def precision(self) -> int:
        """Bits of a significand."""
        return self.mantissa_bits + 1

    @property
    def bias(self) -> int:
        """Offset of the exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @cached_property
    def magnitude_mask(self) -> int:
        """All bits but the sign."""
        return self.sign_mask - 1

    @cached_property
    def sign_mask(self) -> int:
        """The sign bit."""
        return 1 << (self.width - 1)

    @cached_property
    def nan(self) -> int:
        """Bits of the canonical quiet NaN."""
        if self.nan_pattern:
            return self.nan_pattern
        if self.infinities:
            return self.overflow | 1 << (self.mantissa_bits - 1)
        return self.magnitude_mask

    @property
    def max_finite(self) -> int:
        """Bits of the largest finite number."""
        return self.overflow - 1

    @cached_property
    def overflow(self) -> int:
        """Bits, without the sign, of what is too large."""
        if self.infinities:
            return ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        return self.magnitude_mask

    @property
    def has_nan(self) -> bool:
        """Whether a bit pattern is a NaN."""
        return True

    @property
    def has_infinities(self) -> bool:
        """Whether a bit pattern is infinite."""
        return self.infinities

    @property
    def unit(self) -> int:
        """Exponent of the last bit of the smallest numbers."""
        return 1 - self.bias - self.mantissa_bits

    @property
    def fields(self) -> tuple[int, int]:
        """Exponent and mantissa bits."""
        return self.exponent_bits, self.mantissa_bits

    @property
    def coding(self) -> str:
        """Sign, exponent and mantissa."""
        return "float"

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest number, in units of ``2**unit``."""
        largest = int(math.ldexp(self.max, -self.unit))
        return -largest, largest

    @property
    def lane_width(self) -> int:
        """Bits of a lane of results: those of the dtype."""
        return self.width

    @property
    def raw_output(self) -> FloatFormat:
        """Format of accumulators as they leave post-processing: this one."""
        return self

    @property
    def signed(self) -> bool:
        """Whether there are negative numbers."""
        return True

    @property
    def max(self) -> float:
        """Largest finite value."""
        return float(self.decode(self.max_finite))

    @property
    def min(self) -> float:
        """Smallest finite value."""
        return -self.max

    @property
    def zero(self) -> float:
        """Zero, the positive one."""
        return 0.0

    @cached_property
    def specials(self) -> tuple[float, ...]:
        """Zeros, smallest subnormals, extremes, infinities if there are any, and NaN."""
        ends = (0.0, float(self.decode(1)), self.max, *((math.inf,) if self.infinities else ()))
        return (*ends, *(-end for end in ends), math.nan)

    @cached_property
    def dtype(self) -> DType:
        """NumPy's type of the values."""
        if self.dtype_name in _NUMPY_TYPES:
            return np.dtype(self.dtype_name)
        dtype: DType = np.dtype(getattr(ml_dtypes, self.dtype_name))
        return dtype

    @property
    def file_dtype(self) -> DType:
        """NumPy's type of the values in files."""
        return self.dtype if self.dtype.isbuiltin == 1 else np.dtype(np.float32)

    def _patterns(self, values: Array) -> Array:
        """Return the bit patterns of an array of `dtype`."""
        return np.ascontiguousarray(values).view(self.bits_dtype).reshape(values.shape)

    @cached_property
    def bits_dtype(self) -> DType:
        """NumPy's type of the bit patterns."""
        return np.dtype(f"u{self.width // 8}")

    def check(self, values: Array) -> None:
        """Check that all values are floating-point numbers that the format holds exactly.

        Raises
        ------
        ValueError
            Saying how many are not, and what to do.
        """
        if values.dtype == self.dtype:
            return
        if values.dtype not in (np.float64, *(fmt.dtype for fmt in FLOATS.values())):
            raise ValueError(
                f"must be floating-point numbers, not {values.dtype}; convert them, for example"
                " with astype('float32')"
            )
        wide = values.astype(np.float64)
        same = (self.to_float64(self.encode(values)) == wide) | np.isnan(wide)
        if not same.all():
            first = tuple(int(i) for i in np.argwhere(~same)[0])
            raise ValueError(
                f"must be {self} numbers, but {int(np.count_nonzero(~same))} of {same.size} are"
                f" none, first {float(wide[first])!r}; round them, for example with"
                f" astype({self.dtype_name!r})"
                f"{'' if self.file_dtype == self.dtype else ' of the package ml_dtypes'}"
            )

    def cast(self, values: Array) -> Array:
        """Return numbers in the type of the format if it holds all of them, else as they are."""
        if values.dtype.kind == "f" and values.dtype != self.dtype:
            fitting = values.astype(self.dtype)
            same = fitting.astype(np.float64) == values.astype(np.float64)
            if (same | (values != values)).all():
                return fitting
        return values

    def integers_of(self, codes: Array, chosen: Array | None = None) -> NDArray[np.float64]:
        """Return numbers in units of ``2**unit``."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.ldexp(self.to_float64(codes), -self.unit))

    def encode(self, values: ArrayLike) -> Array:
        """Return the bit patterns of `values`, rounded to nearest, ties to even.

        Parameters
        ----------
        values : array_like of real
            What float64 holds exactly: arrays of any of these formats, or integers up to 2**53.

        Returns
        -------
        ndarray of `bits_dtype`
        """
        values = np.asarray(values)
        if values.dtype == self.dtype:
            bits = np.ascontiguousarray(values).view(self.bits_dtype)
            return self.canonical(bits.reshape(values.shape))
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return self.round(values.astype(np.float64))

    def decode(self, bits: ArrayLike) -> Array:
        """Return the values of bit patterns as an array of `dtype`."""
        patterns = np.ascontiguousarray(bits, dtype=self.bits_dtype)
        return patterns.view(self.dtype).reshape(np.shape(bits))

    def to_float64(self, bits: Array) -> NDArray[np.float64]:
        """Return the values of bit patterns as float64, which holds each of them."""
        if self.width <= _TABLE_WIDTH:
            values: NDArray[np.float64] = _values(self)[bits]
            return values
        return _widened(self, bits)

    # -- arguments and results of functions --------------------------------------------------

    @property
    def smallest_normal(self) -> float:
        """Smallest magnitude of full relative precision."""
        return math.ldexp(1.0, 1 - self.bias)

    def patterns(self) -> NDArray[np.int64]:
        """Return the bit patterns of all finite numbers in increasing order, both zeros."""
        positive = np.arange(self.overflow, dtype=np.int64)
        return np.concatenate([positive[::-1] | self.sign_mask, positive])

    def values_of(self, raw: Array) -> NDArray[np.float64]:
        """Return the values of bit patterns of any integer type."""
        return self.to_float64(raw.astype(self.bits_dtype))

    def ulps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the unit of the last place at each of some values."""
        exponent = np.frexp(values)[1].astype(np.int64) - 1
        last = np.maximum(exponent, 1 - self.bias) - self.mantissa_bits
        return np.asarray(np.ldexp(1.0, last))

    def is_negative(self, raw: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of bit patterns with a sign."""
        return np.asarray((raw & self.sign_mask) != 0)

    def with_sign(
        self, magnitude: NDArray[np.int64], negative: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return bit patterns of magnitudes and signs."""
        return np.where(negative, magnitude | self.sign_mask, magnitude)

    def nearest(self, values: NDArray[np.float64]) -> Array:
        """Return the nearest numbers, ties to even."""
        return self.decode(self.round(values))

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return finite values: rows of moderate numbers, and rows of any bit patterns.

        Where magnitudes differ widely, the largest alone decides about a sum; where they do not,
        every rounding shows.
        """
        moderate = self.round(rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 3))
        finite = rng.integers(0, self.max_finite, shape, endpoint=True)
        signs = rng.integers(0, 2, shape) * self.sign_mask
        anything = rng.random((*shape[:-1], 1)) < _ANY_PATTERN
        return self.decode(np.where(anything, finite | signs, moderate))

    def dot(self, weight: object, terms: int) -> FloatFormat:
        """Return the format of sums of products with weights: rounded to this one."""
        return self

    def is_nan(self, bits: Array) -> NDArray[np.bool_]:
        """Return a mask of bit patterns that are NaNs."""
        magnitude = bits & bits.dtype.type(self.magnitude_mask)
        return np.asarray(magnitude > self.overflow if self.infinities else magnitude == self.nan)

    def canonical(self, bits: Array) -> Array:
        """Return bit patterns with every NaN replaced by the canonical one."""
        return np.where(self.is_nan(bits), self.bits_dtype.type(self.nan), bits)

    def round(self, values: NDArray[np.float64]) -> Array:
        """Return the bit patterns nearest to `values`, ties to even.

        The significand is shifted to the place of the result's last bit, which for subnormals is
        a fixed one, and rounded as an integer.  A carry out of it moves into the exponent, where
        it belongs: the patterns of increasing magnitudes are consecutive integers.
        """
        if self.dtype == np.float32:  # what the processor does
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                return self.canonical(self._patterns(np.asarray(values).astype(np.float32)))
        wide = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
        wide = wide.reshape(np.shape(values))
        exponent = ((wide >> 52) & 0x7FF) - 1023
        significand = (wide & ((1 << 52) - 1)) | (1 << 52)
        # Steps above the smallest normal number; what is below it is shifted further, at the most
        # until less than half a unit is left.
        above = exponent + self.bias - 1
        shift = 52 - self.mantissa_bits + np.clip(-above, 0, self.mantissa_bits + 2)
        upper = significand >> shift
        rest = significand - (upper << shift)
        half = np.int64(1) << (shift - 1)
        upper += (rest > half) | ((rest == half) & (upper & 1 == 1))
        magnitude = upper + (np.maximum(above, 0) << self.mantissa_bits)
        magnitude = np.minimum(magnitude, self.overflow)
        bits = np.where(wide < 0, self.sign_mask, 0) | magnitude
        nan = np.isnan(values) | self.is_nan(magnitude)
        return np.where(nan, self.nan, bits).astype(self.bits_dtype)


@dataclass(frozen=True)
class FiniteFormat(FloatFormat):
    """A floating-point format of a few bits, all patterns of which are numbers.

    There is neither an infinity nor a NaN: what is too large becomes the largest number, and a NaN
    is refused.  A number is alone in a byte outside of hardware, and packed bit by bit in streams.
    """

    infinities: bool = False

    @property
    def has_nan(self) -> bool:
        """Whether a bit pattern is a NaN."""
        return False

    @property
    def max_finite(self) -> int:
        """Bits of the largest number."""
        return self.magnitude_mask

    @cached_property
    def specials(self) -> tuple[float, ...]:
        """Zeros, smallest subnormals, and extremes."""
        ends = (0.0, float(self.decode(1)), self.max)
        return (*ends, *(-end for end in ends))

    @cached_property
    def bits_dtype(self) -> DType:
        """NumPy's type of the bit patterns."""
        return np.dtype(np.uint8)

    def check(self, values: Array) -> None:
        """Check that all values are floating-point numbers that the format holds exactly."""
        if values.dtype != self.dtype and values.dtype.kind == "f" and np.isnan(values).any():
            first = tuple(int(i) for i in np.argwhere(np.isnan(values))[0])
            raise ValueError(f"must be {self} numbers, which have no NaN, found one at {first}")
        super().check(values)

    def is_nan(self, bits: Array) -> NDArray[np.bool_]:
        """Return a mask of bit patterns that are NaNs: none."""
        return np.zeros(np.shape(bits), np.bool_)


@cache
def _values(fmt: FloatFormat) -> NDArray[np.float64]:
    """Return the values of all bit patterns, in order."""
    table = _widened(fmt, np.arange(1 << fmt.width, dtype=fmt.bits_dtype))
    table.flags.writeable = False
    return table


def _widened(fmt: FloatFormat, bits: Array) -> NDArray[np.float64]:
    if fmt.dtype == np.float32:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return np.asarray(fmt.decode(bits).astype(np.float64))
    patterns = bits.astype(np.int64)
    mantissa = patterns & ((1 << fmt.mantissa_bits) - 1)
    exponent = (patterns & fmt.magnitude_mask) >> fmt.mantissa_bits
    leading = np.where(exponent > 0, 1 << fmt.mantissa_bits, 0)
    scale = np.maximum(exponent, 1) - fmt.bias - fmt.mantissa_bits
    values = np.ldexp((mantissa | leading).astype(np.float64), scale.astype(np.int32))
    if fmt.infinities:
        values = np.where(patterns & fmt.magnitude_mask == fmt.overflow, np.inf, values)
    values = np.where(fmt.is_nan(bits), np.nan, values)
    return np.where(patterns & fmt.sign_mask, -values, values)


FLOATS = {
    fmt.name: fmt
    for fmt in (
        FloatFormat("fp32", 8, 23, dtype_name="float32"),
        FloatFormat("fp16", 5, 10, dtype_name="float16"),
        FloatFormat("bf16", 8, 7, dtype_name="bfloat16"),
        FloatFormat("fp8_e5m2", 5, 2, dtype_name="float8_e5m2"),
        FloatFormat("fp8_e4m3", 4, 3, infinities=False, dtype_name="float8_e4m3fn"),
    )
}
"""The formats by name."""

SMALL_FLOATS = {
    fmt.name: fmt
    for fmt in (
        FiniteFormat("fp6_e3m2", 3, 2, dtype_name="float6_e3m2fn"),
        FiniteFormat("fp6_e2m3", 2, 3, dtype_name="float6_e2m3fn"),
        FiniteFormat("fp4_e2m1", 2, 1, dtype_name="float4_e2m1fn"),
    )
}
"""Formats below 8 bits by name, which nothing rounds sums to: operands alone have them."""


def floating(name: str) -> FloatFormat:
    """Return the floating-point format called `name`.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name not in FLOATS:
        raise ValueError(f"must be one of {', '.join(FLOATS)}, not {name!r}")
    return FLOATS[name]
