# SPDX-License-Identifier: Apache-2.0
"""Points of sweeps that need no netlist, and netlists that several points share."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cost_model.configurations.configurations import configuration
from cost_model.sweep import exclusion
from cost_model.sweep.document import read_sweep
from cost_model.sweep.exclusion import ask_within, limits_of
from cost_model.sweep.expressions import Expression
from cost_model.sweep.netlists import (
    Answer,
    Evaluation,
    Excluded,
    Netlists,
    Question,
    hardware_count,
)
from cost_model.sweep.plan import Plan
from cost_model.sweep.refine import few_questions
from cost_model.sweep.refusals import refusals
from cost_model.sweep.samples import pools
from flows.build.costs import NetlistCosts
from flows.tools.executors import LocalProcesses
from hwgen.cli import main

SWEEP = """\
name: limited
family: systolic
parameters:
  activation: [int4, bf16]
  array: {rows: [2, 4, 8, 16, 32], cols: [2, 4, 8, 16, 32], broadcast: [1, 2]}
targets: {technology: [nangate45, asap7]}
workloads: {w: [{m: 8, k: 8, n: 8}]}
specs: [cycles(w) <= 100000, area_mm2 <= 0.05]
objectives: {minimize: [area_mm2], maximize: [tops]}
group_by: target.technology
"""

AREA = {"int4": 100.0, "bf16": 9000.0}
SCALE = {"nangate45": 1.0, "asap7": 0.1}


class Invented:
    """Costs of an array that are easy to check by hand; notes what is evaluated."""

    def __init__(self) -> None:
        self.evaluated: list[dict[str, Any]] = []

    def evaluate(
        self, family: str, values: Mapping[str, Any], workloads: Mapping[str, Any]
    ) -> Answer:
        """Return the costs of a configuration."""
        self.evaluated.append(dict(values))
        config: Any = configuration(family, values)
        rows, cols = config.array.rows, config.array.cols
        area = AREA[config.activation.name] * rows * cols * SCALE[config.target.technology]
        area *= 1 - 0.01 * config.array.broadcast
        fmax = 1000 / (1.0 + 0.1 * math.log2(rows + 1))
        metrics = {"area_mm2": area * 1e-6, "fmax_mhz": fmax, "tops": 2e-6 * rows * cols * fmax,
                   "cycles(w)": 100.0}  # fmt: skip
        return Evaluation(metrics)


class Here:
    """Executor in this process that notes what is asked together."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def run(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield each item with its result, the last one first."""
        self.batches.append(list(items))
        for item in reversed(items):
            yield item, function(item)


def plan_of(folder: Path, text: str = SWEEP) -> Plan:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return read_sweep(path, "0").plan


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("area_mm2 <= 1", ("area_mm2", 1.0)),
        ("area_mm2 < 2 * 0.25", ("area_mm2", 0.5)),
        ("3 >= latency_ms(w)", ("latency_ms(w)", 3.0)),
        ("area_mm2 >= 1", None),
        ("area_mm2 <= power_w", None),
        ("2 * area_mm2 <= 1", None),
        ("0 < area_mm2 <= 1", None),
        ("area_mm2 <= 1 and tops >= 1", None),
        ("fits", None),
    ],
)
def test_upper_bounds_of_conditions(text: str, bound: tuple[str, float] | None) -> None:
    assert Expression(text).upper_bound == bound


def test_limits_are_specs_of_hardware(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert [(limit.spec, limit.metrics, limit.value) for limit in limits_of(plan)] == [
        (1, ("area_mm2",), 0.05)
    ]


def run(folder: Path) -> tuple[dict[str, Any], str, Invented]:
    """Return the summary, the Pareto set, and the costs that were asked."""
    (folder / "sweep.yaml").write_text(SWEEP)
    costs = Invented()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetlistCosts, "evaluate", lambda _, *asked: costs.evaluate(*asked))
        asked = ["--config", str(folder / "sweep.yaml"), "--output", str(folder / "out")]
        assert main(["sweep", *asked, "--jobs", "1", "--json", "--force"]) == 0
    summary = json.loads((folder / "out" / "summary.json").read_text())
    return summary, (folder / "out" / "pareto.csv").read_text(), costs


def test_excluded_points_change_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary, front, costs = run(tmp_path)
    assert summary["excluded"] + len(costs.evaluated) == summary["evaluated"] == 200
    assert summary["excluded"] > 40
    monkeypatch.setattr(exclusion, "MARGIN", math.inf)
    whole, same, every = run(tmp_path)
    assert len(every.evaluated) == 200
    assert whole["excluded"] == 0
    assert same == front
    assert {**whole, "excluded": None} == {**summary, "excluded": None}
    # If larger designs excluded smaller ones, points would be lost, and the comparison notices it.
    monkeypatch.undo()
    right = exclusion._Structure.smaller
    monkeypatch.setattr(exclusion._Structure, "smaller", lambda points: right(points).T)
    assert run(tmp_path)[1] != front


