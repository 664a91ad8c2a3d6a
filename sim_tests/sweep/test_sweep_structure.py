# SPDX-License-Identifier: Apache-2.0
"""Sweeps whose figures are those of the structure of the hardware."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cost_model.estimate.estimate import estimate
from cost_model.sweep import refine as refining
from flows.build.costs import NetlistCosts
from flows.build.load import load_config
from hwgen.cli import main
from sim_tests.support.designs import estimate_of

SWEEP = """\
name: arrays
family: systolic
parameters:
  activation: int4
  weight: int4
  array: {rows: [2, 3, 4], cols: [2, 3, 4], broadcast: [1, 2]}
workloads: {w: [{m: 8, k: 8, n: 8}]}
objectives: {minimize: [area_mm2], maximize: [tops]}
"""

FORMATS = """
name: s
family: cube
parameters: {activation: [int8], weight: [int4, mxfp4, nvfp4], array.rows: [1], array.depth: [16]}
objectives: {minimize: [area_mm2]}
"""

ENGINE = """\
name: engines
family: gemm_stream
parameters:
  buffers.activation_kib: [16, 32]
objectives: {minimize: [area_mm2]}
"""

Metrics = Callable[[Any, str, Any], Mapping[str, float | None] | str]


@pytest.fixture
def sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """Run ``hwgen sweep`` with figures in the place of those of structures, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, metrics: Metrics | None, *arguments: str, status: int = 0) -> Any:
        Path("sweep.yaml").write_text(text)
        if metrics is not None:
            monkeypatch.setattr(NetlistCosts, "metrics", staticmethod(metrics))
        asked = ["sweep", "--config", "sweep.yaml", "--output", "out", "--jobs", "1", "--json"]
        assert main([*asked, *arguments]) == status
        printed = capsys.readouterr()
        return json.loads(printed.out) if status == 0 else printed.err

    return run


def closed(config: Any, technology: str, workloads: Any) -> dict[str, Any]:
    """Return the figures of closed forms."""
    return dict(estimate(config, technology, None, workloads)["metrics"])


def front(name: str = "out") -> list[dict[str, str]]:
    with open(f"{name}/pareto.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_front_is_that_of_the_structural_metrics(
    sweep: Callable[..., dict[str, Any]],
) -> None:
    summary = sweep(SWEEP, None)
    assert summary["refine"] is None
    first = front()

    def metrics(config: Any, technology: str, workloads: Any) -> dict[str, Any]:
        factor = 1.1 if config.array.broadcast == int(first[-1]["array.broadcast"]) else 0.9
        result = closed(config, technology, workloads)
        return {**result, "area_mm2": factor * result["area_mm2"]}

    summary = sweep(f"{SWEEP}refine: 18\n", metrics, "--force")
    second = front()
    assert {row["array.broadcast"] for row in second} != {row["array.broadcast"] for row in first}
    assert {row["costs_of"] for row in second} == {"structure"}
    refined = summary["refine"]
    assert refined["by_structure"] == refined["candidates"] <= 18
    assert refined["refused"] == []
    assert 0.05 < refined["differences"]["area_mm2"]["mean"] < 0.15
    # The option wins, and with few candidates these are the nearest ones.
    summary = sweep(f"{SWEEP}refine: 18\n", metrics, "--refine", "2", "--force")
    assert summary["refine"]["candidates"] == 2


def test_all_points_state_the_basis_of_their_metrics(sweep: Callable[..., dict[str, Any]]) -> None:
    summary = sweep(f"{SWEEP}keep: all\ntop: 1\nrefine: 3\n", closed)
    rows = pq.read_table("out/results.parquet").to_pylist()
    assert len(rows) == 18
    named = [row["costs_of"] for row in rows]
    assert named.count("structure") == summary["refine"]["candidates"] == 3
    assert named.count("closed forms") == 15
    assert all(row["costs_of"] == "structure" for row in rows if row["pareto"])


