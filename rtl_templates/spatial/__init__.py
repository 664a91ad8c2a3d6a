# SPDX-License-Identifier: Apache-2.0
"""RTL of the families `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.post.core import post_processed
from rtl_templates.residue.check import residue_checked

from .block_core import BlockCore
from .core import SpatialCore
from .packed_core import PackedCore
from .residue import residue_checker
from .serial import SerialCore

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from hwgen.core.core import Core
    from hwgen.core.params.spatial import SpatialConfig


def generate(core: Core[SpatialConfig]) -> Component:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    if config.block_product is not None:
        return post_processed(config, BlockCore(config))
    if config.processing_element.serial:
        return post_processed(config, SerialCore(config))
    integers = PackedCore if config.packing else SpatialCore
    core = residue_checked(config, integers(config), lambda: residue_checker(config))
    return post_processed(config, core)
