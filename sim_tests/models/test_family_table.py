# SPDX-License-Identifier: Apache-2.0
"""The table of families of models has every checkpoint in every container, and nothing failed."""

from __future__ import annotations

from pathlib import Path

from sim_tests.models.family_table import PAGE, checkpoints, networks


def test_every_line_is_there_and_full() -> None:
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    table = {(cells[0], cells[1]): cells[2:] for cells in lines if len(cells) == 7}
    named = [(row.model, row.container) for row, _ in (*checkpoints(Path()), *networks(Path()))]
    assert set(named) <= set(table)
    assert len(named) > 60
    assert not [cells for cells in table.values() if "failed" in " ".join(cells)]
    for key in named:
        assert all(table[key]), key
