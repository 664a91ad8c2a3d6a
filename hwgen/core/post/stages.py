# SPDX-License-Identifier: Apache-2.0
"""Where the hardware of post-processing has its registers, and so how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.post.words import SINGLE

if TYPE_CHECKING:
    from hwgen.core.post.features import PostFeatures

_SPLIT = 34  # sums of more bits than these are multiplied in two parts
MULTIPLY_STAGES = 3
"""Registers of a floating-point multiplication."""

ADD_STAGES = 3
"""Registers of a floating-point addition."""

CONVERT_STAGES = 2
"""Registers of a conversion of an integer to floating point."""


class Stages:
    """Numbers of registers before the places of a lane; which there are depends on the features.

    Parameters
    ----------
    features : PostFeatures

    Attributes
    ----------
    split : bool
        Whether the product is the sum of two, in a stage of its own.
    total : int
        Registers before the sum of accumulator and bias.
    scaled : int
        Registers before a sum that is scaled in floating point.
    rounding : int
        Registers before the rounding.
    results : int
        Registers before the choice of a result, the latency of a lane.
    """

    def __init__(self, features: PostFeatures) -> None:
        if features.single:
            self.split = False
            self.total = 1 + ADD_STAGES * features.columns
            self.scaled = self.total + MULTIPLY_STAGES
            # The scaled number, and its integer part.
            self.rounding = self.scaled + 2
        else:
            self.split = features.total.width > _SPLIT
            self.total = 1
            self.scaled = self.total + CONVERT_STAGES + MULTIPLY_STAGES
            self.rounding = 3 + self.split
        integers = self.rounding + 1 if features.integers else self.total
        # A register before the conversion to a shorter format.
        shorter = any(fmt != SINGLE for fmt in features.floats)
        floats = self.scaled + shorter if features.floats else self.total
        self.results = max(integers, floats)
