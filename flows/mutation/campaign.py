# SPDX-License-Identifier: Apache-2.0
"""Mutants that the regression of a design notices."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from flows.build.design import Design
from flows.mutation.mutants import Mutant
from flows.simulation.runner import Outcome, case_names, compile_design, simulate
from flows.tools.parallel import run_all
from hwgen.errors import CheckFailed

BENCH = "flows.simulation.cocotb.mutants"

_TOGETHER = 25
"""Mutants of one simulation."""

_TIMEOUT_S = 900.0

SLOWER = 20
"""How many times as long as in the design a case may take in a mutant."""

DURATIONS = "durations.json"
"""File with the simulated time of each case in the design, beside the plan."""


@dataclass(frozen=True)
class Verdict:
    """Whether a mutant was noticed.

    Parameters
    ----------
    case : str
        The case that failed; empty if all passed.
    message : str
        What it said.
    """

    case: str = ""
    message: str = ""

    @property
    def caught(self) -> bool:
        """Whether a case failed."""
        return bool(self.case)


def run_mutants(
    design: Design,
    mutants: Sequence[Mutant],
    work: Path,
    *,
    seed: int = 0,
    jobs: int = 1,
    on_done: Callable[[int, int], None] = lambda done, of: None,
) -> dict[int, Verdict]:
    """Run the regression of a design on its mutants.

    First come a few cases of different kinds; the mutants that pass those get all others.

    Parameters
    ----------
    design : Design
        With mutants, from `flows.mutation.mutants.mutated`.
    mutants : sequence of Mutant
    work : Path
        Directory for logs and results.
    seed : int
        Of the regression.
    jobs : int
        Simulations at once.
    on_done : callable
        Called with the number of mutants that are done, and of all.

    Returns
    -------
    dict
        Number of each mutant: its verdict.

    Raises
    ------
    ToolMissing
        If a tool is missing.
    CheckFailed
        If something does not compile, or the design without a change fails.
    """
    names = case_names(design.params, seed)
    few = first_cases(names)
    rest = [name for name in names if name not in few]
    build = compile_design(design)
    simulation = _Simulation(design, build, work, seed)
    if simulation.run([0], names)[0].caught:
        raise CheckFailed(f"{design.name}: the design itself fails its regression")
    path = simulation.directory([0], names) / DURATIONS
    simulation = replace(simulation, durations=json.loads(path.read_text(encoding="utf-8")))
    verdicts: dict[int, Verdict] = {}
    for cases in (few, rest):
        numbers = [
            m.number for m in mutants if m.number not in verdicts or not verdicts[m.number].caught
        ]
        parts = [numbers[i : i + _TOGETHER] for i in range(0, len(numbers), _TOGETHER)]

        def done(_: int, result: Mapping[int, Verdict]) -> None:
            verdicts.update(result)
            on_done(sum(verdict.caught for verdict in verdicts.values()), len(mutants))

        run_all([partial(simulation.run, part, cases) for part in parts if cases], jobs, done)
    return verdicts


def first_cases(names: Sequence[str]) -> list[str]:
    """Return one case of each kind, that in the middle."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.rpartition("_")[0] or name, []).append(name)
    return [group[len(group) // 2] for group in kinds.values()]


@dataclass(frozen=True)
class _Simulation:
    """The compiled design with its mutants."""

    design: Design
    build: Path
    work: Path
    seed: int
    durations: Mapping[str, int] = field(default_factory=dict)

    def directory(self, numbers: Sequence[int], cases: Sequence[str]) -> Path:
        """Return the directory of a run."""
        return self.work / f"mutants_{numbers[0]}_{len(numbers)}_{cases[0]}"

    def run(self, numbers: Sequence[int], cases: Sequence[str]) -> dict[int, Verdict]:
        """Return the verdict of each mutant.

        A simulation that ends without results is repeated with fewer mutants; one mutant alone
        that ends it is noticed.  Mutants after which the design itself fails leave a state behind
        that a reset does not remove: those that follow are run again.
        """
        work = self.directory(numbers, cases)
        try:
            outcomes = simulate(
                self.design.params,
                self.build,
                BENCH,
                {
                    "seed": self.seed,
                    "cases": list(cases),
                    "mutants": list(numbers),
                    "durations": dict(self.durations),
                },
                work,
                seed=self.seed,
                timeout=_TIMEOUT_S,
            )
        except CheckFailed as error:
            if len(numbers) == 1:
                return {numbers[0]: Verdict("end of simulation", str(error).splitlines()[0])}
            half = len(numbers) // 2
            return {**self.run(numbers[:half], cases), **self.run(numbers[half:], cases)}
        by_run = {int(outcome.name): outcome for outcome in outcomes}
        verdicts = {}
        for position, number in enumerate(numbers):
            first = position * (len(cases) + 1)
            verdicts[number] = _verdict(by_run, first, cases)
            if not by_run[first + len(cases)].passed:
                if following := numbers[position + 1 :]:
                    verdicts.update(self.run(following, cases))
                break
        return verdicts


def _verdict(by_run: Mapping[int, Outcome], first: int, cases: Sequence[str]) -> Verdict:
    for index, case in enumerate(cases):
        outcome = by_run[first + index]
        if not outcome.passed:
            message = outcome.message.strip().splitlines()
            return Verdict(case, message[0] if message else "")
    return Verdict()
