# SPDX-License-Identifier: Apache-2.0
"""Keys of groups of ternary weights, exhaustively."""

from __future__ import annotations

import numpy as np
import pytest

from flows.build.load import parse_config
from hwgen.core.files.packing import pack
from hwgen.formats import entries, index_width, ternary


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
        array = f"{{group_size: {mu}, tables: 1}}"
        config = parse_config(f"name: x\nfamily: ternary_lut\narray: {array}\n")
        packed = pack(config, np.zeros((mu, 1), int))
        assert packed.description["bits_per_weight"] == (1 + index_width(mu)) / mu == bits
