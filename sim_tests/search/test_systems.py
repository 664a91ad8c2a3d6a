# SPDX-License-Identifier: Apache-2.0
"""Searches for an engine that computes two workloads at once."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flows.build.load import load_config
from flows.search import systems
from flows.search.costs import SUMS, Cost, cost_of
from flows.search.goals import parse_goals
from flows.search.journal import SearchJournal
from flows.search.result import Unmet
from flows.search.search import Work
from flows.search.shared_port import Phase, at_once, shares
from flows.search.system_files import apply_system, write_systems
from flows.search.systems import METRICS, Pass, Ranked, SystemRequest, search_systems
from hwgen.cli import main
from hwgen.core.params.target import Target
from hwgen.errors import CheckFailed, InputError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.workloads.network import Gemm

LAYER = Pass("layer", "ternary", (Gemm(4, 48, 32), Gemm(4, 32, 40)))
OTHER = Pass("other", "int8", (Gemm(6, 32, 16), Gemm(6, 16, 8), Gemm(6, 8, 8)))


class Here:
    """Runs items in this process; costs of netlists are those that `size` invents."""

    def run(self, function: Any, items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for item in items:
            yield item, invented(item) if function is cost_of else function(item)


def invented(item: Any) -> Cost:
    units = json.loads(item.engine)["units"]
    area = sum(size(unit) for unit in units.values()) + (500.0 if item.unit is None else 0.0)
    return Cost((area, *[1.0] * (len(SUMS) - 1)), 400.0)


def size(unit: dict[str, Any]) -> float:
    array = [n for n in unit["compute"]["array"].values() if isinstance(n, int)]
    bits = {"ternary": 2, "int4": 4, "int8": 8}[unit["compute"]["weight"]]
    return float(100 * bits * math.prod(array) + 1000 * unit["buffers"]["weight_kib"])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Leave few cores in the space; return a directory."""
    about = copy.deepcopy(systems.systems_file())
    about["port"]["data_width"] = [32, 64]
    for core in about["cores"]:
        core["sizes"] = {name: values[:1] for name, values in core["sizes"].items()}
    monkeypatch.setattr(systems, "systems_file", lambda: about)
    return tmp_path


def request(*goals: str, **more: Any) -> SystemRequest:
    return SystemRequest((LAYER, OTHER), tuple(parse_goals(goals, (), METRICS)), Target(), **more)


def answer(wanted: SystemRequest, path: Path) -> Ranked:
    journal = SearchJournal(path / "journal")
    try:
        return search_systems(wanted, Work(Here(), journal))
    finally:
        journal.close()


def test_the_answer_is_that_of_brute_force(few: Path) -> None:
    wanted = request("ms<=1")
    result = answer(wanted, few)
    expected = []
    every = [
        [core for name in systems.FORMATS[task.weights] for core in systems.cores_for([task], name)]
        for task in (LAYER, OTHER)
    ]
    choices = [*((core,) for core in every[1]), *product(*every)]
    for width, cores in product((32, 64), choices):
        units = systems.engine_of(wanted, width, cores)["units"]
        area = sum(map(size, units.values())) + 500.0
        rows, submit = [], 0
        for number, task in enumerate((LAYER, OTHER)):
            engine = json.dumps(systems.engine_of(wanted, width, [cores[number % len(cores)]]))
            jobs = systems.jobs_of(systems.JobsItem(engine, task.products))
            rows.append([Phase(*phase) for phase in jobs.phases])
            submit = max(submit, jobs.submit)
        (a, b), (x, y, z) = rows
        cycles = at_once(rows if len(cores) == 2 else [[a, x, b, y, z]], 1.0, submit).cycles
        expected.append((area * 1e-6, cycles / 400e3))
    assert len(result.systems) == len(expected)
    actual = [(each.metrics["area_mm2"], each.metrics["ms"]) for each in result.best]
    met = sorted(pair for pair in expected if pair[1] <= 1)
    assert [x for pair in actual for x in pair] == pytest.approx([x for pair in met for x in pair])
    assert {len(each.cores) for each in result.systems} == {1, 2}


def test_files_are_those_that_build_takes(few: Path) -> None:
    wanted = request("ms<=1")
    result = answer(wanted, few)
    (few / "out").mkdir()
    document = write_systems(few / "out", wanted, result)
    assert len(document["systems"]) == 3
    assert "one core" in document["verdict"]
    assert "two cores" in document["verdict"]
    for entry in document["systems"]:
        config = load_config(few / "out" / entry["engine"])
        assert isinstance(config, TransformerConfig)
        assert len(config.units) == len(entry["cores"])
    for number in ("1", "2"):
        front = document["fronts"][number]
        times = [each["metrics"]["ms"] for each in front]
        assert times == sorted(times, reverse=True)
        assert len(front[0]["cores"]) == int(number)


