# SPDX-License-Identifier: Apache-2.0
"""The cost model: cycles and legality of many configurations, tables, estimates."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_model.configurations.configurations import Configurations, defaults
from cost_model.estimate import technology as technologies
from cost_model.estimate.estimate import estimate
from cost_model.estimate.technology import read
from cost_model.netlist.fabric import components as fabric_bill
from cost_model.netlist.fabric.components import EXACT
from cost_model.netlist.fabric.fabric import fabric
from cost_model.sweep.fitted import Fitted
from flows.bench import cost_tables as cost
from flows.bench.cost_tables import Point
from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.build.load import load_config, parse_config
from flows.calibration.calibrate import calibrate
from hwgen.cli import main
from hwgen.config.dotted import flattened, nested
from hwgen.core.params.processing_elements import QUEUES
from hwgen.core.params.spatial import SERIAL
from hwgen.core.registry import core_of, family
from hwgen.errors import InputError
from hwgen.reports.datasheet import breakdown
from hwgen.workloads import network_of
from sim_tests.support.cores import cycles, cycles_of
from sim_tests.support.designs import estimate_of
from sim_tests.support.paths import CONFIGS

TECH = "nangate45"
NUMERIC = ("array.", "pipeline.", "max_k")
evaluate = Fitted()
"""Metrics of configurations, without costs."""


def config_of(values: dict[str, Any]) -> Any:
    """Return the configuration with dotted parameters."""
    tree = nested({name: value for name, value in values.items() if name != "family"})
    name = values["family"]
    return family(name).params_class.model_validate({"name": "core", "family": name, **tree})


def test_figures_of_cores_are_computed_once_for_all_clocks() -> None:
    seen = []

    def of(core: Any) -> float:
        rows = core.params.array.rows
        if isinstance(rows, np.ndarray):
            raise TypeError("one core at a time")
        seen.append((rows, core.params.target.clock_mhz))
        return float(rows)

    clocks = np.array([[-5.0, 200.0, 300.0]])  # the first one is illegal
    some = Configurations(
        "systolic", {}, {"array.rows": np.array([[2], [3]]), "target.clock_mhz": clocks}
    )
    assert some.evaluate_one(of).tolist() == [[2, 2, 2], [3, 3, 3]]
    assert seen == [(2, 200.0), (3, 200.0)]


# -- strategies ------------------------------------------------------------------------------------

sizes = st.lists(
    st.tuples(st.integers(1, 90), st.integers(1, 300), st.integers(1, 90)), min_size=1, max_size=3
)
systolic = st.fixed_dictionaries(
    {
        "family": st.just("systolic"),
        "activation": st.sampled_from(["int4", "int8", "uint8", "int16"]),
        "array.rows": st.integers(1, 40),
        "array.cols": st.integers(1, 40),
        "array.broadcast": st.sampled_from([1, 4, 16]),
        "pipeline.pe": st.integers(0, 2),
    }
)
dataflows = st.one_of(
    st.just({"array.dataflow": "output_stationary"}),
    st.fixed_dictionaries(
        {
            "array.dataflow": st.sampled_from(["weight_stationary", "input_stationary"]),
            "array.accumulator_depth": st.sampled_from([1, 2, 7, 64]),
        }
    ),
)
ternary = st.fixed_dictionaries(
    {
        "family": st.just("ternary_lut"),
        "activation": st.sampled_from(["int4", "int8", "uint8", "int16"]),
        "weight": st.sampled_from(["ternary", "int1", "int2", "int4"]),
        "array.group_size": st.integers(1, 4),
        "array.tables": st.integers(1, 20),
        "array.fetch_ports": st.integers(1, 40),
        "array.accumulator_depth": st.sampled_from([1, 2, 7, 64]),
        "array.fetch": st.sampled_from(["binary", "one_hot"]),
        "array.reduction": st.sampled_from(["adders", "compressors"]),
        "pipeline.table": st.integers(1, 3),
        "pipeline.reduce": st.integers(0, 3),
    }
)
spatial = st.fixed_dictionaries(
    {
        "family": st.sampled_from(["cube", "adder_tree"]),
        "activation": st.sampled_from(["int4", "int8", "uint8"]),
        "array.rows": st.integers(1, 20),
        "array.cols": st.integers(1, 20),
        "array.depth": st.integers(2, 9),
        "pipeline.pe": st.integers(0, 2),
    }
)
broadcast = st.fixed_dictionaries(
    {
        "family": st.just("broadcast_2d"),
        "array.rows": st.integers(1, 40),
        "array.cols": st.integers(1, 40),
        "pipeline.pe": st.integers(0, 1),
    }
)
digits = st.fixed_dictionaries(
    {
        "array.encoding": st.sampled_from(["booth4", "ent"]),
        "array.carry_spacing": st.integers(1, 20),
        "pipeline.final_adder": st.integers(0, 3),
    }
)


def element(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.just({}),
        st.builds(lambda pe, more: {"array.pe": pe, **more}, st.sampled_from(names), digits),
    )


serial = st.fixed_dictionaries(
    {
        "family": st.just("broadcast_2d"),
        "activation": st.sampled_from(["int4", "int8", "uint8"]),
        "array.rows": st.integers(1, 64),
        "array.cols": st.integers(1, 40),
        "array.pe": st.sampled_from(SERIAL),
        "array.encoding": st.sampled_from(["booth4", "ent"]),
        "array.queue": st.sampled_from(QUEUES),
        "pipeline.pe": st.integers(0, 1),
        "target.activation_sigma": st.sampled_from([None, 20.0]),
    }
)
floats = st.fixed_dictionaries(
    {
        "family": st.just("ternary_lut"),
        "activation": st.sampled_from(["fp16", "bf16"]),
        "array.tables": st.integers(1, 9),
        "array.fetch_ports": st.integers(1, 9),
        "array.accumulator_depth": st.sampled_from([1, 3]),
        "array.alignment": st.sampled_from(["none", "beat"]),
        "pipeline.reduce": st.integers(0, 2),
        "pipeline.accumulate": st.integers(0, 4),
    }
)
cores = st.one_of(
    st.builds(lambda a, b: {**a, **b}, systolic, dataflows),
    st.builds(lambda a, b: {**a, **b}, systolic, element("carry_save")),
    st.builds(lambda a, b: {**a, **b}, spatial, element("carry_save", "same_weight")),
    st.builds(lambda a, b: {**a, **b}, broadcast, element("carry_save")),
    serial,
    ternary,
    floats,
)


# -- evaluate --------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(cores, sizes)
def test_arrays_single_values_and_the_family_agree(values: dict[str, Any], mkn: Any) -> None:
    config = config_of(values)
    exact = cycles_of(config, mkn)
    workloads = {"w": mkn}
    fixed = flattened(config.resolved())
    alone = evaluate(config.family, fixed, {}, TECH, workloads)
    names = [n for n, v in fixed.items() if type(v) is int and n.startswith(NUMERIC)]
    varying = {name: np.array([fixed.pop(name)] * 3) for name in names}
    together = evaluate(config.family, fixed, varying, TECH, workloads)
    assert alone["valid"].all()
    assert together["valid"].all()
    assert (together["cycles(w)"] == exact).all()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], float(value), rtol=1e-9, err_msg=name)


@settings(max_examples=60)
@given(cores, sizes, st.sampled_from([TECH, "ecp5"]), st.integers(0, 1 << 30))
def test_blocks_and_lists_of_points_agree(
    values: dict[str, Any], mkn: Any, technology: str, seed: int
) -> None:
    """Parameters along axes of their own give what they give point by point, to the last bit."""
    rng = np.random.default_rng(seed)
    fixed = {**flattened(config_of(values).resolved()), "target.technology": technology}
    names = [n for n, v in fixed.items() if type(v) is int and n.startswith(NUMERIC)]
    names = [str(name) for name in rng.permutation(names)[:3]]
    block = {}
    for place, name in enumerate(names):
        around = fixed.pop(name) + rng.integers(-1, 5, int(rng.integers(1, 5)))
        shape = [1] * len(names)
        shape[place] = len(around)
        block[name] = np.maximum(around, 0).reshape(shape)
    listed = dict(zip(names, map(np.ravel, np.broadcast_arrays(*block.values())), strict=True))
    workloads = {"w": mkn}
    points = evaluate(values["family"], fixed, listed, technology, workloads)
    for name, result in evaluate(values["family"], fixed, block, technology, workloads).items():
        np.testing.assert_array_equal(result.ravel(), points[name], err_msg=name)


@settings(max_examples=60)
@given(cores, st.data())
def test_what_is_not_legal_is_not_valid(values: dict[str, Any], data: st.DataObject) -> None:
    fixed = {**defaults(values["family"]), **values}
    for name in ("name", "family"):
        del fixed[name]
    if values.get("array.dataflow") == "output_stationary":
        del fixed["array.accumulator_depth"]
    name = data.draw(st.sampled_from([n for n, v in values.items() if type(v) is int]))
    given = np.array(data.draw(st.lists(st.integers(-2, 300), min_size=1, max_size=4)))
    del fixed[name]
    result = evaluate(values["family"], fixed, {name: given}, TECH, {})
    for value, valid in zip(given.tolist(), result["valid"], strict=True):
        try:
            config_of({**values, name: value})
        except ValueError:
            assert not valid
        else:
            assert valid


def test_without_costs_only_cycles_are_estimated() -> None:
    result = evaluate("systolic", {}, {}, "no-such", {"w": network_of([(4, 4, 4)])})
    assert result["cycles(w)"] > 0
    assert all(math.isnan(result[m]) for m in ("area_mm2", "power_w", "fmax_mhz", "luts"))


def test_parameters_may_be_lists() -> None:
    config: Any = parse_config(
        "name: e\nfamily: gemm_stream\npost: {roundings: [half_even, half_up], outputs: [int8]}\n"
    )
    result = estimate(
        core_of(config), retarget(config.target, TECH), {"w": [(20, 40, 30), (1, 3, 2)]}
    )["metrics"]
    assert result["area_mm2"] is None
    assert result["cycles(w)"] == cycles(config, 20, 40, 30) + cycles(config, 1, 3, 2)
    assert result["tops"] == pytest.approx(2e-6 * config.macs_per_cycle * config.target.clock_mhz)


def test_a_reduction_that_is_too_long_has_no_cycles() -> None:
    result = evaluate(
        "systolic", {}, {"max_k": np.array([10, 100])}, TECH, {"w": network_of([(4, 50, 4)])}
    )
    assert np.isnan(result["cycles(w)"]).tolist() == [True, False]


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in technologies.calibrated() if fabric(name)])
def test_tables_know_every_kind_of_component(name: str) -> None:
    tech = technologies.technology(name)
    assert tech.name == name
    assert tech.structure["costs"].keys() >= {*EXACT.values(), "luts"}
    assert tech.structure["costs"]["luts"].keys() == fabric_bill.COMPONENTS.keys()
    assert tech.structure["provenance"]["designs"] > 30


def test_errors_of_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no costs are known of the technology 'nangate4'.*did"):
        technologies.technology("nangate4")
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(InputError, match=r"broken\.json: not a table of costs"):
        read(path)
    with pytest.raises(InputError, match="no technology is called 'asic'"):
        calibrate("asic")


# -- calibration -----------------------------------------------------------------------------------


def test_errors_of_estimates_are_summed_up() -> None:
    points = [
        Point(TECH, {}, 1.0, {"area": a * (1 + e)}, {"area": a})
        for a, e in ((1.0, 0.02), (2.0, -0.04), (3.0, 0.0))
    ]
    result = cost.summarise(points, "area")
    assert result is not None
    errors = result.errors
    assert (errors.mape, errors.worst, errors.tau) == pytest.approx((0.02, -0.04, 1.0))
    assert cost.kendall([1, 2, 3], [3, 2, 1]) == -1.0
    assert cost.summarise([Point(TECH, {}, 1.0, {"area": None}, {"area": 1.0})], "area") is None


# -- estimate --------------------------------------------------------------------------------------


@pytest.fixture
def yaml_file(tmp_path: Path) -> Path:
    path = tmp_path / "lut.yaml"
    path.write_text("name: lut\nfamily: ternary_lut\narray: {accumulator_depth: 1}\n")
    return path


def test_an_estimate_adds_up() -> None:
    result = estimate_of(config_of({"family": "systolic"}), TECH, 300.0, {"w": [(16, 16, 16)]})
    parts = sum(part["area_um2"] for part in result["breakdown"])
    metrics = result["metrics"]
    assert parts == pytest.approx(metrics["area_mm2"] * 1e6)
    assert metrics["tops"] == pytest.approx(2 * 256 * 300e-6)
    assert metrics["latency_ms(w)"] == pytest.approx(metrics["cycles(w)"] / 300e3)
    assert metrics["energy_mj(w)"] == pytest.approx(metrics["power_w"] * metrics["latency_ms(w)"])
    assert result["meets_clock"] is True
    assert metrics["luts"] is None


def test_parts_are_those_of_the_technology_asked_for() -> None:
    result = estimate_of(config_of({"family": "systolic"}), "ecp5")
    assert sum(part["luts"] for part in result["breakdown"]) == pytest.approx(
        result["metrics"]["luts"], abs=1
    )
    assert sum(part["dsps"] for part in result["breakdown"]) == result["metrics"]["dsps"]


def test_nothing_is_said_of_fpgas_without_rules(without_rules: str) -> None:
    config = config_of({"family": "systolic", "target.technology": without_rules})
    result = estimate(core_of(config), workloads={"w": [(8, 8, 8)]})
    assert (result["technology"], result["calibrated"]) == (without_rules, False)
    assert result["breakdown"] == []
    assert result["metrics"]["cycles(w)"]
    assert result["metrics"]["luts"] is None


def test_estimate_prints(yaml_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["estimate", "--config", str(yaml_file), "--gemm", "1,64,64"]
    assert main([*arguments, "--workload", "minilm_l6"]) == 0
    text = capsys.readouterr().out
    assert "mm²" in text
    assert "register bit" in text
    assert "minilm_l6" in text
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["metrics"]["cycles(1x64x64)"] > 0
    assert main([*arguments, "--compare", str(yaml_file)]) == 0
    text = capsys.readouterr().out
    assert "(1.00x)" in text
    assert re.search(r"Fmax MHz .* modelled, ± [\d.]+ %", text)
    other = yaml_file.with_name("other.yaml")
    other.write_text(yaml_file.read_text())
    assert main([*arguments, "--config", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [data, data]
    assert main([*arguments, "--config", str(other)]) == 0
    assert "(1.00x)" in capsys.readouterr().out


def test_a_clock_within_the_interval_of_fmax_is_stated(
    yaml_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml_file.write_text("name: a\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    arguments = ["estimate", "--config", str(yaml_file), "--clock-mhz"]
    stated = {}
    for clock in range(100, 1500, 50):
        assert main([*arguments, str(clock), "--json"]) == 0
        entry = json.loads(capsys.readouterr().out)
        fmax = entry["metrics"]["fmax_mhz"]
        within = entry["certainty"]["fmax_mhz"]["within"]
        assert main([*arguments, str(clock)]) == 0
        words = "is reached, but may not be, within the ±" in capsys.readouterr().out
        assert words == (fmax * (1 - within) < clock <= fmax)
        stated[words] = clock
    assert set(stated) == {True, False}


def test_parts_are_sorted_by_cost_and_none_with_dsp_blocks_is_hidden() -> None:
    config = load_config(CONFIGS / "gemm_stream.yaml")
    entry = Build(Design.of(config), retarget(config.target, "ecp5")).estimate()
    key, parts = breakdown(entry)
    assert key == "luts"
    *shown, (rest, _) = parts
    assert [part[key] for part, _ in shown] == sorted((p[key] for p, _ in shown), reverse=True)
    assert rest["part"].endswith(" others")
    assert not rest["dsps"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gemm", "1,2"], "a product is M,K,N"),
        (["--gemm", "1,2,0"], "a product is M,K,N"),
        (["--gemm", "1000000000000000000,1000000,1"], "three integers of 1 to 2147483647"),
        (["--gemm", "2000000000,1000,2000000000"], "more than 2**53 = 9007199254740992"),
        (["--gemm", "9" * 5000 + ",1,1"], "a product is M,K,N"),
        (["--gemm", "1,70000,1"], "K = 70000 is more than its max_k"),
        (["--workload", "minilm"], "no workload is called 'minilm'"),
        (
            ["--target", "nangate"],
            "no technology or device is called 'nangate' (did you mean 'nangate45'?)",
        ),
        *(
            (["--clock-mhz", clock], f"the clock target must be 1..5000 MHz, not {clock}")
            for clock in ("0", "nan", "inf", "-inf", "-1", "1e999", "fast")
        ),
    ],
)
def test_estimate_refuses(
    yaml_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["estimate", "--config", str(yaml_file), *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
