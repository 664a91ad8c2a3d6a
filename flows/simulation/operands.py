# SPDX-License-Identifier: Apache-2.0
"""Operands of simulated jobs, by patterns of values."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from hwgen.core.core import Core
from hwgen.core.operation import Job, Operation, Sizes, lengths_of
from hwgen.core.params.base import FamilyConfig
from hwgen.core.protocols import OperandSource, RoundingCore
from hwgen.formats import NumberFormat
from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import IntegerFormat

PATTERNS = ("random", "lowest", "highest", "opposite", "alternating", "zero", "sparse", "special")
"""Values of operands.

``random`` over the full range; ``lowest``, ``highest``: all at that end of the range; ``opposite``:
the first operand lowest, the second highest; ``alternating`` between the ends; ``zero``, of either
sign if there are two; ``sparse``: mostly zero; ``special``: some of the format's special values, if
it has any, among random ones.
"""


WIDE = "wide"
"""A further pattern: magnitudes of any power of two, of which those of a row are near each other.

Sums of such numbers show every shift and rounding; with it, scalars are as far apart.
"""

TIES = "ties"
"""A further pattern: rows whose results, before they are rounded, are next to a tie.

A tie is halfway between neighbours of the output format.  A wrong low bit anywhere before the
rounding moves such a result to the other neighbour; elsewhere it is rounded away.
"""

MODERATE = "moderate"
"""A further pattern: normally distributed, of any scale from row to row, if numbers are real."""

_CANDIDATES = 8192
"""Rows among which those near ties are chosen, fewer if they are long."""

_CANDIDATE_ELEMENTS = 1 << 17
"""Elements of such rows, at most."""

_TRIALS = 4
"""Scalars that are tried, with a pattern each."""

_TIE_ERROR = 2.0**-22
"""Relative distance from a tie that counts as near: two units in the last place of fp32."""

_NEAR = 14
"""Powers of two within which the magnitudes of a row are."""


def draw_operands(
    core: Core[Any],
    operation: Operation,
    sizes: Sizes,
    pattern: str,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return operands by name, of the distribution of the core if it has one."""
    if isinstance(core, OperandSource):
        return core.draw_operands(
            operation, sizes, "random" if pattern == WIDE else pattern, rng
        )  # fmt: skip
    return {
        tensor.name: draw_array(tensor.format, lengths_of(tensor, sizes), pattern, index, rng)
        for index, tensor in enumerate(operation.operands)
    }