def test_the_nearest_is_named_where_none_meets_all(few: Path) -> None:
    with pytest.raises(Unmet, match="nearest: port of"):
        answer(request("ms<=1e-6"), few)


def test_products_that_no_core_computes_are_refused(few: Path) -> None:
    task = Pass("wide", "int8", (Gemm(4, 2**31 - 1, 4),))
    with pytest.raises(InputError):
        answer(SystemRequest((task, task), (), Target()), few)


def test_shares_of_a_port() -> None:
    assert shares([Phase(10, 3), Phase(10, 5)]) == [0.3, 0.5]
    assert shares([Phase(10, 10), Phase(10, 10)]) == [0.5, 0.5]
    assert shares([Phase(10, 2), Phase(10, 10)]) == pytest.approx([0.2, 0.8])
    assert shares([Phase(10, 10, 1), Phase(10, 10, 3)]) == pytest.approx([0.25, 0.75])
    assert sum(shares([Phase(10, 4), Phase(10, 10)], 0.5)) == pytest.approx(0.5)


def test_cycles_of_cores_at_once() -> None:
    alone = at_once([[Phase(100, 100), Phase(50, 0)]])
    assert alone.cycles == 150
    assert alone.starts == [[0, 100]]
    assert at_once([[Phase(100, 40)], [Phase(80, 40)]]).cycles == 100
    assert at_once([[Phase(100, 100)], [Phase(100, 100)]]).cycles == pytest.approx(200)
    assert at_once([[Phase(100, 100)]], 0.5).cycles == pytest.approx(200)
    later = at_once([[Phase(100, 1), Phase(5, 1)], [Phase(20, 1)]], submit=60)
    assert later.cycles == 185
    assert later.starts == [[60, 180], [120]]


@pytest.mark.slow
@pytest.mark.rotate(12)
@pytest.mark.parametrize("cores", [1, 2])
def test_a_found_system_computes_both_workloads_at_once(few: Path, cores: int) -> None:
    wanted = request("ms<=1", cores=(cores,), widths=(64,))
    best = answer(wanted, few).best[0]
    files, applied = apply_system(wanted, best)
    assert "module engine" in files["engine.v"]
    assert applied["least"] <= applied["cycles"] <= applied["most"]
    assert applied["ranked"] / applied["cycles"] == pytest.approx(1, abs=0.25)


@pytest.mark.slow
@pytest.mark.rotate(16)
def test_a_wrong_result_is_noticed(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = request("ms<=1", cores=(2,), widths=(64,))
    best = answer(wanted, few).best[0]
    monkeypatch.setattr("flows.simulation.side_by_side.core_of", lambda unit: Wrong())
    with pytest.raises(CheckFailed, match="product 0 of"):
        apply_system(wanted, best)


class Wrong:
    """A core whose golden model adds one."""

    def multiply(self, a: Any, w: Any) -> Any:
        return a.astype("int32") @ w.astype("int32") + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "int3"], "--weights: must be one of ternary, int4, int8, not 'int3'"),
        (["--weights", "int8"] * 3, "3 formats for 2 workloads"),
        (["--goal", "tokens_per_s>=2"], "'tokens_per_s' is no metric of engines; there are ms,"),
        (["--port", "32"], "--port: systems of two workloads have ports of 64, 128 bits, not 32"),
        (["--nodes"], "belong to decoders"),
    ],
)
def test_bad_options_are_refused(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("layers: [{m: 2, k: 8, n: 8}]\n", encoding="utf-8")
    arguments = ["search", "a.yaml", "a.yaml", "--goal", "ms<=1", "--target", "nangate45"]
    assert main([*arguments, *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def test_formats_belong_to_two_workloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("layers: [{m: 2, k: 8, n: 8}]\n", encoding="utf-8")
    arguments = ["search", "a.yaml", "--max", "area_mm2=1", "--target", "nangate45"]
    assert main([*arguments, "--weights", "int8"]) == 2
    assert "belong to two workloads" in capsys.readouterr().err
    assert main([*arguments, "a.yaml", "a.yaml"]) == 2
    assert "3 workloads" in capsys.readouterr().err
