# SPDX-License-Identifier: Apache-2.0
"""Keys of groups of ternary weights, exhaustively, and making floats ternary."""

from __future__ import annotations

import numpy as np
import pytest

from hwgen.config.load import parse_config
from hwgen.errors import InputError
from hwgen.numerics import entries, index_width, ternary
from hwgen.numerics.ternarise import EPSILON, ternarise
from hwgen.packing import pack

# -- keys ------------------------------------------------------------------------------------------


def every_pattern(mu: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[[-1, 0, 1]] * mu, indexing="ij"), axis=-1).reshape(-1, mu)


@pytest.mark.parametrize("mu", range(1, 8))
def test_every_pattern_has_a_key_of_its_own(mu: int) -> None:
    patterns = every_pattern(mu)
    keys = ternary.encode(patterns)
    assert np.array_equal(ternary.decode(keys, mu), patterns)
    assert len(set(keys.tolist())) == len(patterns) == 3**mu
    assert int(keys.max()) < 1 << (1 + index_width(mu))


@pytest.mark.parametrize("mu", range(1, 8))
def test_a_key_is_sign_and_entry(mu: int) -> None:
    stored = np.array(ternary.stored_patterns(mu))
    number, sign = entries(mu), 1 << index_width(mu)
    assert stored.shape == (number, mu) == ((3**mu - 1) // 2, mu)
    assert ternary.encode(stored).tolist() == list(range(number))
    assert ternary.encode(-stored).tolist() == [sign + index for index in range(number)]
    assert int(ternary.encode(np.zeros(mu, int))) == number
    first = stored[np.arange(number), (stored != 0).argmax(axis=1)]
    assert (first == 1).all()


@pytest.mark.parametrize("mu", range(1, 8))
def test_no_other_key_is_decoded(mu: int) -> None:
    legal = {*range(entries(mu) + 1)}
    legal |= {index + (1 << index_width(mu)) for index in legal}
    for key in set(range(1 << (2 + index_width(mu)))) - legal:
        with pytest.raises(ValueError, match=f"an index of at most {entries(mu)}"):
            ternary.decode(np.array([key]), mu)


def test_bits_per_weight_of_each_group_size() -> None:
    expected = (2, 2, 5 / 3, 7 / 4, 8 / 5, 10 / 6, 12 / 7)
    for mu, bits in enumerate(expected, 1):
        config = parse_config(f"name: x\nfamily: ternary_lut\narray: {{group_size: {mu}}}\n")
        packed = pack(config, np.zeros((mu, 1), int))
        assert packed.description["bits_per_weight"] == (1 + index_width(mu)) / mu == bits


# -- making weights ternary --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("per_column", [False, True])
def test_trits_and_scales_by_definition(dtype: type, per_column: bool) -> None:
    w: np.ndarray = np.random.default_rng(3).normal(0, 0.1, (17, 5)).astype(dtype)
    trits, scales = ternarise(w, per_column=per_column)
    assert (str(trits.dtype), str(scales.dtype)) == ("int8", "float32")
    assert scales.shape == ((5,) if per_column else (1,))
    for n in range(5):
        column = [float(x) for x in (w[:, n] if per_column else w.reshape(-1))]
        scale = float(np.float32(sum(map(abs, column)) / len(column)))
        got = float(scales[n if per_column else 0])
        assert got == pytest.approx(scale, rel=1e-6)
        expected = [max(-1, min(1, round(float(x) / (got + EPSILON)))) for x in w[:, n]]
        assert trits[:, n].tolist() == expected
    assert set(np.unique(trits)) == {-1, 0, 1}


def test_weights_that_are_ternary_already_stay_so() -> None:
    trits = np.random.default_rng(4).integers(-1, 2, (30, 20))
    assert np.array_equal(ternarise(trits * 0.75).trits, trits)


def test_zeros_have_a_scale_of_zero() -> None:
    w = np.zeros((4, 3), np.float32)
    trits, scales = ternarise(w)
    assert not trits.any()
    assert scales.tolist() == [0]
    w[:, 1] = 2
    trits, scales = ternarise(w, per_column=True)
    assert scales.tolist() == [0, 2, 0]
    assert trits.tolist() == [[0, 1, 0]] * 4


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (np.array([[1.0, np.nan]]), r"finite, but 1 of 2 are not, first W\[0,1\] = nan"),
        (np.array([[1.0], [-np.inf]]), r"finite, but 1 of 2 are not, first W\[1,0\] = -inf"),
        (np.array([[1e300]]), "too large, their mean magnitude exceeds single precision"),
        (np.full((2, 2), 1.7e308), "too large"),
        (np.ones(3), r"must be a matrix of at least 1 x 1, not \(3,\)"),
        (np.ones((0, 3)), r"must be a matrix of at least 1 x 1, not \(0, 3\)"),
        (np.ones((1, 1), int), "must be floats to be ternarised, not int64"),
    ],
)
def test_weights_that_cannot_be_made_ternary(w: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ternarise(w)
