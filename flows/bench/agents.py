# SPDX-License-Identifier: Apache-2.0
"""Search agents against the optimum of exhaustive tables: ``make bench-agents``.

Every agent has 30 seeds on every problem, with its default settings, and others of a grid.  Runs
are appended to a journal; an interrupted benchmark continues with the runs that are missing.
Results are stored; tables and pictures of `docs/search-agents.md` are made from them.

``--agent ga --problem systolic_latency`` repeats one row, and says whether it is the stored one.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.bench.agents_page import STORED, rows_of, summary_rows, write_page
from flows.bench.common import parser, report, run
from hwgen.errors import InputError
from hwgen.gym.agents import agent_class, run_agent
from hwgen.gym.problem import WITHIN, Problem, catalogue, load_problem, problems

JOURNAL = Path("build/agents/runs.jsonl")

SEEDS = 30

CHECKPOINTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Samples after which the best point so far is recorded."""

VOLUMES = (100, 1000, 10000)
"""Samples after which the hypervolume is."""


@dataclass(frozen=True)
class Entry:
    """An agent of the benchmark.

    Parameters
    ----------
    agent : str
        Its name, or ``package.module:Class``.
    budget : int
        Samples with default settings.
    grid : tuple of dict
        Further settings, with fewer samples and seeds.
    """

    agent: str
    budget: int
    grid: tuple[dict[str, Any], ...] = ()


ENTRIES = (
    Entry("random", 10000),
    Entry("random_legal", 10000),
    Entry("ga", 10000, ({"population": 20}, {"eta": 15.0}, {"population": 300})),
    Entry("nsga2", 10000, ({"population": 20}, {"eta": 15.0}, {"population": 300})),
    Entry("annealing", 10000, ({"temperature": 100.0}, {"temperature": 50000.0})),
    Entry("cma", 500, ({"scale": 0.3},)),
    Entry("tpe", 100, ({"startup": 50},)),
    Entry("ppo", 1000, ({"rate": 1e-2}, {"entropy": 0.05})),
    Entry("ppo_independent", 1000, ({"rate": 1e-2}, {"entropy": 0.05})),
    Entry("ppo_centralised", 1000, ({"rate": 1e-2}, {"entropy": 0.05})),
    Entry("smac", 50),
)
"""Slow agents have smaller budgets; the page says so."""

LONGER, LONGER_BUDGET, LONGER_SEEDS = ("ppo",), 10000, 3
"""Agents that learn little from their usual budget; on the first problem of each table they have a
larger one as well, with fewer seeds."""

GRID_BUDGET, GRID_SEEDS = 1000, 10
"""Samples at most, and seeds, of the settings of grids."""


@dataclass(frozen=True)
class Run:
    """A run of the benchmark: an agent with settings on a problem, with a seed."""

    problem: str
    agent: str
    settings: str
    budget: int
    seed: int


def runs(agents: Sequence[str], names: Sequence[str], budget: int | None) -> Iterator[Run]:
    """Yield runs: all with default settings, then longer ones, those of grids, and of SMAC."""
    chosen = [entry for entry in ENTRIES if entry.agent in agents]
    chosen += [Entry(name, 1000) for name in agents if name not in {e.agent for e in ENTRIES}]
    cheap = [entry for entry in chosen if entry.agent != "smac"]
    yield from _default_runs(cheap, names, budget)
    if budget is None:
        yield from _longer_runs([entry.agent for entry in cheap], names)
    for problem in names:
        for entry in cheap:
            most = budget or min(entry.budget, GRID_BUDGET)
            for settings in entry.grid:
                for seed in range(GRID_SEEDS):
                    yield Run(problem, entry.agent, _text(settings), most, seed)
    yield from _default_runs([entry for entry in chosen if entry not in cheap], names, budget)


def _default_runs(
    entries: Sequence[Entry], names: Sequence[str], budget: int | None
) -> Iterator[Run]:
    for problem in names:
        for entry in entries:
            for seed in range(SEEDS):
                yield Run(problem, entry.agent, _text({}), budget or entry.budget, seed)


