# SPDX-License-Identifier: Apache-2.0
"""Search agents, each a small class around a library; other packages and files may add more.

An agent has `search`, which asks a `Task` for the scores of points until its budget is spent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import InputError, ToolMissing
from hwgen.gym.problem import Problem
from hwgen.gym.table import Floats
from hwgen.plugins import Registry, load_object

GROUP = "hwgen.agents"


class BudgetSpent(Exception):
    """Raised by a task whose budget is spent; ends a search."""


class Task:
    """A problem with a budget, as agents see it.

    Parameters
    ----------
    problem : Problem
    budget : int
        Points that may be evaluated, repeated and illegal ones counted.
    seed : int

    Attributes
    ----------
    sizes : tuple of int
        The number of values of each parameter.
    budget, seed : int
    rows : array
        Rows of the points that were evaluated, in order.
    """

    def __init__(self, problem: Problem, budget: int, seed: int) -> None:
        self.problem, self.budget, self.seed = problem, budget, seed
        self.sizes = problem.table.sizes
        self.generator = np.random.default_rng(seed)
        self._rows = np.empty(budget, np.int64)
        self._used = 0

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the points that were evaluated, in order."""
        return self._rows[: self._used]

    def score(self, points: Any) -> Floats:
        """Return the scores of points, small ones being good; see `Problem.scores`.

        Raises
        ------
        BudgetSpent
            If no more points may be evaluated; points up to the budget are counted.
        """
        return self.problem.scores(self._evaluated(points))

    def objectives(self, points: Any) -> Floats:
        """Return both figures of the front for points, and their score as a third."""
        rows = self._evaluated(points)
        return np.column_stack([self.problem.objectives(rows), self.problem.scores(rows)])

    def _evaluated(self, points: Any) -> NDArray[np.int64]:
        rows = self.problem.table.rows(np.asarray(points, np.int64).reshape(-1, len(self.sizes)))
        count = min(len(rows), self.budget - self._used)
        self._rows[self._used : self._used + count] = rows[:count]
        self._used += count
        if count < len(rows) or not count:
            raise BudgetSpent
        return rows


