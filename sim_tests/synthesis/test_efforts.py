# SPDX-License-Identifier: Apache-2.0
"""Mappings that `synthesize` tries beside the default one."""

from __future__ import annotations

import json
import time
from dataclasses import fields

import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.synthesis.result import SynthesisResult
from flows.synthesis.synth import FAST_RECIPE, RECIPE, synthesize
from flows.synthesis.synth_cache import cached_results
from flows.tools.toolchain import probe
from sim_tests.synthesis.tools import SYSTOLIC, require_tools


@pytest.mark.slow
@pytest.mark.rotate(28)
def test_faster_mappings_are_tried_if_the_clock_is_missed() -> None:
    require_tools("yosys", "opensta", technology="nangate45")
    design = Design.of(parse_config(SYSTOLIC.replace("rows: 2", "rows: 1")))
    slow = synthesize(design, "nangate45", clock_mhz=100, effort="clock")
    assert slow.recipe == RECIPE
    assert len(slow.trials) == 1
    fast = synthesize(design, "nangate45", clock_mhz=2500, effort="clock")
    assert [trial.recipe for trial in fast.trials] == [RECIPE, RECIPE, FAST_RECIPE]
    assert [trial.full_adders for trial in fast.trials] == [True, False, False]
    assert fast.critical_path_ns == min(trial.critical_path_ns or 9.0 for trial in fast.trials)
    fixed = synthesize(
        design, "nangate45", clock_mhz=2500, effort="clock", recipe=RECIPE, full_adders=True
    )
    assert len(fixed.trials) == 1


@pytest.mark.slow
@pytest.mark.rotate(28)
def test_standard_cells_with_the_best_recipe() -> None:
    require_tools("yosys", technology="nangate45")
    core = parse_config(SYSTOLIC)
    seen: list[tuple[str, int, int]] = []
    result = synthesize(
        Design.of(core),
        "nangate45",
        effort="best",
        full_adders=True,
        jobs=2,
        on_progress=lambda *what: seen.append(what),
    )
    assert len(result.trials) == 4  # three recipes, and the best one flattened
    assert seen[-1][1:] == (4, 4)
    areas = [trial.area_um2 or 0.0 for trial in result.trials]
    assert result.area_um2 is not None
    assert result.sequential_area_um2 is not None
    assert result.combinational_area_um2 is not None
    assert result.flip_flops == result.cells["DFF_X1"] == 212
    both = result.sequential_area_um2 + result.combinational_area_um2
    assert both == pytest.approx(result.area_um2)
    if probe("opensta").installation:
        assert result.area_um2 == min(areas), "all of them meet 500 MHz"
        assert result.timing_source == "opensta"
        assert result.critical_path_ns is not None
        assert result.fmax_mhz == pytest.approx(1000 / result.critical_path_ns)
        assert {"yosys", "opensta"} == set(result.tools)
    # The same again is known, also from the configuration alone.
    start = time.monotonic()
    again = synthesize(Design.of(core), "nangate45", effort="best", full_adders=True)
    assert again == result
    assert time.monotonic() - start < 10
    known = cached_results(Design.of(core), "nangate45")
    assert len(known) >= 4, "those of other tests at other clocks may be kept beside them"
    assert result.netlist_digest in {entry.netlist_digest for entry in known}
    assert cached_results(Design.of(core), "asap7") == []
    document = result.document()
    assert SynthesisResult.of_document(json.loads(json.dumps(document))) == result
    assert set(document) == {field.name for field in fields(SynthesisResult)} - {"files"}