def _longer_runs(agents: Sequence[str], names: Sequence[str]) -> Iterator[Run]:
    firsts = {catalogue()[name]["table"]: name for name in reversed(problems())}
    for agent in LONGER:
        for problem in names:
            if agent in agents and problem in firsts.values():
                for seed in range(LONGER_SEEDS):
                    yield Run(problem, agent, _text({}), LONGER_BUDGET, seed)


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def measured(each: Run, problem: Problem) -> dict[str, Any]:
    """Return the result of a run as plain data."""
    start = time.process_time()
    agent = agent_class(each.agent)(**json.loads(each.settings))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = run_agent(agent, problem, each.budget, each.seed)
    seconds = time.process_time() - start
    costs = np.minimum.accumulate(problem.costs[rows])
    found = np.flatnonzero(costs <= problem.optimum * (1 + WITHIN))
    marks = [count for count in CHECKPOINTS if count <= each.budget]
    last = len(rows) - 1
    return {
        **vars(each),
        "digest": problem.table.digest[:16],
        "regret": {
            str(n): float(f"{float(problem.regret(costs[min(n - 1, last)])):.6g}") for n in marks
        },
        "hypervolume": {
            str(n): round(problem.hypervolume_ratio(rows[:n]), 5)
            for n in sorted({*(v for v in VOLUMES if v <= each.budget), each.budget})
        },
        "found": int(found[0]) + 1 if len(found) else None,
        "distinct": len(np.unique(rows)),
        "seconds": round(seconds, 2),
    }


def journal() -> dict[Run, dict[str, Any]]:
    """Return the finished runs; a last line that was cut off is no run."""
    result: dict[Run, dict[str, Any]] = {}
    if JOURNAL.is_file():
        for line in JOURNAL.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                key = Run(*(entry[name] for name in Run.__dataclass_fields__))
            except (ValueError, KeyError, TypeError):
                continue
            result[key] = entry
    return result


def campaign(
    wanted: Sequence[Run], done: dict[Run, dict[str, Any]], until: float
) -> dict[Run, dict[str, Any]]:
    """Make the runs that are missing, and add them to the journal."""
    JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    with JOURNAL.open("a", encoding="utf-8") as stream:
        stream.write("\n" if JOURNAL.stat().st_size else "")
        for each in wanted:
            problem = load_problem(each.problem)
            if each in done and done[each]["digest"] == problem.table.digest[:16]:
                continue
            if time.time() > until:
                break
            done[each] = measured(each, problem)
            stream.write(json.dumps(done[each]) + "\n")
            stream.flush()
    digests = {name: load_problem(name).table.digest[:16] for name in {w.problem for w in wanted}}
    return {
        each: done[each] for each in wanted
        if each in done and done[each]["digest"] == digests[each.problem]
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, or write its page from the stored results."""
    options = parser("agents", __doc__)
    options.add_argument("--agent", action="append", help="name or module:Class; may be repeated")
    options.add_argument("--problem", action="append", help="may be repeated; default all")
    options.add_argument("--budget", type=int, help="samples of each run")
    options.add_argument(
        "--minutes", type=float, default=1e6, help="begin no more runs after so many minutes"
    )
    options.add_argument("--stored", action="store_true", help="make no runs")
    options.add_argument("--write", type=Path, help="page to write the tables into")
    options.add_argument("--pictures", type=Path, help="folder of its pictures")
    chosen = options.parse_args(arguments)
    for name in chosen.problem or ():
        if name not in problems():
            raise InputError(f"--problem {name}: there is: {', '.join(problems())}")
    if chosen.stored:
        results = json.loads(STORED.read_text(encoding="utf-8"))
    else:
        whole = not (chosen.agent or chosen.problem or chosen.budget)
        row = chosen.budget or (chosen.agent and chosen.problem)
        names = chosen.agent or [entry.agent for entry in ENTRIES]
        wanted = list(runs(names, chosen.problem or problems(), chosen.budget))
        until = time.time() + 60 * chosen.minutes
        # Rows are measured anew; the whole benchmark continues.
        done = campaign(wanted, {} if row else journal(), until)
        results = rows_of(list(done.values()))
        if whole:
            STORED.write_text(
                "[\n" + ",\n".join(json.dumps(row) for row in results) + "\n]\n", encoding="utf-8"
            )
    report("search agents", summary_rows(results), as_json=chosen.json)
    if not chosen.stored and (chosen.agent or chosen.problem) and not chosen.budget:
        _compare(results)
    if chosen.write:
        write_page(results, chosen.write, chosen.pictures)
    return 0


def _compare(results: Sequence[dict[str, Any]]) -> None:
    """Say whether rows that were measured are those that are stored."""
    import sys

    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else []
    keys = ("problem", "agent", "settings", "budget")
    known = {tuple(row[key] for key in keys): row for row in stored}
    for row in results:
        other = known.get(tuple(row[key] for key in keys))
        same = other is not None and all(other[k] == row[k] for k in ("regret", "found"))
        text = "equals" if same else "is not stored" if other is None else "DIFFERS from"
        sys.stdout.write(f"{row['problem']} {row['agent']} {row['settings']}: {text} the stored\n")


if __name__ == "__main__":
    run(main)
