# SPDX-License-Identifier: Apache-2.0
"""GEMM streaming: an engine that works from memory to memory around any core.

The configuration and the geometry that follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from hwgen.arithmetic.product_packing import PackedProducts
from hwgen.core.bus import writer_beats
from hwgen.core.loop_nest import ACT_OF_BLOCKS, LoopNest
from hwgen.core.params.base import FamilyConfig, check_rules
from hwgen.core.params.memory_port import Memory, OnMemory
from hwgen.core.params.memory_rows import OperandRows, fill, rows_of_formats, rows_of_lanes
from hwgen.core.params.module_limits import ENGINE_DATA_BITS
from hwgen.core.post import PostFeatures
from hwgen.core.post.records import RECORD_BYTES
from hwgen.core.register_map import (
    FORMAT,
    JobInterface,
    Register,
    register_map,
    with_fault_counters,
)
from hwgen.families.gemm_stream.fields import (
    CORE,
    DEFAULT_COMPUTE,
    Array,
    Buffers,
    Compute,
    EnginePost,
)
from hwgen.families.gemm_stream.registers import gemm_interface

ROWS_AHEAD = 16
"""Rows of results that are announced before their data has come."""


@dataclass(frozen=True)
class BufferShape:
    """A buffer: memories of one shape that are accessed together.

    Parameters
    ----------
    name : str
        What it holds.
    module : str
        The module that its memories are in.
    memories : int
    words, width : int
        Of one memory: both halves, but of results, which have a memory for each; bits of a word.
    """

    name: str
    module: str
    memories: int
    words: int
    width: int


class GemmStreamConfig(OnMemory, FamilyConfig):
    """An engine that reads A and W from memory, multiplies, and writes C to memory."""

    no_residues: ClassVar[str] = ""
    queues_jobs: ClassVar[bool] = True

    family: Literal["gemm_stream"] = Field("gemm_stream", description="Family of the accelerator.")
    compute: Compute = Field(
        DEFAULT_COMPUTE,
        validate_default=True,
        description="The core: the configuration of another family without `name` and `target`.",
    )
    queue: Literal[1, 2, 4, 8, 16] = Field(
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
        check_rules(self.broken_rules() or self.protection_errors())
        return self

    def residue_errors(self) -> list[str]:
        """Return why results of the core have no residue codes."""
        return self.compute.residue_errors()  # type: ignore[no-any-return]

    @property
    def children(self) -> Mapping[str, FamilyConfig]:
        """Parameters of the core inside."""
        return {"compute": self.compute}

    def with_children(self, children: Mapping[str, FamilyConfig]) -> Self:
        """Return the parameters with another core inside."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**values, **children})

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken, each ``dotted.field: text``."""
        core, nest = self.compute, self.compute.block_loop_nest
        if isinstance(nest, str):
            return [f"compute.{nest}"]
        broken = []
        if self.result.is_float and self.array.cascade > 1:
            operands = f"{self.activation} x {self.weight}"
            broken.append(
                f"array.cascade: must be 1 with {operands}, not {self.array.cascade}: sums of"
                " blocks are rounded, and the order of their additions is the core's"
            )
        broken += self.post.broken_rules(self.result)
        if core.saturates:
            broken.append(
                "compute.overflow: must be wrap in an engine, not saturate: blocks of a reduction"
                f" are added up in an order of the engine's own; use wrap, or accumulator exact"
                f" ({core.partial_sum(core.max_k)})"
            )
        for name, words in (
            ("column", self.column_groups * self.post_lanes // self.n_lanes),
            ("activation", self.act_depth // self.row_words(1)),
            ("weight", self.wgt_depth // self.weight_words(1, 1)),
            ("output", self.out_depth // nest.m_lanes),
        ):
            if not words:
                broken.append(
                    f"buffers.{name}_kib: must hold two blocks of at least one tile; raise it"
                )
        return broken

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths."""
        activations = self.act_banks * self.act_rows.beat_bits
        weights = self.wgt_banks * self.wgt_rows.beat_bits
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
        values["compute"] = CORE.resolved(self.compute)
        return values

    # -- formats ---------------------------------------------------------------------------

    @property
    def activation(self) -> Any:
        """Format of A."""
        return self.compute.activation

    @property
    def weight(self) -> Any:
        """Format of W."""
        return self.compute.weight

    @property
    def result(self) -> Any:
        """Format of the accumulators."""
        return self.compute.result

    @property
    def in_blocks(self) -> bool:
        """Whether the cores sum blocks, in their own order."""
        return self.compute.block_product is not None

    @property
    def goes_on(self) -> bool:
        """Whether cores that sum blocks go on with a tile of C when the next of its beats come.

        Then a reduction may be in several parts, if a block of C is a tile; else it stays whole.
        """
        return self.in_blocks and self.loop_nest.act == ACT_OF_BLOCKS

    @cached_property
    def formats(self) -> tuple[Self, ...]:
        """The same engine with jobs of each format of its cores, by number."""
        cores = self.compute.formats if self.in_blocks else ()
        if len(cores) < 2:
            return (self,)
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return tuple(type(self).model_validate({**values, "compute": core}) for core in cores)

    @property
    def format_number(self) -> int:
        """Number of the format of A and W among those of its cores."""
        return int(self.compute.lanes[0].mode) if self.in_blocks else 0

    def of_job(self, registers: Mapping[str, int]) -> Self:
        """Return the engine with jobs of the format that registers of the job window name."""
        flag = next((flag for flag in self.job_interface.flags if flag.name == FORMAT), None)
        if flag is None:
            return self
        number = registers["JOB_FLAGS"] >> flag.offset & ((1 << flag.bits) - 1)
        return self.formats[number]

    @property
    def packing(self) -> PackedProducts | None:
        """Packing of several products into a multiplier, None if each has its own."""
        result: PackedProducts | None = self.compute.packing
        return result

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp: never."""
        return False

    @property
    def max_k(self) -> int:
        """Longest reduction of a job."""
        longest = int(self.compute.max_k)
        return min(longest, self.stored_k) if self.in_blocks and not self.goes_on else longest

    @property
    def stored_k(self) -> int:
        """Longest reduction of which half of each buffer holds a tile."""
        nest = self.loop_nest
        tiles = min(
            self.act_depth * self.act_beats // nest.k_beats,
            self.wgt_depth * self.wgt_beats // nest.weight_rows,
        )
        return tiles * self.k_lanes

    # -- geometry --------------------------------------------------------------------------

    @property
    def cores(self) -> int:
        """Cores that work together."""
        return self.array.blocks * self.array.cascade

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle."""
        return self.cores * self.compute.macs_per_cycle  # type: ignore[no-any-return]

    @cached_property
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
    def length_width(self) -> int:
        """Bits of the length of a row of a block in bytes."""
        longest = max(
            *(2 * each.act_depth * each.act_rows.word_bytes for each in self.formats),
            *(2 * each.wgt_depth * each.wgt_rows.word_bytes for each in self.formats),
            self.out_depth * self.n_lanes * 8,
            self.column_groups * self.post_lanes * RECORD_BYTES,
        )
        return longest.bit_length()

    @property
    def format_bits(self) -> int:
        """Bits of the number of a format, 0 if there is one format."""
        return (len(self.formats) - 1).bit_length()

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
        return register_map(self.job_interface, self.queue)

    @cached_property
    def job_interface(self) -> JobInterface:
        """Part of its register map that is specific to this type of engine."""
        interface = gemm_interface(
            (self.m_lanes, self.k_lanes, self.n_lanes),
            [str(each.activation) for each in self.formats],
            self.post_features,
            address_width=self.memory.address_width,
            weight_columns=self.loop_nest.weight_columns,
        )
        return with_fault_counters(interface, self.protect)

    # -- post-processing -------------------------------------------------------------------

    @cached_property
    def post_features(self) -> PostFeatures:
        """Features of the post-processing hardware."""
        return self.post.features(self.result)

    @cached_property
    def post_lanes(self) -> int:
        """Accumulators processed in a cycle."""
        most = min(self.post.max_lanes, self.n_lanes)
        return next(lanes for lanes in range(most, 0, -1) if self.n_lanes % lanes == 0)

    @property
    def record_groups(self) -> int:
        """Groups of `post_lanes` records in a word of their buffer."""
        return fill(self.memory_bytes, self.post_lanes * RECORD_BYTES)

    @property
    def column_groups(self) -> int:
        """Groups of `post_lanes` records that half their buffer holds."""
        word = self.post_lanes * RECORD_BYTES * self.record_groups
        return self.buffers.column_kib * 512 // word * self.record_groups

    # -- buffers ---------------------------------------------------------------------------
    # A word is what is written at once: as many beats of a port as a beat of the memory can fill,
    # rounded up to a power of two, so that the low bits of a beat's address select it.

    @cached_property
    def act_rows(self) -> OperandRows:
        """Layout of rows of A in memory and in the words of their buffer."""
        if self.in_blocks:
            return self._rows_of_blocks(0)
        return self._rows(self.activation.lane_width // 8, self.k_lanes, self.activation.width)

    @cached_property
    def wgt_rows(self) -> OperandRows:
        """The same of rows of W, of its image, or of its columns."""
        if self.in_blocks:
            return self._rows_of_blocks(1)
        return self._rows(self.weight_bytes, self.weight_beat, self.weight_width)

    def _rows(self, size: int, beat: int, width: int) -> OperandRows:
        """Return the rows of an operand whose elements have `size` bytes, and `width` bits."""
        beats = fill(self.memory_bytes, beat * size)
        return OperandRows(size, width, 1, beats * beat, beats, beat * width)

    def _rows_of_blocks(self, side: int) -> OperandRows:
        """Return the rows of A (0) or of columns of W (1), of cores that multiply blocks."""
        cores = self.compute.formats
        each = [((core.activation, core.weight)[side], core.lanes[side]) for core in cores]
        if len(cores) == 1:
            return rows_of_lanes(*each[0], self.memory_bytes)
        return rows_of_formats(each, self.memory_bytes)[self.format_number]

    @property
    def a_tile_bytes(self) -> int:
        """Bytes of a tile of terms in a row of A."""
        return self.k_lanes // self.act_rows.item_terms * self.act_rows.item_bytes

    @property
    def w_tile_bytes(self) -> int:
        """Bytes of a tile in a row of W: of columns, or of terms where rows are columns of W."""
        if self.loop_nest.weight_columns:
            return self.k_lanes // self.wgt_rows.item_terms * self.wgt_rows.item_bytes
        return self.weight_beat * self.loop_nest.weight_beats * self.weight_bytes

    @cached_property
    def activation_bytes(self) -> int:
        """Bytes of an item of A in memory."""
        return self.act_rows.item_bytes

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of an item of W in memory; of an image it is a byte."""
        if self.in_blocks:
            return self.wgt_rows.item_bytes
        return 1 if self.loop_nest.image else int(self.weight.lane_width // 8)

    @property
    def weight_beat(self) -> int:
        """Elements of a row of W in a beat of weights; bytes, of an image."""
        if not self.loop_nest.image:
            return self.n_lanes
        port = next(port for port in self.compute.ports if port.name == "wgt")
        return int(self.cores * port.beat_bytes)

    @property
    def act_beats(self) -> int:
        """Beats of activations in a word."""
        return self.act_rows.beats

    @property
    def wgt_beats(self) -> int:
        """Beats of weights in a word."""
        return self.wgt_rows.beats

    @property
    def act_banks(self) -> int:
        """Memories that hold a row of A each and are read together."""
        return self.m_lanes

    @property
    def wgt_banks(self) -> int:
        """Memories that hold a row of W each, or a column, and are read together."""
        if self.loop_nest.weight_columns:
            return self.n_lanes
        return 1 if self.loop_nest.image else self.loop_nest.weight_terms * self.array.cascade

    @property
    def word_bytes(self) -> dict[str, int]:
        """Bytes in memory of a word of the buffers of A (``a``), W (``w``) and records (``p``)."""
        return {
            "a": self.act_rows.word_bytes,
            "w": self.wgt_rows.word_bytes,
            "p": self.post_lanes * self.record_groups * RECORD_BYTES,
        }

    @property
    def weight_width(self) -> int:
        """Bits that the weight buffer keeps of an element."""
        return 8 if self.loop_nest.image else int(self.weight.width)

    @property
    def act_depth(self) -> int:
        """Words of half an activation buffer, in each bank."""
        return self.buffers.activation_kib * 4096 // (self.act_banks * self.act_rows.word_bits)

    @property
    def wgt_depth(self) -> int:
        """Words of half a weight buffer, in each bank."""
        return self.buffers.weight_kib * 4096 // (self.wgt_banks * self.wgt_rows.word_bits)

    @property
    def out_depth(self) -> int:
        """Words of half an output buffer: beats of results."""
        return int(self.buffers.output_kib * 4096 // (self.n_lanes * self.result.width))

    @property
    def buffer_shapes(self) -> dict[str, BufferShape]:
        """The buffers, by the name of what they hold."""
        record = self.post_lanes * self.record_groups * RECORD_BYTES * 8
        shapes = [
            BufferShape("activations", "engine_act_buffer", self.act_banks, 2 * self.act_depth,
                        self.act_rows.word_bits),
            BufferShape("weights", "engine_wgt_buffer", self.wgt_banks, 2 * self.wgt_depth,
                        self.wgt_rows.word_bits),
            BufferShape("results", "engine_result_buffer", 2, self.out_depth,
                        self.n_lanes * self.result.width),
            BufferShape("columns", "engine_column_buffer", 1,
                        2 * (self.column_groups // self.record_groups), record),
        ]  # fmt: skip
        present = shapes if self.post.columns else shapes[:-1]
        return {shape.name: shape for shape in present}

    def row_words(self, k_tiles: int) -> int:
        """Return the words of a row of A, or of `m_lanes` rows, of a block of some tiles."""
        return -(-k_tiles * self.loop_nest.k_beats // self.act_beats)

    def weight_words(self, k_tiles: int, column_tiles: int) -> int:
        """Return the words of a block of W of some tiles in each bank."""
        nest = self.loop_nest
        if nest.weight_columns:
            return column_tiles * -(-k_tiles * nest.weight_rows // self.wgt_beats)
        return k_tiles * nest.weight_rows * -(-column_tiles * nest.weight_beats // self.wgt_beats)
