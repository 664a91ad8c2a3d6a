# SPDX-License-Identifier: Apache-2.0
"""RTL of the systolic family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.post.core import post_processed

from .core import OutputStationaryCore, StationaryCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.families.systolic import SystolicConfig


def generate(config: SystolicConfig) -> Component:
    """Return the core of a configuration, its ports inner streams."""
    kind = OutputStationaryCore if config.output_stationary else StationaryCore
    return post_processed(config, kind(config))
