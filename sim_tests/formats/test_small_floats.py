# SPDX-License-Identifier: Apache-2.0
"""Floating-point numbers below 8 bits: their encodings, and products of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flows.build.load import parse_config
from flows.simulation.run import run_product
from hwgen.errors import ConfigError
from hwgen.formats import SMALL_FLOATS, FloatFormat
from sim_tests.support.designs import design_of

FORMATS = pytest.mark.parametrize("fmt", SMALL_FLOATS.values(), ids=str)


@FORMATS
def test_values_are_those_of_ml_dtypes(fmt: FloatFormat) -> None:
    dtype = getattr(ml_dtypes, fmt.dtype_name)
    bits = np.arange(1 << fmt.width, dtype=np.uint8)
    values = bits.view(dtype).astype(np.float64)
    assert np.array_equal(fmt.to_float64(bits), values)
    assert np.array_equal(np.signbit(fmt.to_float64(bits)), np.signbit(values))
    assert np.array_equal(fmt.encode(values), bits)
    assert fmt.max == values.max()
    assert fmt.min == values.min()
    assert not fmt.is_nan(bits).any()


@FORMATS
def test_rounding_is_to_nearest_even_and_saturates(fmt: FloatFormat) -> None:
    dtype = getattr(ml_dtypes, fmt.dtype_name)
    exact = np.sort(fmt.to_float64(np.arange(1 << fmt.width, dtype=np.uint8)))
    halves = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    below, above = (np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf))
    drawn = np.random.default_rng(0).uniform(fmt.min, fmt.max, 10000).astype(np.float32)
    values = np.concatenate([below, halves, above, drawn])
    assert np.array_equal(fmt.encode(values), values.astype(dtype).view(np.uint8))
    assert fmt.to_float64(fmt.encode(np.array([1e9, -1e9, np.inf]))).tolist() == [
        fmt.max,
        fmt.min,
        fmt.max,
    ]


@FORMATS
def test_what_is_no_number_of_the_format_is_refused(fmt: FloatFormat) -> None:
    fmt.check(np.array([[fmt.max, -0.0]], np.float32))
    with pytest.raises(ValueError, match=r"which have no NaN, found one at \(0, 1\)"):
        fmt.check(np.array([[1.0, np.nan]]))
    for value in (fmt.max * 2, np.inf, fmt.max * 0.99):
        with pytest.raises(ValueError, match=f"must be {fmt} numbers, but 1 of 2 are none"):
            fmt.check(np.array([1.0, value]))


def test_exact_products_through_the_hardware() -> None:
    """Sums of fp4 and fp6 products, whole ones in single precision, are exact."""
    config: Any = parse_config(
        "name: small_floats\nmax_k: 300\nfamily: adder_tree\narray: {cols: 2, depth: 4}\n"
        "activation: fp4_e2m1\nweight: fp6_e2m3\n"
    )
    rng = np.random.default_rng(1)
    a, w = (fmt.random(rng, size) for fmt, size in zip(
        (config.activation, config.weight), ((3, 50), (50, 3)), strict=True))  # fmt: skip
    result = run_product(design_of(config), a.astype(np.float32), w.astype(np.float32)).result
    assert np.array_equal(result, a.astype(np.float64) @ w.astype(np.float64))


def test_sums_are_not_rounded_to_them() -> None:
    with pytest.raises(ConfigError, match=r"accumulator: must be exact, int2"):
        parse_config("name: c\nfamily: cube\naccumulator: fp4_e2m1\n")
    with pytest.raises(ConfigError, match=r"activation: must be int2"):
        parse_config("name: c\nfamily: ternary_lut\nactivation: fp4_e2m1\n")
