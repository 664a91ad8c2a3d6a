# SPDX-License-Identifier: Apache-2.0
"""Pareto sets by group: each equals that of a sweep of its group alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq
import pytest

from cost_model.estimate.technology import technology
from cost_model.sweep.document import read_sweep
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.journal import Journal
from cost_model.sweep.probe import probe
from cost_model.sweep.refine import candidates
from cost_model.sweep.table import table_of
from hwgen.cli import main
from hwgen.errors import ConfigError
from sim_tests.sweep.sweep_costs import evaluate, use_made_up_costs

TEXT = """\
name: groups
families: [ternary_lut, systolic]
parameters: {activation: [int4, int6, int8]}
targets: {technology: [nangate45, asap7]}
workloads: {layer: [{m: 4, k: 96, n: 60}]}
objectives: {minimize: [area_mm2], maximize: [tops]}
keep: all
"""
FAMILIES = """\
families:
  ternary_lut: {parameters: {array: {group_size: [1, 2, 3], tables: [4, 8, 16]}}}
  systolic: {parameters: {array: {rows: {from: 2, to: 24, step: 2}, cols: [4, 8]}}}
"""


WIDE = """\
name: wide
family: systolic
parameters:
  activation: [int4, int6, int8]
  array: {rows: {from: 1, to: 40}, cols: [4, 8]}
