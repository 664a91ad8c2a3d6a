# SPDX-License-Identifier: Apache-2.0
"""Frequencies of designs with several clocks, of the reports that nextpnr writes."""

from __future__ import annotations

from typing import Any

import pytest

from flows.pnr.nextpnr import clock_metrics


def path(start: str, end: str, *delays: float) -> dict[str, Any]:
    """Return a critical path of a report."""
    ends = {"from": {"cell": "first_TRELLIS_FF_Q"}, "to": {"cell": "second_TRELLIS_FF_Q"}}
    return {"from": start, "to": end, "path": [{"delay": delay, **ends} for delay in delays]}


def report(slow: float, fast: float, crossing: float) -> dict[str, Any]:
    """Return a report of a clock of 40 MHz, one of 80, and a path between them in ns."""
    return {
        "fmax": {
            "clk": {"achieved": slow, "constraint": 40.0},
            "fast": {"achieved": fast, "constraint": 80.0},
        },
        "critical_paths": [
            path("posedge clk", "posedge clk", 1000 / slow),
            path("posedge fast", "posedge fast", 1000 / fast),
            path("posedge fast", "posedge clk", crossing / 2, crossing / 2),
            path("<async>", "posedge fast", 99.0),
        ],
    }


@pytest.mark.parametrize(
    ("slow", "fast", "crossing", "reached"),
    [
        (44.0, 120.0, 5.0, 44.0),
        (60.0, 90.0, 5.0, 45.0),  # a cycle of the fast clock is half of one
        (60.0, 120.0, 10.0, 50.0),  # the path has a cycle of the fast clock
    ],
)
def test_every_path_has_the_time_that_it_needs(
    slow: float, fast: float, crossing: float, reached: float
) -> None:
    metrics = clock_metrics(report(slow, fast, crossing))
    assert metrics["fmax_mhz"] == pytest.approx(reached)
    assert metrics["critical_path_ns"] == pytest.approx(1000 / reached)
    assert metrics["path_start"] == "first"
    assert metrics["path_end"] == "second"


def test_one_clock_is_what_it_reaches() -> None:
    one = {
        "fmax": {"clk": {"achieved": 44.0, "constraint": 40.0}},
        "critical_paths": [path("posedge clk", "posedge clk", 22.7)],
    }
    assert clock_metrics(one)["fmax_mhz"] == 44.0
    assert clock_metrics({"fmax": {}, "critical_paths": []}) == {}
