# SPDX-License-Identifier: Apache-2.0
"""The page of the boards is that of the data files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import flows.bench.boards
from flows.bench.boards import board_page, boards_table, results_table, store, stored
from flows.bench.common import with_section
from hwgen.board.registry import boards
from hwgen.errors import InputError
from sim_tests.support.paths import ROOT


def test_the_table_of_boards_is_current() -> None:
    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    assert with_section(page, "boards", boards_table()) == page


def test_results_are_of_boards_that_there_are() -> None:
    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    assert with_section(page, "results", results_table(stored())) == page
    results = page.split("<!-- begin: results -->")[1].split("<!-- end: results -->")[0]
    named = re.findall(r"^\| \[([^]]+)\]", results, re.MULTILINE)
    assert len(named) >= 4
    assert set(named) <= set(boards())


def test_results_are_read_from_reports() -> None:
    document = {
        "board": "b", "name": "n", "clock_mhz": 12.0, "bitstream_bytes": 7,
        "fmax_of_seeds_mhz": [30.26, None, 28.0],
        "estimated_fmax_mhz": None, "utilization": {"ICESTORM_LC": {"used": 5, "available": 10}},
        "estimated": {"luts": {"used": 1234}, "brams": {"used": 2}},
        "seconds": 90.0, "images_per_s": 20.44,
    }  # fmt: skip
    assert results_table([document]).splitlines()[2] == (
        "| [b](boards/b.md) | `n` | 5 of 10 | 1,234 | 0 | 2 | 0 | 0 | 12 | 28.0, 30.3 | - | 7 |"
        " 1.5 | 20.4 |"
    )


@pytest.mark.parametrize("name", boards())
def test_the_page_of_a_board_is_current(name: str) -> None:
    page = ROOT / "docs" / "boards" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == board_page(name, stored())


def test_reports_are_stored_once_for_a_board_and_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.bench.boards, "RESULTS", tmp_path / "boards.json")
    assert stored() == []
    first = json.loads(json.dumps(stored_example()))
    for clock in (12.0, 24.0):
        (tmp_path / "board.json").write_text(json.dumps({**first, "clock_mhz": clock}))
        store([tmp_path])
    (only,) = stored()
    assert only["clock_mhz"] == 24.0
    assert "24" in board_page("icebreaker", stored())
    assert "None are stored." in board_page("ulx3s-85f", stored())


def stored_example() -> dict[str, object]:
    """Return a report of a build that was not made."""
    return {
        "name": "n", "board": "icebreaker", "device": "ice40up5k", "link": "uart",
        "clock_mhz": 12.0, "oscillator_mhz": 12.0, "pll": {}, "clocks_tried_mhz": [[24.0, 25.0]],
        "fmax_mhz": 25.0, "fmax_of_seeds_mhz": [25.0], "estimated_fmax_mhz": 30.0,
        "utilization": {}, "estimated": {"luts": {"used": 1}, "brams": {"used": 1}},
        "bitstream": "x.bin", "bitstream_bytes": 1, "digest": "",
        "seconds": 60.0,
    }  # fmt: skip


def test_a_page_without_the_comments_is_refused() -> None:
    with pytest.raises(InputError, match="no lines '<!-- begin: boards -->'"):
        with_section("text", "boards", "table")
