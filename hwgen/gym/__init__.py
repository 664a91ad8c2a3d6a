# SPDX-License-Identifier: Apache-2.0
"""Search environments whose optimum is known: Gymnasium and PettingZoo, on exhaustive tables.

Importing this package registers ``hwgen/Systolic-v0``, ``hwgen/TernaryLut-v0``,
``hwgen/Engine-v0`` and ``hwgen/HeterogeneousEngine-v0``.
"""

from __future__ import annotations

from hwgen.errors import ToolMissing
from hwgen.gym.problem import Problem, catalogue, load_problem, load_table, problems, tables
from hwgen.gym.table import Axis, Table

try:
    from hwgen.gym.environment import ENVIRONMENTS, TabularEnv, TabularVectorEnv, register
except ImportError:
    raise ToolMissing("hwgen.gym needs gymnasium; pip install 'hwgen[gym]'") from None

register()

__all__ = [
    "ENVIRONMENTS",
    "Axis",
    "Problem",
    "Table",
    "TabularEnv",
    "TabularVectorEnv",
    "catalogue",
    "load_problem",
    "load_table",
    "problems",
    "tables",
]
