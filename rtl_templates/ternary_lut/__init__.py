# SPDX-License-Identifier: Apache-2.0
"""RTL of the ternary-LUT family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.post.core import post_processed

from .core import TernaryLutCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.core.core import Core
    from hwgen.families.ternary_lut.params import TernaryLutConfig


def generate(core: Core[TernaryLutConfig]) -> Component:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    return post_processed(config, TernaryLutCore(config))
