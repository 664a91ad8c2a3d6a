# SPDX-License-Identifier: Apache-2.0
"""Block formats: their description, quantisation, and images."""

from .elements import Element, element
from .image import arranged, image_bytes, pack_blocks, unpack_blocks
from .model import BlockFormat, Blocks
from .quantise import error_of, quantise_blocks
from .scales import SCALES, Scale

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
