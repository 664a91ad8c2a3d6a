# SPDX-License-Identifier: Apache-2.0
"""Tables, problems and environments: true optima, masks, rules, and Gymnasium's own checks."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test

from cost_model.sweep.document import read_sweep
from flows.gym.enumerate import METRICS, enumerate_space, table_of
from flows.tools.executors import LocalProcesses
from hwgen import __version__
from hwgen.cli import main
from hwgen.errors import InputError, ToolMissing
from hwgen.gym import ENVIRONMENTS, TabularEnv, TabularVectorEnv, problem
from hwgen.gym.environment import observe
from hwgen.gym.parallel import GroupsEnv
from hwgen.gym.problem import Problem, catalogue, hypervolume, load_problem, problems
from hwgen.gym.table import Table, rounded

TINY = """\
name: tiny
family: systolic
parameters:
  array:
    dataflow: [output_stationary, weight_stationary]
    pe: [mac, carry_save]
    rows: [2, 4, 8]
    cols: [2, 4, 8]
constraints: [array.rows <= array.cols, array.dataflow == 'output_stationary' or array.pe == 'mac']
targets: {technology: nangate45, clock_mhz: [100, 400]}
workloads: {work: bert_base}
objectives: {minimize: [area_mm2]}
"""


def cost(family: str, fixed: Any, varying: Any, technology: str, workloads: Any) -> dict[str, Any]:
    """Return made-up figures; an array of 2 by 2 breaks a rule of the family."""
    p = {**fixed, **varying}
    rows, cols = np.asarray(p["array.rows"], float), np.asarray(p["array.cols"], float)
    small = 0.5 if p["array.pe"] == "carry_save" else 1.0
    return {
        "valid": (rows > 2) | (cols > 2),
        "area_mm2": small * rows * cols + 0 * np.asarray(p["target.clock_mhz"]),
        METRICS["latency_ms"]: 1e5 / (rows * cols * p["target.clock_mhz"]),
        METRICS["energy_mj"]: rows + cols + 0 * np.asarray(p["target.clock_mhz"]),
    }


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("tiny") / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return enumerate_space(read_sweep(path, __version__).plan, cost)


def tiny_problem(table: Table) -> Problem:
    groups = {"array": tuple(a.name for a in table.axes if a.name.startswith("array.")),
              "target": ("target.clock_mhz",)}  # fmt: skip
    return Problem("tiny", table, ("latency_ms", "area_mm2"), {"area_mm2": 20.0},
                   ("area_mm2", "latency_ms"), groups)  # fmt: skip


def test_every_point_has_the_figures_of_the_cost_model_or_its_rule(tiny: Table) -> None:
    assert tiny.size == 2 * 2 * 2 * 3 * 3
    rules = set()
    for row in range(tiny.size):
        point = tiny.point(row)
        rows, cols = point["array.rows"], point["array.cols"]
        rule = tiny.broken_rule(row)
        rules.add(rule)
        if rows > cols:
            assert rule == "array.rows <= array.cols"
        elif point["array.dataflow"] != "output_stationary" and point["array.pe"] != "mac":
            assert "or array.pe == 'mac'" in rule
        elif rows == cols == 2:
            assert rule.startswith("a rule of the family systolic")
        else:
            assert not rule
            small = 0.5 if point["array.pe"] == "carry_save" else 1.0
            assert tiny.metrics["area_mm2"][row] == small * rows * cols
        assert bool(rule) == bool(np.isnan(tiny.metrics["area_mm2"][row]))
    assert len(rules) == 4


def test_optimum_front_and_regret_are_those_of_a_loop_over_all_points(tiny: Table) -> None:
    some = tiny_problem(tiny)
    costs, figures = {}, {}
    for row in np.flatnonzero(tiny.legal):
        area, time = (float(tiny.metrics[n][row]) for n in some.front)
        figures[int(row)] = (area, time)
        if area <= 20:
            costs[int(row)] = area * time
    best = min(costs.values())
    assert some.optimum == best
    assert some.costs[some.best] == best
    assert some.regret(best) == 0
    assert some.regret(np.median(list(costs.values()))) == 1
    every = set(figures.values())
    front = {f for f in every if not any(o != f and o[0] <= f[0] and o[1] <= f[1] for o in every)}
    assert {figures[int(row)] for row in some.front_rows} == front
    assert some.hypervolume_ratio(some.front_rows) == pytest.approx(1)
    assert 0 < some.hypervolume_ratio(some.front_rows[:1]) < 1
    scores = some.scores(np.arange(tiny.size))
    missed = tiny.legal & (tiny.metrics["area_mm2"] > 20)
    assert scores[np.isfinite(some.costs)].max() < scores[missed].min()
    assert scores[missed].max() < scores[~tiny.legal].min()


def test_hypervolume_is_the_area_below_a_corner() -> None:
    points = np.array([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0], [1.5, 1.5], [5.0, 0.0]])
    assert hypervolume(points, np.array([3.0, 3.0])) == 3 + 2 + 1


def test_masks_are_those_of_all_points(tiny: Table) -> None:
    legal = tiny.legal.reshape(tiny.sizes)
    for depth in range(len(tiny.sizes)):
        for prefix in itertools.product(*(range(n) for n in tiny.sizes[:depth])):
            rest = legal[prefix].reshape(tiny.sizes[depth], -1)
            assert (tiny.mask(prefix) == rest.any(axis=1)).all()
    drawn = tiny.draw(500, np.random.default_rng(0))
    rows = tiny.rows(drawn)
    assert tiny.legal[rows].all()
    assert set(rows) == set(np.flatnonzero(tiny.legal))
    with pytest.raises(InputError, match="none is left to mask"):
        tiny.mask((0,) * len(tiny.sizes))


def test_rounding_is_relative() -> None:
    figures = np.array([1.0, 123456.789, 3e-9, np.nan])
    assert np.nanmax(np.abs(rounded(figures) / figures - 1)) < 1.6e-5
    assert np.isnan(rounded(figures)[3])


# -- files -----------------------------------------------------------------------------------------


def test_a_file_gives_the_table_again(tiny: Table, tmp_path: Path) -> None:
    path = tmp_path / "tiny.parquet"
    path.write_bytes(tiny.encode())
    again = Table.read(path, tiny.digest)
    assert again.axes == tiny.axes
    assert again.rules == tiny.rules
    assert (again.rule == tiny.rule).all()
    assert again.workload["macs"] > 0


def test_a_table_with_another_digest_is_refused(tiny: Table, tmp_path: Path) -> None:
    path = tmp_path / "tiny.parquet"
    path.write_bytes(tiny.encode())
    with pytest.raises(InputError, match=r"the benchmark is of 000.*hwgen gym table"):
        Table.read(path, "0" * 64)
    changed = {**tiny.metrics, "area_mm2": tiny.metrics["area_mm2"] * np.float32(1.001)}
    stale = Table(tiny.name, tiny.axes, changed, tiny.rule, tiny.rules, tiny.workload, {})
    stale.__dict__["digest"] = tiny.digest  # a file whose figures were changed
    path.write_bytes(stale.encode())
    with pytest.raises(InputError, match=r"tiny.parquet: .*the file states"):
        Table.read(path)
    path.write_bytes(b"no table")
    with pytest.raises(InputError, match="no table of hwgen"):
        Table.read(path)


def test_shipped_tables_are_those_of_the_recorded_optima() -> None:
    assert len(problems()) >= 6
    assert max(entry["points"] for entry in catalogue().values()) >= 10**7
    folder = Path(problem.__file__).parent / "tables"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 20e6
    for name in problems():
        if catalogue()[name]["points"] < 10**6:
            assert load_problem(name).summary() == catalogue()[name]


def test_an_engine_with_two_units_is_the_sum_of_its_units() -> None:
    listed = problem._listed()["composed"]["heterogeneous"]
    units = {
        unit: {**stated, "values": {k: v[:2] for k, v in stated["values"].items()}}
        for unit, stated in listed["units"].items()
    }
    table = problem._compose("small", units, listed["shared"])
    tables = {unit: problem.load_table(stated["table"]) for unit, stated in units.items()}
    generator = np.random.default_rng(1)
    seen = 0
    for row in generator.integers(table.size, size=300):
        point = table.point(int(row))
        figures = []
        for unit, whole in tables.items():
            own = {**{n: v[0] for n, v in units[unit]["values"].items()},
                   **{n.removeprefix(f"{unit}."): v for n, v in point.items()}}  # fmt: skip
            digits = [axis.values.index(own[axis.name]) for axis in whole.axes]
            at = int(whole.rows(np.array([digits]))[0])
            figures.append({name: float(whole.metrics[name][at]) for name in whole.metrics})
        a, b = figures
        if np.isnan(a["area_mm2"]) or np.isnan(b["area_mm2"]):
            assert table.broken_rule(int(row)).startswith("a rule of the unit")
            continue
        seen += 1
        assert table.metrics["area_mm2"][row] == pytest.approx(a["area_mm2"] + b["area_mm2"], 1e-4)
        slower = max(a["latency_ms"], b["latency_ms"])
        assert table.metrics["latency_ms"][row] == pytest.approx(slower, 1e-4)
    assert seen > 50


# -- environments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasium_has_no_complaint(
    name: str, tiny: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "Heterogeneous" in name:  # its table takes seconds; the class is the same
        monkeypatch.setattr("hwgen.gym.environment.load_problem", lambda _: tiny_problem(tiny))
    check_env(gymnasium.make(name).unwrapped)


def test_pettingzoo_has_no_complaint(tiny: Table) -> None:
    env = GroupsEnv(tiny_problem(tiny))
    parallel_api_test(env, num_cycles=30)
    env.reset(seed=0)
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    _, rewards, ends, _, infos = env.step(actions)
    assert len(set(rewards.values())) == 1
    assert all(ends.values())
    digits = {name: int(d) for agent, some in env.groups.items()
              for name, d in zip(some, actions[agent], strict=True)}  # fmt: skip
    point = [digits[axis.name] for axis in tiny.axes]
    assert infos["array"]["row"] == tiny.rows(np.array([point]))[0]
    with pytest.raises(InputError, match="is in one group"):
        GroupsEnv(tiny_problem(tiny), {"all": ("array.rows",)})


def test_an_illegal_action_is_named_and_never_changed(tiny: Table) -> None:
    illegal = np.unravel_index(int(np.flatnonzero(tiny.rule == 1)[0]), tiny.sizes)
    action = np.array(illegal)
    env = TabularEnv(tiny_problem(tiny))
    env.reset(seed=0)
    observation, reward, *_, info = env.step(action)
    assert info["refused"] == "array.rows <= array.cols"
    assert info["row"] == tiny.rows(action[None])[0]
    assert observation[-1] == 0
    assert reward < min(-env.problem.scores(np.flatnonzero(tiny.legal)))
    strict = TabularEnv(tiny_problem(tiny), on_illegal="raise")
    strict.reset()
    with pytest.raises(InputError, match=r"is illegal: array\.rows <= array\.cols"):
        strict.step(action)
    with pytest.raises(InputError, match="out of its bounds"):
        env.step(np.array([9] * len(tiny.sizes)))
    for _ in range(20):
        assert "refused" not in env.step(env.sample_legal())[-1]
    with pytest.raises(InputError, match="on_illegal is one of"):
        TabularEnv(tiny_problem(tiny), on_illegal="change")


def test_many_environments_are_the_single_one(tiny: Table) -> None:
    some = tiny_problem(tiny)
    many, env = TabularVectorEnv(some, 64), TabularEnv(some)
    many.reset(seed=3)
    actions = many.action_space.sample()
    _, rewards, ends, _, info = many.step(actions)
    assert ends.all()
    for action, reward, last in zip(actions, rewards, info["final_obs"], strict=True):
        env.reset()
        observation, one, end, _, _ = env.step(action)
        assert end
        assert one == reward
        assert (observation == last).all()


def test_archgyms_reward_is_the_excess_over_targets(tiny: Table) -> None:
    env = TabularEnv(tiny_problem(tiny), targets={"area_mm2": 8.0, "energy_mj": 100.0})
    row = int(np.flatnonzero(tiny.legal & (tiny.metrics["area_mm2"] == 32))[0])
    env.reset()
    assert env.step(np.array(np.unravel_index(row, tiny.sizes)))[1] == -3
    with pytest.raises(InputError, match="targets: joy = 1"):
        TabularEnv(tiny_problem(tiny), targets={"joy": 1.0})
    assert observe(tiny, np.array([row]))[0, 0] == pytest.approx(np.log10(32), 1e-4)


# -- bad input -------------------------------------------------------------------------------------


def test_bad_names_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gym", "table", "sistolic"]) == 2
    assert "did you mean 'systolic'?" in capsys.readouterr().err
    with pytest.raises(InputError, match="no problem is called"):
        load_problem("nothing")
    path = tmp_path / "two.yaml"
    path.write_text(TINY.replace("work: bert_base", "other: bert_base"), encoding="utf-8")
    with pytest.raises(InputError, match="has one, with the name 'work'"):
        table_of(path, LocalProcesses(1))
    path.write_text(TINY + "specs: [area_mm2 <= 1]\n", encoding="utf-8")
    with pytest.raises(InputError, match="no specs"):
        table_of(path, LocalProcesses(1))
    assert not list(tmp_path.glob("*.parquet"))


def test_a_missing_extra_is_named(
    tiny: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[gym\]'"):
        tiny.encode()
    problem.load_table.cache_clear()
    assert main(["gym", "table", "systolic", "--output", "never.parquet"]) == 3
    assert "pip install 'hwgen[gym]'" in capsys.readouterr().err
    assert not Path("never.parquet").exists()


def test_the_table_command_writes_a_shipped_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lut.parquet"
    assert main(["gym", "table", "ternary_lut", "--output", str(path), "--json"]) == 0
    assert Table.read(path).digest in capsys.readouterr().out
    assert main(["gym", "table", "ternary_lut", "--output", str(path)]) == 2  # exists
    assert main(["gym", "problems"]) == 0
    assert "systolic_latency" in capsys.readouterr().out
