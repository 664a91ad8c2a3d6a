# SPDX-License-Identifier: Apache-2.0
"""Figures of a configuration for sweeps, from the structure of its hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cost_model.estimate.estimate import estimate
from flows.build.analyses import analysis_of
from hwgen.errors import HwgenError

if TYPE_CHECKING:
    from cost_model.sweep.structural import Figures
    from hwgen.core.params.base import FamilyConfig
    from hwgen.workloads import Network


def figures(config: FamilyConfig, technology: str, workloads: Mapping[str, Network]) -> Figures:
    """Return the metrics of a configuration, or why it has none.

    What is found of the structure is kept in the user's cache.
    """
    try:
        found = estimate(config, technology, None, workloads, analysis=analysis_of(config))
    except HwgenError as error:
        return str(error)
    metrics: dict[str, float | None] = found["metrics"]
    return metrics
