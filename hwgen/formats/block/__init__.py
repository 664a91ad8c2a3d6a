# SPDX-License-Identifier: Apache-2.0
"""Block formats: their description, quantisation, and images."""

from hwgen.formats.block.elements import Element, element
from hwgen.formats.block.image import arranged, image_bytes, pack_blocks, unpack_blocks
from hwgen.formats.block.model import BlockFormat, Blocks
from hwgen.formats.block.quantise import error_of, quantise_blocks
from hwgen.formats.block.scales import SCALES, Scale

__all__ = [
    "SCALES",
    "BlockFormat",
    "Blocks",
    "Element",
    "Scale",
    "arranged",
    "element",
    "error_of",
    "image_bytes",
    "pack_blocks",
    "quantise_blocks",
    "unpack_blocks",
]
