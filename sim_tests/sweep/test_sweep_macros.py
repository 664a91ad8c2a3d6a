# SPDX-License-Identifier: Apache-2.0
"""Rows of totals in sweeps: the macros that the estimate by structure takes, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_model.closed_forms.closed_forms import evaluate
from cost_model.closed_forms.rows import Rows
from cost_model.closed_forms.rows import _figures as figures_of
from cost_model.closed_forms.rows import _tabled as tabled
from cost_model.closed_forms.space import Space
from cost_model.families import systolic_bill, ternary_lut
from hwgen.config.dotted import flattened
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import family
from sim_tests.support.designs import estimate_of
from sim_tests.support.selection import commit_seed

METRICS = ("area_mm2", "power_w", "fmax_mhz")


def core(name: str, **values: Any) -> FamilyConfig:
    """Return a configuration with these values."""
    config: Any = family(name).params_class
    result: FamilyConfig = config.model_validate({"name": "core", "family": name, **values})
    return result


STATIONARY = core(
    "systolic",
    weight="int4",
    array={"rows": 3, "cols": 5, "dataflow": "weight_stationary", "accumulator_depth": 61},
)
TABLES = core(
    "ternary_lut",
    activation="int5",
    max_k=500,
    array={"group_size": 2, "tables": 3, "fetch_ports": 7, "accumulator_depth": 67},
)


def rows(config: FamilyConfig, technology: str, **more: Any) -> Rows:
    """Return the rows of totals of a core."""
    fixed = flattened(config.resolved()) | {"target.technology": technology} | more
    v = Space(config.family, fixed, "macros").view({})
    if config.family == "ternary_lut":
        return ternary_lut.stored_rows(v)
    return systolic_bill.accumulated_rows(v, systolic_bill.Geometry(v))


@pytest.mark.parametrize("technology", ["nangate45", "asap7", "sky130hd", "ihp-sg13g2"])
@pytest.mark.parametrize("config", [STATIONARY, TABLES], ids=lambda c: c.family)
def test_closed_forms_take_the_macros_of_estimates(config: FamilyConfig, technology: str) -> None:
    estimate = estimate_of(config, technology)
    (memory,) = estimate["memories"]
    result = rows(config, technology)
    assert bool(np.all(result.macros)) == (memory["form"] == "macros")
    if memory["form"] == "registers":
        return
    assert float(result.amounts["macro_um2"]) == pytest.approx(memory["area_um2"])
    assert float(result.amounts["macro_nw"]) == pytest.approx(memory["leakage_nw"])
    metrics = evaluate(config.family, flattened(config.resolved()), {}, technology, {})
    for metric in METRICS:
        assert metrics[metric][0] == pytest.approx(estimate["metrics"][metric], rel=0.25), metric
    assert metrics["area_mm2"][0] == pytest.approx(estimate["metrics"]["area_mm2"], rel=0.1)


def test_macros_from_as_many_bits_as_the_configuration_says() -> None:
    capacity = 5 * 61 * STATIONARY.result.width
    for below, made in ((capacity, 1), (capacity + 1, 0)):
        result = rows(STATIONARY, "nangate45", **{"memories.registers_below": below})
        assert int(np.all(result.macros)) == made


def test_each_depth_of_a_sweep_has_what_it_is_made_of() -> None:
    fixed = flattened(TABLES.resolved())
    del fixed["array.accumulator_depth"]
    depths = np.array([1, 2, 8, 67, 512])
    varying = {"array.accumulator_depth": depths}
    together = evaluate("ternary_lut", fixed, varying, "nangate45", {})
    for i, depth in enumerate(depths.tolist()):
        alone = evaluate(
            "ternary_lut", fixed | {"array.accumulator_depth": depth}, {}, "nangate45", {}
        )
        for metric in METRICS:
            assert together[metric][i] == pytest.approx(alone[metric][0])
    registers = evaluate("ternary_lut", fixed, varying, "nangate45", {}, "registers")
    assert (together["area_mm2"] <= registers["area_mm2"] + 1e-12).all()
    assert together["area_mm2"][-1] < 0.3 * registers["area_mm2"][-1]


def test_an_fpga_has_no_macros() -> None:
    assert not np.any(rows(TABLES, "ecp5").macros)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("apart", [True, False])
def test_metrics_from_tables_are_those_of_each_memory(*, apart: bool, stable: bool) -> None:
    rng = np.random.default_rng(commit_seed())
    widths, depths = rng.integers(1, 200, 7), np.sort(rng.integers(1, 3000, 9))
    arguments: list[Any] = [widths[:, None], depths, 1024.0, 500.0]
    if not apart:
        arguments[:2] = rng.permuted(np.stack(np.broadcast_arrays(*arguments[:2])), axis=1)
    result = tabled("nangate45", *arguments, held=stable)
    assert result is not None
    each = [
        np.zeros(8) if one is None else np.ravel(one)
        for values in zip(*(a.ravel() for a in np.broadcast_arrays(*arguments)), strict=True)
        for one in [figures_of("nangate45", *np.atleast_2d(values).T, held=stable)]
    ]
    np.testing.assert_array_equal(np.reshape(result, (8, -1)).T, each)
