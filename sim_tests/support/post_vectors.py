# SPDX-License-Identifier: Apache-2.0
"""Accumulators, settings and records that make post-processing difficult, and what is expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.core.golden.post import apply
from hwgen.core.post import (
    FLOATS,
    INTEGERS,
    RAW,
    SINGLE,
    Columns,
    PostFeatures,
    PostSettings,
    output_format,
)
from hwgen.formats import integer
from sim_tests.support.floats import corners

Ints = NDArray[Any]
SETTINGS = 256


@dataclass(frozen=True)
class Vectors:
    """Words for a `Post`, each with one of several settings.

    Parameters
    ----------
    features : PostFeatures
    settings : list of PostSettings
    chosen : ndarray of int, shape (words,)
        Index of a word's settings.
    acc : ndarray of int, or of float32, shape (words, lanes)
    columns : Columns
        Of every lane of every word, one after the other.
    """

    features: PostFeatures
    settings: list[PostSettings]
    chosen: NDArray[np.intp]
    acc: Ints
    columns: Columns

    def inputs(self, lanes_of: int, seed: int = 5) -> dict[str, NDArray[np.uint8]]:
        """Return the inputs of the block as bytes, shape (words, bytes)."""
        words, lanes = self.acc.shape
        assert lanes == lanes_of
        rng = np.random.default_rng(seed)
        fmt = self.features.accumulator
        packed = b"".join(s.packed(fmt).to_bytes(28, "little") for s in self.settings)
        shifts = np.arange(fmt.width, dtype=np.uint64)
        patterns = self.acc.view(np.uint32) if self.features.single else self.acc
        bits = (patterns.astype(np.uint64)[..., None] >> shifts) & np.uint64(1)
        data = np.packbits(bits.astype(np.uint8).reshape(words, -1), axis=-1, bitorder="little")
        result = {
            "settings": np.frombuffer(packed, np.uint8).reshape(-1, 28)[self.chosen],
            "i_data": data,
            "i_count": rng.integers(1, lanes, (words, 1), np.uint8, endpoint=True),
            "i_last": rng.integers(0, 2, (words, 1), np.uint8),
        }
        if self.features.columns:
            result["i_records"] = self.columns.encode().reshape(words, -1)
        return result

    def part(self, index: int) -> tuple[NDArray[np.intp], Ints, Columns | None]:
        """Return the words that have settings `index`, their accumulators, and their columns."""
        rows = np.flatnonzero(self.chosen == index)
        lanes = self.acc.shape[1]
        if not self.settings[index].columns:
            return rows, self.acc[rows].ravel(), None
        where = (rows[:, None] * lanes + np.arange(lanes)).ravel()
        picked = {name: values[where] for name, values in vars(self.columns).items()}
        return rows, self.acc[rows].ravel(), Columns(**picked)

    def differences(self, data: NDArray[np.uint8]) -> list[str]:
        """Return the differences between results, the bytes of every word, and the golden model."""
        words, lanes = self.acc.shape
        width = self.features.lane_width
        lane = data.view(f"<u{width // 8}").reshape(words, lanes)
        result = []
        for index, settings in enumerate(self.settings):
            rows, acc, columns = self.part(index)
            expected = apply(settings, self.features.accumulator, acc, columns)
            bits = 8 * expected.dtype.itemsize
            wanted = np.ascontiguousarray(expected).view(f"u{bits // 8}")
            if settings.output in INTEGERS:  # sign-extended
                wanted, bits = expected.astype(np.int64).astype(np.uint32), 32
            came = lane[rows].ravel() & ((1 << bits) - 1)
            wrong = np.flatnonzero(came != wanted)
            if wrong.size:
                i = int(wrong[0])
                result.append(
                    f"{wrong.size} of {came.size}: {settings} of {acc[i]} gives"
                    f" {int(came[i]):#x}, not {int(wanted[i]):#x}"
                )
        return result


def vectors(features: PostFeatures, words: int, lanes: int, seed: int = 0) -> Vectors:
    """Return words whose elements are a mixture of the ways in which things can go wrong."""
    rng = np.random.default_rng(seed)
    outputs = [features.outputs[i % len(features.outputs)] for i in range(SETTINGS)]
    settings = [
        draw_settings(features, output, partial(_scale, features, output, rng), rng)
        for output in outputs
    ]
    acc = accumulators(features, words * lanes, rng).reshape(words, lanes)
    chosen = rng.integers(0, len(settings), words)
    floats = np.array([settings[i].output in FLOATS for i in chosen]).repeat(lanes)
    return Vectors(features, settings, chosen, acc, _columns(floats, acc.ravel(), rng))


def accumulators(features: PostFeatures, count: int, rng: np.random.Generator) -> Ints:
    """Return accumulators: of all magnitudes, near powers of two, at the ends, and short ones."""
    fmt: Any = features.accumulator
    dtype = np.int64 if fmt.signed else np.uint64
    wide = rng.integers(0, 1 << 63, count, np.uint64, endpoint=True) * np.uint64(2)
    wide += rng.integers(0, 2, count, np.uint64)
    values = wide.view(dtype)
    values >>= dtype(64 - fmt.width)
    sizes = rng.integers(0, fmt.width, count).astype(dtype)
    kind = rng.integers(0, 8, count)
    # A few significant bits above zeros, for ties.
    short = (values >> dtype(max(0, fmt.width - 7))) << (sizes % dtype(max(1, fmt.width - 7)))
    values = np.select([kind < 3, kind < 6], [values >> sizes, short], values)
    power = np.ones(count, dtype) << np.minimum(sizes, dtype(fmt.width - 1 - fmt.signed))
    near = power + rng.integers(-2, 3, count).astype(dtype)
    if fmt.signed:
        near = np.where(rng.random(count) < 0.5, -near, near)
    near = np.clip(near, dtype(fmt.min), dtype(fmt.max))
    ends = rng.choice(np.array([fmt.min, fmt.min + 1, fmt.max - 1, fmt.max, 0, 1], dtype), count)
    return np.select([kind == 6, kind == 7], [near, ends], values).astype(dtype)


def draw_settings(
    features: PostFeatures,
    output: str,
    scale: Callable[[], dict[str, Any]],
    rng: np.random.Generator,
) -> PostSettings:
    """Return settings for an output; `scale` draws a scale, by the names of its parts."""
    activations = [a for a in features.activations if a != "leaky" or output != RAW]
    drawn: dict[str, Any] = {
        "activation": str(rng.choice(activations)),
        "columns": features.columns and (not features.tensor or bool(rng.integers(2))),
        "single": features.single,
    }
    if output in INTEGERS:
        fmt = integer(output)
        drawn["rounding"] = str(rng.choice(features.roundings))
        if rng.random() < 0.5:
            drawn["zero"] = int(rng.choice([fmt.min, fmt.max, int(rng.integers(fmt.min, fmt.max))]))
        if rng.random() < 0.3:
            limits = sorted(rng.integers(fmt.min, fmt.max, 2, endpoint=True).tolist())
            drawn |= {"minimum": limits[0], "maximum": limits[1]}
    if output != RAW and not drawn["columns"]:
        for prefix in ("", "slope_") if drawn["activation"] == "leaky" else ("",):
            drawn |= {f"{prefix}{name}": value for name, value in scale().items()}
    return PostSettings(output, **drawn)


def _scale(features: PostFeatures, output: str, rng: np.random.Generator) -> dict[str, Any]:
    if output in FLOATS:
        return {"scale": float(np.float32(rng.standard_normal() * 2.0 ** rng.integers(-60, 20)))}
    largest = int(features.accumulator.max) >> int(rng.integers(0, 64))
    (multiplier,), (shift,) = _scales(np.array([largest], object), rng)
    return {"multiplier": int(multiplier), "shift": int(shift)}


def _scales(acc: Ints, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return multipliers and shifts that bring accumulators near the limits, and others."""
    count = len(acc)
    kind = rng.integers(0, 8, count)
    multiplier = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    # Powers of two and few more bits, for ties.
    few = rng.integers(1, 8, count) << rng.integers(0, 28, count)
    few = np.where(rng.random(count) < 0.5, -few, few)
    ends = rng.choice([-(1 << 31), (1 << 31) - 1, -1, 0, 1], count)
    multiplier = np.select([kind < 3, kind == 7], [few, ends], multiplier)
    bits = np.array([int(a).bit_length() for a in np.abs(acc.astype(object))])
    bits += np.array([int(m).bit_length() for m in np.abs(multiplier)])
    shift = np.clip(bits - rng.integers(-2, 36, count), 0, 63)
    # A tie needs a shift just beyond the lowest bit of the product.
    products = [abs(int(a) * int(m)) for a, m in zip(acc, multiplier, strict=True)]
    lowest = np.array([(p & -p).bit_length() for p in products])
    shift = np.where(kind < 3, np.clip(lowest, 0, 63), shift)
    shift = np.where(rng.random(count) < 0.1, rng.choice([0, 1, 32, 33, 62, 63], count), shift)
    return multiplier.astype(np.int32), shift.astype(np.uint8)


