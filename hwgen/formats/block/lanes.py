# SPDX-License-Identifier: Apache-2.0
"""Lanes of beats: what a beat holds of a row of A or a column of W in blocks.

From the least significant bit up: codes, a part of the scale and the minimum behind it, and which
special number or zero point the block has.  Where a block takes several beats its scale and minimum
are spread over them, equal parts, the low ones first; the special number or zero point is in each
of them, as elements depend on it.  Where a beat holds several blocks there is a scale and a choice
for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwgen.formats.arrays import from_bits, to_bits
from hwgen.formats.block.factors import Factor
from hwgen.formats.format import Format, Lines
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array

    Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class BlockLanes:
    """A lane of a beat.

    Parameters
    ----------
    factor : Factor
    length : int
        Elements of a block.
    depth : int
        Elements in a beat: a divisor or a multiple of `length`.
    serial : bool
        Whether processing elements take its elements term by term.
    mode, mode_bits, whole : int
        Of a datapath of several formats: the number of this one, its bits, the highest of a lane,
        and all bits of a lane, as many as the longest takes; 0 of others.
    """

    factor: Factor
    length: int
    depth: int
    serial: bool = False
    mode: int = 0
    mode_bits: int = 0
    whole: int = 0

    @property
    def beats(self) -> int:
        """Beats of a block, 1 if a beat holds several."""
        return max(1, self.length // self.depth)

    @property
    def blocks(self) -> int:
        """Blocks in a beat, 1 if a block takes several."""
        return max(1, self.depth // self.length)

    @property
    def scale_part(self) -> int:
        """Bits of a beat for the scale of a block and its minimum."""
        return -(-self.factor.shared_width // self.beats)

    @property
    def width(self) -> int:
        """Bits of a lane."""
        return self.whole or self._used

    @property
    def _used(self) -> int:
        """Bits of a lane without the number of a format and what fills it up."""
        shared_bits = self.blocks * (self.scale_part + self.factor.special_width)
        return self.depth * self.factor.width + shared_bits

    @property
    def words(self) -> str:
        """Description of the contents of a lane."""
        count = f"{self.blocks} x " if self.blocks > 1 else ""
        parts = [f"{self.depth} x {self.factor.width} bits of elements"]
        if self.scale_part:
            share = "" if self.beats == 1 else f", 1/{self.beats} of it"
            what = "scale" if self.factor.minimum is None else "scale and minimum"
            parts.append(f"{count}{self.scale_part} bits of {what}{share}")
        if self.factor.special_width:
            what = "zero point" if self.factor.zero_width else "special number"
            parts.append(f"{count}{self.factor.special_width} bits of {what}")
        if self.whole:
            parts.append(f"{self.mode_bits} highest bits of the format's number, {self.mode}")
        return " + ".join(parts)

    def steps(self, k: int) -> int:
        """Return the beats of a reduction: whole blocks."""
        return -(-k // max(self.length, self.depth)) * self.beats

    # -- packing ---------------------------------------------------------------------------

    def pack(self, fmt: Format, lines: Array) -> Bits:
        """Return the bits of lanes.

        Parameters
        ----------
        fmt : Format
            The format of the operand.
        lines : ndarray, shape (lines, k)
            What it says an operand is, blocks along the last axis.

        Returns
        -------
        ndarray of 0 and 1, shape (lines, beats of a reduction, width)
        """
        whole = self.steps(lines.shape[1]) * self.depth
        codes, scales, chosen, minima = fmt.lines(lines, whole // self.length, self.length)
        shared = special = None
        if scales is not None and chosen is not None:
            shared = to_bits(scales, self.factor.scale_width)
            if minima is not None:
                shared = np.concatenate([shared, to_bits(minima, fmt.minimum_width)], axis=-1)
            special = to_bits(chosen, self.factor.special_width)
        codes = codes.reshape(len(codes), whole)
        return self.arrange(to_bits(codes, self.factor.width), shared, special)

    def arrange(
        self,
        elements: Array,
        shared: Array | None = None,
        special: Array | None = None,
    ) -> Array:
        """Arrange what stands for the bits of lines in the order of lanes, zeros where none is.

        Parameters
        ----------
        elements : ndarray, shape (lines, k, bits)
            Whole steps of them.
        shared, special : ndarray, shape (lines, blocks, bits), optional
            Of scales and minima; of choices.

        Returns
        -------
        ndarray, shape (lines, beats, width)
        """
        count, k, _ = elements.shape
        steps = k // self.depth
        parts = [elements.reshape(count, steps, -1)]
        if shared is not None:
            padding = self.scale_part * self.beats - self.factor.shared_width
            padded = np.pad(shared, ((0, 0), (0, 0), (0, padding)))
            parts.append(padded.reshape(count, steps, -1))
        if special is not None:
            parts.append(np.repeat(special, self.beats, axis=1).reshape(count, steps, -1))
        if self.whole:
            filled = np.zeros((count, steps, self.whole - self._used), elements.dtype)
            filled[..., -self.mode_bits :] = to_bits(np.array(self.mode), self.mode_bits)
            parts.append(filled)
        return np.concatenate(parts, axis=-1)

    def unpack(self, fmt: Format, bits: Bits, k: int) -> Array:
        """Return lines, shape (lines, k), from what `pack` made of them."""
        count, steps, _ = bits.shape
        ends = np.cumsum([self.depth * self.factor.width, self.blocks * self.scale_part])
        elements, shared, special = np.split(bits[..., : self._used], ends, axis=-1)
        codes = from_bits(elements.reshape(count, -1, self.length, self.factor.width))
        if fmt.scale is None:
            return fmt.from_lines(Lines(codes), k)
        blocks = codes.shape[1]
        shared = shared.reshape(count, blocks, self.beats * self.scale_part)
        scales = from_bits(shared[..., : self.factor.scale_width])
        minima = from_bits(shared[..., self.factor.scale_width : self.factor.shared_width])
        beats = (count, steps * self.blocks, self.factor.special_width)
        chosen = from_bits(special.reshape(beats)[:, :: self.beats]).astype(np.uint8)
        return fmt.from_lines(Lines(codes, scales, chosen, minima if fmt.minimum else None), k)
