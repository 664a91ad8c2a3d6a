# SPDX-License-Identifier: Apache-2.0
"""Rows of an operand along the reduction, as an engine reads them from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.formats import FloatFormat
from hwgen.formats.block import Blocks, pack_blocks, unpack_blocks
from hwgen.formats.block.model import no_second_scale
from hwgen.formats.block.operands import BlockOperand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.port import Beats


def packed_rows(fmt: Any, lines: NDArray[Any], whole: int) -> Beats:
    """Return the bytes of rows.

    Parameters
    ----------
    fmt : BlockOperand, IntegerFormat or FloatFormat
    lines : ndarray, shape (lines, k)
    whole : int
        Terms that lines are filled up to with zeros, at least k.

    Returns
    -------
    ndarray of uint8, shape (lines, bytes)
        Of a block format the image of `hwgen.formats.block.pack_blocks`.
    """
    if isinstance(fmt, BlockOperand):
        count = whole // fmt.format.block
        codes, scales, chosen = fmt.lines(lines, count)
        choices = chosen if fmt.format.special_width else None
        minima = fmt.minima(lines, count)
        blocks = Blocks(
            fmt.format, (whole, len(lines)), codes, scales, minima, choices, no_second_scale()
        )
        image = np.frombuffer(pack_blocks(blocks), np.uint8)
    else:
        is_float = isinstance(fmt, FloatFormat)
        dtype = fmt.bits_dtype if is_float else fmt.dtype
        codes = np.zeros((len(lines), whole), dtype.newbyteorder("<"))
        codes[:, : lines.shape[1]] = fmt.encode(lines)
        image = codes.view(np.uint8)
    return image.reshape(len(lines), -1)


def unpacked_rows(fmt: Any, rows: Beats, k: int) -> NDArray[Any]:
    """Return lines, shape (lines, k), from what `packed_rows` made."""
    if isinstance(fmt, BlockOperand):
        count, size = rows.shape
        item = -(-fmt.format.block_bits * fmt.format.together // 8)
        whole = size // item * fmt.format.block * fmt.format.together
        blocks = unpack_blocks(rows.tobytes(), fmt.format, (whole, count))
        return fmt.records(blocks.codes, blocks.scales, blocks.chosen, k, blocks.minima)
    dtype = fmt.bits_dtype if isinstance(fmt, FloatFormat) else fmt.dtype
    values = np.ascontiguousarray(rows).view(dtype.newbyteorder("<"))[:, :k].astype(dtype)
    return fmt.decode(values) if isinstance(fmt, FloatFormat) else values
