# SPDX-License-Identifier: Apache-2.0
"""The interface of number formats, scalars and blocks alike.

A *code* is the bit pattern of a number.  Products are exact in integers: a number is an integer in
units of ``2**unit``, and `Format.coding` says how a code stands for it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array, DType


class Lines(NamedTuple):
    """Lines of an operand as hardware takes them, in whole blocks.

    Parameters
    ----------
    codes : ndarray of int, shape (lines, blocks, length)
    scales, chosen, minima : ndarray of unsigned int, shape (lines, blocks), or None
        Bit patterns of scales and minima, and which special number or zero point a block has; None
        in formats without any.
    """

    codes: Array
    scales: Array | None = None
    chosen: NDArray[np.uint8] | None = None
    minima: Array | None = None


class SharedNumber(Protocol):
    """Format of a number that the elements of a block share."""

    @property
    def name(self) -> str:
        """Name of the format."""

    @property
    def width(self) -> int:
        """Bits of the number."""


class Format(ABC):
    """A number format.

    Attributes
    ----------
    is_integer, is_float, is_fixed, is_block : bool
        Integers; floating point, whose sums may be rounded; fixed point; blocks that share a scale.
    """

    is_integer: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = False
    is_block: ClassVar[bool] = False

    if TYPE_CHECKING:
        # Fields of some formats, properties of others.

        @property
        def name(self) -> str:
            """Name, as it stands in configurations."""

        @property
        def width(self) -> int:
            """Bits of a code."""

        @property
        def signed(self) -> bool:
            """Whether there are negative numbers."""

        @property
        def dtype(self) -> DType:
            """NumPy's type of arrays of numbers."""

        @property
        def specials(self) -> tuple[Any, ...]:
            """Values that arithmetic treats differently from all others."""

    @property
    def file_dtype(self) -> DType:
        """NumPy's type of the values in files."""
        return self.dtype

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def check(self, values: Array) -> None:
        """Check that all values are of the format.

        Raises
        ------
        ValueError
            Saying what is allowed and what was found.
        """

    @abstractmethod
    def encode(self, values: Array) -> Array:
        """Return the codes of values."""

    @abstractmethod
    def decode(self, bits: Array) -> Array:
        """Return the values of codes."""

    @abstractmethod
    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return random values."""

    def cast(self, values: Array) -> Array:
        """Return values in the type of the format if it holds all of them, else as they are."""
        return values

    # -- operands of exact products ----------------------------------------------------------

    if TYPE_CHECKING:

        @property
        def block(self) -> int | None:
            """Elements that share a scale, None without blocks."""

        @property
        def choices(self) -> int:
            """Number of special numbers or zero points of which a block has one; 1 without any."""

        @property
        def special_code(self) -> int | None:
            """Code of the special number of a block."""

        @property
        def special_width(self) -> int:
            """Bits of the choice, 0 without any."""

        @property
        def zero_width(self) -> int:
            """Bits of a zero point, 0 without."""

        @property
        def minimum_width(self) -> int:
            """Bits of a minimum, 0 without."""

        @property
        def zero_code(self) -> int:
            """Code that fills blocks up: that of zero."""

        @property
        def scale(self) -> SharedNumber | None:
            """Format of the scales of blocks."""

        @property
        def minimum(self) -> SharedNumber | None:
            """Format of the minima of blocks."""

    @property
    @abstractmethod
    def unit(self) -> int:
        """Exponent of the unit in which all numbers are integers."""

    @property
    @abstractmethod
    def fields(self) -> tuple[int, int] | None:
        """Exponent and mantissa bits of numbers in floating point, None of others."""

    @property
    @abstractmethod
    def coding(self) -> str:
        """Coding: the relation between a code and its integer.

        ``signed`` (two's complement), ``unsigned``, ``offset`` (excess code), ``float`` (sign,
        exponent, mantissa), or a name that the format shares with its decoder in hardware.
        """

    @property
    @abstractmethod
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest integer."""

    @property
    @abstractmethod
    def has_nan(self) -> bool:
        """Whether a code is a NaN."""

    @property
    @abstractmethod
    def has_infinities(self) -> bool:
        """Whether a code is infinite."""

    @abstractmethod
    def integers_of(self, codes: Array, chosen: Array | None = None) -> NDArray[np.float64]:
        """Return the integers of codes; NaN and infinite where a number is.

        Parameters
        ----------
        codes : ndarray of int
        chosen : ndarray of int, broadcast against `codes`
            Which special number or zero point a block has.
        """

    @abstractmethod
    def lines(self, values: Array, blocks: int, length: int) -> Lines:
        """Return lines of values, shape (lines, k), filled up with zeros to whole blocks."""

    @abstractmethod
    def from_lines(self, lines: Lines, k: int) -> Array:
        """Return values, shape (lines, k), the inverse of `lines`."""

    # -- memory ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def item_terms(self) -> int:
        """Elements that memory holds together, as one item."""

    @property
    @abstractmethod
    def item_bits(self) -> int:
        """Bits of an item that are used, the lowest ones."""

    @property
    @abstractmethod
    def item_bytes(self) -> int:
        """Bytes of an item in memory."""

    @abstractmethod
    def pack_lines(self, values: Array, whole: int) -> NDArray[np.uint8]:
        """Return the bytes of lines in memory, filled up to `whole` elements, a row each."""

    @abstractmethod
    def unpack_lines(self, rows: NDArray[np.uint8], k: int) -> Array:
        """Return values of lines, shape (lines, k), the inverse of `pack_lines`."""


