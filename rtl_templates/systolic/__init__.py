# SPDX-License-Identifier: Apache-2.0
"""RTL of the systolic family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.post.core import post_processed
from rtl_templates.residue.check import residue_checked

from .block_core import BlockOutputStationaryCore
from .block_stationary import BlockStationaryCore
from .core import OutputStationaryCore, StationaryCore
from .residue import residue_checker

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.core.core import Core
    from hwgen.families.systolic.params import SystolicConfig


def generate(core: Core[SystolicConfig]) -> Component:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    if config.block_product is not None:
        of_blocks = BlockOutputStationaryCore if config.output_stationary else BlockStationaryCore
        return post_processed(config, of_blocks(config))
    kind = OutputStationaryCore if config.output_stationary else StationaryCore
    core = residue_checked(config, kind(config), lambda: residue_checker(config))
    return post_processed(config, core)