objectives: {minimize: [area_mm2], maximize: [tops]}
"""

T = TypeVar("T")
R = TypeVar("R")


def swept(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """Return the directory of a sweep of made-up costs."""
    use_made_up_costs(monkeypatch)
    folder.mkdir(exist_ok=True)
    (folder / "sweep.yaml").write_text(
        text.replace("families: [ternary_lut, systolic]\n", FAMILIES)
    )
    out = folder / "out"
    arguments = ["--config", str(folder / "sweep.yaml"), "--output", str(out), "--jobs", "1"]
    assert main(["sweep", *arguments]) == 0
    return out


def optimal(rows: list[dict[str, Any]]) -> set[int]:
    """Return the indices of the points that no other beats; of equal ones the first."""
    result = set()
    for row in rows:
        if not any(
            other["area_mm2"] <= row["area_mm2"]
            and other["tops"] >= row["tops"]
            and (
                (other["area_mm2"], other["tops"]) != (row["area_mm2"], row["tops"])
                or other["index"] < row["index"]
            )
            for other in rows
        ):
            result.add(row["index"])
    return result


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize(
    "name",
    ["activation", "target.technology", "family", "array.cols", "array.group_size",
     "[family, activation]", "[array.cols, target.technology, activation]"],
)  # fmt: skip
def test_every_group_has_its_pareto_set(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = swept(tmp_path, monkeypatch, f"{TEXT}group_by: {name}\n")
    rows = pq.read_table(out / "results.parquet").to_pylist()
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[each] for each in name.strip("[]").split(", "))
        groups.setdefault(key, []).append(row)
    assert len(groups) > 1
    expected = set[int]().union(*map(optimal, groups.values()))
    assert {row["index"] for row in rows if row["pareto"]} == expected
    assert expected > optimal(rows)
    with (out / "pareto.csv").open(newline="") as file:
        assert {int(row["index"]) for row in csv.DictReader(file)} == expected


@dataclass(frozen=True)
class Hopeful:
    """Made-up costs that may be better by a tenth, as fits may."""

    optimism: float = 0.0

    def __call__(self, *arguments: Any) -> dict[str, Any]:
        """Return the metrics of configurations."""
        result = evaluate(*arguments)
        return {**result, "area_mm2": result["area_mm2"] * (1 - 0.1 * self.optimism)}


class Here:
    """Executor in this process."""

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with the function's result."""
        for item in items:
            yield item, function(item)


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("group", ["activation", "array.cols", "[activation, array.cols]"])
def test_candidates_are_near_the_pareto_set_of_their_group(group: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(f"{WIDE}group_by: {group}\n")
    file = read_sweep(tmp_path / "sweep.yaml", "0")
    model: Any = Hopeful()
    with Journal(tmp_path / "journal", "x") as journal:
        outcome = run_sweep(file, probe(file, model), model, Here(), journal)
    table = table_of(file.plan, model, ["area_mm2", "tops"], outcome.points_of(np.arange(240)))
    rows = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    names = group.strip("[]").split(", ")
    group_of = {row["index"]: [row[name] for name in names] for row in rows}
    # Beaten is what another point of the group surpasses in both objectives, the margin granted.
    expected = {
        row["index"]
        for row in rows
        if not any(
            group_of[other["index"]] == group_of[row["index"]]
            and other["area_mm2"] < 0.9 * row["area_mm2"]
            and other["tops"] > row["tops"]
            for other in rows
        )
    }
    assert 10 < len(expected) <= len(rows)
    assert set(candidates(outcome, model, Here(), 240)[0].tolist()) == expected
    # Of few candidates each group has the best of each objective.
    few, total = candidates(outcome, model, Here(), 12)
    assert len(few) == 12 < total == len(expected)
    assert {str(group_of[number]) for number in few} == {str(each) for each in group_of.values()}


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_groups_survive_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{TEXT}group_by: activation\nsample: {{points: 300, population: 20}}\n"
    out = swept(tmp_path, monkeypatch, text)
    rows = pq.read_table(out / "results.parquet").to_pylist()
    for each in ("int4", "int6", "int8"):
        group = [row for row in rows if row["activation"] == each]
        assert {row["index"] for row in group if row["pareto"]} == optimal(group)


@pytest.mark.parametrize(
    ("value", "field"),
    [("weigth", "1: group_by"), ("7", "1: group_by"), ("[]", "1: group_by"),
     ("[activation, weigth]", "24: group_by.1"), ("[[family]]", "12: group_by.0")],
)  # fmt: skip
def test_a_group_that_is_no_parameter(value: str, field: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    text = TEXT.replace("families: [ternary_lut, systolic]\n", FAMILIES)
    file.write_text(f"{text}group_by: {value}\n")
    with pytest.raises(ConfigError) as caught:
        read_sweep(file, "0")
    message = str(caught.value)
    assert f"sweep.yaml:10:{field}: must be family or a parameter of the sweep:" in message
    assert "activation" in message


def test_points_that_meet_their_clock_only_within_the_uncertainty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace("families: [ternary_lut, systolic]\n", FAMILIES)
    text = text.replace("asap7]", "asap7], clock_mhz: [500, 600]")
    output = swept(tmp_path, monkeypatch, text)
    rows = pq.read_table(output / "results.parquet").to_pylist()
    number = {"yes": 0, "within ±": 0, "no": 0}
    for row in rows:
        margin = technology(row["target.technology"]).timing["uncertainty"]
        fmax, clock = row["fmax_mhz"], row["target.clock_mhz"]
        expected = "no" if fmax < clock else "yes" if fmax * (1 - margin) >= clock else "within ±"
        assert row["meets_clock"] == expected
        number[expected] += row["pareto"]
    assert all(number.values())
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["clock_within"], summary["clock_missed"]) == (number["within ±"], number["no"])
    out = " ".join(capsys.readouterr().out.split())
    of = f"of {summary['pareto']} points of the Pareto set"
    assert f"{number['within ±']} {of} meet their clock only within the ± of Fmax" in out
    assert f"{number['no']} {of} do not reach their clock" in out


def test_a_spec_of_meets_clock_names_the_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_made_up_costs(monkeypatch)
    path = tmp_path / "sweep.yaml"
    text = TEXT.replace("families: [ternary_lut, systolic]\n", FAMILIES)
    path.write_text(f"{text}specs: meets_clock\n")
    with pytest.raises(ConfigError, match=r"`fmax_mhz >= target\.clock_mhz`"):
        probe(read_sweep(path, "0"), evaluate)


def test_the_summary_has_the_best_of_each_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{TEXT}group_by: [family, target.technology]\n"
    out = swept(tmp_path, monkeypatch, text)
    rows = pq.read_table(out / "results.parquet").to_pylist()
    best = json.loads((out / "summary.json").read_text())["best"]
    assert len(best) == 2 * 2 * 2
    for entry in best:
        group = entry["group"]
        some = [row for row in rows if all(row[name] == group[name] for name in group)]
        figures = [row[entry["objective"]] for row in some]
        wanted = max(figures) if entry["maximise"] else min(figures)
        assert entry["figures"][entry["objective"]] == wanted
    assert "systolic, asap7" in capsys.readouterr().out


EMPTY = """\
name: empty
family: systolic
parameters:
  activation: [int4, int6, int8]
  array: {rows: {from: 1, to: 40}, cols: [4, 8]}
targets: {technology: [nangate45, asap7]}
constraints: ["activation != 'int6' or array.rows > 90"]
specs: ["area_mm2 <= 0.0024", "tops >= 0.001"]
objectives: {minimize: [area_mm2], maximize: [tops]}
group_by: [activation, target.technology]
"""


def test_groups_without_a_point_are_named_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are counted by what removed their points, in the summary, its text and the page."""
    out = swept(tmp_path, monkeypatch, EMPTY)
    summary = json.loads((out / "summary.json").read_text())
    shown = " ".join(capsys.readouterr().out.split())
    page = (out / "report.html").read_text()
    there = {(b["group"]["activation"], b["group"]["target.technology"]) for b in summary["best"]}
    every = {(a, t) for a in ("int4", "int6", "int8") for t in ("nangate45", "asap7")}
    empty = {tuple(entry["group"].values()): entry for entry in summary["empty_groups"]}
    assert set(empty) == every - there
    constraint = "points break \"activation != 'int6' or array.rows > 90\" (systolic)"
    for name in ("asap7", "nangate45"):
        entry = empty["int6", name]
        assert (entry["points"], entry["reason_points"], entry["reason"]) == (80, 80, constraint)
    # 8 bits: an area of 12e-4 mm2 a PE, so that none of 4 and more PEs is small enough.
    entry = empty["int8", "nangate45"]
    assert (entry["points"], entry["reason_points"]) == (80, 80)
    assert entry["reason"] == "points miss 'area_mm2 <= 0.0024'"
    text = "o point of activation int8, technology nangate45 is left: 80 of 80 points miss"
    assert f"n{text}" in shown
    assert f"N{text}" in page


def test_numeric_groups_have_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = EMPTY.replace("[activation, target.technology]", "array.rows").replace(
        "tops >= 0.001", "array.rows > 3"
    )
    out = swept(tmp_path, monkeypatch, text)
    summary = json.loads((out / "summary.json").read_text())
    empty = {entry["group"]["array.rows"] for entry in summary["empty_groups"]}
    there = {entry["group"]["array.rows"] for entry in summary["best"]}
    assert empty | there == set(range(1, 41))
    assert not empty & there
    assert all(entry["points"] == 12 for entry in summary["empty_groups"])
