# SPDX-License-Identifier: Apache-2.0
"""Engines of several units that execute command lists: sequencer, shared memory, units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.registry import family

from .engine import ListEngine

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig

__all__ = ["ListEngine", "generate"]


def generate(config: TransformerConfig) -> ListEngine:
    """Return the engine of a configuration."""
    engines = {
        name: family(unit.family).part("rtl").generate(unit) for name, unit in config.units.items()
    }
    return ListEngine(config, engines)
