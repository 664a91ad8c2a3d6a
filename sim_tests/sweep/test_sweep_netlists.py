# SPDX-License-Identifier: Apache-2.0
"""Sweeps by netlists: fits, candidates, and what is returned."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cost_model.configurations.configurations import configuration
from cost_model.sweep import refine as refining
from cost_model.sweep.document import read_sweep
from cost_model.sweep.fit import Points, Variables, fit
from cost_model.sweep.fitted import GOALS, Fitted, fitted
from cost_model.sweep.netlists import Answer, Evaluation, Netlists, Part
from cost_model.sweep.samples import pools
from flows.build.costs import NetlistCosts
from flows.build.load import load_config
from flows.tools.executors import LocalProcesses
from hwgen.cli import main
from sim_tests.support.designs import estimate_of

SWEEP = """\
name: arrays
family: systolic
parameters:
  activation: int4
  weight: int4
  array: {rows: {from: 2, to: 19}, cols: {from: 2, to: 21}, broadcast: [1, 2]}
workloads: {w: [{m: 8, k: 8, n: 8}]}
objectives: {minimize: [area_mm2], maximize: [tops]}
"""

SMALL = """\
name: small
family: systolic
parameters:
  activation: int4
  weight: int4
  array: {rows: [2, 3], cols: [2, 3], broadcast: [1, 2]}
objectives: {minimize: [area_mm2], maximize: [tops]}
"""

ENGINE = """\
name: engines
family: gemm_stream
parameters:
  buffers.activation_kib: [16, 32]
objectives: {minimize: [area_mm2]}
"""

Costs = Callable[[Any, str, Mapping[str, Any], Mapping[str, Any]], Answer]


def invented(_: Any, family: str, values: Mapping[str, Any], workloads: object) -> Answer:
    """Return costs of an array that are easy to check by hand."""
    config: Any = configuration(family, values)
    rows, cols = config.array.rows, config.array.cols
    pes, edges = rows * cols * 100.0, 30.0 * rows + 50.0 * cols * config.array.broadcast
    period = 1.0 + 0.1 * math.log2(rows + 1)
    area, fmax = pes + edges, 1000 / period
    clock = min(float(config.target.clock_mhz), fmax)
    power = (0.1 * area + 2.0 * area * clock) * 1e-9
    metrics = {
        "area_mm2": area * 1e-6, "fmax_mhz": fmax, "power_w": power,
        "tops": 2e-6 * rows * cols * clock,
    }  # fmt: skip
    parts = {"pe": Part(rows * cols, (pes, 2 * pes, 0.1 * pes)),
             "edge": Part(1, (edges, 2 * edges, 0.1 * edges))}  # fmt: skip
    sums = {"area_um2": area, "energy_fj": 2 * area, "leakage_nw": 0.1 * area}
    return Evaluation(metrics, sums, parts)


@pytest.fixture
def sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """Run ``hwgen sweep`` with costs in the place of those of netlists, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, costs: Costs | None, *arguments: str, status: int = 0) -> Any:
        Path("sweep.yaml").write_text(text)
        if costs is not None:
            monkeypatch.setattr(NetlistCosts, "evaluate", costs)
        asked = ["sweep", "--config", "sweep.yaml", "--output", "out", "--jobs", "1", "--json"]
        assert main([*asked, *arguments]) == status
        printed = capsys.readouterr()
        return json.loads(printed.out) if status == 0 else printed.err

    return run


