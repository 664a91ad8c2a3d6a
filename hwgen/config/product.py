# SPDX-License-Identifier: Apache-2.0
"""What the configurations of all integer matrix products share: formats and accumulation."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from hwgen.config.model import FamilyConfig, IntegerAccumulator, IntegerOperand, check_rules
from hwgen.numerics import IntegerFormat, dot_format, integer


class IntegerProductConfig(FamilyConfig):
    """A core that computes integer products; the formats derive from the operands and `max_k`."""

    activation: IntegerOperand = Field(integer("int8"), description="Format of A.")
    weight: IntegerOperand = Field(integer("int8"), description="Format of W.")
    accumulator: IntegerAccumulator = Field(
        "exact", description="Format of the accumulator; `exact` fits any reduction up to `max_k`."
    )
    overflow: Literal["wrap", "saturate"] = Field(
        "wrap",
        description="What a given accumulator does on overflow: `wrap` keeps the low bits,"
        " `saturate` clamps after each addition.",
    )
    max_k: int = Field(
        65536,
        ge=1,
        le=1 << 24,
        description="Longest reduction K of a job.",
        json_schema_extra={"unit": "terms"},
    )

    @model_validator(mode="after")
    def _cross_field_rules(self) -> Self:
        return check_rules(self, self.broken_rules())

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken, each ``dotted.field: text``.

        A family adds its own to those of its base.
        """
        given = self.accumulator
        if not isinstance(given, IntegerFormat) or given.signed or not self.product.signed:
            return []
        a, w = self.activation, self.weight
        low = min(a.min * w.max, a.max * w.min)
        text = (
            f"accumulator: must be signed because {a} x {w} products reach {low};"
            f" use int{given.width} or exact"
        )
        return [text]

    @cached_property
    def product(self) -> IntegerFormat:
        """Format of one product, exact."""
        return dot_format(self.activation, self.weight, 1)

    def partial_sum(self, terms: int) -> IntegerFormat:
        """Format of a sum of up to `terms` products, exact."""
        return dot_format(self.activation, self.weight, terms)

    @cached_property
    def result(self) -> IntegerFormat:
        """Format of the accumulators and of the elements of C."""
        if isinstance(self.accumulator, IntegerFormat):
            return self.accumulator
        return self.partial_sum(self.max_k)

    @property
    def saturates(self) -> bool:
        """Whether the accumulator can overflow and then clamps."""
        return (
            self.overflow == "saturate" and self.result.width < self.partial_sum(self.max_k).width
        )
