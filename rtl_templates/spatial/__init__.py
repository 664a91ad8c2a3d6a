# SPDX-License-Identifier: Apache-2.0
"""RTL of the families `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.core import StreamCore

from .core import SpatialCore

if TYPE_CHECKING:
    from hwgen.config.spatial import SpatialConfig


def generate(config: SpatialConfig) -> StreamCore:
    """Return the core of a configuration, its ports inner streams."""
    return SpatialCore(config)
