# SPDX-License-Identifier: Apache-2.0
"""A memory engine around any core with stream ports: readers, the core, a writer, a job queue."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig, Model, check_rules
from hwgen.core.params.child_core import InnerCore
from hwgen.core.params.memory_port import Memory, OnMemory
from hwgen.core.port import StreamPort
from hwgen.core.register_map import (
    JobInterface,
    Register,
    register_map,
    with_fault_counters,
)
from hwgen.families.stream_engine.registers import ENTRY_BITS, stream_interface
from hwgen.formats import IntegerFormat

if TYPE_CHECKING:
    from hwgen.core.operation import Operation

OUTER = ("name", "target", "memories", "protect")
"""Fields of a core that are those of the engine."""

WORDS_AHEAD = 4
"""Words of a port that wait between the bytes of memory and the beats of the core."""

ROWS_AHEAD = 16
"""Rows of results that are announced before their data has come."""

ENTRY = StreamPort(
    "entry", "in", IntegerFormat(ENTRY_BITS, False), 1, ENTRY_BITS, "the page of a block"
)
"""Beats of a table of pages."""

TABLE_BEATS = 4
"""Beats of a table of pages that wait, those on their way included."""

_PATIENCE = 256


def _fits(core: type[Core[Any]]) -> bool:
    """Return whether it has stream ports alone, and operations that are no products of matrices."""
    config = core.params_class
    engine = config.queues_jobs or config.buses is not FamilyConfig.buses
    return not engine and config.operations is not FamilyConfig.operations


CORE = InnerCore(_fits, OUTER, "this engine")

Compute = Annotated[
    Any,
    BeforeValidator(CORE.validate),
    PlainSerializer(CORE.explicit_values, return_type=dict),
    WithJsonSchema({"type": "object"}),
]


class Buffers(Model):
    """Memories on the chip."""

    port_beats: Literal[4, 8, 16, 32, 64, 128, 256, 512, 1024] = Field(
        64,
        description="Beats of the memory that wait for each input port of the core, those on their"
        " way included; at least two of the longest bursts.",
        json_schema_extra={"unit": "beats"},
    )


class StreamEngineConfig(OnMemory, FamilyConfig):
    """An engine that reads the input ports of a core from memory and writes its results there."""

    queues_jobs: ClassVar[bool] = True

    family: Literal["stream_engine"] = Field(
        "stream_engine", description="Family of the accelerator."
    )
    compute: Compute = Field(
        {"family": "vector"},
        validate_default=True,
        description="The core: the configuration of another family, with stream ports and"
        " operations that are no products of matrices, without `name` and `target`.",
    )
    queue: Literal[1, 2, 4, 8, 16] = Field(
        4,
        description="Jobs that wait or run; the loads of one overlap the computation of another.",
        json_schema_extra={"unit": "jobs"},
    )
    buffers: Buffers = Field(default_factory=Buffers, description="Memories on the chip.")
    memory: Memory = Field(default_factory=Memory, description="The port to the memory.")
    paged: list[str] = Field(
        default_factory=list,
        description="Input ports whose rows may lie in pages, where a table in memory says: those"
        " of keys and values in a cache that grows.",
    )

    @classmethod
    def cores_in(cls, data: Mapping[str, Any]) -> dict[str, type[FamilyConfig]]:
        """Return the models of the cores that a configuration holds, by field."""
        inner = data.get("compute")
        model = CORE.family(inner.get("family")) if isinstance(inner, Mapping) else None
        return {"compute": model} if model else {}

    @model_validator(mode="after")
    def _cross_field_rules(self) -> Self:
        broken, least = [], 2 * self.longest_burst
        if self.buffers.port_beats < least:
            broken.append(
                f"buffers.port_beats: must hold two bursts of memory.max_burst, {least} beats, not"
                f" {self.buffers.port_beats}; raise it, or lower memory.max_burst"
            )
        broken += self._pages_rules()
        if len(self.results) != 1:
            broken.append("compute: must have one output port")
        check_rules(broken)
        return self

    def _pages_rules(self) -> list[str]:
        able = [port.name for port in self.operands if not port.last]
        broken = [
            f"paged: must be among the input ports that take beats from memory without tlast,"
            f" {', '.join(able) or 'of which there are none'}, not {name!r}; remove it"
            for name in self.paged
            if name not in able
        ]
        if len(set(self.paged)) != len(self.paged):
            broken.append("paged: must name each port once; remove the others")
        return broken

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths."""
        return [f"compute.{line}" for line in self.compute.too_wide()]

    def resolved(self) -> dict[str, Any]:
        """Return every parameter, defaults included, as plain JSON values."""
        values = super().resolved()
        values["compute"] = CORE.resolved(self.compute)
        return values

    # -- the core --------------------------------------------------------------------------

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Those of the core."""
        return self.compute.operations  # type: ignore[no-any-return]

    @property
    def operations_per_cycle(self) -> float:
        """Arithmetic operations of a full cycle of the core."""
        return float(self.compute.operations_per_cycle)

    @property
    def proven(self) -> dict[str, Any]:
        """Proven error bounds of the core's results."""
        return self.compute.proven  # type: ignore[no-any-return]

    @property
    def latency(self) -> int:
        """Cycles from the last input beat of the core to its result."""
        return int(self.compute.latency)

    @cached_property
    def commands(self) -> tuple[StreamPort, ...]:
        """The input ports that take one beat a job, from registers."""
        return tuple(p for p in self.compute.ports if p.direction == "in" and p.per_job)

    @cached_property
    def operands(self) -> tuple[StreamPort, ...]:
        """The input ports that take beats from memory."""
        return tuple(p for p in self.compute.ports if p.direction == "in" and not p.per_job)

    @cached_property
    def results(self) -> tuple[StreamPort, ...]:
        """The output port."""
        return tuple(p for p in self.compute.ports if p.direction == "out")

    @cached_property
    def tables(self) -> tuple[StreamPort, ...]:
        """The input ports whose rows may lie in pages."""
        return tuple(port for port in self.operands if port.name in self.paged)

    # -- geometry --------------------------------------------------------------------------

    @property
    def requests_ahead(self) -> int:
        """Bursts that are requested and not yet answered."""
        return self.memory.outstanding + 4

    def word_beats(self, port: StreamPort) -> int:
        """Return the beats of an input port that a beat of the memory fills, a power of two."""
        beats = 1
        while beats * port.beat_bytes < self.memory_bytes:
            beats *= 2
        return beats

    @property
    def patience(self) -> int:
        """Cycles without any movement after which a job is given up: its numbers do not agree."""
        return int(4 * self.latency + _PATIENCE)

    # -- registers -----------------------------------------------------------------------------

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers behind port ``control``."""
        return register_map(self.job_interface, self.queue)

    @cached_property
    def job_interface(self) -> JobInterface:
        """Part of its register map that is specific to this type of engine."""
        interface = stream_interface(
            self.memory.address_width, self.memory_bytes, self.commands, self.operands,
            self.results, self.tables,
        )  # fmt: skip
        return with_fault_counters(interface, self.protect)
