# SPDX-License-Identifier: Apache-2.0
"""Where the hardware of post-processing has its registers, and so how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .words import SINGLE

if TYPE_CHECKING:
    from .features import PostFeatures

_SPLIT = 34  # sums of more bits than these are multiplied in two parts
MULTIPLY_STAGES = 3
"""Registers of a floating-point multiplication."""


class Stages:
    """Numbers of registers before the places of a lane; which there are depends on the features.

    Parameters
    ----------
    features : PostFeatures

    Attributes
    ----------
    split : bool
        Whether the product is the sum of two, in a stage of its own.
    rounding : int
        Registers before the rounding.
    results : int
        Registers before the choice of a result, the latency of a lane.
    """

    def __init__(self, features: PostFeatures) -> None:
        self.split = features.total.width > _SPLIT
        self.rounding = 3 + self.split
        integers = self.rounding + 1 if features.integers else 1
        # Sum, conversion, multiplication, and a register before the conversion to a shorter one.
        floats = 3 + MULTIPLY_STAGES if features.floats else 1
        shorter = any(fmt != SINGLE for fmt in features.floats)
        self.results = max(integers, floats + shorter)