def _columns(floats: NDArray[np.bool_], acc: Ints, rng: np.random.Generator) -> Columns:
    count = len(acc)
    bias = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    bias = np.where(rng.random(count) < 0.4, 0, bias)
    ends = rng.choice([-(1 << 31), (1 << 31) - 1], count)
    bias = np.where(rng.random(count) < 0.05, ends, bias)
    (multiplier, shift), (slope, slope_shift) = (_scales(acc, rng) for _ in range(2))
    edges = corners(SINGLE).astype(np.int64)
    for factors in (multiplier, slope):
        singles = (rng.standard_normal(count) * 2.0 ** rng.integers(-80, 20, count)).astype("<f4")
        patterns = singles.view(np.uint32).astype(np.int64)
        patterns = np.where(rng.random(count) < 0.2, rng.choice(edges, count), patterns)
        factors[floats] = patterns[floats].astype(np.uint32).view(np.int32)
    return Columns(bias.astype(np.int32), multiplier, shift, slope, slope_shift)


def exact(
    settings: PostSettings,
    features: PostFeatures,
    acc: int,
    bias: int,
    factor: int,
    shift: int,
    slope: int,
    slope_shift: int,
) -> Any:
    """Return the specified result, in Python's integers and fractions and NumPy's scalars."""
    total = acc + bias
    if total < 0 and settings.activation == "relu":
        total = 0
    if total < 0 and settings.activation == "leaky":
        factor, shift = slope, slope_shift
    fmt: Any = output_format(settings.output, features.accumulator)
    if settings.output == RAW:
        return min(max(total, fmt.min), fmt.max)
    if settings.output in FLOATS:
        with np.errstate(all="ignore"):
            scale = np.uint32(factor & 0xFFFFFFFF).view(np.float32)
            return (_nearest_single(total) * scale).astype(fmt.dtype)
    return rounded(settings, Fraction(total * factor, 1 << shift))


