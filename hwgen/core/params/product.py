# SPDX-License-Identifier: Apache-2.0
"""Configuration that all matrix products share: formats, accumulation, post-processing."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from hwgen.core.params.base import (
    Accumulator,
    FamilyConfig,
    IntegerAccumulator,
    IntegerOperand,
    OperandFormat,
    check_rules,
)
from hwgen.core.params.post import PostProcessing, with_post
from hwgen.core.port import StreamPort
from hwgen.core.post import PostFeatures
from hwgen.formats import FLOATS, floating, integer

if TYPE_CHECKING:
    from hwgen.arithmetic.product_packing import PackedProducts
    from hwgen.formats.block.products import BlockProduct

WIDE_FLOAT = floating("fp32")
"""The accumulator of floating-point sums unless a configuration says otherwise."""


class ProductConfig(FamilyConfig):
    """A core that computes products; the formats derive from the operands and `max_k`.

    Formats are an `IntegerFormat` or a `FloatFormat`; a family says which it takes.  It describes
    the core alone, by `core_ports`, `core_latency` and `columns_per_beat`; the accelerator has
    post-processing behind it if the configuration asks for that.
    """

    activation: OperandFormat = Field(integer("int8"), description="Format of A.")
    weight: OperandFormat = Field(integer("int8"), description="Format of W.")
    accumulator: Accumulator = Field(
        "exact",
        description="Format of the accumulator; `exact` fits any reduction up to `max_k`. With a"
        " floating-point activation fp32, which is the default then, or the activation's format.",
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
    post: PostProcessing = Field(
        default_factory=PostProcessing,
        description="Post-processing of results on their way out, of integer accumulators.",
    )

    @model_validator(mode="before")
    @classmethod
    def _accumulate_floats_in_floats(cls, data: Any) -> Any:
        default = isinstance(data, dict) and "accumulator" not in data
        if default and str(data.get("activation")) in FLOATS:
            return {**data, "accumulator": WIDE_FLOAT}
        return data

    @model_validator(mode="after")
    def _cross_field_rules(self) -> Self:
        check_rules(self.broken_rules() or self.protection_errors())
        return self

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken, each ``dotted.field: text``.

        A family adds its own to those of its base.
        """
        broken = self._broken_by_floats() if self.is_float else self._broken_by_integers()
        return broken or self._broken_by_post()

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that the formats have, as plain JSON values."""
        values = super().resolved()
        if self.is_float:
            del values["overflow"]
        if not self.post.outputs:
            del values["post"]
        return values

    @property
    def block_product(self) -> BlockProduct | None:
        """The arithmetic of products of blocks, None of a core that adds product by product."""
        return None

    @property
    def packing(self) -> PackedProducts | None:
        """Packing of several products into a multiplier, None if each has its own."""
        return None

    @property
    def is_float(self) -> bool:
        """Whether sums are of floating-point numbers, each rounded."""
        return bool(self.activation.is_float)

    def _broken_by_floats(self) -> list[str]:
        broken, a = [], self.activation
        if self.accumulator not in (WIDE_FLOAT, a):
            broken.append(
                f"accumulator: must be {WIDE_FLOAT} or {a} with activation {a}, not"
                f" {self.accumulator}; sums of floating-point numbers are rounded"
            )
        if self.overflow != "wrap":
            broken.append(
                f"overflow: must be wrap with activation {a}; a floating-point sum that is too"
                " large becomes infinite, or NaN in a format without infinities"
            )
        return broken

    def _broken_by_integers(self) -> list[str]:
        result, a, w = self.sums, self.activation, self.weight
        if result != "exact" and result.is_float:
            text = (
                f"accumulator: must be exact or an integer with activation {a}, not {result};"
                " sums of integers are exact"
            )
            return [text]
        if result == "exact" or result.signed or not self.product.signed:
            return []
        low = min(a.min * w.max, a.max * w.min)
        text = (
            f"accumulator: must be signed because {a} x {w} products reach {low};"
            f" use int{result.width} or exact"
        )
        return [text]

    def _broken_by_post(self) -> list[str]:
        post = self.post
        if not post.outputs:
            unused = sorted(post.model_fields_set - {"outputs"})
            return [
                f"post.{name}: has no effect without post.outputs; name outputs, or remove it"
                for name in unused
            ]
        if self.result.is_float and self.block_product is None:
            text = (
                f"post.outputs: must be empty with activation {self.activation}, not"
                f" {', '.join(post.outputs)}; post-processing is of integer accumulators and of"
                f" sums of blocks, not of {self.result}"
            )
            return [text]
        return post.broken_rules(self.result)

    @cached_property
    def product(self) -> Any:
        """Format of one product: of integers exact, of floating-point numbers theirs."""
        return self.partial_sum(1)

    def partial_sum(self, terms: int) -> Any:
        """Format of a sum of up to `terms` products, as `product`."""
        return self.activation.dot(self.weight, terms)

    @property
    def sums(self) -> Any:
        """Format of the accumulators, or "exact"."""
        return self.accumulator

    @cached_property
    def result(self) -> Any:
        """Format of the accumulators and of the elements of C."""
        return self.partial_sum(self.max_k) if self.sums == "exact" else self.sums

    @property
    def saturates(self) -> bool:
        """Whether the accumulator can overflow and then clamps."""
        return bool(
            self.overflow == "saturate" and self.result.width < self.partial_sum(self.max_k).width
        )

    @property
    def clamp(self) -> Any:
        """Format to which accumulators are clamped, None if they wrap or cannot overflow."""
        return self.result if self.saturates else None

    # -- post-processing and ports ---------------------------------------------------------

    @cached_property
    def post_features(self) -> PostFeatures | None:
        """Features of the post-processing hardware, None if there is none."""
        return self.post.features(self.result) if self.post.outputs else None

    @property
    @abstractmethod
    def core_ports(self) -> tuple[StreamPort, ...]:
        """Stream ports of the core alone: the inputs by name, then the accumulators."""

    @property
    def columns_per_beat(self) -> int:
        """Columns of C in a beat of results."""
        return self.core_ports[-1].lanes

    @property
    @abstractmethod
    def core_latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first beat of accumulators."""

    @cached_property
    def ports(self) -> tuple[StreamPort, ...]:
        """The stream ports: the inputs, ``post`` if there is post-processing, the output."""
        if self.post_features is None:
            return self.core_ports
        return with_post(self.core_ports, self.post_features, self.columns_per_beat)

    @property
    def post_latency(self) -> int:
        """Cycles that post-processing adds to everything."""
        return self.post_features.latency if self.post_features else 0

    @property
    def latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first result beat."""
        return self.core_latency + self.post_latency


class IntegerProductConfig(ProductConfig):
    """A core that computes integer products."""

    activation: IntegerOperand = Field(integer("int8"), description="Format of A.")
    weight: IntegerOperand = Field(integer("int8"), description="Format of W.")
    accumulator: IntegerAccumulator = Field(
        "exact", description="Format of the accumulator; `exact` fits any reduction up to `max_k`."
    )
