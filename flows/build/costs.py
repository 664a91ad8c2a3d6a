# SPDX-License-Identifier: Apache-2.0
"""Costs of configurations for sweeps, from the netlists of their hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.closed_forms import space
from cost_model.estimate.estimate import estimate
from cost_model.sweep.structural import Metrics
from flows.build.design import Design
from flows.build.load import choose
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import HwgenError
from hwgen.workloads import Network


@dataclass(frozen=True)
class NetlistCosts:
    """Costs from netlists, which are cached; other processes get it by its name."""

    def metrics(
        self, config: FamilyConfig, technology: str, workloads: Mapping[str, Network]
    ) -> Metrics:
        """Return the metrics of a configuration, or why it has none."""
        try:
            analysis = Design.of(choose(config)).analysis
            result = estimate(config, technology, None, workloads, analysis=analysis)
        except HwgenError as error:
            return str(error)
        metrics: dict[str, float | None] = result["metrics"]
        return metrics


space.use_resolver(choose)
