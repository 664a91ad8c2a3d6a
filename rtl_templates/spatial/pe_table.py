# SPDX-License-Identifier: Apache-2.0
"""Hardware of the processing elements of the spatial families, by the names of their table.

`hwgen.core.params.spatial.PES` has their requirements.  Serial PEs have a core of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rtl_templates.arithmetic.block.fused_pe import FusedPe
from rtl_templates.arithmetic.block.pe import BlockPe
from rtl_templates.arithmetic.block.scalable import ScalablePe
from rtl_templates.spatial.pe import PE, DigitPE, MultiplierPE

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

INTEGER_PES: Mapping[str, type[PE]] = {
    "mac": MultiplierPE,
    "carry_save": DigitPE,
    "same_weight": DigitPE,
}
"""PEs that multiply integers, one beat a cycle."""

BLOCK_PES: Mapping[str, type[BlockPe]] = {
    "mac": BlockPe,
    "hybrid": BlockPe,
    "bit_serial": BlockPe,
    "scalable": ScalablePe,
    "fused": FusedPe,
}
"""PEs that multiply blocks, or floating-point numbers."""


def integer_pe(config: SpatialConfig) -> PE:
    """Return the processing element of a core of integers."""
    return INTEGER_PES[config.array.pe](config)


def block_pe(config: SpatialConfig) -> BlockPe:
    """Return the processing element of a core of blocks."""
    return BLOCK_PES[config.array.pe](config)
