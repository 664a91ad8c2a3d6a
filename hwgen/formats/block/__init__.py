# SPDX-License-Identifier: Apache-2.0
"""Block formats: their description, quantisation, images, and exact products."""

from hwgen.formats.block.elements import SCALES, Element, Scale, element
from hwgen.formats.block.format import BlockFormat, is_block
from hwgen.formats.block.matrix import (
    Blocks,
    error_of,
    image_bytes,
    pack_blocks,
    quantise_blocks,
    quantise_lines,
    unpack_blocks,
)

__all__ = [
    "SCALES",
    "BlockFormat",
    "Blocks",
    "Element",
    "Scale",
    "element",
    "error_of",
    "image_bytes",
    "is_block",
    "pack_blocks",
    "quantise_blocks",
    "quantise_lines",
    "unpack_blocks",
]
