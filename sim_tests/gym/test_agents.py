# SPDX-License-Identifier: Apache-2.0
"""Search agents: budgets, seeds, agents of users, and the benchmark's journal."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from flows.bench import agents as bench
from flows.bench.agents_page import STORED, quartiles, rows_of, shortest, within
from hwgen.errors import InputError, ToolMissing
from hwgen.gym.agents import Agent, BudgetSpent, Task, agent_class, agents, run_agent
from hwgen.gym.problem import catalogue, load_problem, problems

LIGHT = ("random", "random_legal", "ga", "nsga2", "annealing", "cma", "tpe")
LEARNED = {"ppo": "stable_baselines3", "ppo_independent": "stable_baselines3",
           "ppo_centralised": "sb3_contrib", "smac": "smac"}  # fmt: skip

CLIMB = '''\
from hwgen.gym.agents import Agent


class Climb(Agent):
    """Changes one digit at a time, and stays where it is better."""

    settings = {"step": 2}

    def search(self, task):
        best = task.generator.integers(task.sizes)
        score = task.score(best)[0]
        while True:
            point = best.copy()
            place = task.generator.integers(len(point))
            point[place] += task.generator.integers(-self.step, self.step + 1)
            point[place] = min(max(point[place], 0), task.sizes[place] - 1)
            new = task.score(point)[0]
            if new <= score:
                best, score = point, new
'''


@pytest.mark.rotate(4)
@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.filterwarnings("ignore")
def test_an_agent_uses_its_budget_and_follows_from_its_seed(name: str) -> None:
    some, budget = load_problem("ternary_latency"), 120
    rows = run_agent(agent_class(name)(), some, budget, 1)
    assert len(rows) == budget
    assert (run_agent(agent_class(name)(), some, budget, 1) == rows).all()
    assert (run_agent(agent_class(name)(), some, budget, 2) != rows).any()
    assert np.isfinite(some.costs[rows]).any()


@pytest.mark.slow
@pytest.mark.rotate(8)
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.filterwarnings("ignore")
def test_an_agent_that_learns_does_so_where_its_library_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    some = load_problem("ternary_latency")
    if find_spec(LEARNED[name]) is None:
        with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[agents-learned\]'"):
            run_agent(agent_class(name)(), some, 30, 1)
        return
    rows = run_agent(agent_class(name)(), some, 30 if name == "smac" else 150, 1)
    assert len(rows) == (30 if name == "smac" else 150)
    assert not list(tmp_path.glob("SB3-*"))  # folders of Stable-Baselines3's logger
    assert np.isfinite(some.costs[rows]).any()


def test_a_budget_ends_in_the_midst_of_a_batch() -> None:
    task = Task(load_problem("ternary_latency"), 5, 0)
    points = task.problem.table.draw(3, task.generator)
    task.score(points)
    with pytest.raises(BudgetSpent):
        task.objectives(points)
    assert len(task.rows) == 5
    with pytest.raises(InputError, match="out of its bounds"):
        Task(load_problem("ternary_latency"), 5, 0).score([99] * len(task.sizes))


def test_a_user_adds_an_agent_in_20_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(CLIMB.splitlines()) <= 22
    (tmp_path / "climbing.py").write_text(CLIMB, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    own = agent_class("climbing:Climb")
    some = load_problem("ternary_latency")
    rows = run_agent(own(step=3), some, 400, 0)
    first = np.minimum.accumulate(some.scores(rows))
    assert first[-1] < first[0]
    with pytest.raises(InputError, match="has no setting stepp; it has step"):
        own(stepp=1)
    sys.modules.pop("climbing")


def test_bad_agents() -> None:
    assert set(LIGHT) < set(agents())
    with pytest.raises(InputError, match="no agent is called 'gaa'"):
        agent_class("gaa")
    with pytest.raises(InputError, match="no class derived from"):
        agent_class("json:dumps")
    with pytest.raises(NotImplementedError):
        Agent().search(Task(load_problem("ternary_latency"), 1, 0))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolMissing, match=r"Tpe needs optuna; pip install 'hwgen\[agents\]'"):
        run_agent(agent_class("tpe")(), load_problem("ternary_latency"), 3, 0)
    monkeypatch.delitem(sys.modules, "hwgen.gym.learned", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[agents-learned\]'"):
        agent_class("ppo")


# -- the benchmark ---------------------------------------------------------------------------------


def test_an_interrupted_benchmark_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "JOURNAL", tmp_path / "runs.jsonl")
    monkeypatch.setattr(bench, "SEEDS", 4)
    wanted = list(bench.runs(["random"], ["ternary_latency"], 200))
    assert len(wanted) == 4
    counted: list[bench.Run] = []
    real = bench.measured

    def measured(each: bench.Run, problem: object) -> dict[str, object]:
        counted.append(each)
        if len(counted) == 3:
            raise KeyboardInterrupt
        return real(each, problem)  # type: ignore[arg-type]

    monkeypatch.setattr(bench, "measured", measured)
    with pytest.raises(KeyboardInterrupt):
        bench.campaign(wanted, bench.journal(), 1e12)
    with bench.JOURNAL.open("a", encoding="utf-8") as stream:
        stream.write('{"problem": "tern')  # a line that was cut off
    assert len(bench.journal()) == 2
    done = bench.campaign(wanted, bench.journal(), 1e12)
    assert counted == [*wanted[:3], *wanted[2:]]
    monkeypatch.setattr(bench, "JOURNAL", tmp_path / "other.jsonl")
    whole = bench.campaign(wanted, {}, 1e12)
    (row,), (other,) = rows_of(list(done.values())), rows_of(list(whole.values()))
    assert {**row, "seconds": 0} == {**other, "seconds": 0}
    assert len(row["found"]) == 4


def test_ppo_has_a_larger_budget_on_the_first_problem_of_each_table() -> None:
    names = problems()
    wanted = [r for r in bench.runs(["ppo", "ga"], names, None) if r.budget > 1000]
    longer = {(r.problem, r.seed) for r in wanted if r.agent == "ppo"}
    firsts = {catalogue()[name]["table"]: name for name in reversed(names)}
    assert longer == {(n, s) for n in firsts.values() for s in range(bench.LONGER_SEEDS)}
    assert not [r for r in bench.runs(["ppo"], names, 500) if r.budget != 500]
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    own = [r for r in stored if r["agent"] == "ppo" and r["problem"] == "systolic_latency"]
    assert {r["budget"] for r in own} == {1000, bench.LONGER_BUDGET}
    assert {r["budget"] for r in shortest(own)} == {1000}


def test_a_stored_row_is_measured_again() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    row = next(r for r in stored if r["problem"] == "ternary_latency" and r["agent"] == "random")
    some = load_problem("ternary_latency")
    for seed in (0, 7):
        each = bench.Run(row["problem"], row["agent"], row["settings"], row["budget"], seed)
        again = bench.measured(each, some)
        assert again["found"] == row["found"][seed]
        assert {n: v[seed] for n, v in row["regret"].items()} == again["regret"]


def test_the_stored_benchmark_is_complete() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    full = {(r["agent"], r["problem"]) for r in stored if len(r["found"]) >= 30}
    names = {agent for agent, _ in full}
    shared = {p for _, p in full if all((agent, p) in full for agent in names)}
    assert len(names) >= 7
    assert len(shared) >= 6


def test_quartiles_and_shares() -> None:
    assert quartiles([0, 1, 2, 3, 4]) == (1, 2, 3)
    assert within({"found": [None, 5, 50, 500]}, 50) == 0.5
