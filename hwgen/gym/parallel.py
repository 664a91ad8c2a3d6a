# SPDX-License-Identifier: Apache-2.0
"""The environments for several agents, in the parallel form of PettingZoo.

Each agent chooses a group of parameters, all at the same time, and all have the same reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hwgen.errors import InputError, ToolMissing
from hwgen.gym.environment import Observation, TabularEnv
from hwgen.gym.problem import Problem

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise ToolMissing("several agents need pettingzoo; pip install 'hwgen[gym]'") from None


class GroupsEnv(ParallelEnv[str, Observation, NDArray[np.int64]]):
    """An environment with an agent for each group of parameters of a problem.

    Parameters
    ----------
    problem : str or Problem
    groups : mapping, optional
        Agent to its parameters, each in one group; default those of the problem.
    **options
        As of `TabularEnv`.

    Raises
    ------
    InputError
        If groups leave a parameter out, or have one twice.
    """

    metadata: dict[str, Any] = {"name": "hwgen_groups_v0", "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        problem: str | Problem = "systolic_latency",
        groups: Mapping[str, tuple[str, ...]] | None = None,
        **options: Any,
    ) -> None:
        self._env = TabularEnv(problem, **options)
        self.problem = self._env.problem
        names = [axis.name for axis in self.problem.table.axes]
        self.groups = dict(groups or self.problem.groups)
        if sorted(name for some in self.groups.values() for name in some) != sorted(names):
            raise InputError(f"groups: each of {', '.join(names)} is in one group")
        self._positions = {
            agent: [names.index(name) for name in some] for agent, some in self.groups.items()
        }
        self.possible_agents = list(self.groups)
        self.agents: list[str] = []
        self.render_mode = None
        sizes = self.problem.table.sizes
        self.action_spaces = {
            agent: spaces.MultiDiscrete([sizes[position] for position in positions])
            for agent, positions in self._positions.items()
        }
        self.observation_spaces = dict.fromkeys(self.groups, self._env.observation_space)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode."""
        self.agents = list(self.possible_agents)
        observation, _ = self._env.reset(seed=seed, options=options)
        return {agent: observation.copy() for agent in self.agents}, {a: {} for a in self.agents}

    def step(
        self, actions: dict[str, NDArray[np.int64]]
    ) -> tuple[
        dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool],
        dict[str, dict[str, Any]],
    ]:  # fmt: skip
        """Evaluate the point that the agents' actions make together."""
        point = np.zeros(len(self.problem.table.sizes), np.int64)
        for agent, positions in self._positions.items():
            point[positions] = actions[agent]
        observation, reward, ends, _, info = self._env.step(point)
        agents = self.agents
        if ends:
            self.agents = []
        return (
            {agent: observation.copy() for agent in agents},
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, ends),
            dict.fromkeys(agents, False),
            {agent: dict(info) for agent in agents},
        )
