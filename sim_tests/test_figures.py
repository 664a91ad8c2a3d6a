# SPDX-License-Identifier: Apache-2.0
"""Figures say what they are: exact, expected or modelled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwgen.config.load import load_config
from hwgen.families import family

CONFIGS = Path(__file__).parents[1] / "configs"

SIZES = [(9, 200, 5), (3, 40, 2)]

BASES = {"serial": "expected", "gemm_stream": "exact", "cube": "exact", "systolic": "exact",
         "lut_core": "exact"}  # fmt: skip


@pytest.mark.parametrize("name", BASES)
def test_cycles_say_what_they_are(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    kind = family(config.family)
    found = kind.timed(config, SIZES)
    assert found.basis == found.document()["basis"] == BASES[name]
    assert found.number == kind.part("cost").cycles_of(config, SIZES)


def test_expected_cycles_have_a_bound_that_the_densest_values_reach() -> None:
    config = load_config(CONFIGS / "serial.yaml")
    kind = family(config.family)
    found = kind.timed(config, SIZES)
    assert found.most == kind.most_cycles_of(config, SIZES)
    assert found.most is not None
    assert found.number < found.most
    operands = [(np.full((m, k), -86), np.ones((k, n), int)) for m, k, n in SIZES]
    assert kind.cycles_of(config, operands) <= found.most
