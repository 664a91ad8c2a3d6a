# SPDX-License-Identifier: Apache-2.0
"""Vector units: row operations between streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import VectorCore

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.families.vector.params import VectorConfig


def generate(core: Core[VectorConfig]) -> VectorCore:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    return VectorCore(config)


__all__ = ["VectorCore", "generate"]
