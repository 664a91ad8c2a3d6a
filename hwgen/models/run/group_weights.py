# SPDX-License-Identifier: Apache-2.0
"""Weights in groups as operands of cores whose weights are blocks with scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.formats.block import BlockFormat
from hwgen.formats.block.elements import E8M0_BIAS, E8M0_NAN
from hwgen.formats.format import Lines
from hwgen.formats.registry import block_format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.gguf_blocks import Groups
    from hwgen.models.files.store import Model

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
    if fmt.special_width or fmt.second == "column":
        return "has zero points, special numbers or second scales of columns"
    factor = _factor(fmt)
    elements = np.array([value for value in fmt.element.values if np.isfinite(value)])
    strange = np.setdiff1d(_present(groups.values), elements * factor)
    if len(strange):
        return f"has no element {strange[0] / factor:g}"
    if groups.offsets is not None and fmt.minimum is None:
        return "has no minima, which these weights have beside their scales"
    block_scales = fmt.scale.decode(_scale_bits(fmt, _block_scales(fmt, groups)))
    if not np.array_equal(_whole_scales(fmt, groups, block_scales), groups.scales):
        return f"has scales in {fmt.scale.name}, which hold not all of these"
    if groups.offsets is not None and fmt.minimum is not None:
        wide = groups.offsets.astype(np.float64)
        if not np.array_equal(fmt.minimum.to_float64(fmt.minimum.round(wide)), wide):
            return f"has minima in {fmt.minimum}, which hold not all of these"
    return ""


def tensor_scale(fmt: BlockFormat, groups: Groups) -> float:
    """Return the scale of a tensor that its products are multiplied by outside of a core."""
    return groups.tensor_scale if fmt.second == "tensor" else 1.0


def _present(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values of an array."""
    if values.dtype != np.int8:
        return np.unique(values)
    counts = np.bincount(np.ascontiguousarray(values).view(np.uint8).ravel(), minlength=256)
    return np.flatnonzero(counts).astype(np.uint8).view(np.int8)


def _block_scales(fmt: BlockFormat, groups: Groups) -> NDArray[np.float64]:
    """Return the scales of blocks, of elements that the format has, without that of the tensor."""
    return groups.scales.astype(np.float64) * _factor(fmt) / tensor_scale(fmt, groups)


def _whole_scales(
    fmt: BlockFormat, groups: Groups, block_scales: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the inverse of `_block_scales`, rounded to single precision."""
    whole: NDArray[np.float32] = (
        block_scales / _factor(fmt) * np.float32(tensor_scale(fmt, groups))
    ).astype(np.float32)
    return whole


def _factor(fmt: BlockFormat) -> int:
    """Return the integer that weights of the smallest magnitude above 0 have, elements times it.

    `Groups` hold integers: of E2M1, whose smallest number is 0.5, twice the elements.
    """
    positive = [value for value in fmt.element.values if np.isfinite(value) and value > 0]
    return max(1, round(1 / min(positive)))


def _scale_bits(fmt: BlockFormat, scales: NDArray[np.float64]) -> NDArray[Any]:
    """Return bit patterns of the scales nearest to some; of powers of two the next lower ones."""
    result: NDArray[Any]
    if fmt.scale.name != "e8m0":
        result = fmt.scale.round(scales)
    else:
        _, exponents = np.frexp(scales)
        result = np.clip(exponents - 1 + E8M0_BIAS, 0, E8M0_NAN - 1).astype(np.uint8)
    return result


def suggested(groups: Groups) -> str:
    """Return the name of a format that holds weights as they are, an empty text if none does."""
    length = groups.values.shape[1] // groups.scales.shape[1]
    sizes = [size for size in (length, 32, 16) if size <= _LONGEST]
    names: list[str] = []
    fours = ("q4_0", "q4_1", "mxfp4", "nvfp4")
    for kind, others in (("ternary", ()), ("int4", fours), ("int8", ("q8_0",))):
        names += [f"{kind}_g{size}" for size in sizes]
        if kind != "ternary":
            names += [f"{kind}_g{size}_min" for size in sizes]
        names += others
    for name in names:
        if not misfit(block_format(name), groups):
            return name
    return ""


def difference(model: Model, core: FamilyConfig) -> str:
    """Compare the weights of a quantised model with those that a core multiplies by.

    Parameters
    ----------
    model : Model
    core : FamilyConfig
        One that multiplies matrices.

    Returns
    -------
    str
        The difference; empty if the first product's weights are as the core has them, or no
        integers yet.
    """
    node = next((each for each in model.description.nodes if each.operation == "gemm"), None)
    groups = model.groups(node.inputs["weights"]) if node is not None else None
    weight: Any = getattr(core, "weight", None)
    if groups is None or weight is None:
        return ""
    low, high = int(groups.values.min()), int(groups.values.max())
    if groups.scales.shape[1] == 1 or (groups.scales == groups.scales[:, :1]).all():
        fits = weight.is_integer and weight.min <= low and weight.max >= high
        shape, name = "", ""
    else:
        fits = weight.is_block and not misfit(weight, groups)
        shape = f" in groups of {groups.values.shape[1] // groups.scales.shape[1]}"
        name = suggested(groups)
    if fits:
        return ""
    better = f"; a core with weight: {name} has them as they are" if name else ""
    return (
        f"weights of the model are {low}..{high}{shape}; {core.name} multiplies by {weight}, and"
        f" times and traffic are those of {weight}{better}"
    )


def records(fmt: BlockFormat, groups: Groups) -> NDArray[Any]:
    """Return weights as an operand of a format that fits, shape (k, n); see `misfit`."""
    rows, k = groups.values.shape
    factor = _factor(fmt)
    values = np.array(fmt.element.values) * factor
    codes = np.zeros(groups.values.shape, np.uint8)
    if groups.values.dtype == np.int8:
        table = np.zeros(256, np.uint8)  # one look-up instead of a comparison for each value
        for code, value in enumerate(values):
            if np.isfinite(value) and value == round(value) and -128 <= value <= 127:
                table[int(value) & 255] = code
        codes = table[np.ascontiguousarray(groups.values).view(np.uint8)]
    else:
        for code, value in enumerate(values):
            codes[groups.values == value] = code
    again = k // groups.scales.shape[1] // fmt.block

    minima = None
    if fmt.minimum:
        offsets = np.zeros_like(groups.scales) if groups.offsets is None else groups.offsets
        minima = np.repeat(fmt.minimum.round(offsets.astype(np.float64)), again, axis=1)
    bits = _scale_bits(fmt, _block_scales(fmt, groups))
    scales = np.repeat(bits, again, axis=1)
    lines = Lines(codes.reshape(rows, -1, fmt.block), scales, minima=minima)
    return np.ascontiguousarray(fmt.from_lines(lines, k).T)
