# SPDX-License-Identifier: Apache-2.0
"""Groups of parameters of the family `attention`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from hwgen.core.params.base import AUTO, Model
from hwgen.families.spatial.params import SpatialArray, SpatialConfig


def _units(value: Any) -> Any:
    if value == AUTO or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("units", "must be auto or 1..64, not {value}", {"value": repr(value)})


Units = Annotated[
    Any,
    BeforeValidator(_units),
    PlainSerializer(lambda value: value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 64},
                {"type": "string", "const": AUTO},
            ]
        }
    ),
]


class Array(Model):
    """The two arrays of multipliers, of Q K^T and of the weights times V, and what is between."""

    rows: int = Field(
        16,
        ge=1,
        le=64,
        description="Rows of queries that are held while K and V go by.",
        json_schema_extra={"unit": "rows"},
    )
    lanes: int = Field(
        16,
        ge=1,
        le=128,
        description="Elements of a key and of a value that each row takes in a cycle.",
        json_schema_extra={"unit": "elements"},
    )
    units: Units = Field(
        AUTO,
        description="Softmax units, each for `rows / units` rows, which it takes one after the"
        " other; `auto`: as few as keep up with the keys.",
        json_schema_extra={"unit": "units"},
    )
    buffers: Literal["single", "double"] = Field(
        "single",
        description="Places for queries and for sums; `double`: the next queries come in, and"
        " results leave, while keys and values of another job go by.",
    )


class Softmax(Model):
    """Fixed-point formats between scores and weights."""

    weight_bits: int = Field(
        16,
        ge=8,
        le=22,
        description="Bits behind the point of a weight that V is multiplied by; the largest weight"
        " of a row is between 1/2 and 1.",
        json_schema_extra={"unit": "bits"},
    )
    fraction_bits: int = Field(
        12,
        ge=6,
        le=16,
        description="Bits behind the point of a scaled score, in powers of two.",
        json_schema_extra={"unit": "bits"},
    )
    integer_bits: int = Field(
        10,
        ge=4,
        le=16,
        description="Bits before the point of a scaled score, without its sign; scores beyond"
        " saturate.",
        json_schema_extra={"unit": "bits"},
    )


class Pipeline(Model):
    """Registers beyond those that are always there."""

    dot: int = Field(
        1,
        ge=0,
        le=2,
        description="Registers between operands and accumulator of a score: 1 in front of the"
        " accumulator; 2 also behind the multipliers.",
        json_schema_extra={"unit": "registers"},
    )
    exponential: int = Field(
        2,
        ge=0,
        le=4,
        description="Registers of the unit of powers of two.",
        json_schema_extra={"unit": "registers"},
    )
    reciprocal: int = Field(
        2,
        ge=0,
        le=5,
        description="Registers of the unit of reciprocals.",
        json_schema_extra={"unit": "registers"},
    )


class DotArray(SpatialArray):
    """One processing element, which adds the products of a beat."""

    depth: int = Field(1, ge=1, le=128, description="Products that are added.")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""
        return 1, self.depth, 1


class Dots(SpatialConfig):
    """A row of queries times keys, on a processing element of the spatial families."""

    array: DotArray
