# SPDX-License-Identifier: Apache-2.0
"""Formats of rows of activations, keys and values; blocks as `quantise_block` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.formats.block.elements import E8M0_BIAS, MX_BLOCK, mx_powers
from hwgen.formats.floating import FLOATS, SMALL_FLOATS, FloatFormat
from hwgen.formats.format import Lines
from hwgen.formats.registry import block_format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.graph.description import Node

    Reals = NDArray[np.float32]

BLOCK_ROWS = "mxfp8_e4m3"
"""Format of rows in blocks."""

BLOCK = MX_BLOCK
"""Elements of a block."""

ELEMENT = FLOATS["fp8_e4m3"]
"""Format of elements."""

KEY_FORMATS: dict[str, FloatFormat] = {"mxfp8": ELEMENT, "mxfp4": SMALL_FLOATS["fp4_e2m1"]}
"""Formats of elements of keys and values in blocks, by the name of the blocks."""


def row_format(node: Node) -> str:
    """Return the name of the format of the rows that a ``quantise`` makes."""
    return str(node.attributes.get("format") or f"int{node.attributes['bits']}")


def key_format(node: Node) -> str:
    """Return the name of the blocks of keys and values of an attention, empty if there are none."""
    return str(node.attributes.get("key_format") or "")


def round_blocks(x: Reals, element: FloatFormat = ELEMENT) -> Reals:
    """Return the numbers that rows in blocks represent.

    A scale is the power of two by which the largest magnitude of its block fits below the largest
    element.

    Parameters
    ----------
    x : ndarray, shape (rows, k)
        Of whole blocks.
    element : FloatFormat, optional
        Format of their elements.
    """
    blocks = x.reshape(len(x), -1, BLOCK)
    powers = mx_powers(np.abs(blocks).max(axis=2, keepdims=True), element)
    scale = np.ldexp(np.float32(1), powers - E8M0_BIAS)
    elements = element.nearest((blocks / scale).astype(np.float64)).astype(np.float32)
    return np.asarray(elements * scale, np.float32).reshape(x.shape)


def block_operand(elements: NDArray[Any], exponents: NDArray[np.uint8], rows: int) -> NDArray[Any]:
    """Return rows as an operand of a product.

    Parameters
    ----------
    elements : ndarray, shape (rows * blocks, 32)
        As `quantise_block` computes them.
    exponents : ndarray, shape (rows * blocks,)
        Biased ones of the scales.
    rows : int

    Returns
    -------
    ndarray, shape (rows, k)
        Records of the format.
    """
    codes = ELEMENT.encode(elements).astype(np.uint8).reshape(rows, -1, BLOCK)
    lines = Lines(codes, exponents.reshape(rows, -1))
    return block_format(BLOCK_ROWS).from_lines(lines, codes.shape[1] * BLOCK)
