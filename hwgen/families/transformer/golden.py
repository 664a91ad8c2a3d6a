# SPDX-License-Identifier: Apache-2.0
"""Golden model of products on an engine of several units: that of the first unit.

What lists of commands do is said by `hwgen.core.lists.golden`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.core.registry import family

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.transformer.params import TransformerConfig


def golden(config: TransformerConfig, a: NDArray[Any], w: NDArray[Any], *post: Any) -> NDArray[Any]:
    """Return ``C = post(A . W)``; see the golden model of the unit's family."""
    unit = config.job_unit
    result: NDArray[Any] = family(unit.family).part("golden").golden(unit, a, w, *post)
    return result
