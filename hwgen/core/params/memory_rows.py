# SPDX-License-Identifier: Apache-2.0
"""Layout of operands in an engine: rows of items in memory, words of beats in a buffer.

An *item* is what memory has together: an element, or, in a block format, a block as
``hwgen pack --format`` writes it, its scale and elements.  Of a block a core takes several beats,
or one of several blocks; which bit of a beat is which of an item is known beforehand, so that the
way from memory to the buffer has wires in another order and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING

from hwgen.formats import Format
from hwgen.formats.block import BlockFormat, is_block

if TYPE_CHECKING:
    from hwgen.formats.block.lanes import BlockLanes


@dataclass(frozen=True)
class OperandRows:
    """Rows of an operand.

    Parameters
    ----------
    item_bytes, item_bits : int
        Bytes of an item in memory; bits of it that are kept, the lowest ones.
    item_terms : int
        Terms of the reduction in an item, or columns.
    items, beats : int
        Items and beats in a word of the buffer; beats are a power of two.
    beat_bits : int
        Bits of a beat of one row.
    order : tuple of (int or None), optional
        For each bit of a word's beats, the bit of the items that it is, None of one that is 0;
        without it they are the same.
    stored_bits : int
        Bits of a word of a core of several formats: it holds items as they lie in memory, and the
        format of a job says which of their bits are a beat.  0 of others, which hold beats.
    """

    item_bytes: int
    item_bits: int
    item_terms: int
    items: int
    beats: int
    beat_bits: int
    order: tuple[int | None, ...] | None = None
    stored_bits: int = 0

    @property
    def word_bits(self) -> int:
        """Bits of a word of the buffer."""
        return self.stored_bits or self.beats * self.beat_bits

    @property
    def word_bytes(self) -> int:
        """Bytes in memory of what a word holds."""
        return self.items * self.item_bytes


def fill(memory_bytes: int, beat_bytes: int) -> int:
    """Return the number of beats that a beat of the memory fills, a power of two."""
    return 1 << (-(-memory_bytes // beat_bytes) - 1).bit_length()


def group_beats(fmt: Format, lanes: BlockLanes) -> int:
    """Return the beats of the fewest items that make whole beats."""
    return lcm(lanes.depth, fmt.item_terms) // lanes.depth


def rows_of_formats(
    formats: Sequence[tuple[Format, BlockLanes]], memory_bytes: int
) -> tuple[OperandRows, ...]:
    """Return the rows of an operand of a core of several formats, in each of them.

    Words are equally long in all formats; of short blocks they hold several, as far as these take
    hardly more than the longest of others.

    Parameters
    ----------
    formats : sequence of (Format, BlockLanes)
    memory_bytes : int
        Of a beat of the memory.
    """
    # The number of a format is a job's, and not among the bits of its items.
    unnumbered = [(fmt, replace(lanes, mode=0)) for fmt, lanes in formats]
    result = [rows_of_lanes(fmt, lanes, memory_bytes) for fmt, lanes in unnumbered]
    most = max(rows.word_bytes for rows in result) * 17 // 16
    for number, (fmt, lanes) in enumerate(unnumbered):
        while 2 * result[number].word_bytes <= most:
            result[number] = rows_of_lanes(fmt, lanes, 2 * result[number].word_bytes)
    stored_bits = 8 * max(rows.word_bytes for rows in result)
    return tuple(replace(rows, stored_bits=stored_bits) for rows in result)


def rows_of_lanes(fmt: Format, lanes: BlockLanes, memory_bytes: int) -> OperandRows:
    """Return the rows of an operand whose beats are lanes of a core that multiplies blocks.

    Parameters
    ----------
    fmt : Format
    lanes : BlockLanes
        Of one row of A, or one column of W.
    memory_bytes : int
        Of a beat of the memory; a word holds at least as many.
    """
    beats = group_beats(fmt, lanes)
    items = beats * lanes.depth // fmt.item_terms
    groups = fill(memory_bytes, items * fmt.item_bytes)
    return OperandRows(
        fmt.item_bytes,
        fmt.item_bits,
        fmt.item_terms,
        groups * items,
        groups * beats,
        lanes.width,
        _order(fmt, lanes, groups * items) if is_block(fmt) else None,
    )


def _order(fmt: BlockFormat, lanes: BlockLanes, items: int) -> tuple[int | None, ...]:
    """Return the bit of the items for each bit of their beats."""
    import numpy as np

    factor = lanes.factor
    shared, special = factor.shared_width, factor.special_width
    blocks, number = items * fmt.together, fmt.block_bits
    # The bits of a block are counted from 1: those of its scale and minimum, its choice, elements.
    bits = 1 + np.arange(blocks * number).reshape(1, blocks, number)
    head, elements = bits[..., : shared + special], bits[..., shared + special :]
    elements = elements.reshape(1, blocks, fmt.block, factor.width)
    in_memory = fmt.image.arrange(head, elements).reshape(-1)
    in_beats = lanes.arrange(
        elements.reshape(1, -1, factor.width), head[..., :shared], head[..., shared:]
    ).reshape(-1)
    place = np.empty(blocks * number + 1, np.int64)
    place[in_memory] = np.arange(len(in_memory))
    return tuple(int(place[bit]) if bit else None for bit in in_beats)
