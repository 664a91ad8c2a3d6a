# SPDX-License-Identifier: Apache-2.0
"""Weights in groups as operands of cores whose weights are blocks with scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.formats.block import BlockFormat
from hwgen.formats.format import Lines
from hwgen.formats.registry import block_format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.files.gguf_blocks import Groups

_LONGEST = 256  # blocks of integers that there are names of


def misfit(fmt: BlockFormat, groups: Groups) -> str:
    """Return why a format cannot hold weights as they are, an empty text if it can.

    Parameters
    ----------
    fmt : BlockFormat
    groups : Groups
    """
    length = groups.values.shape[1] // groups.scales.shape[1]
    if length % fmt.block:
        return f"has blocks of {fmt.block}, which groups of {length} are no multiples of"
    if fmt.special_width or fmt.second:
        return "has zero points, special numbers or second scales"
    finite = [value for value in fmt.element.values if np.isfinite(value)]
    strange = np.setdiff1d(groups.values, np.array(finite))
    if len(strange):
        return f"has no element {int(strange[0])}"
    if groups.offsets is not None and fmt.minimum is None:
        return "has no minima, which these weights have beside their scales"
    for what, numbers, part in (
        ("scales", groups.scales, fmt.scale.floating), ("minima", groups.offsets, fmt.minimum),
    ):  # fmt: skip
        if numbers is None:
            continue
        if part is None:
            return f"has {what} in {fmt.scale.name}"
        wide = numbers.astype(np.float64)
        if not np.array_equal(part.to_float64(part.round(wide)), wide):
            return f"has {what} in {part}, which hold not all of these"
    return ""


def suggested(groups: Groups) -> str:
    """Return the name of a format that holds weights as they are, an empty text if none does."""
    length = groups.values.shape[1] // groups.scales.shape[1]
    sizes = [size for size in (length, 32, 16) if size <= _LONGEST]
    names: list[str] = []
    for kind, others in (("ternary", ()), ("int4", ("q4_0", "q4_1")), ("int8", ("q8_0",))):
        names += [f"{kind}_g{size}" for size in sizes]
        if kind != "ternary":
            names += [f"{kind}_g{size}_min" for size in sizes]
        names += others
    for name in names:
        if not misfit(block_format(name), groups):
            return name
    return ""


def records(fmt: BlockFormat, groups: Groups) -> NDArray[Any]:
    """Return weights as an operand of a format that fits, shape (k, n); see `misfit`."""
    rows, k = groups.values.shape
    values = np.array(fmt.element.values)
    codes = np.zeros(groups.values.shape, np.uint8)
    for code, value in enumerate(values):
        codes[groups.values == value] = code
    again = k // groups.scales.shape[1] // fmt.block

    def spread(numbers: NDArray[Any], part: Any) -> NDArray[Any]:
        bits: NDArray[Any] = part.round(numbers.astype(np.float64))
        return np.repeat(bits, again, axis=1)

    minima = None
    if fmt.minimum:
        offsets = np.zeros_like(groups.scales) if groups.offsets is None else groups.offsets
        minima = spread(offsets, fmt.minimum)
    scales = spread(groups.scales, fmt.scale.floating)
    lines = Lines(codes.reshape(rows, -1, fmt.block), scales, minima=minima)
    return np.ascontiguousarray(fmt.from_lines(lines, k).T)
