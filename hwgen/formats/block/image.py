# SPDX-License-Identifier: Apache-2.0
"""Blocks as bytes, and bytes as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError
from hwgen.formats.block.model import BlockFormat, Blocks, no_second_scale
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack_blocks(blocks: Blocks) -> bytes:
    """Return the image of a matrix: column by column, block by block.

    A block is its scale, its minimum, its choice of a special number or zero point, and its
    elements, each from the least significant bit up, filled with zeros to whole bytes; see
    `BlockFormat.halves` and `BlockFormat.together`.
    """
    fmt, count = blocks.format, blocks.scales.shape[1]
    if count % fmt.together:
        raise InputError(
            f"{fmt} packs {fmt.together} blocks together, but K = {blocks.shape[0]} has {count}; K"
            f" must be a multiple of {fmt.together * fmt.block}"
        )
    head = _bits(blocks.scales, fmt.scale.width)
    if blocks.minima is not None:
        head = np.concatenate([head, _bits(blocks.minima, fmt.minimum_width)], axis=-1)
    if blocks.chosen is not None:
        head = np.concatenate([head, _bits(blocks.chosen, fmt.special_width)], axis=-1)
    codes = blocks.codes.reshape(*blocks.scales.shape, fmt.block)
    bits = arranged(fmt, head, _bits(codes, fmt.element.width))
    image = np.packbits(bits, axis=-1, bitorder="little")
    return image.tobytes()


def arranged(fmt: BlockFormat, head: NDArray[Any], elements: NDArray[Any]) -> NDArray[Any]:
    """Return what stands for the bits of blocks in the order of an image, without its filling.

    Parameters
    ----------
    fmt : BlockFormat
    head : ndarray, shape (lines, blocks, bits)
        Of scales, minima and choices.
    elements : ndarray, shape (lines, blocks, length, bits)

    Returns
    -------
    ndarray, shape (lines, groups, bits)
        A group is what `BlockFormat.together` says.
    """
    if fmt.halves:
        half = fmt.block // 2
        elements = np.stack([elements[..., :half, :], elements[..., half:, :]], axis=-2)
    lines, blocks = head.shape[:2]
    groups = (lines, blocks // fmt.together, -1)
    return np.concatenate([head.reshape(groups), elements.reshape(groups)], axis=-1)


def _bits(numbers: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return the bits of numbers along a new last axis, the least significant first."""
    places = np.arange(width, dtype=np.uint32)
    return (numbers[..., None].astype(np.uint32) >> places & 1).astype(np.uint8)


def image_bytes(fmt: BlockFormat, shape: tuple[int, int]) -> int:
    """Return the size of the image of a matrix of shape (K, N)."""
    k, n = shape
    groups = -(-k // (fmt.block * fmt.together))
    return n * groups * -(-fmt.block_bits * fmt.together // 8)


def unpack_blocks(
    image: bytes,
    fmt: BlockFormat,
    shape: tuple[int, int],
    second: NDArray[np.float32] | None = None,
) -> Blocks:
    """Return the matrix of an image, the inverse of `pack_blocks`.

    Raises
    ------
    InputError
        If the image has another size than a matrix of that shape.
    """
    k, n = shape
    if len(image) != image_bytes(fmt, shape):
        raise InputError(
            f"an image of {k} x {n} numbers of {fmt} has {image_bytes(fmt, shape)} bytes, this one"
            f" {len(image)}"
        )
    groups = -(-k // (fmt.block * fmt.together))
    data = np.frombuffer(image, np.uint8).reshape(n, groups, -1)
    bits = np.unpackbits(data, axis=-1, bitorder="little")
    beside = fmt.scale.width + fmt.minimum_width + fmt.special_width
    head = bits[..., : beside * fmt.together].reshape(n, -1, beside)
    length = fmt.block * fmt.element.width
    tail = bits[..., beside * fmt.together :][..., : length * fmt.together]
    codes = _numbers(tail.reshape(n, -1, fmt.block, fmt.element.width)).astype(np.uint8)
    if fmt.halves:
        pairs = codes.reshape(n, -1, fmt.block // 2, 2)
        codes = np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1)
    widths = np.cumsum([fmt.scale.width, fmt.minimum_width])
    scales, minima, chosen = (_numbers(part) for part in np.split(head, widths, axis=-1))
    return Blocks(
        fmt,
        (k, n),
        codes,
        scales.astype(fmt.scale.dtype),
        minima.astype(fmt.minimum.bits_dtype) if fmt.minimum else None,
        chosen.astype(np.uint8) if fmt.special_width else None,
        no_second_scale() if second is None else second,
    )


def _numbers(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of bits along the last axis."""
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[-1], dtype=np.int64))
