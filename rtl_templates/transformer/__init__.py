# SPDX-License-Identifier: Apache-2.0
"""Engines of several units that execute command lists: sequencer, shared memory, units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.hdl.generators import generate_child

from .engine import ListEngine

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.families.transformer.params import TransformerConfig

__all__ = ["ListEngine", "generate"]


def generate(core: Core[TransformerConfig]) -> ListEngine:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    engines = {name: generate_child(unit) for name, unit in config.units.items()}
    return ListEngine(config, engines)
