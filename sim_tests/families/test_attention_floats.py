# SPDX-License-Identifier: Apache-2.0
"""Attention in floating point: the golden model against exact arithmetic.

`sim_tests.families.test_attention` compares the RTL with the golden model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hwgen.errors import InputError
from hwgen.families.attention.formats import bound_of
from hwgen.families.attention.golden import attend, vectors
from hwgen.families.attention.operands import quantised
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask

FORMATS = ["bf16", "fp16", "fp8_e4m3", "fp8_e5m2"]


def configuration(fmt: str, output: str = "fp16", **values: Any) -> AttentionConfig:
    formats = dict.fromkeys(("query", "key", "value"), fmt)
    return AttentionConfig.model_validate(
        {"name": "floats", **formats, "output": output, "scales": "none", **values}
    )


def softmax(query: np.ndarray, key: np.ndarray, factor: float) -> np.ndarray:
    x = np.einsum("hgmc,hnc->hgmn", query.astype(float), key.astype(float)) * factor
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("keys", [1, 100])
def test_results_are_as_near_as_is_proven(fmt: str, keys: int) -> None:
    """Against exact attention of vectors as they are aligned, tokens of very different sizes."""
    config = configuration(fmt, max_keys=128)
    rng = np.random.default_rng(keys)
    query, key, value = (
        rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 4, (*shape[:-1], 1))
        for shape in ((1, 2, 5, 64), (1, keys, 64), (1, keys, 64))
    )
    operands, unit = quantised(config, query, key, value)
    got = attend(config, Mask(), operands).astype(float)
    exact = {}
    for name in ("query", "key", "value"):
        of = vectors(config, getattr(config, name), operands[name])
        scale = of.exponent - getattr(config, name).bias - config.alignment_bits
        exact[name] = np.ldexp(of.numbers.astype(float), scale[..., None].astype(np.int32))
        largest = np.abs(operands[name].astype(float)).max(axis=-1, keepdims=True)
        off = np.abs(exact[name] - operands[name].astype(float))
        assert (off <= largest * 2.0 ** -(config.alignment_bits + 1)).all()
    scale = operands["query_scale"].astype(np.int64)
    factor = float((scale & 65535).flat[0]) * 2.0 ** -float((scale >> 16).flat[0])
    factor *= 2.0**-config.softmax.fraction_bits * math.log(2)
    wanted = softmax(exact["query"], exact["key"], factor) @ exact["value"][:, None]
    largest = np.abs(operands["value"].astype(float)).max()
    assert unit == 1
    assert np.abs(got - wanted).max() <= bound_of(config, keys).output * largest


@pytest.mark.parametrize(("head", "elements"), [(32, 32), (64, 64), (64, 40), (256, 256)])
@pytest.mark.parametrize("fmt", ["fp8_e4m3", "fp4_e2m1"])
def test_keys_in_blocks(fmt: str, head: int, elements: int) -> None:
    """Results are those of the numbers that blocks stand for, whose sizes differ widely."""
    config = configuration(
        "fp16", key=fmt, value=fmt, scales="block", head=head, max_keys=128, alignment_bits=14
    )
    rng = np.random.default_rng(head)
    query = rng.standard_normal((1, 2, 5, elements))
    sizes = 2.0 ** rng.integers(-3, 4, (1, 50, -(-elements // 32), 1))
    key, value = (
        (rng.standard_normal((1, 50, sizes.shape[2], 32)) * sizes).reshape(1, 50, -1)[
            ..., :elements
        ]
        for _ in range(2)
    )
    key *= 0.1
    operands, unit = quantised(config, query, key, value)
    stands_for = {}
    for name, numbers in (("key", key), ("value", value)):
        packed = operands[f"{name}_scale"].astype("<u8")[..., None].view(np.uint8)
        powers = np.ldexp(1.0, packed.astype(int) - 127)[..., : config.blocks]
        each = np.repeat(powers, 32, axis=-1)[..., :elements]
        stands_for[name] = operands[name].astype(float) * each
        largest = np.abs(numbers).max(axis=-1, keepdims=True)
        coarse = {"fp8_e4m3": 1 / 16, "fp4_e2m1": 1 / 4}[fmt]
        assert (np.abs(stands_for[name] - numbers) <= coarse * largest).all()
    wanted = softmax(query, stands_for["key"], elements**-0.5) @ stands_for["value"][:, None]
    got = attend(config, Mask(), operands).astype(float)
    assert unit == 1
    assert np.abs(got - wanted).max() <= 0.01 * np.abs(wanted).max()


def test_a_block_without_a_power_of_two() -> None:
    """E8M0 255 is no number: rows that look at the key are NaN, others are what they were."""
    config = configuration("fp16", key="fp4_e2m1", value="fp4_e2m1", scales="block")
    rng = np.random.default_rng(5)
    shapes = ((1, 1, 9, 64), (1, 9, 64), (1, 9, 64))
    query, key, value = (rng.standard_normal(shape) for shape in shapes)
    operands, _ = quantised(config, query, key, value)
    before = attend(config, Mask(causal=True), operands).astype(float)
    for name in ("key_scale", "value_scale"):
        changed = {**operands, name: operands[name].copy()}
        changed[name][0, 4] |= 0xFF00
        after = attend(config, Mask(causal=True), changed).astype(float)
        assert np.isnan(after[0, 0, 4:]).all()
        assert np.array_equal(after[0, 0, :4], before[0, 0, :4])


@pytest.mark.parametrize(("fmt", "most"), [("bf16", 0.0007), ("fp8_e4m3", 0.0007)])
def test_mean_error_of_a_weight(fmt: str, most: float) -> None:
    """Of normally distributed scores of deviation 1, rounding of the results to fp16 included."""
    config = configuration(fmt, head=256, max_keys=256)
    rng = np.random.default_rng(1)
    query, key = rng.standard_normal((1, 1, 16, 256)), rng.standard_normal((1, 256, 256))
    operands, _ = quantised(config, query, key, np.eye(256)[None])
    wanted = softmax(operands["query"], operands["key"], 1 / 16)
    got = attend(config, Mask(), operands).astype(float)
    assert np.abs(got / wanted - 1).mean() <= most


@pytest.mark.parametrize("where", ["query", "key", "value"])
@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_what_is_not_finite(where: str, special: float) -> None:
    """It makes rows that look at it NaN, all others are what they were."""
    config = configuration("bf16", "bf16")
    rng = np.random.default_rng(2)
    shapes = ((1, 1, 9, 64), (1, 9, 64), (1, 9, 64))
    query, key, value = (rng.standard_normal(shape) for shape in shapes)
    operands, _ = quantised(config, query, key, value)
    mask = Mask(causal=True)
    before = attend(config, mask, operands).astype(float)
    changed = {name: array.copy() for name, array in operands.items()}
    changed[where][..., 4, 7] = special
    after = attend(config, mask, changed).astype(float)
    rows = np.arange(9) == 4 if where == "query" else np.arange(9) >= 4
    assert np.isnan(after[0, 0, rows]).all()
    assert np.array_equal(after[0, 0, ~rows], before[0, 0, ~rows])


def test_rows_that_look_at_nothing_are_zero() -> None:
    config = configuration("bf16", "bf16")
    rng = np.random.default_rng(3)
    shapes = ((1, 1, 3, 64), (1, 5, 64), (1, 5, 64))
    query, key, value = (rng.standard_normal(shape) for shape in shapes)
    operands, _ = quantised(config, query, key, value)
    operands["query"][..., 0, 0] = math.nan
    got = attend(config, Mask(causal=True, offset=-1), operands).astype(float)
    assert not got[0, 0, 0].any()
    assert got[0, 0, 1].any()


def test_operands_beyond_the_format() -> None:
    config = configuration("fp8_e4m3")
    key = np.ones((1, 2, 64))
    with pytest.raises(InputError, match=r"value: must be up to 448 in magnitude"):
        quantised(config, np.ones((1, 1, 1, 64)), key, 1000 * key)
