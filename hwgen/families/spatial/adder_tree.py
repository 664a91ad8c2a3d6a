# SPDX-License-Identifier: Apache-2.0
"""Multipliers with adder trees: rows of A, by default one, against many columns of W."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.core.registry import Family
from hwgen.families.spatial.params import SpatialArray, SpatialConfig, cols_field, size_field


class Array(SpatialArray):
    """The array of processing elements."""

    cols: int = cols_field(16)
    depth: int = size_field(16, "Terms of the reduction that each PE takes at a time.", "products")
    rows: int = size_field(1, "Rows of PEs, which hold rows of C.", "PEs")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""
        return self.rows, self.depth, self.cols


class AdderTreeConfig(SpatialConfig):
    """Multipliers with adder trees behind AXI4-Stream ports."""

    family: Literal["adder_tree"] = Field("adder_tree", description="Family of the accelerator.")
    array: Array = Field(default_factory=Array, description="The array of processing elements.")


FAMILY = Family(
    name="adder_tree",
    summary="multipliers and adder trees: a row of A against columns of W, integers or blocks",
    config=AdderTreeConfig,
    schedule="hwgen.families.spatial.schedule",
    golden="hwgen.core.golden.stream",
    rtl="rtl_templates.spatial",
    cost="cost_model.families.spatial",
)
