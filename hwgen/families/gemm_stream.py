# SPDX-License-Identifier: Apache-2.0
"""GEMM streaming: an engine that works from memory to memory around any core.

The configuration and the geometry that follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from hwgen.buses import writer_beats
from hwgen.config.limits import limit_of
from hwgen.config.memory_port import Memory, OnMemory
from hwgen.config.model import AUTO, FamilyConfig, check_rules
from hwgen.config.module_limits import ENGINE_DATA_BITS
from hwgen.families import Family
from hwgen.families.gemm_stream_buffers import BufferShape
from hwgen.families.gemm_stream_parameters import (
    CORE,
    DEFAULT_COMPUTE,
    OUTER,
    Array,
    Buffers,
    Compute,
    EnginePost,
)
from hwgen.loop_nest import LoopNest
from hwgen.numerics import IntegerFormat
from hwgen.numerics.post import PostFeatures
from hwgen.numerics.post.records import RECORD_BYTES
from hwgen.numerics.product_packing import PackedProducts
from hwgen.register_map import JobInterface, Register, gemm_interface, register_map

ROWS_AHEAD = 16
"""Rows of results that are announced before their data has come."""


class GemmStreamConfig(OnMemory, FamilyConfig):
    """An engine that reads A and W from memory, multiplies, and writes C to memory."""

    takes_jobs: ClassVar[bool] = True

    family: Literal["gemm_stream"] = Field("gemm_stream", description="Family of the accelerator.")
    compute: Compute = Field(
        DEFAULT_COMPUTE,
        validate_default=True,
        description="The core: the configuration of another family without `name` and `target`.",
    )
    queue: Literal[2, 4, 8, 16] = Field(
        4,
        description="Jobs that wait or run; the loads of one overlap the computation of another.",
        json_schema_extra={"unit": "jobs"},
    )
    array: Array = Field(default_factory=Array, description="Cores that work together.")
    buffers: Buffers = Field(default_factory=Buffers, description="Memories on the chip.")
    memory: Memory = Field(default_factory=Memory, description="The port to the memory.")
    post: EnginePost = Field(default_factory=EnginePost, description="Post-processing of results.")

    @classmethod
    def cores_in(cls, data: Mapping[str, Any]) -> dict[str, type[FamilyConfig]]:
        """Return the models of the cores that a configuration holds, by field."""
        inner = data.get("compute")
        model = CORE.family(inner.get("family")) if isinstance(inner, Mapping) else None
        return {"compute": model} if model else {}

    @model_validator(mode="after")
    def _cross_field_rules(self) -> Self:
        return check_rules(self, self.broken_rules())

    @model_validator(mode="wrap")
    @classmethod
    def _fast_enough(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse what is chosen for a clock that the engine around the core does not meet."""
        config = validate(data)
        core = data.get("compute") if isinstance(data, dict) else None
        given = core.get("pipeline") if isinstance(core, dict) else None
        values = given.items() if isinstance(given, dict) else ()
        automatic = [field for field, value in values if value == AUTO]
        limit = limit_of(config) if automatic else None
        if limit is None or limit.allows(config.target.clock_mhz):
            return config
        problem = (
            f"compute.pipeline.{automatic[0]}: auto cannot reach target.clock_mhz"
            f" {config.target.clock_mhz:g} in {config.target.technology}; the engine allows at most"
            f" {limit.text}: lower the clock"
        )
        return check_rules(config, [problem])

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken, each ``dotted.field: text``."""
        core, nest = self.compute, self.compute.block_loop_nest
        if isinstance(nest, str):
            return [f"compute.{nest}"]
        broken = self.post.broken_rules(self.result)
        if core.saturates:
            broken.append(
                "compute.overflow: must be wrap in an engine, not saturate: blocks of a reduction"
                f" are added up in an order of the engine's own; use wrap, or accumulator exact"
                f" ({core.partial_sum(core.max_k)})"
            )
        for name, words in (
            ("column", self.column_groups * self.post_lanes // self.n_lanes),
            ("activation", self.act_depth // self.row_words(1)),
            ("weight", self.wgt_depth // self.weight_words(1)),
            ("output", self.out_depth // nest.m_lanes),
        ):
            if not words:
                broken.append(
                    f"buffers.{name}_kib: must hold two blocks of at least one tile; raise it"
                )
        return broken

    def too_wide(self) -> list[str]:
        """Return what makes a module wider than can be emitted."""
        activations = self.m_lanes * self.k_lanes * self.activation.width
        weights = self.wgt_banks * self.weight_beat * self.weight_width
        results = self.n_lanes * self.result.width
        broken = [f"compute.{line}" for line in self.compute.too_wide()]
        for what, bits in (("operands", activations + weights), ("results", results)):
            if bits > ENGINE_DATA_BITS:
                field = "cascade" if what == "operands" and self.array.cascade > 1 else "blocks"
                broken.append(
                    f"array.{field}: must be fewer, not {getattr(self.array, field)}: the cores of"
                    f" an engine have at most {ENGINE_DATA_BITS:,} bits of operands, and of"
                    f" results, in a cycle together, and these have {bits:,} of {what}; or make the"
                    " cores smaller"
                )
        return broken

    def resolved(self) -> dict[str, Any]:
        """Return every parameter, defaults included, as plain JSON values."""
        values = super().resolved()
        core = self.compute.resolved()
        values["compute"] = {key: value for key, value in core.items() if key not in OUTER}
        return values

    # -- formats ---------------------------------------------------------------------------

    @property
    def activation(self) -> IntegerFormat:
        """Format of A."""
        return self.compute.activation  # type: ignore[no-any-return]

    @property
    def weight(self) -> IntegerFormat:
        """Format of W."""
        return self.compute.weight  # type: ignore[no-any-return]

    @property
    def result(self) -> IntegerFormat:
        """Format of the accumulators."""
        return self.compute.result  # type: ignore[no-any-return]

    @property
    def packing(self) -> PackedProducts | None:
        """How several products share a multiplier, None if each has its own."""
        found: PackedProducts | None = self.compute.packing
        return found

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp: never."""
        return False

    @property
    def max_k(self) -> int:
        """Longest reduction of a job."""
        return int(self.compute.max_k)

    # -- geometry --------------------------------------------------------------------------

    @property
    def cores(self) -> int:
        """Cores that work together."""
        return self.array.blocks * self.array.cascade

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle."""
        return self.cores * self.compute.macs_per_cycle  # type: ignore[no-any-return]

    @property
    def loop_nest(self) -> LoopNest:
        """The loops in which one core goes through a block."""
        return self.compute.block_loop_nest  # type: ignore[no-any-return]

    @property
    def m_lanes(self) -> int:
        """Rows of A in a beat of activations."""
        return self.loop_nest.m_lanes

    @property
    def k_lanes(self) -> int:
        """Terms in a beat of activations of all cores."""
        return self.loop_nest.k_lanes * self.array.cascade

    @property
    def n_lanes(self) -> int:
        """Columns in a beat of results of all cores."""
        return self.loop_nest.n_lanes * self.array.blocks

    @property
    def natural_sizes(self) -> tuple[int, int, int]:
        """M, K and N that fill all cores once."""
        m, k, n = self.compute.natural_sizes
        return (m, k * self.array.cascade, n * self.array.blocks)

    @property
    def latency(self) -> int:
        """Cycles from the last input beat of the core to its first result beat."""
        return int(self.compute.latency)

    # -- buses -----------------------------------------------------------------------------

    @property
    def longest_burst_bytes(self) -> int:
        """Bytes of the longest burst; bursts end where an address is a multiple of it."""
        return self.longest_burst * self.memory_bytes

    @property
    def rows_in_flight(self) -> int:
        """Rows of operands that are on their way from the memory at most."""
        return self.memory.outstanding + 4

    @property
    def writer_beats(self) -> int:
        """Beats of results that wait for their burst behind the one that is offered."""
        return writer_beats(self.memory.data_width, self.memory.max_burst)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers behind port ``control``."""
        return register_map(self)

    @cached_property
    def job_interface(self) -> JobInterface:
        """What its registers have of their own."""
        return gemm_interface(self)

    # -- post-processing -------------------------------------------------------------------

    @cached_property
    def post_features(self) -> PostFeatures:
        """What the post-processing hardware offers."""
        return self.post.features(self.result)

    @cached_property
    def post_lanes(self) -> int:
        """Accumulators processed in a cycle."""
        most = min(self.post.max_lanes, self.n_lanes)
        return next(lanes for lanes in range(most, 0, -1) if self.n_lanes % lanes == 0)

    @property
    def record_groups(self) -> int:
        """Groups of `post_lanes` records in a word of their buffer."""
        return _fill(self.memory_bytes, self.post_lanes * RECORD_BYTES)

    @property
    def column_groups(self) -> int:
        """Groups of `post_lanes` records that half their buffer holds."""
        word = self.post_lanes * RECORD_BYTES * self.record_groups
        return self.buffers.column_kib * 512 // word * self.record_groups

    # -- buffers ---------------------------------------------------------------------------
    # A word is what is written at once: as many beats of a port as a beat of the memory can fill,
    # rounded up to a power of two, so that the low bits of a beat's address select it.

    @property
    def activation_bytes(self) -> int:
        """Bytes of an element of A in memory."""
        return self.activation.lane_width // 8

    @property
    def weight_bytes(self) -> int:
        """Bytes of an element of W in memory; of an image it is a byte."""
        return 1 if self.loop_nest.image else self.weight.lane_width // 8

    @property
    def weight_beat(self) -> int:
        """Elements of a row of W in a beat of weights; bytes, of an image."""
        if not self.loop_nest.image:
            return self.n_lanes
        port = next(port for port in self.compute.ports if port.name == "wgt")
        return int(self.cores * port.beat_bytes)

    @cached_property
    def act_beats(self) -> int:
        """Beats of activations in a word."""
        return _fill(self.memory_bytes, self.k_lanes * self.activation_bytes)

    @cached_property
    def wgt_beats(self) -> int:
        """Beats of weights in a word."""
        return _fill(self.memory_bytes, self.weight_beat * self.weight_bytes)

    @property
    def act_lanes(self) -> int:
        """Elements of A in a word."""
        return self.act_beats * self.k_lanes

    @property
    def wgt_lanes(self) -> int:
        """Elements of W, or bytes of its image, in a word."""
        return self.wgt_beats * self.weight_beat

    @property
    def act_banks(self) -> int:
        """Memories that hold a row of A each and are read together."""
        return self.m_lanes

    @property
    def wgt_banks(self) -> int:
        """Memories that hold a row of W each and are read together."""
        return 1 if self.loop_nest.image else self.loop_nest.weight_terms * self.array.cascade

    @property
    def word_bytes(self) -> dict[str, int]:
        """Bytes in memory of a word of the buffers of A (``a``), W (``w``) and records (``p``)."""
        return {
            "a": self.act_lanes * self.activation_bytes,
            "w": self.wgt_lanes * self.weight_bytes,
            "p": self.post_lanes * self.record_groups * RECORD_BYTES,
        }

    @property
    def weight_width(self) -> int:
        """Bits that the weight buffer keeps of an element."""
        return 8 if self.loop_nest.image else self.weight.width

    @property
    def act_depth(self) -> int:
        """Words of half an activation buffer, in each bank."""
        bits = self.act_banks * self.act_lanes * self.activation.width
        return self.buffers.activation_kib * 4096 // bits

    @property
    def wgt_depth(self) -> int:
        """Words of half a weight buffer, in each bank."""
        return (
            self.buffers.weight_kib * 4096 // (self.wgt_banks * self.wgt_lanes * self.weight_width)
        )

    @property
    def out_depth(self) -> int:
        """Words of half an output buffer: beats of results."""
        return self.buffers.output_kib * 4096 // (self.n_lanes * self.result.width)

    @property
    def buffer_shapes(self) -> dict[str, BufferShape]:
        """The buffers, by the name of what they hold."""
        record = self.post_lanes * self.record_groups * RECORD_BYTES * 8
        shapes = [
            BufferShape("activations", "engine_act_buffer", self.act_banks, 2 * self.act_depth,
                        self.act_lanes * self.activation.width),
            BufferShape("weights", "engine_wgt_buffer", self.wgt_banks, 2 * self.wgt_depth,
                        self.wgt_lanes * self.weight_width),
            BufferShape("results", "engine_result_buffer", 2, self.out_depth,
                        self.n_lanes * self.result.width),
            BufferShape("columns", "engine_column_buffer", 1,
                        2 * (self.column_groups // self.record_groups), record),
        ]  # fmt: skip
        present = shapes if self.post.columns else shapes[:-1]
        return {shape.name: shape for shape in present}

    def row_words(self, k_tiles: int) -> int:
        """Return the words of a row of A, or of `m_lanes` rows, of a block of some tiles."""
        return -(-k_tiles // self.act_beats)

    def weight_words(self, column_tiles: int) -> int:
        """Return the words of a row of W, or of a row for each bank."""
        return -(-column_tiles * self.loop_nest.weight_beats // self.wgt_beats)

    def weight_rows(self, k_tiles: int) -> int:
        """Return the rows of W in each bank of a block of some tiles."""
        return k_tiles * self.loop_nest.weight_rows


def _fill(memory_bytes: int, beat_bytes: int) -> int:
    """Return how many beats a beat of the memory fills, a power of two."""
    return 1 << (-(-memory_bytes // beat_bytes) - 1).bit_length()


FAMILY = Family(
    name="gemm_stream",
    summary="memory-to-memory engine around any core: AXI4, any matrix size, post-processing",
    config=GemmStreamConfig,
    schedule="hwgen.schedules.gemm_stream",
    golden="hwgen.golden.gemm_stream",
    rtl="rtl_templates.gemm_stream",
    cost="cost_model.families.gemm_stream",
)
