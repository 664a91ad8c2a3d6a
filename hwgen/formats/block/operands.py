# SPDX-License-Identifier: Apache-2.0
"""Matrices in block formats as arrays of one element each, as operands of products.

An element is a record of its code and, the same in all elements of a block, the bit pattern of the
scale, which special number or zero point the block has, and of formats with one the minimum.  So an
operand has the shape of its matrix, and its last block may be shorter than the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError
from hwgen.formats.block.model import BlockFormat, Blocks
from hwgen.formats.block.quantise import quantise_blocks
from hwgen.formats.block.scales import SCALES, Scale
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class BlockOperand:
    """A block format as the format of an operand.

    Parameters
    ----------
    format : BlockFormat

    Attributes
    ----------
    name : str
    width : int
        Bits of an element, without its share of what a block has.
    signed : bool
        True.
    dtype, file_dtype : numpy.dtype
        Type of the records.
    specials : tuple of str
        That there are some: scales and elements that are no numbers.
    """

    format: BlockFormat

    @property
    def name(self) -> str:
        """Name of the format."""
        return self.format.name

    def __str__(self) -> str:
        return self.name

    @property
    def width(self) -> int:
        """Bits of an element."""
        return self.format.element.width

    @property
    def signed(self) -> bool:
        """Whether there are negative numbers."""
        return True

    @property
    def specials(self) -> tuple[str, ...]:
        """What arithmetic treats differently from all other values."""
        return ("scale", "element")

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the records."""
        fields = [("code", "u1"), ("scale", self.format.scale.dtype), ("special", "u1")]
        if self.format.minimum:
            fields.append(("minimum", self.format.minimum.bits_dtype))
        return np.dtype(fields)

    @property
    def file_dtype(self) -> np.dtype[Any]:
        """NumPy's type in files."""
        return self.dtype

    def check(self, values: NDArray[Any]) -> None:
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
        unusable = [c for c, v in enumerate(self.format.element.values) if self._is_none(v)]
        wrong = (values["code"] >= codes) | np.isin(values["code"], unusable)
        wrong |= values["special"] >= self.format.choices
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"{list(first)} has the code {int(values['code'][first])} (special number"
                f" {int(values['special'][first])}), which is none of {self}"
            )

    def _is_none(self, value: float) -> bool:
        """Whether a code with this value is none: of elements that are integers."""
        return math.isnan(value) and not self._has_floats

    @cached_property
    def _has_floats(self) -> bool:
        from hwgen.formats.block.factors import Factor

        return Factor(self.format).fields is not None

    def lines(
        self, values: NDArray[Any], blocks: int
    ) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.uint8]]:
        """Return codes, scales and choices of lines, the last blocks filled with zeros.

        Parameters
        ----------
        values : ndarray, shape (lines, k)
            Records; blocks run along a line.
        blocks : int
            Blocks to fill a line up to.

        Returns
        -------
        ndarray, shape (lines, blocks, length), and two of shape (lines, blocks)

        Raises
        ------
        InputError
            If the elements of a block differ in what they share.
        """
        from hwgen.formats.block.factors import Factor

        length = self.format.block
        count, k = values.shape
        scales, chosen = (self._shared(values, blocks, name) for name in ("scale", "special"))
        codes = np.full((count, blocks * length), Factor(self.format).zero_code, np.uint8)
        if self.format.zero_width:  # what fills a block is zero
            codes[:] = np.repeat(chosen, length, axis=1)
        codes[:, :k] = values["code"]
        return codes.reshape(count, blocks, length), scales, chosen

    def minima(self, values: NDArray[Any], blocks: int) -> NDArray[Any] | None:
        """Return the minima of the blocks of `lines`, None of formats without."""
        return self._shared(values, blocks, "minimum") if self.format.minimum else None

    def _shared(self, values: NDArray[Any], blocks: int, name: str) -> NDArray[Any]:
        """Return what the elements of blocks share, shape (lines, blocks)."""
        length = self.format.block
        count, k = values.shape
        first = values[name][:, ::length]
        spread = np.repeat(first, length, axis=1)[:, :k]
        if (spread != values[name]).any():
            line, place = (int(i) for i in np.argwhere(spread != values[name])[0])
            raise InputError(
                f"the elements of block {place // length} of line {line} have different"
                f" {name}s; a block of {self} has one"
            )
        whole = np.zeros((count, blocks), values[name].dtype)
        whole[:, : first.shape[1]] = first
        return whole

    def records(
        self,
        codes: NDArray[Any],
        scales: NDArray[Any],
        chosen: NDArray[Any] | None,
        k: int,
        minima: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return records of lines, shape (lines, k), the inverse of `lines` and `minima`."""
        length = self.format.block
        result = np.zeros((len(codes), k), self.dtype)
        result["code"] = codes.reshape(len(codes), -1)[:, :k]
        result["scale"] = np.repeat(scales, length, axis=1)[:, :k]
        if chosen is not None:
            result["special"] = np.repeat(chosen, length, axis=1)[:, :k]
        if minima is not None:
            result["minimum"] = np.repeat(minima, length, axis=1)[:, :k]
        return result

    def quantised(self, lines: NDArray[np.floating]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return records of lines of numbers, shape (lines, k), and the second scales.

        Raises
        ------
        InputError
            If the format cannot hold the numbers.
        """
        blocks: Blocks = quantise_blocks(lines.T, self.format)
        k = lines.shape[1]
        records = self.records(blocks.codes, blocks.scales, blocks.chosen, k, blocks.minima)
        return records, blocks.second

    def decode(self, lines: NDArray[Any], second: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the numbers of records of lines, shape (lines, k)."""
        count, k = lines.shape
        number = -(-k // self.format.block)
        codes, scales, chosen = self.lines(lines, number)
        which = chosen if self.format.special_width else None
        minima = self.minima(lines, number)
        blocks = Blocks(self.format, (k, count), codes, scales, minima, which, second)
        return blocks.decode().T

    def random(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[Any]:
        """Return lines of finite numbers with scales of all magnitudes; see `sample`."""
        return self.sample(rng, shape, "random")

    def sample(self, rng: np.random.Generator, shape: tuple[int, int], kind: str) -> NDArray[Any]:
        """Return records of lines, shape (lines, k).

        Parameters
        ----------
        rng : numpy Generator
        shape : (lines, k)
        kind : str
            ``random``: some lines with moderate scales, some with any; ``lowest``, ``highest``: all
            elements at that end; ``alternating`` between the ends; ``zero``; ``sparse``: mostly
            zero; ``special``: among random blocks some with scales or elements that are no
            numbers, with the smallest and largest scales, or of zeros.
        """
        fmt, (lines, k) = self.format, shape
        blocks = -(-k // fmt.block)
        values = np.array(fmt.element.values)
        finite = np.flatnonzero(np.isfinite(values))
        zero = int(np.flatnonzero(values == 0)[0])
        ends = finite[values[finite].argmin()], finite[values[finite].argmax()]
        whole = (lines, blocks, fmt.block)
        codes = rng.choice(finite, whole)
        if kind in ("lowest", "highest"):
            codes = np.full(whole, ends[kind == "highest"])
        elif kind == "alternating":
            codes = np.where(np.indices(whole).sum(axis=0) % 2, *ends)
        elif kind == "zero":
            codes = rng.choice(np.flatnonzero(values == 0), whole)
        elif kind == "sparse":
            codes = np.where(rng.random(whole) < 0.8, zero, codes)
        scales = self._scales(rng, (lines, blocks), kind, fmt.scale)
        minima = None
        if fmt.minimum:
            minima = self._scales(rng, (lines, blocks), kind, SCALES[fmt.minimum.name])
        if kind == "special":
            none = [not math.isfinite(v) and not self._is_none(v) for v in fmt.element.values]
            if any(none):
                drawn = rng.choice(np.flatnonzero(none), whole)
                codes = np.where(rng.random(whole) < 0.2 / fmt.block, drawn, codes)
            codes = np.where(rng.random((lines, blocks, 1)) < 0.1, zero, codes)
        chosen = rng.integers(0, fmt.choices, (lines, blocks))
        return self.records(codes, scales, chosen, k, minima)

    def _scales(
        self, rng: np.random.Generator, shape: tuple[int, int], kind: str, scale: Scale
    ) -> NDArray[Any]:
        """Return bit patterns of scales, or of minima."""
        patterns = np.arange(1 << min(scale.width, 16), dtype=np.int64)
        patterns = (patterns << (scale.width - 16) if scale.width > 16 else patterns).astype(
            scale.dtype
        )
        usable = patterns[np.isfinite(scale.decode(patterns))]
        if kind in ("lowest", "highest"):
            return np.full(shape, usable[scale.decode(usable).argmax()])
        near = scale.decode(usable)
        moderate = usable[(np.abs(near) >= 0.25) & (np.abs(near) <= 16)]
        drawn = np.where(
            rng.random((shape[0], 1)) < 0.5, rng.choice(usable, shape), rng.choice(moderate, shape)
        )
        if kind == "special":
            none = patterns[~np.isfinite(scale.decode(patterns))]
            extremes = [usable[near.argmin()], usable[near.argmax()], usable[np.abs(near).argmin()]]
            pool = np.concatenate([none[:1], none[-1:], extremes]).astype(drawn.dtype)
            chance = min(0.2, 1.0 / shape[1])
            drawn = np.where(rng.random(shape) < chance, rng.choice(pool, shape), drawn)
            if len(none) and shape[0] > 2:  # one at least, and lines without
                drawn[rng.integers(shape[0]), rng.integers(shape[1])] = none[0]
        return drawn
