# SPDX-License-Identifier: Apache-2.0
"""RTL of the systolic family against its golden and cycle models, over the parameter space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cost_model.families.systolic import cycles, cycles_of
from flows.simulation.matrices import run_matrices
from flows.simulation.runner import compile_design, regress, simulate
from hwgen.core.load import load_config, parse_config
from hwgen.errors import ConfigError
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT
from sim_tests.support.regression import assert_passed
from sim_tests.support.selection import covering_points, missing_pairs, sampled

CONFIGS = sorted((ROOT / "configs").glob("systolic*.yaml"))

AXES: dict[str, list[Any]] = {
    "dataflow": ["output_stationary", "weight_stationary", "input_stationary"],
    "rows": [1, 2, 5, 8, 17, 33],
    "cols": [1, 3, 7, 8, 18],
    "operands": [
        ("int8", "int8"),
        ("uint8", "int8"),
        ("int5", "uint3"),
        ("int2", "int2"),
        ("uint16", "uint16"),
        ("int16", "ternary"),
    ],
    "accumulator": ["exact", "wrap", "saturate"],
    "pe": [0, 1, 2],
    "broadcast": [1, 3, 16],
    "depth": [1, 2, 7, 64],
    "max_k": [9, 65536],
}
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


def configuration(name: str, values: dict[str, Any]) -> SystolicConfig:
    """Return the configuration of one point of the covering set."""
    activation, weight = values["operands"]
    array = {key: values[key] for key in ("rows", "cols", "dataflow", "broadcast")}
    if values["dataflow"] != "output_stationary":
        array["accumulator_depth"] = values["depth"]
    data: dict[str, Any] = {
        "name": name,
        "activation": activation,
        "weight": weight,
        "max_k": values["max_k"],
        "array": array,
        "pipeline": {"pe": values["pe"]},
    }
    if values["accumulator"] != "exact":
        # Narrow enough to overflow often, in a format that the operands allow.
        exact = SystolicConfig.model_validate(data)
        width = exact.product.width + 2
        data["accumulator"] = f"{'' if exact.product.signed else 'u'}int{width}"
        data["overflow"] = values["accumulator"]
    return SystolicConfig.model_validate(data)


POINTS = covering_points(AXES)
COVERING = [
    configuration(f"cover_{i}", dict(zip(AXES, point, strict=True)))
    for i, point in enumerate(POINTS)
]


def test_the_covering_set_has_every_pair() -> None:
    assert missing_pairs(AXES, POINTS) == []


@pytest.mark.slow
@pytest.mark.parametrize("config", sampled(COVERING, every=6))
def test_covering_set(config: SystolicConfig, tmp_path: Path) -> None:
    assert_passed(regress(design_of(config), tmp_path, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configurations(path: Path, tmp_path: Path) -> None:
    assert_passed(regress(design_of(load_config(path)), tmp_path))


@pytest.mark.slow
def test_other_drivers_of_streams(tmp_path: Path) -> None:
    """The bus models of cocotbext-axi understand a core as ours do."""
    config = sized(4, 5, "output_stationary")
    plan = {"seed": 4, "sizes": [(9, 20, 13), (1, 33, 7), (17, 5, 40)], "pauses": [0, 0.5]}
    built = compile_design(design_of(config))
    outcomes = simulate(config, built, "sim_tests.simulation.cocotb_axi_stream", plan, tmp_path)
    assert_passed(outcomes)
    assert len(outcomes) == 2


def sized(rows: int, cols: int, dataflow: str) -> SystolicConfig:
    return SystolicConfig.model_validate(
        {
            "name": f"sized_{rows}x{cols}",
            "array": {"rows": rows, "cols": cols, "dataflow": dataflow},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", AXES["dataflow"])
@pytest.mark.parametrize(("rows", "cols"), [(8, 8), (16, 16), (5, 7), (1, 1)])
def test_steady_state(rows: int, cols: int, dataflow: str) -> None:
    """64 tiles of K = 256 back to back keep the PEs busy, fill and drain included."""
    config = sized(rows, cols, dataflow)
    if dataflow == "output_stationary":
        m, k, n = 8 * rows, 256, 8 * cols
    else:
        # 256 rows of results accumulate over K = 256 for every tile of columns.
        m, k, n = 256, 256 // rows * rows, cols * max(1, 64 * rows // 256)
        if dataflow == "input_stationary":
            m, n = n, m
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (m, k), dtype=np.int8)
    w = rng.integers(-128, 128, (k, n), dtype=np.int8)
    result = run_matrices(design_of(config), a, w)
    assert np.array_equal(result.c, a.astype(np.int64) @ w.astype(np.int64))
    assert result.cycles == cycles(config, m, k, n)
    assert m * k * n / (config.macs_per_cycle * result.cycles) >= 0.99


@pytest.mark.parametrize("dataflow", AXES["dataflow"])
def test_cycles_of_jobs(dataflow: str) -> None:
    """A list of products never takes longer than the products one by one."""
    config = sized(5, 7, dataflow)
    sizes = [(3, 4, 5), (20, 1, 8), (1, 30, 1)]
    together = cycles_of(config, sizes)
    assert together < sum(cycles(config, *size) for size in sizes)
    assert cycles_of(config, sizes[:1]) == cycles(config, *sizes[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"array": {"rows": 3, "cols": 4, "broadcast": 2, "encoding": "ent", "carry_spacing": 3},
         "pipeline": {"pe": 1}},
        {"array": {"rows": 18, "cols": 2, "carry_spacing": 1}, "weight": "uint4",
         "accumulator": "int14", "pipeline": {"final_adder": 3}},
        {"array": {"rows": 2, "cols": 3}, "activation": "uint5", "weight": "uint16",
         "pipeline": {"pe": 2}},
        {"array": {"rows": 3, "cols": 2}, "pipeline": {"final_adder": 1}},
    ],
    ids=["columns", "rows", "unsigned", "steps"],
)  # fmt: skip
def test_multiplication_by_digits(values: dict[str, Any], tmp_path: Path) -> None:
    values["array"]["pe"] = "carry_save"
    config = SystolicConfig.model_validate({"name": "digits", **values})
    assert_passed(regress(design_of(config), tmp_path, seed=1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{pe: carry_save, dataflow: weight_stationary}", "array.pe: carry_save needs dataflow"),
        ("{encoding: ent}", "array.encoding: a mac does not multiply by digits"),
        ("{pe: same_weight}", "array.pe: must be mac, carry_save or hybrid"),
        ("{}\npipeline: {final_adder: 1}", "pipeline.final_adder: must be 0 with array.pe mac"),
    ],
)
def test_elements_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(f"name: c\nfamily: systolic\narray: {text}\n")
