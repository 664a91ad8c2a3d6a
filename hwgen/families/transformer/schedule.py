# SPDX-License-Identifier: Apache-2.0
"""Products on an engine of several units: jobs of the first unit, as its own schedule has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.core.registry import family

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig


def schedule(config: TransformerConfig, m: int, k: int, n: int, *post: Any) -> Any:
    """Return the schedule of a product; see that of the unit's family."""
    unit = config.job_unit
    return family(unit.family).part("schedule").schedule(unit, m, k, n, *post)
