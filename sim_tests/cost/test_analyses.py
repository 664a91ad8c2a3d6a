# SPDX-License-Identifier: Apache-2.0
"""Cached analyses of netlists equal those that would be computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_model.estimate.analysis import Analysis
from cost_model.estimate.technology import technology
from cost_model.netlist.netlist import Netlist
from flows.build.analysis import CachedAnalysis, analyse
from flows.build.design import Design
from flows.build.load import load_config
from sim_tests.support.designs import estimate_of
from sim_tests.support.paths import ROOT

CORE = ROOT / "configs" / "cube.yaml"
TECH = technology("nangate45")


@pytest.fixture(autouse=True)
def local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def refused() -> Netlist:
    raise AssertionError("the structure was read")


def test_a_second_analysis_does_not_read_the_netlist() -> None:
    config = load_config(CORE)
    netlist = Design.of(config).netlist
    plain, first = Analysis(lambda: netlist), analyse(netlist)
    for analysis in (first, CachedAnalysis(netlist.key, refused)):
        assert analysis.parts() == plain.parts()
        for clock in (100.0, 500.0):
            assert analysis.limiting_path(TECH, clock) == plain.limiting_path(TECH, clock)
    design = Design.of(config)
    again = design.analysis
    assert isinstance(again, CachedAnalysis)
    assert again.key == netlist.key
    assert again.parts() == plain.parts()
    assert "netlist" not in vars(design)
    with pytest.raises(AssertionError, match="was read"):
        CachedAnalysis(netlist.key, refused).limiting_path(TECH, 200.0)


def test_an_estimate_is_the_same_with_any_cache(
    local_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(CORE)
    first = estimate_of(config)
    assert estimate_of(config) == first
    for name in ("components", "limiting-path"):
        entries = list((local_cache / name).iterdir())
        assert len(entries) == 1
        entries[0].write_text('[{"damaged": 1}]')
    assert capsys.readouterr().err == ""
    assert estimate_of(config) == first
    notes = capsys.readouterr().err.splitlines()
    assert [note.endswith("are damaged or outdated; they are rebuilt") for note in notes] == [
        True,
        True,
    ]
    for path in (local_cache / "modules").iterdir():
        path.unlink()
    assert estimate_of(config) == first
