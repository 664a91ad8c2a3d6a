# SPDX-License-Identifier: Apache-2.0
"""Blocks as bytes, and bytes as blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwgen.formats.arrays import from_bits, to_bits
from hwgen.formats.format import Lines
from hwgen.lazy import np

if TYPE_CHECKING:
    from hwgen.formats.arrays import Array


@dataclass(frozen=True)
class BlockImage:
    """Layout of lines of blocks in memory.

    A block is its scale, its minimum, its choice of a special number or zero point, and its
    elements, each from the least significant bit up, filled with zeros to whole bytes.

    Parameters
    ----------
    block, together : int
        Elements of a block; blocks whose scales stand in front of the elements of all of them.
    halves : bool
        Whether a block's first half is in the low bits of bytes and the second in the high bits.
    element_bits, scale_bits, minimum_bits, choice_bits : int
        Bits of each, 0 of what the format lacks.
    """

    block: int
    together: int
    halves: bool
    element_bits: int
    scale_bits: int
    minimum_bits: int
    choice_bits: int

    @property
    def head_bits(self) -> int:
        """Bits that the elements of a block share."""
        return self.scale_bits + self.minimum_bits + self.choice_bits

    @property
    def block_bits(self) -> int:
        """Bits of a block, before it is filled up to bytes."""
        return self.head_bits + self.block * self.element_bits

    def size(self, lines: int, k: int) -> int:
        """Return the bytes of lines of `k` elements."""
        groups = -(-k // (self.block * self.together))
        return lines * groups * -(-self.block_bits * self.together // 8)

    def pack(self, lines: Lines) -> bytes:
        """Return the bytes of lines; `together` divides their blocks."""
        assert lines.scales is not None
        head = to_bits(lines.scales, self.scale_bits)
        if lines.minima is not None:
            head = np.concatenate([head, to_bits(lines.minima, self.minimum_bits)], axis=-1)
        if lines.chosen is not None and self.choice_bits:
            head = np.concatenate([head, to_bits(lines.chosen, self.choice_bits)], axis=-1)
        bits = self.arrange(head, to_bits(lines.codes, self.element_bits))
        return np.packbits(bits, axis=-1, bitorder="little").tobytes()

    def arrange(self, head: Array, elements: Array) -> Array:
        """Arrange what stands for the bits of blocks in the order of an image, without its filling.

        Parameters
        ----------
        head : ndarray, shape (lines, blocks, bits)
            Of scales, minima and chosen.
        elements : ndarray, shape (lines, blocks, length, bits)

        Returns
        -------
        ndarray, shape (lines, groups, bits)
            A group is `together` blocks.
        """
        if self.halves:
            half = self.block // 2
            elements = np.stack([elements[..., :half, :], elements[..., half:, :]], axis=-2)
        lines, blocks = head.shape[:2]
        groups = (lines, blocks // self.together, -1)
        return np.concatenate([head.reshape(groups), elements.reshape(groups)], axis=-1)

    def unpack(self, image: bytes, lines: int, k: int) -> Lines:
        """Return codes and bit patterns of lines of `k` elements, the inverse of `pack`."""
        groups = -(-k // (self.block * self.together))
        data = np.frombuffer(image, np.uint8).reshape(lines, groups, -1)
        bits = np.unpackbits(data, axis=-1, bitorder="little")
        head = bits[..., : self.head_bits * self.together].reshape(lines, -1, self.head_bits)
        length = self.block * self.element_bits * self.together
        tail = bits[..., self.head_bits * self.together :][..., :length]
        codes = from_bits(tail.reshape(lines, -1, self.block, self.element_bits)).astype(np.uint8)
        if self.halves:
            pairs = codes.reshape(lines, -1, self.block // 2, 2)
            codes = np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1)
        ends = np.cumsum([self.scale_bits, self.minimum_bits])
        scales, minima, chosen = (from_bits(part) for part in np.split(head, ends, axis=-1))
        return Lines(
            codes,
            scales,
            chosen.astype(np.uint8) if self.choice_bits else None,
            minima if self.minimum_bits else None,
        )
