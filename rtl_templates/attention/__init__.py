# SPDX-License-Identifier: Apache-2.0
"""Hardware of the family `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import AttentionCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.families.attention.params import AttentionConfig


def generate(config: AttentionConfig) -> Component:
    """Return the core of a configuration."""
    return AttentionCore(config)
