# SPDX-License-Identifier: Apache-2.0
"""Several engines behind one memory port, driven by command lists in that memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from hwgen.config.parameters import either
from hwgen.core.params.base import FamilyConfig, Model, check_rules
from hwgen.core.params.memory_port import Memory, OnMemory
from hwgen.core.params.target import Target
from hwgen.core.post import PostFeatures
from hwgen.core.protocols import JobCore
from hwgen.core.register_map import Register
from hwgen.core.registry import families
from hwgen.errors import did_you_mean

OUTER = ("name", "target", "memories", "protect", "memory")
"""Fields of a unit that are those of the engine."""

MOST_UNITS = 8
"""Units of an engine."""


def unit_families() -> dict[str, type[FamilyConfig]]:
    """Return the configurations of the families that can be units, by name."""
    return {
        name: core.params_class for name, core in families().items() if issubclass(core, JobCore)
    }


def _units(value: Any, info: ValidationInfo) -> Any:
    """Return the configurations of the units; they have the target and port of the engine."""
    if not isinstance(value, Mapping):
        raise PydanticCustomError("units", "must name units, each with the parameters of an engine")
    if not 1 <= len(value) <= MOST_UNITS:
        raise PydanticCustomError(
            "units", "must name 1 to {most} units, not {count}",
            {"most": MOST_UNITS, "count": len(value)},
        )  # fmt: skip
    return {name: _unit(name, unit, info) for name, unit in value.items()}


def _unit(name: Any, value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, FamilyConfig):
        return value
    if not isinstance(name, str) or not name.isidentifier() or not name.islower():
        raise PydanticCustomError(
            "rules", "{name}: a unit's name must be lower-case letters, digits and _",
            {"name": str(name)[:80]},
        )  # fmt: skip
    models = unit_families()
    family = value.get("family") if isinstance(value, Mapping) else None
    if family not in models:
        raise PydanticCustomError(
            "rules", "{name}.family: must be {known}{hint}",
            {"name": name, "known": either(tuple(models)),
             "hint": did_you_mean(str(family)[:80], list(models))},
        )  # fmt: skip
    for key in OUTER:
        if key in value:
            raise PydanticCustomError(
                "rules", "{name}.{key}: belongs to the engine; remove it here",
                {"name": name, "key": key},
            )  # fmt: skip
    outer = {
        "name": name,
        "target": info.data.get("target", Target()),
        "memory": info.data.get("memory", Memory()),
    }
    try:
        return models[family].model_validate({**value, **outer})
    except ValidationError as error:
        raise _inside(name, error) from None


def _inside(name: str, error: ValidationError) -> ValidationError:
    """Return the errors of a unit at their places below its name."""
    details: list[InitErrorDetails] = []
    for each in error.errors():
        error_type: Any = each["type"]
        if error_type not in get_args(ErrorType):
            error_type = PydanticCustomError(
                error_type, "{text}", {"text": each["msg"], **each.get("ctx", {})}
            )
        context = {"ctx": each["ctx"]} if "ctx" in each and isinstance(error_type, str) else {}
        detail: Any = {
            "type": error_type,
            "loc": (name, *each["loc"]),
            "input": each["input"],
            **context,
        }
        details.append(detail)
    return ValidationError.from_exception_data(error.title, details)


def _dump_units(units: Mapping[str, FamilyConfig]) -> dict[str, Any]:
    return {name: {"family": unit.family, **_beyond_defaults(unit)} for name, unit in units.items()}


def _beyond_defaults(unit: FamilyConfig) -> dict[str, Any]:
    """Return the parameters of a unit that are not those it has if nothing is said."""
    usual = type(unit).model_validate({"name": "unit"}).model_dump(mode="json")
    values = unit.model_dump(mode="json", exclude=set(OUTER))
    return {key: value for key, value in values.items() if value != usual[key]}


Units = Annotated[
    Any,
    BeforeValidator(_units),
    PlainSerializer(_dump_units, return_type=dict),
    WithJsonSchema({"type": "object"}),
]


class Lists(Model):
    """The processor of command lists."""

    registers: Literal[8, 16, 32] = Field(
        16,
        description="Registers that lists compute in, as wide as an address; the first is 0.",
        json_schema_extra={"unit": "registers"},
    )
    calls: int = Field(
        8, ge=1, le=64, description="Calls that may be open.", json_schema_extra={"unit": "calls"}
    )
    cache_lines: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        8,
        description="Lines of 16 descriptors that are kept on the chip.",
        json_schema_extra={"unit": "lines"},
    )


class TransformerConfig(OnMemory, FamilyConfig):
    """Engines as units behind one memory port; a list in memory gives them their jobs."""

    no_residues: ClassVar[str] = "results of some units are no sums of integer products"

    family: Literal["transformer"] = Field("transformer", description="Family of the accelerator.")
    memory: Memory = Field(default_factory=Memory, description="The port to the memory.")
    units: Units = Field(
        {"gemm": {"family": "gemm_stream"}},
        validate_default=True,
        description="The units, by name: each the configuration of an engine that takes jobs,"
        " without `name`, `target` and `memory`.",
    )
    lists: Lists = Field(default_factory=Lists, description="The processor of command lists.")

    @classmethod
    def cores_in(cls, data: Mapping[str, Any]) -> dict[str, type[FamilyConfig]]:
        """Return the models of the units, by field."""
        units, registered = data.get("units"), unit_families()
        if not isinstance(units, Mapping):
            return {}
        kinds = {
            name: unit.get("family") for name, unit in units.items() if isinstance(unit, Mapping)
        }
        return {
            f"units.{name}": registered[kind] for name, kind in kinds.items() if kind in registered
        }

    @model_validator(mode="after")
    def _cross_field_rules(self) -> Self:
        width, broken = self.memory.address_width, []
        if width < 32:
            broken.append(f"memory.address_width: must be 32 to 64 for command lists, not {width}")
        if not any(unit.multiplies for unit in self.units.values()):
            broken.append("units: must hold one that multiplies matrices, such as gemm_stream")
        check_rules(broken)
        return self

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths."""
        return [
            f"units.{name}.{line}" for name, unit in self.units.items() for line in unit.too_wide()
        ]

    def resolved(self) -> dict[str, Any]:
        """Return every parameter, defaults included, as plain JSON values."""
        values = super().resolved()
        values["units"] = {
            name: {key: value for key, value in unit.resolved().items() if key not in OUTER}
            for name, unit in self.units.items()
        }
        return values

    @property
    def register_width(self) -> int:
        """Bits of a register of lists."""
        return self.memory.address_width

    # -- products of matrices: jobs of the first unit that multiplies --------------------------

    @property
    def children(self) -> Mapping[str, FamilyConfig]:
        """Parameters of the units."""
        return {f"units.{name}": unit for name, unit in self.units.items()}

    def with_children(self, children: Mapping[str, FamilyConfig]) -> Self:
        """Return the parameters with other units."""
        units = {name.removeprefix("units."): unit for name, unit in children.items()}
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**values, "units": units})

    @property
    def job_unit_name(self) -> str:
        """Name of the unit whose jobs are the products that `hwgen run` and workloads ask for."""
        return str(next(name for name, unit in self.units.items() if unit.multiplies))

    @property
    def job_unit(self) -> FamilyConfig:
        """That unit."""
        return self.units[self.job_unit_name]  # type: ignore[no-any-return]

    @property
    def activation(self) -> Any:
        """Format of A."""
        return self.job_unit.activation

    @property
    def weight(self) -> Any:
        """Format of W."""
        return self.job_unit.weight

    @property
    def result(self) -> Any:
        """Format of the accumulators."""
        return self.job_unit.result

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp."""
        return self.job_unit.saturates

    @property
    def max_k(self) -> int:
        """Longest reduction of a job."""
        return self.job_unit.max_k

    @property
    def natural_sizes(self) -> tuple[int, int, int]:
        """M, K and N that fill all cores of the unit once."""
        return self.job_unit.natural_sizes

    @property
    def post_features(self) -> PostFeatures | None:
        """Features of the post-processing hardware."""
        return self.job_unit.post_features

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle of all units that multiply."""
        return float(sum(unit.macs_per_cycle for unit in self.units.values() if unit.multiplies))

    @property
    def latency(self) -> int:
        """Cycles from the last input beat to the first result of the slowest unit's core."""
        return max(int(unit.latency) for unit in self.units.values())

    @property
    def parts(self) -> dict[str, Any]:
        """The units: what each computes, and what may overlap with its jobs."""
        return {
            name: {
                "family": unit.family,
                "operations": [operation.name for operation in unit.operations],
                "queue": unit.queue,
                "overlaps_jobs_of": [other for other in self.units if other != name],
                "overlaps_own_jobs": "the loads of a job overlap the computation of the one before",
            }
            for name, unit in self.units.items()
        }

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers behind port ``control``."""
        from hwgen.families.transformer.registers import list_registers

        return list_registers(self)