def front(name: str = "out") -> list[dict[str, str]]:
    with open(f"{name}/pareto.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def exhaustive() -> set[tuple[float, float]]:
    """Return the figures of the Pareto set of `SWEEP` by a plain loop over `invented`."""
    points = []
    for rows in range(2, 20):
        for cols in range(2, 22):
            values = {"array.rows": rows, "array.cols": cols, "array.broadcast": 1}
            answer = invented(None, "systolic", values, {})
            assert isinstance(answer, Evaluation)
            points.append((answer.metrics["area_mm2"] or 0.0, -(answer.metrics["tops"] or 0.0)))
    return {
        mine
        for mine in points
        if not any(a[0] <= mine[0] and a[1] <= mine[1] and a != mine for a in points)
    }


def test_groups_of_parameters_are_values() -> None:
    small, large = {"family": "systolic"}, {"family": "cube"}
    columns: dict[str, list[Any]] = {
        "compute": [small, large, small, large],
        "a": ["x", "x", "y", "y"],
        "b": [1, 2, 1, 2],
    }
    variables = Variables.of(columns)
    assert variables.levels == {"compute": (small, large), "a": ("x", "y"), "b": (1, 2)}
    assert len(variables.structures) == 4


def test_the_front_is_that_of_an_exhaustive_search(sweep: Callable[..., dict[str, Any]]) -> None:
    summary = sweep(SWEEP, invented, "--refine", "400")
    assert summary["evaluated"] == 720
    assert summary["refine"]["samples"] < 200
    assert max(summary["refine"]["margins"].values()) < 0.02
    assert {(float(row["area_mm2"]), -float(row["tops"])) for row in front()} == exhaustive()


def test_returned_points_have_the_costs_of_netlists(sweep: Callable[..., dict[str, Any]]) -> None:
    summary = sweep(f"{SWEEP}keep: all\ntop: 1\nrefine: 20\n", invented)
    rows = pq.read_table("out/results.parquet").to_pylist()
    assert len(rows) == 720
    named = [row["costs_of"] for row in rows]
    assert named.count("structure") == summary["refine"]["candidates"] == 20
    assert named.count("fit") == 700
    for row in rows:
        values = {key: row[key] for key in ("array.rows", "array.cols", "array.broadcast")}
        answer = invented(None, "systolic", values, {})
        assert isinstance(answer, Evaluation)
        exact = row["costs_of"] == "structure"
        close = 0 if exact else 0.02
        assert row["area_mm2"] == pytest.approx(answer.metrics["area_mm2"], rel=close, abs=0)
        assert exact or not row["pareto"]


def test_refused_points_are_reported_and_not_returned(sweep: Callable[..., dict[str, Any]]) -> None:
    def costs(self: Any, family: str, values: Mapping[str, Any], workloads: Any) -> Answer:
        if values["array.rows"] == 4:
            return "too wide"
        return invented(self, family, values, workloads)

    refined = sweep(SWEEP, costs, "--refine", "100")["refine"]
    assert {entry["problem"] for entry in refined["refused"]} == {"too wide"}
    assert refined["by_netlist"] + len(refined["refused"]) == refined["candidates"]
    assert "4" not in {row["array.rows"] for row in front()}


def test_specs_hold_for_the_returned_points(sweep: Callable[..., dict[str, Any]]) -> None:
    sweep(f"{SWEEP}specs: [fmax_mhz >= 725]\n", invented)
    assert all(float(row["fmax_mhz"]) >= 725 for row in front())


def test_small_sweeps_are_evaluated_point_by_point(sweep: Callable[..., dict[str, Any]]) -> None:
    summary = sweep(SMALL, invented)
    assert (summary["evaluated"], summary["refine"]) == (8, None)
    assert {row["array.broadcast"] for row in front()} == {"1"}
    assert sweep(ENGINE, lambda *_: Evaluation({"area_mm2": 1.0}), "--force")["evaluated"] == 2


def test_an_interrupted_sweep_continues(sweep: Callable[..., dict[str, Any]]) -> None:
    whole = sweep(SWEEP, invented, "--refine", "6")
    names = ("pareto.csv", "report.html", "results.parquet", "summary.json")
    before = {name: Path("out", name).read_bytes() for name in names}

    def stops(*_: Any) -> Answer:
        raise KeyboardInterrupt

    sweep(SWEEP, stops, "--refine", "6", "--force", status=130)
    again = sweep(SWEEP, invented, "--refine", "6", "--resume")
    assert again == whole
    for name, content in before.items():
        assert Path("out", name).read_bytes() == content
    # What is finished is not asked again.
    assert sweep(SWEEP, stops, "--refine", "6", "--resume") == whole


@pytest.mark.slow
def test_returned_points_are_those_of_hwgen_estimate(sweep: Callable[..., dict[str, Any]]) -> None:
    sweep(SMALL, None)
    for row in front():
        config = load_config(Path("out/configs") / row["config"])
        metrics = estimate_of(config)["metrics"]
        for metric in ("area_mm2", "power_w", "fmax_mhz", "tops", "bandwidth_gb_s"):
            assert float(row[metric]) == metrics[metric]


@pytest.mark.slow
@pytest.mark.rotate(24)
def test_fits_are_close_to_netlists_of_other_points(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    plan = read_sweep(path, "0").plan
    (pool,), netlists = pools(plan), Netlists(NetlistCosts())
    model: Fitted = fitted(plan, [pool], netlists, LocalProcesses(2))
    others = [p for p in pool.points if pool.question(p) not in netlists.answers][:10]
    errors = []
    for point in others:
        answer = netlists.answer(pool.question(point), {})
        assert isinstance(answer, Evaluation)
        result = model("systolic", point, {}, "nangate45", {})
        errors.append([
            abs(float(result[metric]) / float(answer.metrics[metric] or 0) - 1)
            for metric in ("area_mm2", "fmax_mhz")
        ])  # fmt: skip
    area, fmax = np.sort(errors, axis=0).T
    assert area.mean() < 0.015
    assert fmax.mean() < 0.04
    # Nine of ten are within the goals of a fit, and the other one not far beyond.
    assert area[-2] < GOALS["area"]
    assert area[-1] < 2 * GOALS["area"]
    assert fmax[-2] < GOALS["fmax"]
    assert fmax[-1] < 2 * GOALS["fmax"]


def test_a_fit_finds_the_formula_that_made_the_samples() -> None:
    rng = np.random.default_rng(3)
    columns: dict[str, list[Any]] = {
        "kind": rng.choice(["a", "b", "c"], 60).tolist(),
        "x": rng.integers(1, 100, 60).tolist(),
        "y": rng.integers(1, 100, 60).tolist(),
    }

    def value_of(letter: str, x: int, y: int) -> float:
        return {"a": 3.0, "b": 7.0, "c": 1.0}[letter] * x * y + 20 * x + 5.0

    values = np.array([[value_of(*row)] for row in zip(*columns.values(), strict=True)])
    result = fit(columns, values)
    assert result.error < 1e-3
    (found,) = Points({"kind": "b", "x": np.arange(1, 300), "y": 17}).evaluate(result)
    assert found == pytest.approx([value_of("b", x, 17) for x in range(1, 300)], rel=0.01)


def test_how_much_better_a_point_must_be() -> None:
    near = refining._Near(np.array([[1.0, -4.0], [2.0, -8.0]]), 9, 2)
    values = np.array([[1.0, -4.0], [1.05, -4.0], [1.5, -4.0], [1.05, -3.9], [0.9, -1.0]])
    need = np.expm1(near.need(values))
    assert need == pytest.approx([0.0, 0.0, 0.0, 4 / 3.9 - 1, -0.1], abs=1e-9)
    worse = np.expm1(near.need(np.array([[2.4, -6.0]])))
    assert worse == pytest.approx([0.2])


DERIVED = """\
name: derived
families:
  systolic:
    parameters:
      array:
        rows: [2, 3]
        cols: 2
        dataflow: [output_stationary, weight_stationary]
        accumulator_depth: "128 if array.dataflow == 'weight_stationary' else 256"
parameters: {activation: int4, weight: int4}
workloads: {w: [{m: 8, k: 8, n: 8}]}
objectives: {minimize: [area_mm2, latency_ms(w)]}
keep: all
"""


def test_a_derived_number_is_legal_beside_other_axes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that follows from words alone is the same for all points of an array."""
    path = tmp_path / "sweep.yaml"
    path.write_text(DERIVED)
    assert main(["sweep", "-c", str(path), "-o", str(tmp_path / "out"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["points"], summary["feasible"]) == (4, 4), summary["removed"]


def test_a_parameter_with_two_values_is_sampled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second value of a structure may be one that breaks a rule."""
    path = tmp_path / "sweep.yaml"
    text = DERIVED.replace("rows: [2, 3]", "rows: 2").splitlines()
    text[8] = "        accumulator_depth: [256, 128]"
    path.write_text("\n".join(text) + "\n")
    assert main(["sweep", "-c", str(path), "-o", str(tmp_path / "out"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["points"], summary["removed"]["illegal"], summary["feasible"]) == (4, 1, 3)