def test_refused_candidates_are_told(sweep: Callable[..., dict[str, Any]]) -> None:
    def metrics(config: Any, technology: str, workloads: Any) -> dict[str, Any] | str:
        if config.array.rows == 4:
            return "too wide"
        return closed(config, technology, workloads)

    refined = sweep(SWEEP, metrics, "--refine", "18")["refine"]
    assert refined["refused"]
    assert {entry["problem"] for entry in refined["refused"]} == {"too wide"}
    assert refined["by_structure"] + len(refined["refused"]) == refined["candidates"]
    assert "4" not in {row["array.rows"] for row in front()}
    said = sweep(SWEEP, lambda *_: "too wide", "--refine", "18", "--force", status=2)
    assert "none of the" in said


def test_specs_hold_for_the_structural_metrics(sweep: Callable[..., dict[str, Any]]) -> None:
    def metrics(config: Any, technology: str, workloads: Any) -> dict[str, Any]:
        result = closed(config, technology, workloads)
        return {**result, "fmax_mhz": 900.0 if config.array.cols == 2 else 100.0}

    sweep(f"{SWEEP}specs: [fmax_mhz > 500]\n", metrics, "--refine", "18")
    assert {row["array.cols"] for row in front()} == {"2"}


def test_an_interrupted_refinement_continues(sweep: Callable[..., dict[str, Any]]) -> None:
    whole = sweep(SWEEP, closed, "--refine", "6")
    names = ("pareto.csv", "report.html", "results.parquet", "summary.json")
    before = {name: Path("out", name).read_bytes() for name in names}

    def stops(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    sweep(SWEEP, stops, "--refine", "6", "--force", status=130)
    again = sweep(SWEEP, closed, "--refine", "6", "--resume")
    assert again == whole
    for name, content in before.items():
        assert Path("out", name).read_bytes() == content
    # What is finished is not asked again.
    assert sweep(SWEEP, stops, "--refine", "6", "--resume") == whole


@pytest.mark.slow
def test_metrics_are_those_of_hwgen_estimate(sweep: Callable[..., dict[str, Any]]) -> None:
    sweep(SWEEP, None, "--refine", "2")
    for row in front():
        config = load_config(Path("out/configs") / row["config"])
        metrics = estimate_of(config)["metrics"]
        for metric in ("area_mm2", "power_w", "fmax_mhz"):
            assert float(row[metric]) == pytest.approx(metrics[metric], rel=1e-12)


def test_families_without_closed_forms_are_evaluated_by_structure(
    sweep: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def metrics(config: Any, technology: str, workloads: Any) -> dict[str, Any]:
        return {"area_mm2": 1.0 / config.buffers.activation_kib}

    summary = sweep(ENGINE, metrics)
    assert summary["evaluated"] == 2
    assert [row["buffers.activation_kib"] for row in front()] == ["32"]
    monkeypatch.setattr(refining, "MOST_POINTS", 1)
    said = sweep(ENGINE, metrics, "--force", status=2)
    assert "no closed forms of gemm_stream" in said
    assert "2 points are more than 1" in said


def test_formats_without_closed_forms_are_evaluated_by_structure(
    sweep: Callable[..., dict[str, Any]],
) -> None:
    asked = []

    def metrics(config: Any, technology: str, workloads: Any) -> dict[str, Any]:
        asked.append(str(config.weight))
        return {"area_mm2": 7.0, "power_w": 1.0, "fmax_mhz": 500.0}

    summary = sweep(FORMATS, metrics)
    assert summary["evaluated"] == 3
    assert set(asked) == {"mxfp4", "nvfp4"}
    assert [row["weight"] for row in front()] == ["int4"]  # by its closed form, and smaller


def test_how_much_better_a_point_must_be() -> None:
    near = refining._Near(np.array([[1.0, -4.0], [2.0, -8.0]]), 0.1, 9)
    values = np.array([[1.0, -4.0], [1.05, -4.0], [1.5, -4.0], [1.05, -3.9], [0.9, -1.0]])
    need = np.expm1(near.need(values))
    assert need == pytest.approx([0.0, 0.0, 0.0, 4 / 3.9 - 1, -0.1], abs=1e-9)
    worse = np.expm1(near.need(np.array([[2.4, -6.0]])))
    assert worse == pytest.approx([0.2])