class Agent:
    """Base of agents.

    Parameters
    ----------
    **settings
        Hyperparameters; those of `settings` of the class may be given.
    """

    settings: Mapping[str, Any] = {}
    """Hyperparameters and their defaults."""

    extra = "agents"
    """The extra of hwgen that installs what it needs."""

    def __init__(self, **settings: Any) -> None:
        unknown = sorted(settings.keys() - self.settings.keys())
        if unknown:
            raise InputError(
                f"{type(self).__name__} has no setting {', '.join(unknown)}; it has"
                f" {', '.join(self.settings) or 'none'}"
            )
        for name, value in {**self.settings, **settings}.items():
            setattr(self, name, value)

    def search(self, task: Task) -> None:
        """Ask `task` for points until it raises `BudgetSpent`, or stop before."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Random(Agent):
    """Points drawn at random."""

    def search(self, task: Task) -> None:
        while True:
            task.score(task.generator.integers(task.sizes, size=(100, len(task.sizes))))


class Masked(Agent):
    """Legal points drawn at random, by the masks of the table."""

    def search(self, task: Task) -> None:
        while True:
            task.score(task.problem.table.draw(100, task.generator))


class Genetic(Agent):
    """A genetic algorithm of pymoo on the score."""

    settings = {"population": 100, "eta": 3.0}

    def search(self, task: Task) -> None:
        from pymoo.algorithms.soo.nonconvex.ga import GA

        _evolve(task, GA(**_operators(self)), 1)


class Nsga2(Agent):
    """NSGA-II of pymoo on both figures of the front and the score."""

    settings = {"population": 100, "eta": 3.0}

    def search(self, task: Task) -> None:
        from pymoo.algorithms.moo.nsga2 import NSGA2

        _evolve(task, NSGA2(**_operators(self)), 3)


class Tpe(Agent):
    """Tree-structured Parzen estimators of Optuna."""

    settings = {"startup": 20, "candidates": 24}

    def search(self, task: Task) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=task.seed, n_startup_trials=self.startup, n_ei_candidates=self.candidates
        )
        study = optuna.create_study(sampler=sampler)
        while True:
            trial = study.ask()
            point = [trial.suggest_int(str(at), 0, n - 1) for at, n in enumerate(task.sizes)]
            study.tell(trial, float(task.score(point)[0]))


class Smac(Agent):
    """Bayesian optimisation of SMAC with a random forest."""

    settings = {"initial": 20, "challengers": 500}
    extra = "agents-learned"

    def search(self, task: Task) -> None:
        import tempfile

        import ConfigSpace
        import joblib
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario

        space = ConfigSpace.ConfigurationSpace(seed=task.seed)
        space.add([ConfigSpace.Integer(f"p{at:02}", (0, n - 1)) for at, n in enumerate(task.sizes)])
        names = [f"p{at:02}" for at in range(len(task.sizes))]
        with tempfile.TemporaryDirectory() as folder, joblib.parallel_config("sequential"):
            scenario = Scenario(
                space, n_trials=task.budget, seed=task.seed, deterministic=True,
                output_directory=folder,
            )  # fmt: skip
            Facade(
                scenario,
                lambda config, seed=0: float(task.score([config[name] for name in names])[0]),
                initial_design=Facade.get_initial_design(scenario, n_configs=self.initial),
                acquisition_maximizer=Facade.get_acquisition_maximizer(
                    scenario, challengers=self.challengers
                ),
                logging_level=50, overwrite=True,
            ).optimize()  # fmt: skip


class Cma(Agent):
    """CMA-ES of Nevergrad, in a continuous space whose cells are the points."""

    settings = {"scale": 1.0, "population": 0}

    def search(self, task: Task) -> None:
        import nevergrad

        high = np.array(task.sizes) - 1e-9
        space = nevergrad.p.Array(init=high / 2).set_bounds(np.zeros(len(high)), high)
        space.random_state.seed(task.seed)
        make = nevergrad.optimizers.ParametrizedCMA(
            scale=self.scale, popsize=self.population or None
        )
        optimiser = make(parametrization=space, budget=task.budget)
        while True:
            asked = optimiser.ask()
            optimiser.tell(asked, float(task.score(asked.value.astype(np.int64))[0]))


class Annealing(Agent):
    """Dual annealing of SciPy."""

    settings = {"temperature": 5230.0, "local": False}

    def search(self, task: Task) -> None:
        from scipy.optimize import dual_annealing

        high = np.array(task.sizes) - 1e-9
        dual_annealing(
            lambda x: float(task.score(np.minimum(x, high).astype(np.int64))[0]),
            [(0.0, float(n)) for n in high],
            maxiter=10**9, maxfun=10**9, seed=task.seed,
            initial_temp=self.temperature, no_local_search=not self.local,
        )  # fmt: skip


def _operators(agent: Agent) -> dict[str, Any]:
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling

    return {
        "pop_size": agent.population,
        "sampling": IntegerRandomSampling(),
        "crossover": SBX(prob=1.0, eta=agent.eta, vtype=float, repair=RoundingRepair()),
        "mutation": PM(prob=1.0, eta=agent.eta, vtype=float, repair=RoundingRepair()),
        "eliminate_duplicates": True,
    }


def _evolve(task: Task, algorithm: Any, objectives_count: int) -> None:
    """Run an algorithm of pymoo with as many figures to make small."""
    from pymoo.core.problem import Problem as Problem_
    from pymoo.termination import get_termination

    high = np.array(task.sizes) - 1
    problem = Problem_(
        n_var=len(high),
        n_obj=objectives_count,
        xl=np.zeros(len(high), np.int64),
        xu=high,
        vtype=int,
    )
    algorithm.setup(problem, termination=get_termination("n_gen", 1 << 30), seed=task.seed)
    while algorithm.has_next():
        asked = algorithm.ask()
        points = np.rint(np.array(asked.get("X"), np.float64)).astype(np.int64)
        asked.set(
            "F", task.score(points)[:, None] if objectives_count == 1 else task.objectives(points)
        )
        algorithm.tell(infills=asked)


# -- by name -------------------------------------------------------------------------------------


def agents() -> Registry[object]:
    """Return the agents that installed packages announce, by name."""
    return Registry(GROUP, "agent", lambda point: load_object("agent", point))


def agent_class(name: str) -> type[Agent]:
    """Return an agent by its name, or by ``package.module:Class``.

    Raises
    ------
    InputError
        If there is none, or it is no `Agent`.
    ToolMissing
        If its module needs a package that is not installed.
    """
    try:
        if ":" in name:
            sys.path.insert(0, "")
            try:
                found = load_object("agent", EntryPoint(name, name, GROUP))
            finally:
                sys.path.remove("")
        else:
            found = agents().named(name)
    except InputError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):
            raise ToolMissing(
                f"the agent {name} needs {error.__cause__.name};"
                " pip install 'hwgen[agents-learned]'"
            ) from None
        raise
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise InputError(f"the agent {name!r} is no class derived from hwgen.gym.agents.Agent")
    return found


def run_agent(agent: Agent, problem: Problem, budget: int, seed: int) -> NDArray[np.int64]:
    """Return the rows that an agent evaluates, in order.

    Raises
    ------
    ToolMissing
        If a library is not installed.
    """
    task = Task(problem, budget, seed)
    try:
        agent.search(task)
    except BudgetSpent:
        pass
    except ImportError as error:
        raise ToolMissing(
            f"the agent {type(agent).__name__} needs {error.name or error};"
            f" pip install 'hwgen[{agent.extra}]'"
        ) from None
    return task.rows
