# SPDX-License-Identifier: Apache-2.0
"""Scales of queries, keys and values, as attention takes them, computed by hardware.

What ``quantise`` says of a row's scale is a number in single precision. A unit that turns such
numbers into int16, ``dequantise`` with a factor, makes of it what attention takes: of a key or a
value units of the largest scale over `MOST`, of a query a mantissa whose shift is the same for the
whole network. Scales beyond the largest in calibration saturate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.families.attention.formats import SCALE
from hwgen.models.graph.description import Node, real, score_scale

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig

FORMAT = "int16"
"""Format of scales behind the unit that makes them."""

MOST = (1 << 15) - 1
"""Largest scale."""

_MOST_SHIFT = 63


def core_of(config: Any) -> Any:
    """Return the core of an engine around one, else the configuration itself."""
    return getattr(config, "compute", config)


class TokenScales:
    """Factors between scales in single precision and those that attention takes.

    Parameters
    ----------
    nodes : iterable of Node
        Those of a network; its attentions count.
    core : AttentionConfig
        With scales of tokens.

    Attributes
    ----------
    shift : int
        By how many bits all scores are shifted.

    Raises
    ------
    InputError
        If an attention does not say how large its scales are.
    """

    def __init__(self, nodes: Iterable[Node], core: AttentionConfig) -> None:
        self.core = core
        attentions = [node for node in nodes if node.operation == "attention"]
        for node in attentions:
            for name in ("query", "key", "value"):
                if real(node, f"{name}_unit") <= 0:
                    raise InputError(
                        f"{node.name}: has no {name}_unit, how large scales are; quantise the model"
                        " again"
                    )
        largest = max(real(node, "query_unit") * self._one(node) for node in attentions)
        self.shift = math.floor(math.log2(MOST / largest))
        if not 0 <= self.shift <= _MOST_SHIFT:
            raise InputError(
                f"scores of attention need a shift by {self.shift} bits, not one of"
                f" 0..{_MOST_SHIFT}"
            )

    def _one(self, node: Node) -> float:
        """Return the units of a scaled score that one of a score stands for, at a scale of 1."""
        one = real(node, "key_unit") / MOST * score_scale(node) * math.log2(math.e)
        return float(one * 2.0**self.core.softmax.fraction_bits)

    @property
    def word(self) -> int:
        """Scale of a query whose mantissa is 0."""
        return self.shift << SCALE.width

    def factor(self, node: Node, name: str) -> np.float32:
        """Return the factor of the scales of ``query``, ``key`` or ``value``."""
        if name == "query":
            return np.float32(self._one(node) * 2.0**self.shift)
        return np.float32(MOST / real(node, f"{name}_unit"))

    def result(self, node: Node) -> np.float32:
        """Return the value of a unit of the attention's results."""
        unit = real(node, "value_unit") / MOST * (SCALE.max + 1)
        return np.float32(unit * 2.0**-self.core.fraction)
