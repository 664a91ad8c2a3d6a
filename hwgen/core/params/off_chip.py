# SPDX-License-Identifier: Apache-2.0
"""The memory behind the ports of an accelerator, ``target.memory`` of a configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from hwgen.config.base import Model, check_rules
from hwgen.errors import did_you_mean
from hwgen.technologies.off_chip import MemoryType, memory_types

PortMemory = Literal["dram", "on_chip"]


def _check_memory_type(name: str) -> str:
    if name not in memory_types():
        raise PydanticCustomError("literal_error", "must be the name of a kind of memory")
    return name


_NAMES = {"type": "string", "enum": list(memory_types())}


class Ports(Model):
    """The source or sink of each port of a core: the shared memory, or something on the chip.

    The memory port of an engine is always served by the memory.
    """

    weights: PortMemory = Field("dram", description="Behind the port of the weights.")
    activations: PortMemory = Field("on_chip", description="Behind the port of the activations.")
    outputs: PortMemory = Field("on_chip", description="Behind the port of the results.")
    kv_cache: PortMemory = Field(
        "dram", description="Where the keys and values of a network's attention are kept."
    )


class OffChip(Model):
    """The memory behind the ports, which limits every figure per second of a workload."""

    kind: Annotated[str, AfterValidator(_check_memory_type), WithJsonSchema(_NAMES)] | None = Field(
        None,
        description="Kind of memory, whose figures hold where none are given here.",
    )
    gb_s: float | None = Field(
        None,
        ge=0.001,
        le=1e6,
        description="Peak bandwidth; `null`: that of the usual configuration of the kind.",
        json_schema_extra={"unit": "GB/s"},
    )
    efficiency: float | None = Field(
        None,
        ge=0.001,
        le=1.0,
        description="Share of the peak that is achieved; `null`: that of the kind, without one 1.",
    )
    pj_per_bit: float | None = Field(
        None,
        ge=0.0,
        le=1e6,
        description="Energy of a bit that is read or written; `null`: that of the kind.",
        json_schema_extra={"unit": "pJ"},
    )
    ports: Ports = Field(
        default_factory=Ports, description="What is behind each port of a stream core."
    )

    @model_validator(mode="after")
    def _of_a_memory(self) -> Self:
        if self.efficiency is None or self.limits:
            return self
        check_rules(["efficiency: of which memory? give kind or gb_s as well"])
        return self

    @property
    def limits(self) -> bool:
        """Whether there is a bandwidth."""
        return self.kind is not None or self.gb_s is not None

    @property
    def about(self) -> MemoryType | None:
        """Figures of the kind, if one is named."""
        return None if self.kind is None else memory_types()[self.kind]

    @property
    def peak_gb_s(self) -> float | None:
        """Peak bandwidth, None without a memory."""
        return self.gb_s if self.gb_s is not None or not self.about else self.about.peak_gb_s

    @property
    def share(self) -> float:
        """Share of the peak that is achieved."""
        if self.efficiency is not None:
            return self.efficiency
        return self.about.efficiency if self.about else 1.0

    @property
    def energy_pj_per_bit(self) -> float | None:
        """Energy of a bit, None if it is not known."""
        if self.pj_per_bit is not None:
            return self.pj_per_bit
        return self.about.energy_pj_per_bit if self.about else None

    @property
    def energy_source(self) -> str:
        """Source of the energy, or the reason why there is none."""
        if self.pj_per_bit is not None:
            return "given"
        if self.about is None:
            return "no memory is named; give target.memory, or --memory"
        if self.about.energy_pj_per_bit is None:
            return f"{self.about.energy_source}; give target.memory.pj_per_bit"
        return self.about.energy_source


def _from_name(value: Any) -> Any:
    """Return a named kind of memory as a group of parameters."""
    if not isinstance(value, str):
        return value
    if value not in (names := memory_types()):
        raise PydanticCustomError(
            "memory_kind",
            "must be a kind of memory ({kinds}) or a group of parameters ({keys}),"
            " not {value}{hint}",
            {
                "kinds": ", ".join(names),
                "keys": ", ".join(OffChip.model_fields),
                "value": repr(value[:80]),
                "hint": did_you_mean(value, names),
            },
        )
    return {"kind": value}


TargetMemory = Annotated[
    OffChip,
    BeforeValidator(
        _from_name, json_schema_input_type=OffChip | Annotated[str, WithJsonSchema(_NAMES)]
    ),
]
"""An `OffChip`, or the name of a kind."""
