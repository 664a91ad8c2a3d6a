# SPDX-License-Identifier: Apache-2.0
"""RTL of the ternary-LUT family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.core import StreamCore

from .core import TernaryLutCore

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig


def generate(config: TernaryLutConfig) -> StreamCore:
    """Return the core of a configuration, its ports inner streams."""
    return TernaryLutCore(config)
