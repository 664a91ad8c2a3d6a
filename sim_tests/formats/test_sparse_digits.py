# SPDX-License-Identifier: Apache-2.0
"""Cycles of digit-serial products: exact for given values, expected for random ones."""

from __future__ import annotations

from itertools import product
from typing import get_args

import numpy as np
import pytest

from hwgen.arithmetic.digits import (
    Encoding,
    digit_count,
    encode,
    normal,
    statistics,
    uniform,
    values_of,
)
from hwgen.arithmetic.sparse_digits import (
    GROUP_TERMS,
    expected_group,
    expected_passes,
    group_cycles,
    window_cycles,
)
from hwgen.formats import IntegerFormat, integer

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
INT8 = integer("int8")


@pytest.mark.parametrize(
    ("sigma", "cycles"),
    [(None, 2.924), (10, 2.076), (20, 2.342), (30, 2.466), (40, 2.559), (50, 2.643)],
)
def test_published_cycles_of_a_term(sigma: float | None, cycles: float) -> None:
    """Cycles per int8 term of a long row."""
    values = uniform(INT8) if sigma is None else normal(INT8, sigma, clipped=False)
    result = sum(expected_passes(statistics("ent", INT8, values), 4096)) / 4096
    assert result == pytest.approx(cycles, abs=1e-3)
    booth = sum(expected_passes(statistics("booth4", INT8, values), 4096)) / 4096
    assert booth > result


@pytest.mark.parametrize(
    "fmt", [IntegerFormat(w, s) for w in (2, 3, 8, 13) for s in (False, True)], ids=str
)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("terms", [1, 3, 4, 5, 17])
def test_groups_are_counted_one_by_one(encoding: Encoding, fmt: IntegerFormat, terms: int) -> None:
    rows = fmt.random(np.random.default_rng(terms), (5, terms))
    rows[0], rows[1], rows[2, 0::2] = 0, fmt.min, 0
    digits = encode(encoding, rows, fmt)
    cycles = group_cycles(encoding, rows, fmt)
    assert cycles.shape == (5, digit_count(fmt), -(-terms // GROUP_TERMS))
    for row, bit_weight, group in np.ndindex(cycles.shape):
        members = digits[row, group * GROUP_TERMS : (group + 1) * GROUP_TERMS, bit_weight]
        assert cycles[row, bit_weight, group] == max(1, sum(digit != 0 for digit in members))
    assert cycles[0].sum() == digit_count(fmt) * -(-terms // GROUP_TERMS), (
        "zeros take a cycle a group"
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_expectation_is_the_mean_over_all_groups(encoding: Encoding) -> None:
    """Every row of three terms of a small format."""
    fmt = IntegerFormat(3, True)
    probabilities = normal(fmt, 1.3)
    numbers = np.array(list(product(range(8), repeat=3)))
    cycles = group_cycles(encoding, values_of(fmt)[numbers], fmt)[..., 0]
    mean = (probabilities[numbers].prod(axis=1)[:, None] * cycles).sum(axis=0)
    expected = expected_passes(statistics(encoding, fmt, probabilities), 3)
    assert expected == pytest.approx(tuple(mean))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sigma", [None, 20.0])
def test_random_rows_take_the_expected_time(encoding: Encoding, sigma: float | None) -> None:
    rng, rows, terms = np.random.default_rng(1), 1024, 130
    probabilities = uniform(INT8) if sigma is None else normal(INT8, sigma)
    values = rng.choice(values_of(INT8), (rows, terms), p=probabilities)
    result = group_cycles(encoding, values, INT8).sum(axis=-1)
    expected = expected_passes(statistics(encoding, INT8, probabilities), terms)
    spread = result.std(axis=0) / np.sqrt(len(result))
    assert np.abs(result.mean(axis=0) - expected).max() < 5 * spread.max()


def test_ends_of_the_expectation() -> None:
    assert expected_group(0) == 1
    assert expected_group(1) == GROUP_TERMS
    assert expected_group(1, 1) == expected_group(0.5, 1) == 1


# -- rows that share a queue -----------------------------------------------------------------------


def stepped(cycles: np.ndarray, queue: int) -> int:
    """Return the result of `window_cycles` for cycles (passes, groups, rows), cycle by cycle."""
    _, groups, rows = cycles.shape
    todo = cycles.reshape(-1, rows).copy()
    opened = [-1] * len(todo)  # the cycle in which a group was opened
    finished = [-1] * len(todo)  # and that in which the last row has finished it
    opened[0], now = 0, 0
    while finished[-1] < 0:
        for group in range(1, len(todo)):
            if opened[group] >= 0:
                continue
            if group % groups == 0:
                before, late = group - 1, 2 if queue > 1 else 3
            else:
                before, late = group - queue, 2
            if before < 0 or 0 <= finished[before] <= now - late:
                opened[group] = now
        for row in range(rows):
            group = int((todo[:, row] > 0).argmax())
            if 0 <= opened[group] <= now and todo[group, row]:
                todo[group, row] -= 1
        for group in range(len(todo)):
            if finished[group] < 0 and not todo[group].any():
                finished[group] = now
        now += 1
    return now


@pytest.mark.parametrize("queue", [1, 2, 4])
@pytest.mark.parametrize("shape", [(4, 9, 5), (1, 1, 1), (3, 1, 2), (2, 3, 7)], ids=str)
def test_rows_that_share_a_queue(queue: int, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(queue)
    cycles = rng.integers(1, GROUP_TERMS + 1, (*shape[:2], 6, shape[2]))
    result = window_cycles(cycles, queue)
    assert result.tolist() == [stepped(cycles[:, :, i], queue) for i in range(6)]
    if queue > 1:
        assert (result <= window_cycles(cycles, queue // 2)).all()
    assert (result >= cycles.sum(axis=(0, 1)).max(axis=-1)).all()
