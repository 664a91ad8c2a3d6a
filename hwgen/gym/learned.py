# SPDX-License-Identifier: Apache-2.0
"""Agents that learn a policy: PPO of Stable-Baselines3, with one agent and with several.

Points are proposed in batches of `Ppo.settings["batch"]`, one batch for each update.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from hwgen.gym.agents import Agent, Task

_NETWORK = [64]


class Batch(VecEnv):
    """Environments of one step, or of a turn for each agent, that a task scores together.

    Parameters
    ----------
    count : int
        Environments.
    actions : MultiDiscrete
        Of one step.
    observe : callable
        Takes digits chosen so far, shape (count, turns, slots), and the turn; returns observations.
    score : callable
        Takes the actions of all turns, shape (count, turns, slots); returns scores.
    turns : int
    masks : callable, optional
        Takes the turn and returns the allowed entries of an action.
    """

    def __init__(
        self,
        count: int,
        actions: spaces.MultiDiscrete,
        observe: Callable[[NDArray[np.int64], int], NDArray[np.float32]],
        score: Callable[[NDArray[np.int64]], NDArray[np.float64]],
        phases: int = 1,
        masks: Callable[[int], NDArray[np.bool_]] | None = None,
    ) -> None:
        self._observe, self._score, self._masks, self.phases = observe, score, masks, phases
        self._chosen = np.zeros((count, phases, len(actions.nvec)), np.int64)
        self._phase = 0
        width = observe(self._chosen, 0).shape[1]
        super().__init__(count, spaces.Box(-1.0, 1.0, (width,), np.float32), actions)

    def reset(self) -> NDArray[np.float32]:
        """Begin all episodes."""
        self._phase = 0
        self._chosen[:] = 0
        return self._observe(self._chosen, 0)

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Take the actions of a step."""
        self._chosen[:, self._phase] = actions

    def step_wait(self) -> Any:
        """Score the points if this was the last turn."""
        self._phase += 1
        done = self._phase == self.phases
        rewards = np.zeros(self.num_envs, np.float32)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done:
            rewards = -self._score(self._chosen).astype(np.float32)
            last = self._observe(self._chosen, 0)
            for info, observation in zip(infos, last, strict=True):
                info["terminal_observation"] = observation
            observations = self.reset()
        else:
            observations = self._observe(self._chosen, self._phase)
        return observations, rewards, np.full(self.num_envs, done), infos

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, once for each environment."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *arguments: Any, indices: Any = None, **named: Any
    ) -> list[Any]:
        """Return the masks of the turn, the only method."""
        assert self._masks is not None
        return [self._masks(self._phase)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that nothing is wrapped."""
        return [False] * self.num_envs


class Ppo(Agent):
    """One policy chooses all parameters."""

    settings = {"batch": 64, "rate": 3e-3, "entropy": 0.01, "epochs": 4}
    extra = "agents-learned"

    def search(self, task: Task) -> None:
        env = Batch(
            self.batch,
            spaces.MultiDiscrete(list(task.sizes)),
            _nothing,
            lambda c: task.score(c[:, 0]),
        )
        learner(self, PPO, env, task.seed).learn(1 << 40)


class IndependentPpo(Ppo):
    """A policy for each group of parameters, in turn; the others sample meanwhile as they are."""

    def search(self, task: Task) -> None:
        positions = groups_of(task)
        models: list[Any] = []

        def score(group: int, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
            points = np.zeros((self.batch, len(task.sizes)), np.int64)
            points[:, positions[group]] = chosen[:, 0]
            for other, model in enumerate(models):
                if other != group:
                    points[:, positions[other]] = model.predict(_nothing(chosen, 0))[0]
            return task.score(points)

        for group, some in enumerate(positions):
            actions = spaces.MultiDiscrete([task.sizes[position] for position in some])
            env = Batch(self.batch, actions, _nothing, partial(score, group))
            models.append(learner(self, PPO, env, task.seed + group))
        while True:
            for model in models:
                model.learn(self.batch, reset_num_timesteps=False)


class CentralisedPpo(Ppo):
    """One policy for all groups: they choose in turn, and each sees what those before chose."""

    def search(self, task: Task) -> None:
        positions = groups_of(task)
        slots = max(map(len, positions))
        sizes = [
            max([task.sizes[some[slot]] for some in positions if slot < len(some)])
            for slot in range(slots)
        ]

        def masks(phase: int) -> NDArray[np.bool_]:
            group = [task.sizes[position] for position in positions[phase]] + [1] * (
                slots - len(positions[phase])
            )
            allowed = [np.arange(n) < few for n, few in zip(sizes, group, strict=True)]
            return np.concatenate(allowed)

        def observe(chosen: NDArray[np.int64], phase: int) -> NDArray[np.float32]:
            whose = np.eye(len(positions))[[phase] * len(chosen)]
            before = (chosen / np.array(sizes)).reshape(len(chosen), -1)
            return np.concatenate([whose, before], axis=1).astype(np.float32)

        def score(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
            points = np.zeros((self.batch, len(task.sizes)), np.int64)
            for phase, some in enumerate(positions):
                points[:, some] = chosen[:, phase, : len(some)]
            return task.score(points)

        actions = spaces.MultiDiscrete(sizes)
        env = Batch(self.batch, actions, observe, score, len(positions), masks)
        learner(self, MaskablePPO, env, task.seed, steps=len(positions)).learn(1 << 40)


def groups_of(task: Task) -> list[list[int]]:
    """Return the places of the parameters of each group of a problem."""
    names = [axis.name for axis in task.problem.table.axes]
    return [[names.index(name) for name in some] for some in task.problem.groups.values()]


def learner(agent: Any, method: Any, env: Batch, seed: int, steps: int = 1) -> Any:
    """Return a model of Stable-Baselines3 with the settings of an agent, on one thread."""
    import torch

    torch.set_num_threads(1)
    model = method(
        "MlpPolicy", env, n_steps=steps, batch_size=agent.batch * steps, n_epochs=agent.epochs,
        learning_rate=agent.rate, ent_coef=agent.entropy, seed=seed, device="cpu", gamma=1.0,
        policy_kwargs={"net_arch": _NETWORK},
    )  # fmt: skip
    model.set_logger(Logger(None, []))  # by default each writes a folder
    return model


def _nothing(chosen: NDArray[np.int64], phase: int) -> NDArray[np.float32]:
    """Return observations that say nothing: the workload of a problem never changes."""
    return np.ones((len(chosen), 1), np.float32)
