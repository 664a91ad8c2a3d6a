# SPDX-License-Identifier: Apache-2.0
"""Hardware of the family `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core import AttentionCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.core.core import Core
    from hwgen.families.attention.params import AttentionConfig


def generate(core: Core[AttentionConfig]) -> Component:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    return AttentionCore(config)
