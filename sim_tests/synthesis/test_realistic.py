# SPDX-License-Identifier: Apache-2.0
"""Realistic designs of calibration."""

from __future__ import annotations

from flows.build.load import parse_config
from flows.calibration import realistic


def test_bases_are_legal() -> None:
    for text in realistic.bases():
        parse_config(text, quickly=True)


def test_realistic_designs_follow_the_seed_and_are_large() -> None:
    result = realistic.draw(5, 12)
    assert realistic.draw(5, 12) == result
    assert realistic.draw(6, 12) != result
    assert len({config.digest for config in result}) == len(result)
    for config in result:
        if config.multiplies:
            assert realistic.FEWEST_PES <= config.macs_per_cycle <= 1024
