# SPDX-License-Identifier: Apache-2.0
"""Environments of Gymnasium on tables: an action is a point, its reward what specs say of it.

An episode is one step by default, as in ArchGym: a point is proposed and evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hwgen.errors import InputError
from hwgen.gym.problem import Problem, load_problem
from hwgen.gym.table import Table

Observation = NDArray[np.float32]

ENVIRONMENTS: Mapping[str, str] = {
    "hwgen/Systolic-v0": "systolic_latency",
    "hwgen/TernaryLut-v0": "ternary_latency",
    "hwgen/Engine-v0": "engine_latency",
    "hwgen/HeterogeneousEngine-v0": "heterogeneous_latency",
}
"""The problem of each environment, unless another is asked for."""

METRICS = ("area_mm2", "latency_ms", "energy_mj")
FEATURES = ("macs", "weights", "tokens")

LARGEST = 20.0
"""Bound of observations, which are decadic logarithms."""

_WIDTH = len(METRICS) + len(FEATURES) + 1

ON_ILLEGAL = ("penalise", "raise")


class Reward:
    """Rewards of rows of a table.

    Parameters
    ----------
    problem : Problem
    targets : mapping, optional
        ArchGym's form: metric to target.  The reward is then minus the sum of the relative excess
        over these targets, 0 where all are met.

    Raises
    ------
    InputError
        If a target is of no metric, or not above 0.
    """

    def __init__(self, problem: Problem, targets: Mapping[str, float] | None = None) -> None:
        self.problem, self.targets = problem, dict(targets or {})
        for name, target in self.targets.items():
            if name not in problem.table.metrics or not target > 0:
                raise InputError(
                    f"targets: {name} = {target}; each of {', '.join(problem.table.metrics)} may"
                    " have a target above 0"
                )

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the reward of each row."""
        if not self.targets:
            return -self.problem.scores(rows)
        excess = np.zeros(len(rows))
        for name, target in self.targets.items():
            excess += np.fmax(self.problem.table.metrics[name][rows] / target - 1, 0.0)
        return np.where(self.problem.table.legal[rows], -excess, -1000.0)


def observe(table: Table, rows: NDArray[np.int64]) -> Observation:
    """Return observations of rows: metrics, features of the workload, and legality.

    Metrics and features are decadic logarithms; metrics of illegal points are 0.
    """
    result = np.empty((len(rows), _WIDTH), np.float32)
    for column, name in enumerate(METRICS):
        result[:, column] = table.metrics[name][rows]
    legal = table.legal[rows]
    with np.errstate(invalid="ignore"):
        result[:, : len(METRICS)] = np.log10(result[:, : len(METRICS)])
    result[~legal, : len(METRICS)] = 0.0
    result[:, len(METRICS) : -1] = features(table)
    result[:, -1] = legal
    return result


def features(table: Table) -> Observation:
    """Return the decadic logarithms of multiplications, weights and tokens of the workload."""
    return np.log10(np.array([max(1, table.workload[key]) for key in FEATURES], np.float32))


def _problem(problem: str | Problem) -> Problem:
    return load_problem(problem) if isinstance(problem, str) else problem


def _observations() -> Any:
    return spaces.Box(-LARGEST, LARGEST, (_WIDTH,), np.float32)


