# SPDX-License-Identifier: Apache-2.0
"""Matrices in block formats: quantised by the rules of the format, packed and unpacked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from hwgen.errors import InputError
from hwgen.formats.block.elements import E8M0_BIAS, E8M0_NAN, Element
from hwgen.formats.block.format import POWERS, BlockFormat, Rule
from hwgen.formats.format import Lines
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array


def no_second_scale() -> NDArray[np.float32]:
    """Return the second scale of formats without one."""
    return np.ones(1, np.float32)


@dataclass(frozen=True)
class Blocks:
    """A quantised matrix.

    Parameters
    ----------
    format : BlockFormat
    shape : (int, int)
        K and N.
    codes : ndarray of uint8, shape (N, blocks, block)
    scales : ndarray of unsigned int, shape (N, blocks)
        Bit patterns.
    minima : ndarray of unsigned int, shape (N, blocks), or None
        Bit patterns.
    chosen : ndarray of uint8, shape (N, blocks), or None
        Which special number a block has, or its zero point.
    second : ndarray of float32, shape (1,) or (N,)
        Second scales; 1 in formats without any.
    """

    format: BlockFormat
    shape: tuple[int, int]
    codes: NDArray[np.uint8]
    scales: Array
    minima: Array | None = None
    chosen: NDArray[np.uint8] | None = None
    second: NDArray[np.float32] = field(default_factory=no_second_scale)

    @property
    def lines(self) -> Lines:
        """Columns as lines of blocks."""
        return Lines(self.codes, self.scales, self.chosen, self.minima)

    def decode(self) -> NDArray[np.float64]:
        """Return the numbers, shape (K, N), exactly."""
        k, n = self.shape
        values = self.format.numbers(self.lines).reshape(n, -1)[:, :k].T
        return values * self.second.astype(np.float64)


def quantise_blocks(
    weights: NDArray[np.floating],
    fmt: BlockFormat,
    *,
    strict: bool = False,
) -> Blocks:
    """Quantise a matrix to a block format.

    Parameters
    ----------
    weights : ndarray of float, shape (K, N)
    fmt : BlockFormat
    strict : bool
        Whether a K that is no multiple of the block is refused; else zeros fill the last block.

    Raises
    ------
    InputError
        If `weights` is no such matrix, has a number that the format cannot hold (the first is
        named), or K is refused.
    """
    if weights.ndim != 2 or 0 in weights.shape:
        raise InputError(f"must be a matrix of at least 1 x 1, not {weights.shape}")
    if weights.dtype.kind != "f" and weights.dtype.kind not in "iu":
        raise InputError(f"must be numbers, not {weights.dtype}")
    k, n = weights.shape
    if strict and k % fmt.block:
        raise InputError(
            f"K is {k}, no multiple of the {fmt.block} numbers of a block of {fmt}; choose a"
            " multiple, or let zeros fill the last block"
        )
    columns = np.zeros((n, -(-k // fmt.block) * fmt.block))
    columns[:, :k] = weights.T
    blocks = columns.reshape(n, -1, fmt.block)
    finite = np.asarray(np.isfinite(blocks))
    if not fmt.poisoned:
        _refuse(~finite, fmt, weights, "is no number")
    poisoned = ~np.asarray(finite.all(axis=-1))
    blocks = np.where(poisoned[..., None], 0.0, blocks)
    second = _second_scales(blocks, fmt)
    blocks = blocks / second[:, None, None]
    minima, offsets = None, blocks
    if fmt.minimum:
        lowest = blocks.min(axis=-1)
        minima = fmt.minimum.round(lowest)
        rounded = fmt.minimum.to_float64(minima)
        _refuse(~np.isfinite(rounded), fmt, weights, f"is beyond the minima of {fmt.minimum}")
        offsets = blocks - (lowest if fmt.reciprocal else rounded)[..., None]
    if fmt.reciprocal:
        offsets = offsets.astype(np.float32).astype(np.float64)
    if fmt.special:
        codes, scales, chosen = _best_special(offsets, fmt)
    elif fmt.zero_width:
        codes, scales, chosen = _with_zero_points(offsets, fmt)
    else:
        exact, scales = _scales(offsets, fmt, fmt.element)
        codes, chosen = _codes(offsets, exact, scales, fmt, fmt.element), None
    if fmt.poisoned:
        scales = np.where(poisoned, E8M0_NAN, scales).astype(scales.dtype)
    else:
        beyond = ~np.isfinite(fmt.scale.decode(scales))
        _refuse(beyond, fmt, weights, f"needs a scale beyond {fmt.scale.name}")
    return Blocks(fmt, (k, n), codes, scales, minima, chosen, second)


def quantise_lines(
    fmt: BlockFormat, lines: NDArray[np.floating]
) -> tuple[Array, NDArray[np.float32]]:
    """Return records of lines of numbers, shape (lines, k), and the second scales.

    Raises
    ------
    InputError
        If the format cannot hold the numbers.
    """
    blocks = quantise_blocks(lines.T, fmt)
    return fmt.from_lines(blocks.lines, lines.shape[1]), blocks.second


def _refuse(
    wrong: NDArray[np.bool_], fmt: BlockFormat, weights: NDArray[np.floating], why: str
) -> None:
    """Refuse numbers, or blocks: the number of largest magnitude of the first is named."""
    if not wrong.any():
        return
    where = np.argwhere(wrong)[0]
    column, start = int(where[0]), int(where[1]) * fmt.block
    if wrong.ndim == 3:
        row = start + int(where[2])
    else:
        row = start + int(np.abs(weights[start : start + fmt.block, column]).argmax())
    count = int(np.count_nonzero(wrong))
    raise InputError(
        f"[{row},{column}] = {weights[row, column]!s} {why}, which {fmt} cannot hold"
        + (f"; so {'is' if wrong.ndim == 3 else 'do'} {count - 1} more" if count > 1 else "")
    )


def _second_scales(blocks: NDArray[np.float64], fmt: BlockFormat) -> NDArray[np.float32]:
    """Return the scales that make the scale of the largest block the largest there is."""
    if fmt.second is None:
        return no_second_scale()
    largest = np.abs(blocks).max(axis=(1, 2) if fmt.second == "column" else None)
    elements = [fmt.elements_of(i).max for i in range(max(1, len(fmt.special)))]
    with np.errstate(over="ignore"):
        wanted = np.atleast_1d(largest / (min(elements) * fmt.scale.max)).astype(np.float32)
    usable = (wanted > 0) & np.isfinite(wanted)
    return np.where(usable, wanted, 1).astype(np.float32)


def _scales(
    blocks: NDArray[np.float64], fmt: BlockFormat, element: Element
) -> tuple[NDArray[np.float64], Array]:
    """Return the scales of blocks before rounding, and their bit patterns."""
    largest = np.abs(blocks).max(axis=-1)
    if fmt.rule in POWERS:
        exponent = _exponents(largest, fmt.rule, element)
        bits = np.clip(exponent + E8M0_BIAS, 0, E8M0_NAN)
        bits = np.where(largest == 0, 0, bits).astype(np.uint8)
        return fmt.scale.decode(bits), bits
    if fmt.rule == "extreme":
        position = np.abs(blocks).argmax(axis=-1)[..., None]
        wanted = np.take_along_axis(blocks, position, axis=-1)[..., 0] / element.finite[0]
    elif fmt.rule == "mean":
        wanted = np.abs(blocks).mean(axis=-1)
    else:
        wanted = largest / element.max
    if fmt.reciprocal:
        wanted = wanted.astype(np.float32).astype(np.float64)
    return wanted, fmt.scale.round(wanted)


def _exponents(largest: NDArray[np.float64], rule: Rule, element: Element) -> NDArray[np.int64]:
    """Return the exponents of power-of-two scales."""
    if rule == "even":
        mantissa, exponent = np.frexp(largest)
        steps = 1 << _precision(element)
        largest = np.ldexp(np.round(mantissa * steps) / steps, exponent)
    if rule == "rceil":
        mantissa, exponent = np.frexp(largest / element.max)
        # The quotient may be rounded down to a power of two that is too small.
        power = exponent - (mantissa == 0.5)
        short = np.ldexp(element.max, power) < largest
        return np.asarray(power + short, np.int64)
    mantissa, exponent = np.frexp(largest)
    up = (mantissa > 0.5) & (rule == "ceil")
    return np.asarray(exponent - 1 + up - element.emax, np.int64)


def _precision(element: Element) -> int:
    """Return the bits of the significand of large numbers, the leading one included."""
    binade = 2.0**element.emax
    top = [value for value in element.finite if value >= binade]
    steps = [high - low for low, high in pairwise(top)]
    return math.frexp(binade / min(steps))[1] if steps else 1


def _codes(
    blocks: NDArray[np.float64],
    exact: NDArray[np.float64],
    scales: Array,
    fmt: BlockFormat,
    element: Element,
) -> NDArray[np.uint8]:
    """Return the codes of the numbers of blocks with these scales."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if fmt.reciprocal:
            inverse = np.where(exact == 0, np.float32(0), np.float32(1) / exact.astype(np.float32))
            products = blocks.astype(np.float32) * inverse[..., None]
            if fmt.rounding == "up" and set(np.diff(element.finite)) == {1.0}:
                # Of integers the half is added in single precision, too.
                lowest = np.float32(element.finite[0])
                products = np.floor(products + (np.float32(0.5) - lowest)) + lowest
            quotients = products.astype(np.float64)
        else:
            divisors = fmt.scale.decode(scales)[..., None]
            quotients = np.where(divisors == 0, 0.0, blocks / divisors)
    limit = element.max
    quotients = np.clip(np.nan_to_num(quotients, nan=0.0), -2 * limit, 2 * limit)
    return element.encode(quotients, fmt.rounding)


