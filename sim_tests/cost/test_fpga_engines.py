# SPDX-License-Identifier: Apache-2.0
"""The stored table of engines on FPGAs: current, and as they are estimated now."""

from __future__ import annotations

import pytest

from flows.bench import fpga_engines
from flows.bench.common import ROOT, read_results, section

RESULTS = read_results(fpga_engines.RESULTS)


def test_the_page_has_the_stored_results() -> None:
    page = (ROOT / "docs/cost-internals.md").read_text(encoding="utf-8")
    shown = section(page, fpga_engines.SECTION).strip()
    assert shown == fpga_engines.table(RESULTS).strip()
    measured = {(each["engine"], each["target"]) for each in RESULTS}
    assert measured == {(n, t) for n in fpga_engines.ENGINES for t in fpga_engines.TARGETS}


@pytest.mark.parametrize("number", range(len(RESULTS)))
@pytest.mark.rotate(7)
def test_estimates_are_those_of_today(number: int) -> None:
    result = RESULTS[number]
    estimated = fpga_engines.estimated(result["engine"], result["target"])
    assert estimated == pytest.approx(result["estimated"])
