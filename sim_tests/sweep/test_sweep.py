# SPDX-License-Identifier: Apache-2.0
"""Sweeps: enumeration and Pareto sets against plain loops, files and errors."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model.sweep import engine, reduce
from cost_model.sweep.document import read_sweep
from cost_model.sweep.pareto import Best, Front, nondominated
from flows.build.load import load_config
from hwgen.cli import main
from hwgen.errors import CheckFailed, ConfigError
from hwgen.models.workload import load_network, model_workload
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_runs import made
from sim_tests.support.paths import ROOT
from sim_tests.sweep.sweep_costs import evaluate, use_made_up_costs

DECODE = "[{m: 1, k: 768, n: 768}, {m: 1, k: 768, n: 3072}]"

LUT = """\
name: lut
family: ternary_lut
parameters:
  activation: [int4, int8]
  array:
    method: [lut, select]
    group_size: {from: 1, to: 3}
    tables: {from: 1, to: 64, log: 2}
    fetch_ports: "96 // array.tables * 2"
  max_k: [512, 4096]
constraints:
  - array.group_size * array.tables <= 64
  - array.method == "lut" or activation != "int4"
workloads:
  decode: [{m: 1, k: 768, n: 768}, {m: 1, k: 768, n: 3072}]
specs:
  - area_mm2 <= 0.5
  - latency_ms(decode) < 1
objectives: {minimize: [area_mm2, latency_ms(decode)], maximize: [tops]}
top: 4
"""

MIXED = """\
name: mixed
families:
  ternary_lut:
    parameters:
      array: {group_size: [1, 2], tables: {from: 2, to: 32, step: 5}, fetch_ports: [8, 32]}
  systolic:
    parameters:
      array: {rows: {from: 2, to: 18, step: 4}, cols: array.rows * 2}
    constraints: [array.rows != 10]
parameters:
  activation: [int8, int4]
