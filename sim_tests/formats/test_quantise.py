# SPDX-License-Identifier: Apache-2.0
"""Integer weights from floats: every rule against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from hwgen.errors import InputError
from hwgen.formats import BINARY, TERNARY, IntegerFormat, integer
from hwgen.formats.quantise import EPSILON, quantise

INTEGERS = [integer(name) for name in ("int2", "int3", "int4", "int8", "int16")]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("fmt", [TERNARY, BINARY, *INTEGERS], ids=str)
def test_weights_and_scales_by_definition(
    fmt: IntegerFormat, dtype: type, per_column: bool
) -> None:
    w: np.ndarray = np.random.default_rng(3).normal(0, 0.1, (17, 5)).astype(dtype)
    integers, scales = quantise(w, fmt, per_column=per_column)
    assert (str(integers.dtype), str(scales.dtype)) == (
        f"int{max(8, fmt.width)}",
        "float32",
    )
    assert scales.shape == ((5,) if per_column else (1,))
    fmt.check(integers)
    for n in range(5):
        column = [abs(float(x)) for x in (w[:, n] if per_column else w.reshape(-1))]
        mean, peak = sum(column) / len(column), max(column)
        got = float(scales[n if per_column else 0])
        values = [float(x) for x in w[:, n]]
        if fmt is TERNARY:
            assert got == pytest.approx(mean, rel=1e-6)
            expected = [max(-1, min(1, round(x / (got + EPSILON)))) for x in values]
        elif fmt is BINARY:
            assert got == pytest.approx(mean, rel=1e-6)
            expected = [-1 if x < 0 else 1 for x in values]
        else:
            assert got == pytest.approx(peak / fmt.max, rel=1e-6)
            expected = [round(x / got) for x in values]
        assert integers[:, n].tolist() == expected
    if fmt.width > 1 and not per_column:
        assert np.abs(integers).max() == fmt.max


@pytest.mark.parametrize("fmt", [TERNARY, BINARY, *INTEGERS], ids=str)
def test_weights_of_the_format_stay_what_they_are(fmt: IntegerFormat) -> None:
    integers = fmt.random(np.random.default_rng(4), (30, 20))
    integers = np.maximum(integers, -fmt.max)
    integers[0, 0] = fmt.max
    assert np.array_equal(quantise(integers * 0.75, fmt).weights, integers)


@pytest.mark.parametrize("fmt", [TERNARY, BINARY, integer("int3")], ids=str)
def test_zeros_have_a_scale_of_zero(fmt: IntegerFormat) -> None:
    w = np.zeros((4, 3), np.float32)
    integers, scales = quantise(w, fmt)
    assert (integers == fmt.zero).all()
    assert scales.tolist() == [0]
    w[:, 1] = 6
    integers, scales = quantise(w, fmt, per_column=True)
    assert scales.tolist() == [0, 6 / (fmt.max if fmt.width == 3 else 1), 0]
    assert integers.tolist() == [[fmt.zero, fmt.max, fmt.zero]] * 4


@pytest.mark.parametrize(
    ("w", "name", "message"),
    [
        (np.array([[1.0, np.nan]]), "", r"finite, but 1 of 2 are not, first W\[0,1\] = nan"),
        (np.array([[1.0], [-np.inf]]), "", r"finite, but 1 of 2 are not, first W\[1,0\] = -inf"),
        (np.array([[1e300]]), "", "too large, their scale exceeds single precision; scale them"),
        (np.array([[1e300]]), "int4", "too large"),
        (np.full((2, 2), 1.7e308), "", "too large"),
        (np.array([[1e-38]]), "int4", "too small, their scale is below the normal numbers"),
        (np.ones(3), "", r"must be a matrix of at least 1 x 1, not \(3,\)"),
        (np.ones((0, 3)), "", r"must be a matrix of at least 1 x 1, not \(0, 3\)"),
        (np.ones((1, 1), int), "", "must be floats to be quantised, not int64"),
        (np.ones((1, 1)), "uint4", "floats are made signed integers, not uint4; quantise them"),
    ],
)
def test_weights_that_cannot_be_quantised(w: np.ndarray, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quantise(w, integer(name) if name else TERNARY)
