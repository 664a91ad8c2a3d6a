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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, TypeGuard

from hwgen.errors import InputError
from hwgen.formats.block.elements import SCALES, Element, Rounding, Scale, float_element
from hwgen.formats.block.image import BlockImage
from hwgen.formats.floating import FloatFormat
from hwgen.formats.format import Format, Lines
from hwgen.formats.integer import enclosing_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array, DType

Rule = Literal["floor", "ceil", "even", "rceil", "absmax", "mean", "extreme", "range"]

POWERS: tuple[Rule, ...] = ("floor", "ceil", "even", "rceil")
"""Rules whose scales are powers of two."""

_WIDEST_EXPONENT = 5


@dataclass(frozen=True)
class BlockFormat(Format):
    """A format of blocks.

    An operand in it is an array of records, one for each element: its code and, the same in all
    elements of a block, the bit patterns of the scale and, of formats with one, the minimum, and
    which special number or zero point the block has.  So it has the shape of its matrix, and its
    last block may be shorter than the others.

    Parameters
    ----------
    name, summary : str
    element : Element
    block : int
        Numbers of a block.
    scale : Scale
    rule : str
        How the scale of a block is found; see the module's description.
    rounding : {"even", "away", "up", "inward", "zero"}
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

    is_integer: ClassVar[Literal[False]] = False
    is_float: ClassVar[Literal[False]] = False
    is_block: ClassVar[Literal[True]] = True

    @property
    def width(self) -> int:
        """Bits of an element, without its share of the scale."""
        return self.element.width

    @property
    def signed(self) -> bool:
        """Whether there are negative numbers."""
        return True

    @property
    def minimum_width(self) -> int:
        """Bits of a minimum, 0 without one."""
        return self.minimum.width if self.minimum else 0

    @property
    def choices(self) -> int:
        """Number of special numbers or zero points of which a block has one; 1 without any."""
        return 1 << self.zero_width if self.zero_width else max(1, len(self.special))

    @property
    def special_width(self) -> int:
        """Bits of the choice, of a special number or a zero point, 0 without any."""
        return (self.choices - 1).bit_length()

    @property
    def image(self) -> BlockImage:
        """Layout of blocks in memory."""
        return BlockImage(
            self.block,
            self.together,
            self.halves,
            self.width,
            self.scale.width,
            self.minimum_width,
            self.special_width,
        )

    @property
    def block_bits(self) -> int:
        """Bits of a block, before it is filled up to bytes."""
        return self.image.block_bits

    @property
    def bits_per_value(self) -> float:
        """Bits of a number, its share of what the block shares included."""
        return self.block_bits / self.block

    def dot_width(self) -> int:
        """Return the bits of the exact sum of the products of two blocks' elements."""
        unit = min(element.exponent for element in self.elements)
        numbers = {
            Fraction(value) / Fraction(2) ** unit for e in self.elements for value in e.finite
        }
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

    # -- operands of exact products ----------------------------------------------------------

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The elements for each choice of a special number or zero point."""
        return tuple(self.elements_of(number) for number in range(self.choices))

    @cached_property
    def _lowest(self) -> int:
        """Exponent of the largest power of two that all elements are multiples of."""
        return min(element.exponent for element in self.elements)

    @cached_property
    def unit(self) -> int:
        """Exponent of the unit in which all elements are integers."""
        return (
            self._lowest
            if self.fields is None
            else min(self._lowest, subnormal_exponent(self.fields))
        )

    @cached_property
    def fields(self) -> tuple[int, int] | None:
        """Exponent and mantissa bits of elements that are floating-point numbers."""
        return None if self._integer_coding else _float_fields(self.element)

    @cached_property
    def coding(self) -> str:
        """Coding: the relation between a code and its integer."""
        return "float" if self.fields is not None else self._integer_coding or "signed"

    @cached_property
    def _integer_coding(self) -> str:
        """Coding of integers, empty if none applies."""
        half, codes = 1 << (self.width - 1), range(1 << self.width)
        readings = {
            "unsigned": list(codes),
            "signed": [(code ^ half) - half for code in codes],
            "offset": [code - half for code in codes],
        }
        for coding, numbers in readings.items():
            pairs = zip(self.element.values, numbers, strict=True)
            if all(not math.isfinite(v) or v == math.ldexp(n, self._lowest) for v, n in pairs):
                return coding
        return ""

    @cached_property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        low = min(element.finite[0] for element in self.elements)
        high = max(element.finite[-1] for element in self.elements)
        return int(math.ldexp(low, -self.unit)), int(math.ldexp(high, -self.unit))

    @cached_property
    def has_nan(self) -> bool:
        """Whether an element is a NaN."""
        return self.fields is not None and any(map(math.isnan, self.element.values))

    @cached_property
    def has_infinities(self) -> bool:
        """Whether an element is infinite."""
        return any(map(math.isinf, self.element.values))

    @cached_property
    def zero_code(self) -> int:
        """Code that fills blocks up: that of zero."""
        return self.element.values.index(0.0)

    def integers_of(self, codes: Array, chosen: Array | None = None) -> NDArray[np.float64]:
        """Return the integers of codes; NaN and infinite where an element is."""
        return np.asarray(_integers(self)[0 if chosen is None else chosen, codes])

    # -- records -----------------------------------------------------------------------------

    @property
    def specials(self) -> tuple[str, ...]:
        """Values that arithmetic treats differently: scales and elements that are no numbers."""
        return ("scale", "element")

    @cached_property
    def dtype(self) -> DType:
        """NumPy's type of the records."""
        fields = [("code", "u1"), ("scale", self.scale.dtype), ("special", "u1")]
        if self.minimum:
            fields.append(("minimum", self.minimum.bits_dtype))
        return np.dtype(fields)

    def check(self, values: Array) -> None:
        """Check that all values are records with codes of the format.

        Raises
        ------
        ValueError
            Saying what is allowed and what was found.
        """
        if values.dtype != self.dtype:
            raise ValueError(
                f"must be blocks of {self}, records of {', '.join(self.dtype.names or ())},"
                f" not {values.dtype};"
                " quantise numbers first"
            )
        codes = 1 << self.width
        unusable = [c for c, v in enumerate(self.element.values) if self._is_none(v)]
        wrong = (values["code"] >= codes) | np.isin(values["code"], unusable)
        wrong |= values["special"] >= self.choices
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"{list(first)} has the code {int(values['code'][first])} (special number"
                f" {int(values['special'][first])}), which is none of {self}"
            )

    def _is_none(self, value: float) -> bool:
        """Return whether a code with this value is none: of elements that are integers."""
        return math.isnan(value) and self.fields is None

    def encode(self, values: Array) -> NDArray[np.uint8]:
        """Return the codes of records."""
        return np.asarray(values["code"], np.uint8)

    def numbers(self, lines: Lines) -> NDArray[np.float64]:
        """Return the numbers of blocks, shape (lines, blocks, length), without second scales."""
        assert lines.scales is not None
        if lines.chosen is None:
            values = self.element.decode(lines.codes)
        else:
            tables = np.array([element.values for element in self.elements])
            values = tables[lines.chosen[..., None], lines.codes]
        values = values * self.scale.decode(lines.scales)[..., None]
        if lines.minima is not None and self.minimum:
            values = values + self.minimum.to_float64(lines.minima)[..., None]
        return values

    def decode(self, bits: Array, second: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
        """Return the numbers of records of lines, shape (lines, k), times second scales."""
        count, k = bits.shape
        values = self.numbers(self.lines(bits, -(-k // self.block))).reshape(count, -1)[:, :k]
        return values if second is None else values * second.astype(np.float64)[:, None]

    def lines(self, values: Array, blocks: int, length: int | None = None) -> Lines:
        """Return lines of records, the last blocks filled up with zeros.

        Raises
        ------
        InputError
            If the elements of a block differ in what they share.
        """
        length = self.block
        count, k = values.shape
        scales, chosen = (self._shared(values, blocks, name) for name in ("scale", "special"))
        codes = np.full((count, blocks * length), self.zero_code, np.uint8)
        if self.zero_width:  # what fills a block is zero
            codes[:] = np.repeat(chosen, length, axis=1)
        codes[:, :k] = values["code"]
        minima = self._shared(values, blocks, "minimum") if self.minimum else None
        return Lines(codes.reshape(count, blocks, length), scales, chosen, minima)

    def _shared(self, values: Array, blocks: int, name: str) -> Array:
        """Return a bit pattern that the elements of each block share, shape (lines, blocks)."""
        length = self.block
        count, k = values.shape
        first = values[name][:, ::length]
        spread = np.repeat(first, length, axis=1)[:, :k]
        if (spread != values[name]).any():
            line, position = (int(i) for i in np.argwhere(spread != values[name])[0])
            raise InputError(
                f"the elements of block {position // length} of line {line} have different"
                f" {name}s; a block of {self} has one"
            )
        whole = np.zeros((count, blocks), values[name].dtype)
        whole[:, : first.shape[1]] = first
        return whole

    def from_lines(self, lines: Lines, k: int) -> Array:
        """Return records of lines, shape (lines, k)."""
        shared = {"scale": lines.scales, "special": lines.chosen, "minimum": lines.minima}
        count = len(lines.codes)
        result = np.zeros((count, k), self.dtype)
        result["code"] = lines.codes.reshape(count, -1)[:, :k]
        for name, patterns in shared.items():
            if patterns is not None:
                result[name] = np.repeat(patterns, self.block, axis=1)[:, :k]
        return result

    # -- memory ------------------------------------------------------------------------------

    @property
    def item_terms(self) -> int:
        """Elements of an item: of blocks whose scales stand together."""
        return self.block * self.together

    @property
    def item_bits(self) -> int:
        """Bits of an item, before it is filled up to bytes."""
        return self.block_bits * self.together

    @property
    def item_bytes(self) -> int:
        """Bytes of an item in memory."""
        return -(-self.item_bits // 8)

    def pack_lines(self, values: Array, whole: int) -> NDArray[np.uint8]:
        """Return the images of lines of records, filled up to `whole` elements, a row each."""
        image = self.image.pack(self.lines(values, whole // self.block))
        return np.frombuffer(image, np.uint8).reshape(len(values), -1)

    def unpack_lines(self, rows: NDArray[np.uint8], k: int) -> Array:
        """Return records of lines, shape (lines, k), the inverse of `pack_lines`."""
        count, size = rows.shape
        whole = size // self.item_bytes * self.item_terms
        return self.from_lines(self.unpack(rows.tobytes(), count, whole), k)

    def unpack(self, image: bytes, lines: int, k: int) -> Lines:
        """Return the lines of `k` elements of an image, bit patterns in the types of records."""
        lines_of_image = self.image.unpack(image, lines, k)
        scales, minima = lines_of_image.scales, lines_of_image.minima
        assert scales is not None
        return lines_of_image._replace(
            scales=scales.astype(self.scale.dtype),
            minima=minima.astype(self.minimum.bits_dtype)
            if self.minimum and minima is not None
            else None,
        )

    # -- random records ----------------------------------------------------------------------

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return lines of finite numbers with scales of all magnitudes; see `sample`."""
        return self.sample(rng, shape, "random")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], case: str) -> Array:
        """Return records of lines, shape (lines, k).

        Parameters
        ----------
        rng : numpy Generator
        shape : (lines, k)
        case : str
            ``random``: some lines with moderate scales, some with any; ``lowest``, ``highest``: all
            elements at that end; ``alternating`` between the ends; ``zero``; ``sparse``: mostly
            zero; ``special``: among random blocks some with scales or elements that are no
            numbers, with the smallest and largest scales, or of zeros.
        """
        lines, k = shape
        blocks = -(-k // self.block)
        values = np.array(self.element.values)
        finite = np.flatnonzero(np.isfinite(values))
        zero = int(np.flatnonzero(values == 0)[0])
        ends = finite[values[finite].argmin()], finite[values[finite].argmax()]
        whole = (lines, blocks, self.block)
        codes = rng.choice(finite, whole)
        if case in ("lowest", "highest"):
            codes = np.full(whole, ends[case == "highest"])
        elif case == "alternating":
            codes = np.where(np.indices(whole).sum(axis=0) % 2, *ends)
        elif case == "zero":
            codes = rng.choice(np.flatnonzero(values == 0), whole)
        elif case == "sparse":
            codes = np.where(rng.random(whole) < 0.8, zero, codes)
        scales = self._scales(rng, (lines, blocks), case, self.scale)
        minima = None
        if self.minimum:
            minima = self._scales(rng, (lines, blocks), case, SCALES[self.minimum.name])
        if case == "special":
            none = [not math.isfinite(v) and not self._is_none(v) for v in self.element.values]
            if any(none):
                drawn = rng.choice(np.flatnonzero(none), whole)
                codes = np.where(rng.random(whole) < 0.2 / self.block, drawn, codes)
            codes = np.where(rng.random((lines, blocks, 1)) < 0.1, zero, codes)
        chosen = rng.integers(0, self.choices, (lines, blocks)).astype(np.uint8)
        return self.from_lines(Lines(codes, scales, chosen, minima), k)

    def _scales(
        self, rng: np.random.Generator, shape: tuple[int, int], case: str, scale: Scale
    ) -> Array:
        """Return bit patterns of scales, or of minima."""
        patterns = np.arange(1 << min(scale.width, 16), dtype=np.int64)
        patterns = (patterns << (scale.width - 16) if scale.width > 16 else patterns).astype(
            scale.dtype
        )
        usable = patterns[np.isfinite(scale.decode(patterns))]
        if case in ("lowest", "highest"):
            return np.full(shape, usable[scale.decode(usable).argmax()])
        near = scale.decode(usable)
        moderate = usable[(np.abs(near) >= 0.25) & (np.abs(near) <= 16)]
        drawn = np.where(
            rng.random((shape[0], 1)) < 0.5, rng.choice(usable, shape), rng.choice(moderate, shape)
        )
        if case == "special":
            none = patterns[~np.isfinite(scale.decode(patterns))]
            extremes = [usable[near.argmin()], usable[near.argmax()], usable[np.abs(near).argmin()]]
            pool = np.concatenate([none[:1], none[-1:], extremes]).astype(drawn.dtype)
            chance = min(0.2, 1.0 / shape[1])
            drawn = np.where(rng.random(shape) < chance, rng.choice(pool, shape), drawn)
            if len(none) and shape[0] > 2:  # one at least, and lines without
                drawn[rng.integers(shape[0]), rng.integers(shape[1])] = none[0]
        return drawn


def is_block(fmt: Format) -> TypeGuard[BlockFormat]:
    """Return whether a format is one of blocks."""
    return fmt.is_block


def subnormal_exponent(fields: tuple[int, int]) -> int:
    """Return the exponent of the last bit of subnormal numbers, of exponent and mantissa bits."""
    exponent_bits, mantissa_bits = fields
    return 1 - max((1 << exponent_bits - 1) - 1, 0) - mantissa_bits


def _float_fields(element: Element) -> tuple[int, int] | None:
    """Return exponent and mantissa bits of an element in floating point, None of others."""
    for exponent_bits in range(1, _WIDEST_EXPONENT + 1):
        mantissa_bits = element.width - 1 - exponent_bits
        if 0 <= mantissa_bits <= 3:
            other = float_element(exponent_bits, mantissa_bits).values
            same = (
                a == b or (a != a and b != b) for a, b in zip(element.values, other, strict=True)
            )
            if all(same):
                return exponent_bits, mantissa_bits
    return None


@cache
def _integers(fmt: BlockFormat) -> NDArray[np.float64]:
    """Return the integers of all codes, a row for each choice of the special number."""
    tables = np.ldexp(np.array([element.values for element in fmt.elements]), -fmt.unit)
    tables.flags.writeable = False
    return np.asarray(tables)
