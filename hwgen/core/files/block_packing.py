# SPDX-License-Identifier: Apache-2.0
"""Matrices in block formats as images of bytes, with a description that says how to read them.

The description holds the whole format, so that it can be read without the file that defined it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError
from hwgen.formats.block import error_of, pack_blocks, quantise_blocks, unpack_blocks
from hwgen.formats.block.file import FormatFile, document_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.formats.block import BlockFormat, Blocks

FORMAT = "hwgen packed blocks"
VERSION = 1


@dataclass(frozen=True)
class PackedBlocks:
    """A packed matrix.

    Parameters
    ----------
    image : bytes
    description : dict
        What `unpack_matrix` needs and a reader wants to know; plain JSON values.
    blocks : Blocks
    """

    image: bytes
    description: dict[str, Any]
    blocks: Blocks


def pack_matrix(fmt: BlockFormat, weights: NDArray[Any], *, strict: bool = False) -> PackedBlocks:
    """Quantise a matrix to a block format and pack it.

    Parameters
    ----------
    fmt : BlockFormat
    weights : ndarray, shape (K, N)
    strict : bool
        Whether a K that is no multiple of a block is refused.

    Raises
    ------
    InputError
        If the matrix does not fit the format.
    """
    blocks = quantise_blocks(weights, fmt, strict=strict)
    image = pack_blocks(blocks)
    k, n = blocks.shape
    description = {
        "format": FORMAT,
        "version": VERSION,
        "k": k,
        "n": n,
        "block_format": document_of(fmt),
        "bits_per_weight": fmt.bits_per_value,
        "second_scales": [float(scale) for scale in blocks.second] if fmt.second else [],
        "bytes": len(image),
        "sha256": hashlib.sha256(image).hexdigest(),
        "error": error_of(blocks, weights),
    }
    return PackedBlocks(image, description, blocks)


def unpack_matrix(description: Mapping[str, Any], image: bytes) -> NDArray[np.float64]:
    """Return the numbers of a packed matrix, shape (K, N).

    Raises
    ------
    InputError
        If the description is not one, or does not fit the image.
    """
    import numpy as np
    from pydantic import ValidationError

    if description.get("version") != VERSION:
        raise InputError(
            f"the description is of version {description.get('version')!r:.40}, this hwgen reads"
            f" version {VERSION}; pack the weights again"
        )
    k, n = _size(description, "k"), _size(description, "n")
    try:
        fmt = FormatFile.model_validate(description.get("block_format")).format()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"the description's block_format.{where}: {first['msg']}") from None
    if hashlib.sha256(image).hexdigest() != description.get("sha256"):
        raise InputError(
            "the image is not the one described: its SHA-256 differs; pack the weights again"
        )
    second = None
    if fmt.second:
        scales = description.get("second_scales")
        count = n if fmt.second == "column" else 1
        if not isinstance(scales, list) or len(scales) != count:
            raise InputError(f"the description's second_scales must be a list of {count} numbers")
        if not all(type(scale) in (int, float) for scale in scales):
            raise InputError("the description's second_scales must be numbers")
        second = np.array(scales, np.float32)
    return unpack_blocks(image, fmt, (k, n), second).decode()


def _size(description: Mapping[str, Any], name: str) -> int:
    size = description.get(name)
    if type(size) is not int or not 0 < size < 1 << 31:
        raise InputError(f"the description's {name} must be an integer of 1..2147483647")
    return size


def is_blocks(description: Mapping[str, Any]) -> bool:
    """Return whether a description is of a matrix in a block format."""
    return description.get("format") == FORMAT
