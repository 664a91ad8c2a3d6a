# SPDX-License-Identifier: Apache-2.0
"""Broadcast arrays: every element of a column of A meets every element of a row of W."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.core.registry import Family
from hwgen.families.spatial.params import SpatialArray, SpatialConfig, cols_field, size_field


class Array(SpatialArray):
    """The array of processing elements."""

    rows: int = size_field(16, "Rows of PEs, which hold rows of C.", "PEs")
    cols: int = cols_field(16)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""
        return self.rows, {"serial_group": 16}.get(self.pe, 4 if self.serial else 1), self.cols


class Broadcast2dConfig(SpatialConfig):
    """A two-dimensional broadcast array behind AXI4-Stream ports."""

    family: Literal["broadcast_2d"] = Field(
        "broadcast_2d", description="Family of the accelerator."
    )
    array: Array = Field(default_factory=Array, description="The array of processing elements.")


FAMILY = Family(
    name="broadcast_2d",
    summary="2D broadcast: a column of A and a row of W reach all PEs, integers or blocks",
    config=Broadcast2dConfig,
    schedule="hwgen.families.spatial.schedule",
    golden="hwgen.core.golden.stream",
    rtl="rtl_templates.spatial",
    cost="cost_model.families.spatial",
)
