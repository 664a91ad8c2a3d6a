# SPDX-License-Identifier: Apache-2.0
"""Groups of parameters of a memory engine; its core is another configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from hwgen.core.params.base import Model
from hwgen.core.params.child_core import InnerCore
from hwgen.core.params.post import FORMATS, PostProcessing
from hwgen.core.post import OUTPUTS
from hwgen.core.protocols import TileCore

OUTER = ("name", "target", "memories", "protect", "post")
"""Fields of a core that are those of the engine."""

DEFAULT_COMPUTE = {"family": "systolic", "array": {"dataflow": "weight_stationary"}}


CORE = InnerCore(lambda core: issubclass(core, TileCore), OUTER, "an engine")

Compute = Annotated[
    Any,
    BeforeValidator(CORE.validate),
    PlainSerializer(CORE.explicit_values, return_type=dict),
    WithJsonSchema({"type": "object"}),
]


class Array(Model):
    """Cores that work on one block together."""

    blocks: int = Field(
        1,
        ge=1,
        le=16,
        description="Cores side by side: they share the activations, each has columns of its own.",
        json_schema_extra={"unit": "cores"},
    )
    cascade: int = Field(
        1,
        ge=1,
        le=16,
        description="Cores in a row: each has terms of the reduction of its own, and their partial"
        " sums are added.",
        json_schema_extra={"unit": "cores"},
    )


class Buffers(Model):
    """Memories on the chip; each is two halves, one that is filled and one that is used."""

    activation_kib: int = Field(
        64, ge=1, le=16384, description="Blocks of A.", json_schema_extra={"unit": "KiB"}
    )
    weight_kib: int = Field(
        64, ge=1, le=16384, description="Blocks of W.", json_schema_extra={"unit": "KiB"}
    )
    output_kib: int = Field(
        64,
        ge=1,
        le=16384,
        description="Blocks of C, as wide as the accumulators.",
        json_schema_extra={"unit": "KiB"},
    )
    column_kib: int = Field(
        16,
        ge=1,
        le=1024,
        description="Records of columns, 16 bytes each, with `post.columns`.",
        json_schema_extra={"unit": "KiB"},
    )


class EnginePost(PostProcessing):
    """Post-processing of accumulators on their way to memory; a job chooses."""

    outputs: list[Literal[OUTPUTS]] = Field(  # type: ignore[valid-type]
        ["raw", "int8"], min_length=1, description=f"Formats of C: {FORMATS}"
    )
    max_lanes: int = Field(
        4,
        ge=1,
        le=64,
        description="Accumulators processed in a cycle, at most: as many as divide the columns of"
        " the cores.",
        json_schema_extra={"unit": "lanes"},
    )