targets: {technology: [nangate45, asap7], clock_mhz: 500}
objectives: {minimize: area_mm2, maximize: [tops / power_w]}
"""


@pytest.fixture
def hwgen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run ``hwgen sweep`` in a directory of its own, on the made-up costs."""
    use_made_up_costs(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(text: str, *arguments: str) -> int:
        Path("sweep.yaml").write_text(text)
        return main(["sweep", "--config", "sweep.yaml", *arguments])

    return run


def written(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def points_of(directory: Path, name: str = "pareto.csv") -> list[dict[str, str]]:
    with open(directory / name, newline="") as stream:
        return list(csv.DictReader(stream))


# -- against plain loops -------------------------------------------------------------------------


def cost(family: str, point: dict[str, Any], workloads: dict[str, Any]) -> dict[str, float]:
    numbers = {k: np.array([v]) for k, v in point.items() if isinstance(v, (int, float))}
    fixed = {k: v for k, v in point.items() if k not in numbers}
    technology = point.get("target.technology", "nangate45")
    result = evaluate(family, fixed, numbers, technology, workloads)
    return {name: value[0].item() for name, value in result.items()}


def best_of(rows: Sequence[tuple[int, tuple[float, ...]]]) -> list[int]:
    """Return the numbers of the rows that nothing beats, the first of equals."""
    kept = []
    for number, row in rows:
        beaten = any(
            all(a <= b for a, b in zip(other, row, strict=True))
            and (other != row or earlier < number)
            for earlier, other in rows
            if earlier != number
        )
        if not beaten:
            kept.append(number)
    return kept


def test_a_sweep_equals_plain_loops(hwgen: Callable[..., int], tmp_path: Path) -> None:
    assert hwgen(LUT, "--output", "out", "--jobs", "1") == 0
    # Axes that are no numbers come first, then the numbers in the order of the file.
    axes = itertools.product(
        ["int4", "int8"], ["lut", "select"], [1, 2, 3], [1, 2, 4, 8, 16, 32, 64], [512, 4096]
    )
    decode = {"decode": [(1, 768, 768), (1, 3072, 768)]}
    rows, costs = [], {}
    total = removed = illegal = 0
    for number, (activation, method, group, tables, max_k) in enumerate(axes):
        total += 1
        ports = 96 // tables * 2
        good = 1 <= ports <= 256
        good = good and group * tables <= 64 and (method == "lut" or activation != "int4")
        point = {
            "activation": activation,
            "array.method": method,
            "array.group_size": group,
            "array.tables": tables,
            "array.fetch_ports": ports,
            "max_k": max_k,
        }
        if not good:
            removed += 1
            continue
        result = cost("ternary_lut", point, decode)
        if not result["valid"]:
            illegal += 1
        elif result["area_mm2"] <= 0.5 and result["latency_ms(decode)"] < 1:
            figures = (result["area_mm2"], result["latency_ms(decode)"], -result["tops"])
            rows.append((number, figures))
            costs[number] = result
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["evaluated"] == summary["points"] == total == 168
    assert sum(item["points"] for item in summary["removed"]["constraints"]) == removed
    assert summary["removed"]["illegal"] == illegal
    assert summary["feasible"] == len(rows)
    front = best_of(rows)
    found_points = points_of(tmp_path / "out")
    assert sorted(int(point["index"]) for point in found_points) == front
    for row in found_points:
        expected = costs[int(row["index"])]
        for name in ("area_mm2", "latency_ms(decode)", "tops"):
            assert float(row[name]) == pytest.approx(expected[name], rel=1e-12)
    # results.parquet holds the front and the four best by each objective.
    best = {n for axis in range(3) for _, n in sorted((row[axis], n) for n, row in rows)[:4]}
    table = pq.read_table("out/results.parquet")
    assert table["index"].to_pylist() == sorted({*front, *best})
    assert table.filter(table["pareto"])["index"].to_pylist() == front
    assert set(table["unknown_mw"].to_pylist()) == {None}


def test_families_and_technologies_in_one_sweep(hwgen: Callable[..., int], tmp_path: Path) -> None:
    assert hwgen(MIXED + "keep: all\n", "--output", "out", "--jobs", "2") == 0
    rows = []
    number = 0
    points = []
    for technology, activation in itertools.product(["nangate45", "asap7"], ["int8", "int4"]):
        for group, tables, ports in itertools.product([1, 2], range(2, 33, 5), [8, 32]):
            shape = {"group_size": group, "tables": tables, "fetch_ports": ports}
            points.append(("ternary_lut", technology, activation, {**shape, "method": "lut"}))
    for technology, activation in itertools.product(["nangate45", "asap7"], ["int8", "int4"]):
        for size in range(2, 19, 4):
            points.append(("systolic", technology, activation, {"rows": size, "cols": 2 * size}))
    for number, (family, technology, activation, array) in enumerate(points):
        if array.get("rows") == 10:
            continue
        point = {f"array.{key}": value for key, value in array.items()}
        point |= {"activation": activation, "target.technology": technology}
        result = cost(family, point, {})
        rows.append((number, (result["area_mm2"], -result["tops"] / result["power_w"])))
    assert sorted(int(p["index"]) for p in points_of(tmp_path / "out")) == best_of(rows)
    table = pq.read_table("out/results.parquet")
    assert table["index"].to_pylist() == [number for number, _ in rows]
    one = table.slice(table.num_rows - 1).to_pylist()[0]
    assert one["family"] == "systolic"
    assert one["array.tables"] is None
    assert one["array.cols"] == 36
    assert one["tops / power_w"] == pytest.approx(one["tops"] / one["power_w"])


@pytest.mark.parametrize("sweep", [LUT, MIXED + "keep: all\n"], ids=["pareto", "all"])
def test_chunks_blocks_and_workers_make_no_difference(
    hwgen: Callable[..., int], monkeypatch: pytest.MonkeyPatch, sweep: str, tmp_path: Path
) -> None:
    assert hwgen(sweep, "--output", "whole") == 0
    monkeypatch.setattr(reduce, "BLOCK", 7)
    for size, jobs in ((10, "1"), (37, "2")):
        monkeypatch.setattr(engine, "chunk_size", lambda plan, size=size: size)
        assert hwgen(sweep, "--output", f"by_{size}", "--jobs", jobs) == 0
        assert written(tmp_path / f"by_{size}").keys() == written(tmp_path / "whole").keys()
        for name, content in written(tmp_path / "whole").items():
            if name != "results.parquet":  # its row groups follow the chunks
                assert written(tmp_path / f"by_{size}")[name] == content, name
        ours, theirs = (
            pq.read_table(tmp_path / d / "results.parquet") for d in ("whole", f"by_{size}")
        )
        assert ours.equals(theirs)


@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12))
def test_fronts_equal_the_naive_one(dimensions: int, seed: int, count: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, levels, (count, dimensions)).astype(float)
    expected = best_of([(i, tuple(row)) for i, row in enumerate(values.tolist())])
    front = Front(dimensions)
    for part in np.array_split(np.arange(count), 5):
        near = front.screen(list(values[part].T)) if len(part) else part
        front.add(values[part][near], part[near])
        if seed % 2:
            front.result()
    assert front.result()[1].tolist() == expected
    assert np.flatnonzero(nondominated(values)).tolist() == expected
    # And the best by the first figure.
    best = Best(3)
    figures = np.where(values[:, 0] == 0, np.nan, values[:, 0])
    for part in reversed(np.array_split(np.arange(count), 4)):
        best.add(figures[part], part)
    known = [i for i in range(count) if not math.isnan(figures[i])]
    assert best.indices.tolist() == sorted(known, key=lambda i: (figures[i], i))[:3]


