# SPDX-License-Identifier: Apache-2.0
"""What is kept of the analysis of a structure is what would be found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_model.estimate.analysis import Analysis
from cost_model.estimate.technology import technology
from cost_model.netlist.netlist import Netlist
from flows.build import structures
from flows.build.analyses import KeptAnalysis, analysis, analysis_of
from flows.build.estimates import estimated
from hwgen.core.load import load_config
from sim_tests.support.paths import ROOT

CORE = ROOT / "configs" / "cube.yaml"
TECH = technology("nangate45")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def refused() -> Netlist:
    raise AssertionError("the structure was read")


def test_a_second_analysis_does_not_read_the_structure() -> None:
    config = load_config(CORE)
    design = structures.structure_of(config)
    plain, first = Analysis(lambda: design), analysis(design)
    for found in (first, KeptAnalysis(design.key, refused)):
        assert found.parts() == plain.parts()
        for clock in (100.0, 500.0):
            assert found.limiting_path(TECH, clock) == plain.limiting_path(TECH, clock)
    again = analysis_of(config)
    assert isinstance(again, KeptAnalysis)
    assert again.key == design.key
    with pytest.raises(AssertionError, match="was read"):
        KeptAnalysis(design.key, refused).limiting_path(TECH, 200.0)


def test_an_estimate_is_the_same_whatever_is_kept(own_cache: Path) -> None:
    config = load_config(CORE)
    first = estimated(config)
    assert estimated(config) == first
    for name in ("components", "limiting-path"):
        kept = list((own_cache / name).iterdir())
        assert len(kept) == 1
        kept[0].write_text('[{"damaged": 1}]')
    assert estimated(config) == first
    for path in (own_cache / "structure").iterdir():
        path.unlink()
    assert estimated(config) == first
