# SPDX-License-Identifier: Apache-2.0
"""The benchmark of clocks that ``auto`` promises."""

from __future__ import annotations

import pytest

from flows.bench import auto
from flows.build import timing
from flows.build.load import parse_config
from hwgen.core.registry import core_of
from hwgen.errors import ConfigError

ARRAY = "name: a\nfamily: systolic\narray: {rows: 2, cols: 3}\n"


def test_the_highest_clock_is_reached_by_a_choice_and_no_higher_one() -> None:
    config = parse_config(ARRAY)
    highest = auto.highest_clock(config, "nangate45")
    assert highest is not None
    chosen = auto.with_auto(config, "nangate45", auto.SHARE * highest)
    limit = timing.limit(core_of(chosen))
    assert limit is not None
    assert limit.reliable_clock_mhz >= auto.SHARE * highest
    with pytest.raises(ConfigError, match="allows at most"):
        auto.with_auto(config, "nangate45", 1.01 * highest)


def test_the_table_counts_designs_that_meet_their_clock() -> None:
    rows = [
        {"technology": "t", "distribution": name, "asked_mhz": 100.0, "reached_mhz": reached}
        for name, reached in (("realistic", 100.0), ("realistic", 90.0), ("all legal", 120.0))
    ]
    lines = auto.table(rows).splitlines()[2:]
    assert lines == [
        "| t | realistic | 2 | 1 (50 %) | -10.0 % | +0.0 % |",
        "| t | all legal | 1 | 1 (100 %) | +20.0 % | +20.0 % |",
        "| t | both | 3 | 2 (67 %) | -10.0 % | +0.0 % |",
    ]