def test_a_larger_array_is_excluded_and_nothing_else(tmp_path: Path) -> None:
    plan, costs = plan_of(tmp_path), Invented()
    asked = [pool.question(point) for pool in pools(plan) for point in pool.points]
    netlists = Netlists(costs)
    ask_within(plan, netlists, asked, Here())
    excluded = [
        json.loads(each.values) for each in asked if isinstance(netlists.answers[each], Excluded)
    ]
    assert len(excluded) == netlists.excluded > 0
    for values in excluded:
        assert any(
            each["array.rows"] <= values["array.rows"]
            and each["array.cols"] <= values["array.cols"]
            and (each["array.rows"], each["array.cols"])
            != (values["array.rows"], values["array.cols"])
            and all(
                each[name] == values[name]
                for name in ("activation", "array.broadcast", "target.technology")
            )
            and (costs.evaluate("systolic", each, {}).metrics["area_mm2"] or 0) > 1.5 * 0.05  # type: ignore[union-attr]
            for each in costs.evaluated[: len(asked) - len(excluded)]
        )


def test_many_points_are_compared_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path)
    asked = [pool.question(point) for pool in pools(plan) for point in pool.points]
    excluded = []
    for most in (2000, 7):
        monkeypatch.setattr(exclusion, "_COMPARED", most)
        netlists = Netlists(Invented())
        ask_within(plan, netlists, asked, Here())
        assert len(netlists.answers) == len(asked)
        excluded.append(netlists.excluded)
    assert excluded[0] > excluded[1] > 0


def test_earlier_answers_exclude_as_well(tmp_path: Path) -> None:
    plan, costs = plan_of(tmp_path), Invented()
    netlists = Netlists(costs)
    asked = {
        rows: Question.of("systolic", {"activation": "bf16", "array.rows": rows, "array.cols": 8},
                          "nangate45") for rows in (4, 16)
    }  # fmt: skip
    ask_within(plan, netlists, [asked[4]], Here())
    ask_within(plan, netlists, [asked[16]], Here())
    assert len(costs.evaluated) == 1
    assert netlists.answers[asked[16]] == Excluded(1)


def test_technologies_share_a_piece_of_work(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SWEEP.replace(", area_mm2 <= 0.05", ""))
    drawn, executor = pools(plan), Here()
    asked = few_questions(drawn)
    assert asked is not None
    assert len(asked) == 2 * hardware_count(asked) == 200
    progress: list[tuple[int, int]] = []
    netlists = Netlists(Invented())
    ask_within(plan, netlists, asked, executor, lambda done, total: progress.append((done, total)))
    (batch,) = executor.batches
    assert {len(questions) for questions in batch} == {2}
    assert progress == [(done, 100) for done in range(101)]
    for each in asked:  # answers belong to their questions, in any order
        values = json.loads(each.values)
        assert netlists.answers[each] == Invented().evaluate("systolic", values, {})


def test_netlists_are_counted_and_not_points(tmp_path: Path) -> None:
    sizes = "rows: {from: 2, to: 15}, cols: {from: 2, to: 15}"
    text = SWEEP.replace("[int4, bf16]", "int4").replace(", broadcast: [1, 2]", "")
    for last, few in ((15, True), (22, False)):
        changed = sizes.replace("15", str(last), 1)
        some = text.replace("rows: [2, 4, 8, 16, 32], cols: [2, 4, 8, 16, 32]", changed)
        drawn = pools(plan_of(tmp_path, some))
        assert (few_questions(drawn) is not None) is few


def process_of(_: int) -> int:
    return os.getpid()


def test_processes_stay_for_a_whole_sweep() -> None:
    with LocalProcesses(2) as executor:
        first = {pid for _, pid in executor.run(process_of, range(6))}
        second = {pid for _, pid in executor.run(process_of, range(6))}
    assert first | second != {os.getpid()}
    assert len(first | second) <= 2
    third = {pid for _, pid in LocalProcesses(2).run(process_of, range(6))}
    assert not third & first


FORMATS = """\
name: formats
families:
  systolic: {parameters: {array: {rows: [4, 8], cols: [4, 8]}}}
  cube: {parameters: {array: {rows: [4, 8], cols: [4, 8]}}}
parameters:
  activation: [int8, bf16]
  weight: [int8, bf16]
constraints: [weight == activation]
objectives: {minimize: [area_mm2]}
"""


def test_rules_of_families_are_named_by_an_example(tmp_path: Path) -> None:
    examples = refusals(plan_of(tmp_path, FORMATS))
    assert [each.family for each in examples] == ["systolic", "cube"]
    for each in examples:
        assert each.problem.startswith("weight: must be shorter than bf16 with activation bf16")
        assert each.parameters["activation"] == each.parameters["weight"] == "bf16"
        assert str(each).startswith(f"{each.family} with activation bf16, weight bf16, rows 4, ")


def test_no_point_left_names_the_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sweep.yaml").write_text(FORMATS.replace("[int8, bf16]", "bf16"))
    assert main(["sweep", "-c", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert "8 of 8 points break a rule of their family; no point is left; systolic with" in printed
    assert "array.pe: fused with accumulator: aligned(24)" in printed