class TabularEnv(gymnasium.Env[Observation, NDArray[np.int64]]):
    """An environment in which one agent chooses all parameters.

    Parameters
    ----------
    problem : str or Problem
        A shipped problem, or one of a table of your own.
    steps : int
        Steps of an episode, each a point; default 1.
    on_illegal : str
        ``penalise``: the reward is the least there is, and ``info["refused"]`` names the rule that
        the point breaks; or ``raise``.
    targets : mapping, optional
        Rewards in ArchGym's form, see `Reward`.

    Raises
    ------
    InputError
        If an argument is not allowed, or in `step` an action out of bounds, or an illegal one with
        ``on_illegal="raise"``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        problem: str | Problem = "systolic_latency",
        *,
        steps: int = 1,
        on_illegal: str = "penalise",
        targets: Mapping[str, float] | None = None,
        render_mode: None = None,
    ) -> None:
        if on_illegal not in ON_ILLEGAL or steps < 1 or render_mode is not None:
            raise InputError(
                f"on_illegal is one of {', '.join(ON_ILLEGAL)}, not {on_illegal!r}; steps is at"
                " least 1; there is no render_mode"
            )
        self.problem = _problem(problem)
        self.table = self.problem.table
        self.steps, self.on_illegal = steps, on_illegal
        self.rewards = Reward(self.problem, targets)
        self.action_space = spaces.MultiDiscrete(list(self.table.sizes))
        self.observation_space = _observations()
        self._start: Observation = np.zeros(_WIDTH, np.float32)
        self._start[len(METRICS) : -1] = features(self.table)
        self._strides = self.table.strides
        self._sizes = np.array(self.table.sizes)
        self._left = steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; nothing is known but the workload."""
        super().reset(seed=seed, options=options)
        self._left = self.steps
        return self._start.copy(), {}

    def step(
        self, action: NDArray[np.int64]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Evaluate a point."""
        action = np.asarray(action)
        if action.shape != self._sizes.shape or ((action < 0) | (action >= self._sizes)).any():
            self.table.rows(action.reshape(1, -1))  # says what is out of bounds
        row = int(action @ self._strides)
        info: dict[str, Any] = {"row": row}
        if self.table.rule[row]:
            rule = self.table.broken_rule(row)
            if self.on_illegal == "raise":
                raise InputError(f"{self.table.point(row)} is illegal: {rule}")
            info["refused"] = rule
        rows = np.array([row])
        self._left -= 1
        reward = float(self.rewards(rows)[0])
        return observe(self.table, rows)[0], reward, self._left <= 0, False, info

    def action_mask(self, prefix: tuple[int, ...] = ()) -> NDArray[np.bool_]:
        """Return the legal values of the next parameter behind those of a prefix."""
        return self.table.mask(prefix)

    def sample_legal(self) -> NDArray[np.int64]:
        """Return a random legal action."""
        action: NDArray[np.int64] = self.table.draw(1, self.np_random)[0]
        return action


class TabularVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """Many of these environments at once, of one step each; arrays in, arrays out.

    Every step ends all episodes and begins the next ones (``AutoresetMode.SAME_STEP``): the
    observation is that of the beginning, and ``info["final_obs"]`` that of the points.

    Parameters
    ----------
    problem : str or Problem
    num_envs : int
    targets : mapping, optional
        As of `TabularEnv`.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        problem: str | Problem = "systolic_latency",
        num_envs: int = 1,
        *,
        targets: Mapping[str, float] | None = None,
    ) -> None:
        self.problem, self.num_envs = _problem(problem), num_envs
        self.table = self.problem.table
        self.rewards = Reward(self.problem, targets)
        self.single_action_space = spaces.MultiDiscrete(list(self.table.sizes))
        self.single_observation_space = _observations()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        start = np.zeros(_WIDTH, np.float32)
        start[len(METRICS) : -1] = features(self.table)
        self._start = np.tile(start, (num_envs, 1))
        self._ends = np.ones(num_envs, np.bool_)
        self._never = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes."""
        super().reset(seed=seed, options=options)
        return self._start.copy(), {}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Evaluate a point in each environment."""
        rows = self.table.rows(actions)
        info = {
            "final_obs": observe(self.table, rows),
            "row": rows,
            "refused": self.table.rule[rows],
        }
        return self._start.copy(), self.rewards(rows), self._ends, self._never, info


def register() -> None:
    """Register `ENVIRONMENTS` with Gymnasium."""
    for name, problem in ENVIRONMENTS.items():
        gymnasium.register(
            name,
            entry_point=f"{__name__}:TabularEnv",
            vector_entry_point=f"{__name__}:TabularVectorEnv",
            kwargs={"problem": problem},
        )
