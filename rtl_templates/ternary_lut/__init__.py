# SPDX-License-Identifier: Apache-2.0
"""RTL of the ternary-LUT family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.post.core import post_processed

from .core import TernaryLutCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.families.ternary_lut.params import TernaryLutConfig


def generate(config: TernaryLutConfig) -> Component:
    """Return the core of a configuration, its ports inner streams."""
    return post_processed(config, TernaryLutCore(config))
