# SPDX-License-Identifier: Apache-2.0
"""Costs of configurations for sweeps, from the netlists of their hardware."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cost_model.configurations.configurations import chosen_values
from cost_model.estimate.activity import ASSUMED
from cost_model.estimate.estimate import estimate
from cost_model.sweep.netlists import Answer, Evaluation, Memory, Part, role_of
from flows.build.design import Design
from flows.build.load import parse_config
from flows.power.estimated_activity import activity_of
from hwgen.config.dotted import nested
from hwgen.errors import HwgenError
from hwgen.workloads import Network


@dataclass(frozen=True)
class NetlistCosts:
    """Costs from netlists, which are cached; other processes get it by its name.

    Parameters
    ----------
    activity : str, optional
        By which power is, as `flows.power.estimated_activity.activity_of` takes it.
    """

    activity: str = ASSUMED.name

    def evaluate(
        self, family: str, values: Mapping[str, Any], workloads: Mapping[str, Network]
    ) -> Answer:
        """Return the costs of a configuration, or why it has none: by the rules of a build."""
        problem = ""
        for chosen in chosen_values(family, values):
            text = json.dumps({"name": "core", "family": family, **nested(chosen)})
            try:
                design = Design.of(parse_config(text, quickly=True))
                return _evaluation(design, workloads, self.activity)
            except HwgenError as error:
                problem = problem or str(error)
        return problem


def _evaluation(design: Design, workloads: Mapping[str, Network], activity: str) -> Evaluation:
    analysis = design.analysis
    result = estimate(
        design.core,
        workloads=workloads,
        analysis=analysis,
        activity=activity_of(design.core, design.params.target.technology, activity),
    )
    shown = ("part", "count", "components")
    quantities = sorted(name for name in (result["breakdown"] or [{}])[0] if name not in shown)
    parts: dict[str, Part] = {}
    for entry in result["breakdown"]:
        role = role_of(entry["part"])
        so_far = parts.get(role, Part(0, (0.0,) * len(quantities)))
        costs = tuple(a + entry[name] for a, name in zip(so_far.costs, quantities, strict=True))
        parts[role] = Part(so_far.count + entry["count"], costs)
    return Evaluation(
        result["metrics"],
        {name: sum(part[name] for part in result["breakdown"]) for name in quantities},
        parts,
        tuple(
            Memory(use.ram, next(iter(use.holds), ""), use.stable, use.count)
            for use in (analysis.memories() if result["memories"] else ())
        ),
    )
