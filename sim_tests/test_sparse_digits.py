# SPDX-License-Identifier: Apache-2.0
"""Cycles of digit-serial products: exact for given values, expected for random ones."""

from __future__ import annotations

from itertools import product
from typing import get_args

import numpy as np
import pytest

from hwgen.numerics import IntegerFormat, integer
from hwgen.numerics.digits import (
    Encoding,
    digit_count,
    encode,
    normal,
    statistics,
    uniform,
    values_of,
)
from hwgen.numerics.sparse_digits import (
    GROUP,
    expected_group,
    expected_passes,
    group_cycles,
    synchronised,
)

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
INT8 = integer("int8")


@pytest.mark.parametrize(
    ("sigma", "cycles"),
    [(None, 2.924), (10, 2.076), (20, 2.342), (30, 2.466), (40, 2.559), (50, 2.643)],
)
def test_published_cycles_of_a_term(sigma: float | None, cycles: float) -> None:
    """Cycles per int8 term of a long row."""
    values = uniform(INT8) if sigma is None else normal(INT8, sigma, clipped=False)
    found = sum(expected_passes(statistics("ent", INT8, values), 4096)) / 4096
    assert found == pytest.approx(cycles, abs=1e-3)
    booth = sum(expected_passes(statistics("booth4", INT8, values), 4096)) / 4096
    assert booth > found


@pytest.mark.parametrize("fmt", [IntegerFormat(w, s) for w in (2, 3, 8, 13) for s in (False, True)],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("terms", [1, 3, 4, 5, 17])
def test_groups_are_counted_one_by_one(encoding: Encoding, fmt: IntegerFormat, terms: int) -> None:
    rows = fmt.random(np.random.default_rng(terms), (5, terms))
    rows[0], rows[1], rows[2, 0::2] = 0, fmt.min, 0
    digits = encode(encoding, rows, fmt)
    cycles = group_cycles(encoding, rows, fmt)
    assert cycles.shape == (5, digit_count(fmt), -(-terms // GROUP))
    for row, bit_weight, group in np.ndindex(cycles.shape):
        members = digits[row, group * GROUP : (group + 1) * GROUP, bit_weight]
        assert cycles[row, bit_weight, group] == max(1, sum(digit != 0 for digit in members))
    assert cycles[0].sum() == digit_count(fmt) * -(-terms // GROUP), "zeros take a cycle a group"
    together = synchronised(cycles, 2)
    assert together.tolist() == [np.maximum(*cycles[:2]).tolist(),
                                 np.maximum(*cycles[2:4]).tolist(), cycles[4].tolist()]  # fmt: skip
    assert np.array_equal(synchronised(cycles, 1), cycles)
    assert np.array_equal(synchronised(cycles, 9)[0], cycles.max(axis=0))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("columns", [1, 2])
def test_expectation_is_the_mean_over_all_groups(encoding: Encoding, columns: int) -> None:
    """Every row of three terms of a small format, and every pair of such rows."""
    fmt = IntegerFormat(3, True)
    probabilities = normal(fmt, 1.3)
    numbers = np.array(list(product(range(8), repeat=3)))
    cycles = group_cycles(encoding, values_of(fmt)[numbers], fmt)[..., 0]
    share = probabilities[numbers].prod(axis=1)
    if columns == 2:
        cycles, share = np.maximum(cycles[:, None], cycles), share[:, None] * share
    mean = (share[..., None] * cycles).reshape(-1, digit_count(fmt)).sum(axis=0)
    expected = expected_passes(statistics(encoding, fmt, probabilities), 3, columns)
    assert expected == pytest.approx(tuple(mean))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sigma", [None, 20.0])
@pytest.mark.parametrize("columns", [1, 4, 16])
def test_random_rows_take_the_expected_time(
    encoding: Encoding, sigma: float | None, columns: int
) -> None:
    rng, rows, terms = np.random.default_rng(columns), 1024, 130
    probabilities = uniform(INT8) if sigma is None else normal(INT8, sigma)
    values = rng.choice(values_of(INT8), (rows, terms), p=probabilities)
    found = synchronised(group_cycles(encoding, values, INT8), columns).sum(axis=-1)
    expected = expected_passes(statistics(encoding, INT8, probabilities), terms, columns)
    spread = found.std(axis=0) / np.sqrt(len(found))
    assert np.abs(found.mean(axis=0) - expected).max() < 5 * spread.max()


def test_ends_of_the_expectation() -> None:
    assert expected_group(0) == 1
    assert expected_group(1) == GROUP
    assert expected_group(1, 1, 7) == expected_group(0.5, 1, 7) == 1
    assert expected_group(0.1, columns=10_000) == pytest.approx(3.63, abs=0.01)
