# SPDX-License-Identifier: Apache-2.0
"""Units of an engine are synthesized one after another, with measurements beside estimates."""

from __future__ import annotations

from typing import Any

import pytest

from flows.search import apply
from flows.search.apply import apply_engine, as_calibrated, together
from flows.search.space import needs_of, space_of
from flows.synthesis.synth import USUAL_EFFORT
from flows.synthesis.verify import Measured
from hwgen.cli.synth import command as synth
from hwgen.core.params.target import Target
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.files.store import Model
from sim_tests.search.searching import CONTEXT, FRAME


def test_each_unit_is_synthesized_and_one_that_fails_is_named(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(needs_of(model, CONTEXT), {"technology": "nangate45"}, (64,))
    options = [every[0] for every in space.options[FRAME].values()]
    config: TransformerConfig = space.config("engine", FRAME, options)
    written: dict[str, str] = {}
    seen: list[Any] = []
    estimates: list[float] = []
    saved: list[dict[str, Any]] = []

    def measured(configs: Any, jobs: int, progress: Any, effort: str) -> list[Measured]:
        (unit,) = configs
        assert effort == "clock"  # as `hwgen synth` does: also without full adders
        assert unit.target == as_calibrated(config.target)
        seen.append(unit)
        if len(seen) == 3:
            return [Measured({}, "took too long")]
        return [Measured({"area_mm2": 0.01 * len(seen), "fmax_mhz": 500.0 - len(seen)})]

    class Quick:
        def __init__(self, design: Any, target: Any = None) -> None:
            self.files = {"engine.v": "module engine"}

        def estimate(self) -> dict[str, Any]:
            estimates.append(0.011 * (len(estimates) + 1))
            metrics = {"area_mm2": estimates[-1], "fmax_mhz": 490.0}
            return {"metrics": metrics, "uncertainty": {"area_mm2": 0.1}}

    monkeypatch.setattr(apply, "measure", measured)
    monkeypatch.setattr(apply, "Build", Quick)
    monkeypatch.setattr(apply, "simulate_layer", lambda *_: {"cycles": 5})
    applied = apply_engine(model, config, written.update, saved.append)
    assert [len(each["units"]) for each in saved] == list(range(len(config.units) + 1))
    assert saved[0]["problem"] == f"{', '.join(config.units)}: not yet"
    assert saved[-1] == applied
    assert written == {"engine.v": "module engine"}
    assert list(applied["units"]) == list(config.units)
    assert len(seen) == len(config.units)
    assert applied["problem"] == f"{list(config.units)[2]}: took too long"
    assert applied["synthesized"] == {}  # of units that are not all known there is no sum
    first = applied["units"][next(iter(config.units))]["metrics"]["area_mm2"]
    assert first["difference"] == pytest.approx(0.1)
    assert first["uncertainty"] == 0.1


def test_units_add_up_and_the_slowest_has_the_clock() -> None:
    def unit(area: float, fmax: float, estimated: float) -> dict[str, Any]:
        return {"problem": "", "metrics": {
            "area_mm2": {"estimated": estimated, "measured": area, "uncertainty": 0.05},
            "fmax_mhz": {"estimated": fmax + 5, "measured": fmax, "uncertainty": None},
        }}  # fmt: skip

    total = together({"a": unit(1.0, 400.0, 1.1), "b": unit(3.0, 300.0, 2.9)})
    assert total["area_mm2"]["measured"] == 4
    assert total["area_mm2"]["estimated"] == pytest.approx(4.0)
    assert total["fmax_mhz"]["measured"] == 300
    assert total["fmax_mhz"]["estimated"] == 305


def test_an_easy_clock_is_raised_to_that_of_the_calibration() -> None:
    def clock(technology: str, clock_mhz: float) -> float:
        return as_calibrated(Target(technology=technology, clock_mhz=clock_mhz)).clock_mhz

    assert clock("nangate45", 200) == 500
    assert clock("nangate45", 800) == 800
    assert clock("asap7", 495.84) == 495.84  # as good as that of the calibration
    assert clock("xcup", 100) == 100


def test_the_effort_is_that_of_synth() -> None:
    (effort,) = (each for each in synth.params if each.name == "effort")
    assert effort.default == USUAL_EFFORT