def rounded(settings: PostSettings, value: Fraction) -> int:
    """Return an integer output of a scaled sum."""
    below = math.floor(value)
    rest, half = value - below, Fraction(1, 2)
    up = {
        "floor": False,
        "half_up": rest >= half,
        "half_away": rest > half or (rest == half and value > 0),
        "half_even": rest > half or (rest == half and below % 2 == 1),
    }[settings.rounding]
    low, high = settings.limits
    return min(max(below + up + settings.zero, low), high)


def _nearest_single(value: int) -> np.float32:
    places = max(0, abs(value).bit_length() - 24)
    return np.float32(np.ldexp(float(round(Fraction(value, 1 << places))), places))


def coverage(drawn: Vectors) -> dict[str, int]:
    """Return the number of elements for each special case of integer outputs."""
    met: dict[str, int] = {}

    def count(name: str, where: Any) -> None:
        met[name] = met.get(name, 0) + int(np.count_nonzero(where))

    for index, settings in enumerate(drawn.settings):
        if settings.output not in INTEGERS:
            continue
        _, acc, columns = drawn.part(index)
        total = acc.astype(object)
        factor: Any = np.array([settings.multiplier])
        shift: Any = np.array([settings.shift])
        slope, slope_shift = np.array([settings.slope_multiplier]), np.array([settings.slope_shift])
        if columns is not None:
            total = total + columns.bias
            factor, shift = columns.multiplier, columns.shift
            slope, slope_shift = columns.slope_multiplier, columns.slope_shift
        negative = (total < 0).astype(bool)
        if settings.activation == "relu":
            count("relu", negative)
            total = np.where(negative, 0, total)
        if settings.activation == "leaky":
            count("leaky", negative)
            factor, shift = (
                np.where(negative, slope, factor),
                np.where(negative, slope_shift, shift),
            )
        product = total * factor.astype(object)
        places = np.broadcast_to(shift, total.shape).astype(object)
        quotient = product >> places
        rest = product - (quotient << places)
        tie = (places > 0) & (2 * rest == (1 << places))
        odd = (quotient & 1).astype(bool)
        rounded = quotient + settings.zero
        low, high = settings.limits
        inside = (rounded > low) & (rounded < high)
        way = settings.rounding
        for sign, of in (("positive", product > 0), ("negative", product < 0)):
            for parity, is_odd in (("odd", odd), ("even", ~odd)):
                count(f"{way}: {sign} tie above an {parity} number", tie & of & is_odd & inside)
        count(f"{settings.output}: too large", rounded > high)
        count(f"{settings.output}: too small", rounded < low)
        count(f"{settings.output}: largest", rounded == high)
        count(f"{settings.output}: smallest", rounded == low)
        for end in (0, 63):
            count(f"shift {end}", (places == end) & (product != 0))
        for end in (-(1 << 31), (1 << 31) - 1):
            count(f"multiplier {end}", np.broadcast_to(factor, total.shape) == end)
    count("lowest accumulator", drawn.acc == drawn.features.accumulator.min)
    count("highest accumulator", drawn.acc == drawn.features.accumulator.max)
    return met
