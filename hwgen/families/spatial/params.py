# SPDX-License-Identifier: Apache-2.0
"""Cubes of multipliers: a tile of C, and several terms of the reduction, in space."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.core.params.spatial import SpatialArray, SpatialConfig, cols_field, size_field


class CubeArray(SpatialArray):
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
    array: CubeArray = Field(
        default_factory=CubeArray, description="The array of processing elements."
    )


class AdderTreeArray(SpatialArray):
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
    array: AdderTreeArray = Field(
        default_factory=AdderTreeArray, description="The array of processing elements."
    )


class Broadcast2dArray(SpatialArray):
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
    array: Broadcast2dArray = Field(
        default_factory=Broadcast2dArray, description="The array of processing elements."
    )
