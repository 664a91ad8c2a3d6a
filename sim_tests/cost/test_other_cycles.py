# SPDX-License-Identifier: Apache-2.0
"""Cycles of systolic arrays beside those of a simulator that does not overlap tiles."""

from __future__ import annotations

import pytest

from flows.bench import cycles
from flows.bench.common import section
from sim_tests.support.paths import ROOT

COUNTS = (
    # SCALE-Sim 3.0.0.
    ("output_stationary", 16, (128, 128, 128), 10_111),
    ("weight_stationary", 16, (128, 128, 128), 11_135),
    # Its table of products on a TPU v4.
    ("weight_stationary", 128, (2112, 64, 64), 2_493),
    ("weight_stationary", 128, (16, 768, 257), 7_163),
    ("weight_stationary", 128, (4096, 256, 1536), 107_471),
    ("weight_stationary", 128, (1, 3966, 3312), 308_697),
)


@pytest.mark.parametrize(("dataflow", "side", "size", "expected"), COUNTS)
def test_the_formula_is_the_simulators(
    dataflow: str, side: int, size: tuple[int, int, int], expected: int
) -> None:
    assert cycles.tiled(dataflow, side, size) == expected


def test_the_page_has_the_cycles_and_none_is_above_the_formula() -> None:
    rows = list(cycles.rows())
    assert all(row["hwgen"] <= row["tiled"] for row in rows)
    page = (ROOT / "docs" / "against-published-systems.md").read_text(encoding="utf-8")
    assert section(page, "cycles of arrays").strip() == "\n".join(cycles.table(rows))
