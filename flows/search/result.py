# SPDX-License-Identifier: Apache-2.0
"""Request of a search, and its outcome."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.search.goals import Goal
from flows.search.scenarios import Scenario
from flows.search.space import Space
from flows.search.tables import Scores
from hwgen.core.params.target import Target
from hwgen.errors import CheckFailed
from hwgen.families.transformer.params import TransformerConfig


@dataclass(frozen=True)
class Request:
    """Model, goals and target of a search.

    Parameters
    ----------
    model : Path
        A quantised decoder.
    goals : tuple of Goal
    target : Target
    clock_mhz : float or None
        None: the clock that each engine reaches.
    scenarios : tuple of Scenario
        Uses that an engine is to serve, at least one.
    count : int
        Engines of the short list.
    widths : tuple of int
        Of the memory port, that are tried; empty: all that there are.
    """

    model: Path
    goals: tuple[Goal, ...]
    target: Target
    clock_mhz: float | None
    scenarios: tuple[Scenario, ...]
    count: int
    widths: tuple[int, ...] = ()

    @property
    def contexts(self) -> list[int]:
        """Positions of decode steps, the most first, the token included."""
        return sorted({each.context for each in self.scenarios}, reverse=True)

    @property
    def context(self) -> int:
        """Positions of the longest decode step."""
        return self.contexts[0]

    @property
    def digest(self) -> str:
        """Digest of the model, and of the longest context, which cycles depend on."""
        described = (self.model / "model.json").read_text(encoding="utf-8")
        text = json.dumps([described, self.context])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Listed:
    """Engine of the short list.

    Parameters
    ----------
    number : int
        Of the engine in the space.
    engine : dict
        Parameters, as a configuration has them.
    shown : dict
        Options, by dotted name.
    metrics : dict
        Of the complete estimate, by the names of `METRICS`; None where unknown.
    ranked : dict
        The same, by the tables.
    limits : list of str
    by_scenario : dict
        Of the complete estimate, tokens a second and joules of a token of each scenario.
    """

    number: int
    engine: dict[str, Any]
    shown: dict[str, Any]
    metrics: dict[str, float | None]
    ranked: dict[str, float | None]
    limits: list[str] = field(default_factory=list)
    by_scenario: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def config(self, name: str) -> TransformerConfig:
        """Return its configuration."""
        return TransformerConfig.model_validate({**self.engine, "name": name})


@dataclass
class Result:
    """Outcome of a search.

    Parameters
    ----------
    request : Request
    space : Space
    scores : Scores
    engines : list of Listed
        The short list, the best first.
    rejections : list of dict
        ``reason`` and ``points``, by the first reason of each engine.
    unusable : list of dict
        ``option`` and ``reason``, of options that no engine can have.
    feasible : int
        Engines that meet everything, by the tables.
    evaluated : int
        Engines that have a complete estimate.
    error : float
        Largest relative difference of tables and complete estimates, of any metric that counts.
    guarantee : str
    """

    request: Request
    space: Space
    scores: Scores
    engines: list[Listed]
    rejections: list[dict[str, Any]]
    unusable: list[dict[str, Any]]
    feasible: int
    evaluated: int
    error: float
    guarantee: str


class Unmet(CheckFailed):
    """No engine meets all goals.

    Parameters
    ----------
    message : str
    document : dict
        The nearest engine, and what each goal would have to be.
    """

    def __init__(self, message: str, document: dict[str, Any]) -> None:
        super().__init__(message)
        self.document = document