def _best_special(
    blocks: NDArray[np.float64], fmt: BlockFormat
) -> tuple[NDArray[np.uint8], Array, NDArray[np.uint8]]:
    """Return codes, scales and choices: of the special numbers that with the least square error."""
    tried = []
    for number in range(len(fmt.special)):
        element = fmt.elements_of(number)
        exact, scales = _scales(blocks, fmt, element)
        codes = _codes(blocks, exact, scales, fmt, element)
        values = element.decode(codes) * fmt.scale.decode(scales)[..., None]
        tried.append((codes, scales, ((values - blocks) ** 2).sum(axis=-1)))
    chosen = np.argmin([error for *_, error in tried], axis=0).astype(np.uint8)
    codes = np.choose(chosen[..., None], [codes for codes, *_ in tried])
    scales = np.choose(chosen, [scales for _, scales, _ in tried])
    return codes.astype(np.uint8), scales.astype(tried[0][1].dtype), chosen


def _with_zero_points(
    blocks: NDArray[np.float64], fmt: BlockFormat
) -> tuple[NDArray[np.uint8], Array, NDArray[np.uint8]]:
    """Return codes, scales and zero points of blocks, the number zero in the range of each."""
    element = fmt.element
    low, high = np.minimum(blocks.min(axis=-1), 0), np.maximum(blocks.max(axis=-1), 0)
    scales = fmt.scale.round((high - low) / element.max)
    divisors = fmt.scale.decode(scales)[..., None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotients = np.where(divisors == 0, 0.0, blocks / divisors)
        zeros = np.where(divisors[..., 0] == 0, 0.0, -low / divisors[..., 0])
    unit = math.ldexp(1, element.exponent)
    zeros = np.clip(np.rint(np.nan_to_num(zeros) / unit), 0, fmt.choices - 1)
    codes = element.encode(np.nan_to_num(quotients) + (zeros * unit)[..., None], fmt.rounding)
    return codes, scales, zeros.astype(np.uint8)


def error_of(blocks: Blocks, weights: NDArray[np.floating]) -> dict[str, float]:
    """Compute the errors of a quantised matrix.

    Returns
    -------
    dict
        ``qsnr_db``, the signal-to-noise ratio; ``relative_rms``; ``max_abs``.  Of finite numbers.
    """
    exact = weights.astype(np.float64)
    difference = np.where(np.isfinite(exact), blocks.decode() - exact, 0.0)
    signal = float(np.square(exact[np.isfinite(exact)]).sum())
    noise = float(np.nansum(np.square(difference)))
    return {
        "qsnr_db": 10 * math.log10(signal / noise) if signal and noise else math.inf,
        "relative_rms": math.sqrt(noise / signal) if signal else 0.0,
        "max_abs": float(np.nanmax(np.abs(difference))),
    }


# -- images ----------------------------------------------------------------------------------


def pack_blocks(blocks: Blocks) -> bytes:
    """Return the image of a matrix: column by column, block by block; see `BlockImage`."""
    fmt, count = blocks.format, blocks.scales.shape[1]
    if count % fmt.together:
        raise InputError(
            f"{fmt} packs {fmt.together} blocks together, but K = {blocks.shape[0]} has {count}; K"
            f" must be a multiple of {fmt.together * fmt.block}"
        )
    return fmt.image.pack(blocks.lines)


def image_bytes(fmt: BlockFormat, shape: tuple[int, int]) -> int:
    """Return the size of the image of a matrix of shape (K, N)."""
    k, n = shape
    return fmt.image.size(n, k)


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
    lines = fmt.unpack(image, n, k)
    assert lines.scales is not None
    scales = no_second_scale() if second is None else second
    return Blocks(fmt, shape, lines.codes, lines.scales, lines.minima, lines.chosen, scales)