def draw_near_ties(
    core: Core[Any], operation: Operation, sizes: Sizes, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return operands and scalars: of many rows those for which most results are near ties.

    Parameters
    ----------
    core : Core
        That is a `RoundingCore`, too.
    operation : Operation
    sizes : mapping of int
    rng : numpy.random.Generator

    Returns
    -------
    operands : dict of ndarray
        By name.
    scalars : dict of float
        By name.
    """
    seed = int(rng.integers(1 << 32))
    operands, scalars = _near_tie_rows(core, operation.name, tuple(sizes.items()), seed)
    return dict(operands), dict(scalars)


@lru_cache
def _near_tie_rows(
    core: Core[Any], name: str, sizes: tuple[tuple[str, int], ...], seed: int
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    assert isinstance(core, RoundingCore)
    operation, rng = core.select_operation(name), np.random.default_rng(seed)
    axis = operation.sizes[0].name
    rows = dict(sizes)[axis]
    per_row = math.prod(lengths_of(operation.operands[0], {**dict(sizes), axis: 1}))
    count = min(_CANDIDATES, _CANDIDATE_ELEMENTS // per_row)
    many = {**dict(sizes), axis: max(count, rows)}
    best: tuple[int, dict[str, np.ndarray], dict[str, float]] | None = None
    for trial in range(_TRIALS):
        pattern = ("random", WIDE, MODERATE)[trial % 3]
        scalars = draw_scalars(operation, rng, "random" if trial % 2 else WIDE)
        drawn = {
            tensor.name: draw_array(tensor.format, lengths_of(tensor, many), pattern, index, rng)
            for index, tensor in enumerate(operation.operands)
        }
        rounding = core.unrounded(Job(operation, many, scalars), drawn)
        near = np.zeros(many[axis], int)
        if rounding is not None:
            near = _near_ties(*rounding).sum(axis=1)
        chosen = np.argsort(-near, kind="stable")[:rows]
        if best is None or near[chosen].sum() > best[0]:
            operands = {
                tensor.name: drawn[tensor.name][chosen]
                if tensor.shape[0] == axis
                else drawn[tensor.name]
                for tensor in operation.operands
            }
            best = int(near[chosen].sum()), operands, scalars
    assert best is not None
    return best[1:]


def _near_ties(exact: np.ndarray, fmt: NumberFormat) -> np.ndarray:
    """Mark numbers that are rounded to another one if their last bits change."""
    with np.errstate(invalid="ignore", over="ignore"):
        ends = [fmt.nearest(exact * (1 + error)) for error in (-_TIE_ERROR, _TIE_ERROR)]
        near: np.ndarray = np.isfinite(exact) & (ends[0] != ends[1])
    return near


def draw_scalars(
    operation: Operation, rng: np.random.Generator, pattern: str = "random"
) -> dict[str, float]:
    """Return scalars by name, half of them the defaults; of `WIDE`, most are powers apart."""
    scalars = {}
    for scalar in operation.scalars:
        value = scalar.default
        if pattern == WIDE and not scalar.whole:
            drawn = np.float32(rng.uniform(1, 2) * 2.0 ** rng.integers(-16, 9))
            value = float(np.clip(rng.choice((1, -1)) * drawn, scalar.low, scalar.high))
        elif rng.random() < 0.5:
            low, high = max(scalar.low, -8.0), min(scalar.high, 8.0)
            if low < high:
                value = float(np.float32(rng.uniform(low, high)))
            if scalar.whole:
                value = float(rng.integers(int(scalar.low), int(scalar.high), endpoint=True))
        scalars[scalar.name] = value
    return scalars


def draw_matrices(
    config: FamilyConfig, size: tuple[int, int, int], pattern: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return A, shape (m, k), and W, shape (k, n), of a product."""
    m, k, n = size
    return (
        draw_array(config.activation, (m, k), pattern, 0, rng),
        draw_array(config.weight, (k, n), pattern, 1, rng),
    )


def draw_array(
    fmt: Any, shape: tuple[int, ...], pattern: str, index: int, rng: np.random.Generator
) -> np.ndarray:
    """Return numbers of a format for the operand at `index`.

    Blocks run along the rows of the first operand and the columns of the second.
    """
    if fmt.is_block:
        uniform = {WIDE: "random", MODERATE: "random"}
        pattern = {"opposite": ("lowest", "highest")[index], **uniform}.get(pattern, pattern)
        lines: np.ndarray = fmt.sample(rng, shape if index == 0 else shape[::-1], pattern)
        return lines if index == 0 else lines.T
    low, high = fmt.min, fmt.max
    if pattern == WIDE and (fmt.is_integer or fmt.is_float):
        return _wide(fmt, shape, rng)
    if pattern == MODERATE and fmt.is_float:
        scales = 2.0 ** rng.uniform(-5, 5, (*shape[:-1], 1))
        moderate: np.ndarray = fmt.nearest(rng.standard_normal(shape) * scales).astype(fmt.dtype)
        return moderate
    if pattern in ("random", "sparse", "special", WIDE, MODERATE):
        values = fmt.random(rng, shape)
        if pattern == "sparse":
            values[rng.random(shape) < 0.8] = fmt.zero
        elif pattern == "special" and fmt.specials:
            drawn = rng.choice(np.array(fmt.specials), shape).astype(fmt.dtype)
            values = np.where(rng.random(shape) < 0.1, drawn, values)
    elif pattern == "alternating":
        values = np.where(np.indices(shape).sum(axis=0) % 2, low, high)
    elif pattern == "zero":
        values = rng.choice([fmt.zero, -fmt.zero], shape)
    else:
        ends = {"lowest": low, "highest": high, "opposite": (low, high)[index % 2]}
        values = np.full(shape, ends[pattern])
    array: np.ndarray = values.astype(fmt.dtype)
    return array


def _wide(
    fmt: IntegerFormat | FloatFormat, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Return numbers whose magnitudes are any power of two, a few of them zero."""
    largest = float(np.log2(float(fmt.max)))
    least = 0.0 if fmt.is_integer else -largest
    centre = rng.uniform(least, largest, (*shape[:-1], 1))
    powers = np.clip(centre + rng.uniform(-_NEAR, _NEAR, shape), least - 1, largest)
    values = rng.choice((1, -1), shape) * 2.0**powers
    values[rng.random(shape) < 0.05] = 0
    if fmt.is_integer:
        array: np.ndarray = np.clip(np.trunc(values), fmt.min, fmt.max).astype(fmt.dtype)
        return array
    rounded: np.ndarray = fmt.decode(fmt.round(values)).astype(fmt.dtype)
    return rounded
