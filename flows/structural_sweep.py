# SPDX-License-Identifier: Apache-2.0
"""Figures of a configuration for sweeps, from the structure of its hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cost_model.estimate import estimate
from cost_model.sweep.structural import has_closed_forms
from flows.analyses import analysis_of
from hwgen.errors import HwgenError

if TYPE_CHECKING:
    from cost_model.memories import Form
    from cost_model.sweep.structural import Figures
    from hwgen.config.model import FamilyConfig
    from hwgen.workloads import Network


def figures(config: FamilyConfig, technology: str, workloads: Mapping[str, Network]) -> Figures:
    """Return the metrics of a configuration, or why it has none.

    What is found of the structure is kept in the user's cache.  Where closed forms chose what is
    looked at here, memories are registers as in these.
    """
    try:
        made_of: Form = "registers" if has_closed_forms(config.family) else "macros"
        found = estimate(
            config, technology, None, workloads, analysis=analysis_of(config), made_of=made_of
        )
    except HwgenError as error:
        return str(error)
    metrics: dict[str, float | None] = found["metrics"]
    return metrics
