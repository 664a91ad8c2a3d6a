# SPDX-License-Identifier: Apache-2.0
"""Designs and estimates of tests, which simulate few configurations many times."""

from __future__ import annotations

from typing import Any

from cost_model.configurations.metrics import Workloads
from flows.build.build import Build, retarget
from flows.build.design import Design
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.off_chip import OffChip

_MOST = 24
"""Designs in memory: tests of a module share some, and break copies of them."""

_designs: dict[tuple[type, str], Design] = {}


def design_of(config: FamilyConfig) -> Design:
    """Return the design of a configuration, the same as before for the last configurations."""
    key = type(config), config.digest
    design = _designs.pop(key, None) or Design.of(config)
    _designs[key] = design
    if len(_designs) > _MOST:
        del _designs[next(iter(_designs))]
    return design


def estimate_of(
    config: FamilyConfig,
    technology: str | None = None,
    clock_mhz: float | None = None,
    workloads: Workloads | None = None,
    *,
    off_chip: OffChip | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the estimate of a configuration, with another target where one is given."""
    target = retarget(config.target, technology, clock_mhz, off_chip)
    return Build(Design.of(config), target).estimate(workloads, **options)
