# SPDX-License-Identifier: Apache-2.0
"""Cubes of multipliers: a tile of C, and several terms of the reduction, in space."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.core.registry import Family
from hwgen.families.spatial.params import SpatialArray, SpatialConfig, cols_field, size_field


class Array(SpatialArray):
    """The array of processing elements."""

    rows: int = size_field(8, "Rows of PEs, which hold rows of C.", "PEs")
    cols: int = cols_field(8)
    depth: int = size_field(8, "Terms of the reduction that each PE takes at a time.", "products")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""
        return self.rows, self.depth, self.cols


class CubeConfig(SpatialConfig):
    """A cube of multipliers behind AXI4-Stream ports."""

    family: Literal["cube"] = Field("cube", description="Family of the accelerator.")
    array: Array = Field(default_factory=Array, description="The array of processing elements.")


FAMILY = Family(
    name="cube",
    summary="multiplier cube: rows x depth x cols products a cycle, integers or blocks",
    config=CubeConfig,
    schedule="hwgen.families.spatial.schedule",
    golden="hwgen.core.golden.stream",
    rtl="rtl_templates.spatial",
    cost="cost_model.families.spatial",
)