class ScalarFormat(Format):
    """A format whose numbers stand alone.

    A subclass says at least `name`, `width`, `signed`, `dtype`, `unit`, `coding`, `integer_range`,
    `encode` and `decode`; the rest follows.

    Attributes
    ----------
    choices, special_code, special_width, zero_width, minimum_width
        No choices among special numbers or zero points, and nothing that blocks share.
    """

    choices = 1
    special_code = None
    special_width = zero_width = minimum_width = 0

    @property
    def min(self) -> float:
        """Smallest finite value."""
        return math.ldexp(self.integer_range[0], self.unit)

    @property
    def max(self) -> float:
        """Largest finite value."""
        return math.ldexp(self.integer_range[1], self.unit)

    @property
    def zero(self) -> float:
        """Number that fills up: zero, unless the format has none."""
        return 0

    @property
    def specials(self) -> tuple[float, ...]:
        """Values that arithmetic treats differently from all others: none."""
        return ()

    @property
    def lane_width(self) -> int:
        """Bits of a lane of results in a stream, whose memory image is then a NumPy array."""
        return 8 * self.dtype.itemsize

    def check(self, values: Array) -> None:
        """Check that all values are of the format.

        Raises
        ------
        ValueError
            Naming the first that is not.
        """
        wrong = self.decode(self.encode(values)) != values
        if wrong.any():
            first = values[wrong].flat[0]
            raise ValueError(f"must be {self} numbers of {self.min}..{self.max}, found {first!r}")

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return the values of random codes."""
        return self.decode(rng.integers(0, 1 << self.width, size=shape))

    def integers_of(self, codes: Array, chosen: Array | None = None) -> NDArray[np.float64]:
        """Return the numbers of codes, in units of ``2**unit``."""
        return np.ldexp(self.decode(codes).astype(np.float64), -self.unit)

    @property
    def bits_dtype(self) -> DType:
        """NumPy's type of codes."""
        return self.dtype

    @property
    def block(self) -> None:
        """No elements share a scale."""
        return None

    @property
    def scale(self) -> None:
        """No scale."""
        return None

    @property
    def minimum(self) -> None:
        """No minimum."""
        return None

    @property
    def zero_code(self) -> int:
        """Code that fills lines up: that of zero."""
        return 0

    @property
    def fields(self) -> tuple[int, int] | None:
        """Exponent and mantissa bits: none."""
        return None

    @property
    def has_nan(self) -> bool:
        """Whether a code is a NaN: none."""
        return False

    @property
    def has_infinities(self) -> bool:
        """Whether a code is infinite: none."""
        return False

    def lines(self, values: Array, blocks: int, length: int) -> Lines:
        """Return the codes of lines, filled up with zeros."""
        count, k = values.shape
        codes = np.zeros((count, blocks * length), np.int64)
        codes[:, :k] = self.encode(values)
        return Lines(codes.reshape(count, blocks, length))

    def from_lines(self, lines: Lines, k: int) -> Array:
        """Return values, shape (lines, k), the inverse of `lines`."""
        codes = lines.codes.reshape(len(lines.codes), -1)[:, :k]
        return self.decode(codes.astype(self.bits_dtype))

    @property
    def item_terms(self) -> int:
        """Elements of an item: one."""
        return 1

    @property
    def item_bits(self) -> int:
        """Bits of a code."""
        return self.width

    @property
    def item_bytes(self) -> int:
        """Bytes of a number in memory."""
        return self.bits_dtype.itemsize

    def pack_lines(self, values: Array, whole: int) -> NDArray[np.uint8]:
        """Return the codes of lines as bytes, the lowest first, a row each."""
        codes = np.zeros((len(values), whole), self.bits_dtype.newbyteorder("<"))
        codes[:, : values.shape[1]] = self.encode(values)
        return codes.view(np.uint8).reshape(len(values), -1)

    def unpack_lines(self, rows: NDArray[np.uint8], k: int) -> Array:
        """Return values of lines, shape (lines, k), the inverse of `pack_lines`."""
        codes = np.ascontiguousarray(rows).view(self.bits_dtype.newbyteorder("<"))[:, :k]
        return self.decode(codes.astype(self.bits_dtype))


def differences(actual: Array, expected: Array) -> NDArray[np.intp]:
    """Return the indices, a row each, at which two arrays of one dtype differ in any bit."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    patterns = [np.ascontiguousarray(array).view(bits) for array in (actual, expected)]
    return np.argwhere(patterns[0] != patterns[1])