# -- files ---------------------------------------------------------------------------------------


def test_configurations_load_and_say_what_the_table_says(
    hwgen: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hwgen(LUT + "targets: {clock_mhz: 250.5}\n", "--output", "out") == 0
    assert "best by" in capsys.readouterr().out
    points = [point for point in points_of(tmp_path / "out") if point["config"]]
    assert [p["config"] for p in points][:1] == ["lut_0001.yaml"]
    for point in points:
        config: Any = load_config(Path("out/configs") / point["config"])
        assert config.name == point["config"].removesuffix(".yaml")
        assert str(config.activation) == point["activation"]
        assert config.array.fetch_ports == int(point["array.fetch_ports"])
        assert config.target.clock_mhz == 250.5
    assert main(["build", "--config", "out/configs/lut_0001.yaml", "--output", "core"]) == 0
    assert Path("core/lut_0001.v").is_file()
    assert (tmp_path / "out" / "pareto_2.png").read_bytes().startswith(b"\x89PNG")


def test_configurations_are_as_many_as_asked_for(hwgen: Callable[..., int]) -> None:
    assert hwgen(LUT + "configs: 2\n", "--output", "out") == 0
    assert sorted(p.name for p in Path("out/configs").iterdir()) == [
        "lut_0001.yaml",
        "lut_0002.yaml",
    ]


def test_a_configuration_that_the_family_refuses_is_named(
    hwgen: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    # The made-up costs do not know that an output-stationary array has no such memory.
    text = (
        "{name: bad, family: systolic, parameters: {array: {rows: [2, 4], accumulator_depth: 8}},"
        " objectives: {minimize: area_mm2}}"
    )
    assert hwgen(text, "--output", "out") == 0
    assert "array.accumulator_depth: only weight_stationary" in capsys.readouterr().err
    assert json.loads(Path("out/summary.json").read_text())["refused_configs"]


def test_configurations_may_have_registers_that_are_chosen_later(
    hwgen: Callable[..., int],
) -> None:
    """An output-stationary array has no accumulator memory, even beside `auto`."""
    text = (
        "{name: later, family: systolic, parameters: {array: {rows: [2, 4], accumulator_depth:"
        " 256}, pipeline: {pe: auto}}, objectives: {minimize: area_mm2}}"
    )
    assert hwgen(text, "--output", "out") == 0
    assert not json.loads(Path("out/summary.json").read_text())["refused_configs"]
    assert "pe: auto" in Path("out/configs/later_0001.yaml").read_text()
    config: Any = load_config(Path("out/configs/later_0001.yaml"))
    assert config.pipeline.pe >= 0


def test_configurations_lack_what_a_choice_rules_out(hwgen: Callable[..., int]) -> None:
    # An array of multipliers has no digits; the sweep has the default of their encoding.
    text = (
        "{name: good, family: systolic, parameters: {array: {rows: [2, 4], encoding: booth4}},"
        " objectives: {minimize: area_mm2}}"
    )
    assert hwgen(text, "--output", "out") == 0
    assert not json.loads(Path("out/summary.json").read_text())["refused_configs"]
    config: Any = load_config(Path("out/configs/good_0001.yaml"))
    assert config.array.rows == 2


def test_the_summary_as_json(hwgen: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert hwgen(LUT, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["directory"] == "build/lut-sweep"
    assert [best["objective"] for best in result["best"]] == [
        "area_mm2",
        "latency_ms(decode)",
        "tops",
    ]


def test_workloads_from_a_file(hwgen: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "decode.yaml").write_text(f"gemms: {DECODE}\n")
    text = LUT.replace(DECODE, "decode.yaml")
    assert hwgen(LUT, "--output", "a") == hwgen(text, "--output", "b") == 0
    assert points_of(tmp_path / "a") == points_of(tmp_path / "b")


def test_an_imported_model_is_a_workload(
    hwgen: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = made(tmp_path, Small(width=64, hidden=96))
    one = model_workload(model.path, context=20)
    assert one.tokens == 1
    assert one.context == 20
    sizes = ", ".join(f"{{m: {g.m}, k: {g.k}, n: {g.n}}}" for g in one)
    given = f"{{model: {model.path.relative_to(tmp_path)}, context: 20}}"
    assert hwgen(LUT.replace(DECODE, given), "--output", "a") == 0
    assert hwgen(LUT.replace(DECODE, f"[{sizes}]"), "--output", "b") == 0
    assert points_of(tmp_path / "a") == points_of(tmp_path / "b")
    assert model_workload(model.path, prompt=5).tokens == 5
    name, network = load_network(str(model.path))
    assert (name, network.context) == (model.path.name, 0)
    capsys.readouterr()
    for wrong, text in (
        ("{model: 3}", "the directory of a model"),
        ("{model: nothing}", "is no directory"),
        (given.replace("20", "100000"), "do not fit"),
        (given.replace("}", ", prompt: 3}"), "not both"),
        (given.replace("context", "kontext"), "did you mean 'context'"),
    ):
        assert hwgen(LUT.replace(DECODE, wrong), "--output", "c") == 2
        assert text in capsys.readouterr().err


def test_verified_configurations(
    hwgen: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done, said_before = [], {}

    def synthesize(config: Any, target: str, effort: str) -> Any:
        if "before" not in said_before:  # results are printed before anything is measured
            said_before["before"] = capsys.readouterr().out
        done.append((config.name, target))
        if config.name.endswith("2"):
            raise CheckFailed("yosys gave up")
        figures = dict.fromkeys(("luts", "carries", "dsps", "brams", "lutrams", "urams"))
        return types.SimpleNamespace(area_um2=4e4, fmax_mhz=321.0, flip_flops=7, **figures)

    monkeypatch.setattr("flows.synthesis.verify.synthesize", synthesize)
    assert hwgen(LUT, "--output", "out", "--verify", "top:3") == 0
    assert sorted(done) == [(f"lut_000{i}", "nangate45") for i in (1, 2, 3)]
    assert "in the Pareto set" in said_before["before"]
    said = capsys.readouterr()
    assert "lut_0002.yaml: yosys gave up" in said.err
    assert re.search(r"lut_0001.yaml +area_mm2 +0\.\d+ +0.04 +-\d+\.\d %", said.out)
    points = {p["config"]: p for p in points_of(tmp_path / "out")}
    assert points["lut_0001.yaml"]["measured_area_mm2"] == "0.04"
    assert points["lut_0001.yaml"]["measured_flip_flops"] == "7.0"
    assert {p["measured_area_mm2"] for p in points.values()} == {"0.04", ""}
    table = pq.read_table("out/results.parquet")
    assert sum(value == 321.0 for value in table["measured_fmax_mhz"].to_pylist()) == 2
    (pair,) = {
        entry["metrics"]["fmax_mhz"]["measured"]
        for entry in json.loads(Path("out/summary.json").read_text())["verified"]
        if not entry["problem"]
    }
    assert pair == 321.0
    # Spread over all of them; another choice is another result, the same is there already.
    done.clear()
    assert hwgen(LUT, "--output", "out", "--verify", "sample:3", "--resume") == 0
    names = sorted(int(name[-4:]) for name, _ in done)
    assert names[0] == 1
    assert names[2] == len(list(Path("out/configs").iterdir()))
    done.clear()
    assert hwgen(LUT, "--output", "out", "--verify", "sample:3", "--resume") == 0
    assert done == []
    assert hwgen(LUT, "--output", "out", "--verify", "top") == 2
    assert "must be top:N or sample:N" in capsys.readouterr().err


@pytest.mark.slow
def test_a_configuration_is_really_synthesized(hwgen: Callable[..., int]) -> None:
    text = (
        "{name: small, family: ternary_lut, parameters: {activation: int4, array: {group_size:"
        " [1, 2], tables: 1, fetch_ports: 1}, max_k: 16}, targets: {technology: ecp5},"
        " objectives: {maximize: tops}}"
    )
    assert hwgen(text, "--output", "out", "--verify", "top:1") == 0
    (entry,) = json.loads(Path("out/summary.json").read_text())["verified"]
    assert entry["problem"] is None
    assert entry["metrics"]["luts"]["measured"] > 10
    assert entry["metrics"]["luts"]["estimated"] is None


PAGE = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
LISTINGS = re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize(("name", "text"), LISTINGS, ids=[name for name, _ in LISTINGS])
def test_the_sweeps_of_the_page(hwgen: Callable[..., int], name: str, text: str) -> None:
    assert hwgen(text, "--output", "out") == 0
    assert json.loads(Path("out/summary.json").read_text())["pareto"] > 10


# -- errors --------------------------------------------------------------------------------------

PROBLEMS = [
    # old, new, place, text
    ("name: lut", "name: 3", "1:1: name", "must be a letter followed by up to 54"),
    ("family: ternary_lut", "family: ternary", "2:1: family", "(did you mean 'ternary_lut'?)"),
    ("constraints:", "constraint:", "11:1: constraint", "unknown key (did you mean 'constraints'"),
    ("to: 3}", "to: 0}", "7:5: parameters.array.group_size", "empty: from 1 is more than to 0"),
    ("[int4, int8]", "[]", "4:3: parameters.activation", "an empty list has no value to try"),
    ("[int4, int8]", "[int4, int]", "4:22: parameters.activation.1", "(did you mean 'int"),
    ("[int4, int8]", "[int4, int4]", "4:22: parameters.activation.1", "'int4' is listed twice"),
    ("[int4, int8]", "{from: 1, to: 3}", "4:3: parameters.activation", "a value or a list of them"),
    ("to: 3}", "to: 9}", "7:27: parameters.array.group_size.to", "must be 1..7, not 9"),
    ("to: 3}", "to: 3, step: 0}", "7:34: parameters.array.group_size.step", "more than 0"),
    ("to: 3}", "to: 3.5}", "7:27: parameters.array.group_size.to", "must be an integer, not 3.5"),
    ("to: 3}", "to: 3, step: 1, log: 2}", "7:5: parameters.array.group_size", "not both"),
    ("log: 2", "log: 1", "8:31: parameters.array.tables.log", "a factor of more than 1"),
    ("from: 1, to: 64", "from: 0, to: 64", "8:14: parameters.array.tables.from", "with `log`"),
    ("tables:", "tabels:", "8:5: parameters.array.tabels", "(did you mean 'array.tables'?)"),
    (
        "max_k: [",
        "array.tables: [",
        "10:3: parameters.'array.tables'",
        "array.tables is already given on line 8",
    ),
    ("96 // array.tables", "96 // array.tabels", "9:5:", "(did you mean 'array.tables'?)"),
    ("96 // array.tables", "96 /", "9:5: parameters.array.fetch_ports", "not an expression"),
    ("96 // array.tables", "activation + 1", "9:5:", "arithmetic needs numbers, not the text"),
    ("96 // array.tables", "open('x')", "9:5:", "no function is called 'open'"),
    ("96 // array.tables", "().__class__", "9:5:", "cannot stand in an expression"),
    ("group_size: {from: 1, to: 3}", "group_size: array.fetch_ports", "7:5:", "no point is left"),
    ("tables <= 64", "tables", "12:5: constraints.0", "must be a condition"),
    ("768, n: 768}", "768}", "15:12: workloads.decode.0", "{m: M, k: K, n: N}, integers of 1"),
    ("{m: 1, k: 768, n: 768}", "[1, 768, 768]", "15:12: workloads.decode.0", "{m: M, k: K, n: N}"),
    (DECODE, "[{m: 2147483647, k: 4096, n: 2147483647}]", "15:3: workloads.decode", "2**53"),
    (DECODE, "none.yaml", "15:3: workloads.decode", "cannot be read"),
    (DECODE, "[{m: 1, k: 70000, n: 8}]", "15:3: workloads.decode", "sums of K = 70,000 terms"),
    ("area_mm2 <= 0.5", "area_mm <= 0.5", "17:5: specs.0", "(did you mean 'area_mm2'?)"),
    ("area_mm2 <= 0.5", "area_mm2", "17:5: specs.0", "must be a condition"),
    ("(decode) < 1", "(prefill) < 1", "18:5: specs.1", "(did you mean 'latency_ms(decode)'?)"),
    ("[tops]", "[top]", "19:", "(did you mean 'tops'?)"),
    ("[tops]", "[area_mm2]", "19:", "area_mm2 is already an objective"),
    ("maximize:", "maximise:", "19:", "unknown key (did you mean 'maximize'?)"),
    ("top: 4", "top: -4", "20:1: top", "an integer in 1..1000000"),
    ("top: 4", "keep: al", "20:1: keep", "(did you mean 'all'?)"),
    ("top: 4", "sample: 9", "20:1: sample", "`{points: N, population: N, seed: N}`"),
    ("top: 4", "name: lut", "20:1:", "already on line 1"),
    ("max_k: [", "name: [", "10:3: parameters.name", "is set by the sweep"),
    ("area_mm2 <= 0.5", "area_mm2 <= 1e-9", "17:5: specs.0", "none of 86 legal points meet"),
    ("group_size * array.tables <= 64", "tables > 64", "12:5: constraints.0", "no point is left"),
    ("area_mm2, lat", "unknown_mw, lat", "19:1: objectives", "have no known figure"),
]


@pytest.mark.parametrize(("old", "new", "position", "text"), PROBLEMS, ids=[p[1] for p in PROBLEMS])
def test_a_problem_is_placed_and_explained(
    hwgen: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    position: str,
    text: str,
) -> None:
    assert old in LUT
    assert hwgen(LUT.replace(old, new, 1)) == 2
    said = capsys.readouterr().err
    assert any(
        line.startswith(f"sweep.yaml:{position}") and text in line for line in said.splitlines()
    ), said
    assert not Path("build/lut-sweep").exists()


def test_specs_that_exclude_each_other(
    hwgen: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = LUT.replace("area_mm2 <= 0.5", "area_mm2 <= 0.03").replace(
        "(decode) < 1", "(decode) < 0.012"
    )
    assert hwgen(text) == 2
    said = capsys.readouterr().err
    assert "each can be met, but no point meets all of them" in said
    assert "meet 'area_mm2 <= 0.03'; area_mm2 is 0.0204..0.4608" in said


def test_a_step_beyond_the_end_leaves_one_value(hwgen: Callable[..., int], tmp_path: Path) -> None:
    text = LUT.replace("max_k: [512, 4096]", f"max_k: {{from: 1024, to: 4096, step: {2**70}}}")
    assert hwgen(text, "--output", "out") == 0
    assert {point["max_k"] for point in points_of(tmp_path / "out")} == {"1024"}


def test_a_cycle_is_named(tmp_path: Path) -> None:
    text = LUT.replace("{from: 1, to: 64, log: 2}", "array.fetch_ports + 1")
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"array\.tables -> array\.fetch_ports -> array\.tables"):
        read_sweep(tmp_path / "sweep.yaml", "1")


HUGE = """\
name: huge
family: ternary_lut
parameters:
  max_k: {from: 1, to: 16777216}
  target.clock_mhz: {from: 1, to: 5000, step: 0.000001}
  array:
    group_size: {from: 1, to: 7}
    tables: {from: 1, to: 128}
    fetch_ports: {from: 1, to: 256}
    accumulator_depth: {from: 1, to: 65536}
  pipeline: {table: [1, 2, 3, 4], reduce: [0, 1, 2, 3, 4]}
  activation: [int4, int8]
objectives: {minimize: [area_mm2], maximize: [tops]}
"""


def test_a_space_that_cannot_be_enumerated_is_counted(
    hwgen: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert hwgen(HUGE) == 2
    said = capsys.readouterr().err
    assert "the sweep has 5.0e28 points" in said
    assert "sample: {points: 100000}" in said


# -- sampling ------------------------------------------------------------------------------------


def test_a_huge_space_is_sampled(hwgen: Callable[..., int], tmp_path: Path) -> None:
    sample = "sample: {points: 3000, seed: 5}\nconstraints: [array.fetch_ports % 8 == 0]\n"
    for name in ("a", "b"):
        assert hwgen(HUGE + sample + "keep: all\n", "--output", name) == 0
    assert written(tmp_path / "a") == written(tmp_path / "b")
    summary = json.loads(Path("a/summary.json").read_text())
    assert summary["evaluated"] == 3000
    # Blind chance would meet the constraint in one of eight points.
    assert summary["feasible"] > 1000
    table = pq.read_table("a/results.parquet").to_pydict()
    assert len(table["index"]) == summary["feasible"]
    assert all(ports % 8 == 0 for ports in table["array.fetch_ports"])


def test_sampling_all_of_a_small_space_enumerates_it(
    hwgen: Callable[..., int], tmp_path: Path
) -> None:
    assert hwgen(MIXED, "--output", "all") == 0
    assert hwgen(MIXED + "sample: {points: 5000}\n", "--output", "sample") == 0
    result = [
        sorted(
            [point["family"], point["area_mm2"], point["tops"]] for point in points_of(tmp_path / d)
        )
        for d in ("all", "sample")
    ]
    assert result[0] == result[1]


def test_a_scheduler_that_is_not_there(
    hwgen: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flows.tools.executors._TIMEOUT_S", 1)
    assert hwgen(LUT, "--scheduler", "tcp://127.0.0.1:9") == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert hwgen(LUT, "--scheduler", "tcp://127.0.0.1:9", "--jobs", "2") == 2
