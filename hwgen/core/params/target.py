# SPDX-License-Identifier: Apache-2.0
"""Target of a core: technology, device, clock, and implementation of its memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hwgen.config.base import Model, check_rules
from hwgen.core.params.off_chip import OffChip, TargetMemory
from hwgen.errors import did_you_mean
from hwgen.plugins import match_name
from hwgen.technologies import DEFAULT, default_clock, devices, technologies, technology_of

CLOCK_MHZ = (1.0, 5000.0)
"""Bounds of ``target.clock_mhz``."""

REGISTERS_BELOW = 2048
"""Bits of the smallest memory that is made of macros: about where the smallest published macros are
smaller than registers in every shipped technology that is manufactured."""


def _installed(name: str) -> str:
    match = match_name(name, technologies())
    if match is None:
        raise PydanticCustomError("literal_error", "must be the name of an installed technology")
    return match


def _list_installed(schema: dict[str, Any]) -> None:
    schema["enum"] = list(technologies())


def _check_device(name: str | None) -> str | None:
    if name is None:
        return None
    names = devices()
    match = match_name(name, names)
    if match is None:
        raise PydanticCustomError(
            "device",
            "must be the name of a device, not {name}{hint}; there are {names}",
            {
                "name": repr(name[:80]),
                "hint": did_you_mean(name, names),
                "names": ", ".join(names),
            },
        )
    return match


class Target(Model):
    """Defaults for estimation and synthesis."""

    technology: Annotated[str, AfterValidator(_installed)] = Field(
        DEFAULT,
        description="Standard-cell library or FPGA family, or a device; by default that of"
        " `device`.",
        json_schema_extra=_list_installed,
    )
    device: Annotated[str | None, AfterValidator(_check_device)] = Field(
        None,
        description="FPGA device, one that `hwgen technologies` lists: estimates, synthesis and"
        " sweeps say what share of it is used and whether the core fits.",
    )
    clock_mhz: float = Field(
        500.0,
        ge=CLOCK_MHZ[0],
        le=CLOCK_MHZ[1],
        description="Clock target; if none is given, an FPGA family has its own default.",
        json_schema_extra={"unit": "MHz"},
    )
    activation_sigma: float | None = Field(
        None,
        ge=0.1,
        le=65536,
        description="Standard deviation of the activations, normally distributed around zero;"
        " `null`: uniformly. The time of serial PEs depends on it, no hardware does.",
        json_schema_extra={"unit": "least significant bits"},
    )
    memory: TargetMemory = Field(
        default_factory=OffChip,
        description="The memory behind the ports, which limits every figure per second of a"
        " workload; the name of a kind alone will do. Without one, ports are taken to be served"
        " always.",
        json_schema_extra={"stands_for": "kind"},
    )

    @model_validator(mode="before")
    @classmethod
    def _technology_of_device(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(name := data.get("technology"), str):
            local = technology_of(name)
            if local is not None and match_name(name, technologies()) is None:
                # A device in the place of its technology.
                return {"device": name, **data, "technology": local}
        if isinstance(data, Mapping) and data.get("technology") is None:
            device = data.get("device")
            result = technology_of(device) if isinstance(device, str) else None
            if result is not None and "technology" not in data:
                return {**data, "technology": result}
        return data

    @model_validator(mode="after")
    def _default_clock(self) -> Self:
        clock = default_clock(self.technology)
        if clock is not None and not self.names_clock:
            # Past the frozen model, and not among the fields that were set: it follows a change of
            # technology.
            self.__dict__["clock_mhz"] = clock
        return self

    @property
    def names_clock(self) -> bool:
        """Whether the clock was asked for, and is no default."""
        return "clock_mhz" in self.model_fields_set

    @model_validator(mode="after")
    def _of_one_technology(self) -> Self:
        own = self.technology if self.device is None else technology_of(self.device)
        if own == self.technology:
            return self
        there = ", ".join(devices(self.technology)) or "none"
        text = (
            f"device: {self.device!r} is of {own}, not of {self.technology}; remove"
            f" target.technology, or take a device of {self.technology} (there is: {there})"
        )
        check_rules([text])
        return self


class MemoryChoice(Model):
    """Implementation of memories."""

    registers_below: int = Field(
        REGISTERS_BELOW,
        ge=0,
        le=1 << 30,
        description="Memories of fewer bits are registers in estimates and in synthesis for"
        " standard cells, larger ones SRAM macros; the hardware does not depend on it.",
        json_schema_extra={"unit": "bits"},
    )
