# SPDX-License-Identifier: Apache-2.0
"""Sums in single precision that make post-processing difficult, and what is expected of them."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.core.golden.post import apply
from hwgen.core.post import (
    INTEGERS,
    RAW,
    SINGLE,
    Columns,
    PostFeatures,
    PostSettings,
    output_format,
)
from sim_tests.support.floats import corners
from sim_tests.support.post_vectors import SETTINGS, Vectors, draw_settings, rounded

Singles = NDArray[np.float32]


def single_vectors(features: PostFeatures, words: int, lanes: int, seed: int = 0) -> Vectors:
    """Return words whose elements are a mixture of the ways in which things can go wrong."""
    rng = np.random.default_rng(seed)
    settings = [
        draw_settings(
            features, features.outputs[i % len(features.outputs)], partial(_scale, rng), rng
        )
        for i in range(SETTINGS)
    ]
    acc = _sums(words * lanes, rng)
    columns = _columns(acc, rng)
    chosen = rng.integers(0, len(settings), words)
    by_tensor = np.array([s.scale for s in settings], np.float32)[chosen].repeat(lanes)
    of_columns = np.array([s.columns for s in settings])[chosen].repeat(lanes)
    _make_ties(acc, columns, of_columns, by_tensor, rng)
    return Vectors(features, settings, chosen, acc.reshape(words, lanes), columns)


def _make_ties(
    acc: Singles,
    columns: Columns,
    of_columns: NDArray[Any],
    by_tensor: Singles,
    rng: np.random.Generator,
) -> None:
    """Replace some sums by what is scaled to the middle of two small integers."""
    factors = np.where(of_columns, columns.multiplier.view(np.float32), by_tensor)
    halves = (rng.integers(-64, 64, len(acc)) + 0.5).astype(np.float32)
    with np.errstate(all="ignore"):
        sums = halves / factors
        exact = np.isfinite(sums) & (sums * factors == halves)
    made = exact & (rng.random(len(acc)) < 0.25)
    acc[made] = sums[made]
    columns.bias[made] = 0


def _any(count: int, rng: np.random.Generator) -> Singles:
    """Return numbers of all magnitudes, subnormals, zeros, infinities and NaNs among them."""
    patterns = rng.integers(0, 1 << 32, count, np.uint32)
    patterns = np.where(rng.random(count) < 0.3, rng.choice(corners(SINGLE), count), patterns)
    return SINGLE.decode(SINGLE.canonical(patterns.astype(np.uint32)))


def _sums(count: int, rng: np.random.Generator) -> Singles:
    """Return sums: any, moderate ones, and halves of small and large integers."""
    kind = rng.integers(0, 8, count)
    moderate = rng.standard_normal(count) * 2.0 ** rng.integers(-4, 36, count)
    halves = rng.integers(-600, 601, count) / 2 * 2.0 ** rng.integers(-1, 9, count)
    halves = np.where(rng.random(count) < 0.05, -0.0, halves)
    return np.select([kind == 0, kind < 4], [_any(count, rng), halves], moderate).astype("<f4")


def _columns(acc: Singles, rng: np.random.Generator) -> Columns:
    count = len(acc)
    kind = rng.integers(0, 8, count)
    near = np.where(np.isfinite(acc), acc, 1) * rng.choice([-1.0, -0.5, 1e-7, -(2.0**-24)], count)
    small = rng.integers(-40, 41, count) / 2
    zeros = rng.choice([0.0, -0.0], count)
    bias = np.select([kind == 0, kind < 3, kind < 5], [_any(count, rng), near, small], zeros)
    factors = [_factors(count, rng) for _ in range(2)]
    none = rng.integers(0, 64, count).astype(np.uint8)  # nobody looks at them
    bits = [SINGLE.encode(values.astype("<f4")).view(np.int32) for values in (bias, *factors)]
    return Columns(bits[0], bits[1], none, bits[2], none)


def _factors(count: int, rng: np.random.Generator) -> Singles:
    kind = rng.integers(0, 4, count)
    powers = rng.choice([-1.0, 1.0], count) * 2.0 ** rng.integers(-9, 2, count)
    wide = rng.standard_normal(count) * 2.0 ** rng.integers(-60, 20, count)
    return np.select([kind == 0, kind == 1], [_any(count, rng), wide], powers).astype("<f4")


def _scale(rng: np.random.Generator) -> dict[str, float]:
    (scale,) = _factors(1, rng)
    return {"scale": float(scale) if np.isfinite(scale) else 0.25}


def expected(settings: PostSettings, acc: Singles, columns: Columns | None) -> NDArray[Any]:
    """Return the specified numbers, one by one, in NumPy's float32 and Python's fractions."""
    factors = [np.float32(settings.scale), np.float32(settings.slope_scale)]
    result = []
    for i, number in enumerate(acc):
        total = number
        if columns is not None:
            bias, *factors = (
                part[i : i + 1].view(np.float32)[0]
                for part in (columns.bias, columns.multiplier, columns.slope_multiplier)
            )
            with np.errstate(all="ignore"):
                total = number + bias
        negative = bool(np.signbit(total)) and not np.isnan(total)
        if negative and settings.activation == "relu":
            total = np.float32(0)
        factor = factors[negative and settings.activation == "leaky"]
        with np.errstate(all="ignore"):
            scaled = total if settings.output == RAW else total * factor
        result.append(_integer(settings, scaled) if settings.output in INTEGERS else scaled)
    fmt: Any = output_format(settings.output, SINGLE)
    with np.errstate(all="ignore"):
        return np.array(result).astype(fmt.dtype)


def _integer(settings: PostSettings, number: np.float32) -> int:
    low, high = settings.limits
    if np.isnan(number):
        return min(max(settings.zero, low), high)
    if np.isinf(number):
        return high if number > 0 else low
    return rounded(settings, Fraction(float(number)))


def check_singles(drawn: Vectors) -> dict[str, int]:
    """Compare the golden model with `expected`; return how many elements met what."""
    met = dict.fromkeys(("nan", "infinite", "subnormal", "zero", "inside", "low", "high"), 0)
    for index, settings in enumerate(drawn.settings):
        _, acc, columns = drawn.part(index)
        result, wanted = apply(settings, SINGLE, acc, columns), expected(settings, acc, columns)
        same = (result == wanted) | ((result != result) & (wanted != wanted))
        if settings.output in INTEGERS:
            low, high = settings.limits
            met["low"] += int((wanted == low).sum())
            met["high"] += int((wanted == high).sum())
            met["inside"] += int(((wanted > low) & (wanted < high)).sum())
        else:
            same &= (np.signbit(result) == np.signbit(wanted)) | (result != result)
            met["nan"] += int((wanted != wanted).sum())
            met["infinite"] += int(np.isinf(wanted.astype(np.float32)).sum())
            met["zero"] += int((wanted == 0).sum())
            tiny = np.abs(wanted.astype(np.float64)) < np.finfo(np.float32).tiny
            met["subnormal"] += int((tiny & (wanted != 0)).sum())
        assert same.all(), (settings, acc[~same][:3], result[~same][:3], wanted[~same][:3])
    return met
