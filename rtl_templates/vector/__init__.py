# SPDX-License-Identifier: Apache-2.0
"""Vector units: row operations between streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import VectorCore

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig


def generate(config: VectorConfig) -> VectorCore:
    """Return the core of a configuration."""
    return VectorCore(config)


__all__ = ["VectorCore", "generate"]
