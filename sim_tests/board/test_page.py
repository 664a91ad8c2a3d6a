# SPDX-License-Identifier: Apache-2.0
"""The page of the boards is that of the data files."""

from __future__ import annotations

import pytest

from flows.bench.boards import boards_table, results_table
from flows.bench.common import with_section
from hwgen.board.registry import boards
from hwgen.errors import InputError
from sim_tests.support.paths import ROOT


def test_the_table_of_boards_is_current() -> None:
    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    assert with_section(page, "boards", boards_table()) == page


def test_results_are_of_boards_that_there_are() -> None:
    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    results = page.split("<!-- begin: results -->")[1].split("<!-- end: results -->")[0]
    named = [line.split("`")[1] for line in results.splitlines() if line.startswith("| `")]
    assert len(named) >= 4
    assert set(named) <= set(boards())


def test_results_are_read_from_reports() -> None:
    document = {
        "board": "b", "device": "d", "clock_mhz": 12.0, "fmax_mhz": 30.26, "bitstream_bytes": 7,
        "estimated_fmax_mhz": None, "utilization": {"ICESTORM_LC": {"used": 5, "available": 10}},
        "estimated": {"luts": {"used": 1234}, "brams": {"used": 2}},
    }  # fmt: skip
    assert results_table([document]).splitlines()[2] == (
        "| `b` | `d` | 5 of 10 | 1,234 | 0 | 2 | 12 | 30.3 | - | 7 |"
    )


def test_a_page_without_the_comments_is_refused() -> None:
    with pytest.raises(InputError, match="no lines '<!-- begin: boards -->'"):
        with_section("text", "boards", "table")
