# SPDX-License-Identifier: Apache-2.0
"""Building blocks of a family's configuration model.

A model is frozen, refuses unknown keys, never converts a value silently, and carries in each
field the description, bounds and unit from which the template, the reference page and the
editors' JSON Schema are made.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hwgen.config.base import Model as Model
from hwgen.config.base import check_rules as check_rules
from hwgen.config.names import reserved
from hwgen.config.parameters import Configuration, either
from hwgen.core.bus import BusPort
from hwgen.core.operation import GEMM, Operation, gemm_operation
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.protection import Protection
from hwgen.core.params.target import MemoryChoice, Target
from hwgen.core.residues import residue_error
from hwgen.errors import did_you_mean
from hwgen.formats import (
    BINARY,
    FLOATS,
    SMALL_FLOATS,
    TERNARY,
    IntegerFormat,
    NumberFormat,
    number_format,
)
from hwgen.formats.registry import format_name

if TYPE_CHECKING:
    from hwgen.core.port import StreamPort
    from hwgen.core.post import PostFeatures
    from hwgen.core.register_map import JobInterface, Register

AUTO = "auto"
"""A parameter that the generator chooses."""


def _identifier(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", value):
            raise PydanticCustomError(
                "identifier",
                "must be a letter followed by up to 62 letters, digits or underscores"
                " (it names the Verilog module and the output files), not {value}",
                {"value": repr(value[:80])},
            )
        if reason := reserved(value):
            other = f"{value}_core" if not reserved(f"{value}_core") else f"core_{value}"
            raise PydanticCustomError(
                "reserved",
                "must not be {value}, {reason}; try {other}",
                {"value": repr(value), "reason": reason, "other": repr(other)},
            )
    return value


Identifier = Annotated[
    str,
    BeforeValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,62}$"}),
]


def format_field(
    allowed: str, names: tuple[str, ...], *words: str
) -> Callable[[Any], NumberFormat | str]:
    """Return a validator that turns a format's name into the format.

    Parameters
    ----------
    allowed : str
        The allowed names as text for the error message.
    names : tuple of str
        The allowed names.
    *words : str
        Further legal values that are kept as they are (for example ``exact``).
    """

    def check(value: Any) -> NumberFormat | str:
        value = format_name(value)
        if value in words:
            return str(value)
        if isinstance(value, str) and value in names:
            return SMALL_FLOATS.get(value) or number_format(value)
        shown = repr(value)[:80]
        hint = did_you_mean(value, names + words) if isinstance(value, str) else ""
        raise PydanticCustomError(
            "format",
            "must be {allowed}, not {shown}{hint}",
            {"allowed": allowed, "shown": shown, "hint": hint},
        )

    return check


def integer_names(low: int, high: int) -> tuple[str, ...]:
    """Return the names of the signed, then the unsigned formats of ``low..high`` bits."""
    return tuple(f"{u}int{w}" for u in ("", "u") for w in range(low, high + 1))


_as_name = PlainSerializer(str, return_type=str)
_WIDEST = 16
OPERANDS = integer_names(2, _WIDEST)
"""Names of the integer formats of operands."""

ACCUMULATORS = integer_names(2, 64)
"""Names of the integer formats of accumulators."""

IntegerOperand = Annotated[
    IntegerFormat,
    BeforeValidator(format_field("int2..int16 or uint2..uint16", OPERANDS)),
    _as_name,
    WithJsonSchema({"type": "string", "enum": list(OPERANDS)}),
]
"""An operand format: signed or unsigned integer of 2 to 16 bits."""

_FLOATS = tuple(name for name, fmt in FLOATS.items() if fmt.width <= _WIDEST)

OperandFormat = Annotated[
    Any,
    BeforeValidator(
        format_field(f"int2..int16, uint2..uint16, {either(_FLOATS)}", (*OPERANDS, *_FLOATS))
    ),
    _as_name,
    WithJsonSchema({"type": "string", "enum": [*OPERANDS, *_FLOATS]}),
]
"""An operand format: an `IntegerOperand`, or a `FloatFormat` of up to 16 bits."""

_STORED = (*OPERANDS, *_FLOATS, "fp4_e2m1")

StoredFormat = Annotated[
    Any,
    BeforeValidator(
        format_field(f"int2..int16, uint2..uint16, {either((*_FLOATS, 'fp4_e2m1'))}", _STORED)
    ),
    _as_name,
    WithJsonSchema({"type": "string", "enum": list(_STORED)}),
]
"""An operand that memory holds much of: an `OperandFormat`, or floating point of 4 bits."""


_LOW_BIT = (TERNARY.name, BINARY.name, "int2", "int3", "int4")

LowBitOperand = Annotated[
    IntegerFormat,
    BeforeValidator(format_field("ternary or int1..int4", _LOW_BIT)),
    _as_name,
    WithJsonSchema({"type": "string", "enum": list(_LOW_BIT)}),
]
"""Weights for look-up tables: ternary, -1 and 1 (``int1``), or two's complement of a few bits."""

IntegerAccumulator = Annotated[
    IntegerFormat | Literal["exact"],
    BeforeValidator(format_field("exact, int2..int64 or uint2..uint64", ACCUMULATORS, "exact")),
    _as_name,
    WithJsonSchema({"type": "string", "enum": ["exact", *ACCUMULATORS]}),
]
"""An accumulator: ``exact`` (as wide as the longest reduction needs) or a given format."""

Accumulator = Annotated[
    Any,
    BeforeValidator(
        format_field(
            f"exact, int2..int64, uint2..uint64, {either(tuple(FLOATS))}",
            (*ACCUMULATORS, *FLOATS),
            "exact",
        )
    ),
    _as_name,
    WithJsonSchema({"type": "string", "enum": ["exact", *ACCUMULATORS, *FLOATS]}),
]
"""An accumulator: an `IntegerAccumulator` or a `FloatFormat`."""


def registers(default: int, ge: int, le: int, description: str) -> Any:
    """Return a field of `pipeline`: a number of registers, or ``auto``.

    `FamilyConfig` replaces the word by a number before it validates.
    """

    def extend(schema: dict[str, Any]) -> None:
        number = {key: schema.pop(key) for key in ("type", "minimum", "maximum")}
        schema["anyOf"] = [number, _AUTO_SCHEMA]
        schema["unit"] = "registers"

    description += " `auto` takes as many as the target clock needs."
    return Field(default, ge=ge, le=le, description=description, json_schema_extra=extend)


_AUTO_SCHEMA = {"type": "string", "const": AUTO}


class FamilyConfig(Configuration):
    """Fields and properties that the configurations of all families share.

    A family's model adds its formats, its ``array`` and its ``pipeline``, and sets ``family`` to
    a literal of its own name.
    """

    shared_fields: ClassVar[frozenset[str]] = frozenset({"target", "memories", "protect"})

    no_residues: ClassVar[str] = "results of this family are no sums of integer products"
    """Why results have no residue codes, empty if they may have (`hwgen.core.residues`)."""

    queues_jobs: ClassVar[bool] = False
    """Whether it is an engine whose jobs are described in registers and wait in a queue.

    Such a family has ``memory``, ``queue`` and ``job_interface`` (`hwgen.core.register_map`).
    """

    name: Identifier = Field(description="Name of the top module and of the emitted files.")
    family: str = Field(description="Family of the accelerator.")
    target: Target = Field(
        default_factory=Target, description="Defaults for `hwgen estimate` and `hwgen synth`."
    )
    memories: MemoryChoice = Field(
        default_factory=MemoryChoice, description="Which memories are SRAM macros."
    )
    protect: Protection = Field(
        default_factory=Protection, description="Protection against faults; see `hwgen faults`."
    )

    @model_validator(mode="after")
    def _refuse_residues(self) -> Self:
        if self.no_residues:
            check_rules(self.protection_errors())
        return self

    def protection_errors(self) -> list[str]:
        """Return why the core cannot have the protection that is asked for."""
        return self.residue_errors() if self.protect.datapath == "residue" else []

    def residue_errors(self) -> list[str]:
        """Return why results have no residue codes, each ``dotted.field: text``."""
        return [residue_error(self.no_residues)] if self.no_residues else []

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths, as ``dotted.field: text``.

        No rule of the configuration: sweeps estimate such cores as well.
        """
        return []

    _automatic: tuple[str, ...] = PrivateAttr(())

    @classmethod
    @cache
    def register_bounds(cls) -> Mapping[str, tuple[int, int]]:
        """Return bounds of the fields of `pipeline` that may be ``auto``, by name."""
        pipeline = cls.model_fields.get("pipeline")
        model = pipeline.annotation if pipeline else None
        if not isinstance(model, type) or not issubclass(model, Model):
            return {}
        options = {
            name: schema.get("anyOf", ())
            for name, schema in model.model_json_schema()["properties"].items()
        }
        return {
            name: (numbers[0]["minimum"], numbers[0]["maximum"])
            for name, numbers in options.items()
            if _AUTO_SCHEMA in numbers
        }

    @model_validator(mode="wrap")
    @classmethod
    def _replace_automatic(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Take the smallest number of registers where ``auto`` stands, and note the field."""
        pipeline = data.get("pipeline") if isinstance(data, dict) else None
        if not isinstance(pipeline, dict) or AUTO not in pipeline.values():
            return validate(data)
        least = {
            name: low
            for name, (low, _) in cls.register_bounds().items()
            if pipeline.get(name) == AUTO
        }
        params = validate({**data, "pipeline": {**pipeline, **least}})
        params._automatic = tuple(least)
        return params

    def with_registers(self, numbers: Mapping[str, int]) -> Self:
        """Return the parameters with other numbers of registers, none of them ``auto``.

        Raises
        ------
        pydantic.ValidationError
            If a rule is broken.
        """
        pipeline = self.pipeline.model_copy(update=dict(numbers))
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**values, "pipeline": pipeline})

    def registers_on(self, roles: Collection[str]) -> tuple[str, ...]:
        """Return the fields of `pipeline` whose registers divide a path through such parts.

        Parameters
        ----------
        roles : collection of str
            Roles of the instances that it leads through (`rtl_templates.hdl.hierarchy`): fields
            that are roles, or all where none is.
        """
        fields = tuple(self.register_bounds())
        return tuple(name for name in fields if name in roles) or fields

    @classmethod
    def cores_in(cls, data: Mapping[str, Any]) -> Mapping[str, type[FamilyConfig]]:
        """Return the models of the cores that a configuration holds, by field: none."""
        return {}

    @property
    def automatic(self) -> tuple[str, ...]:
        """Fields that are still ``auto``, by dotted name, those of the cores inside included."""
        mine = (f"pipeline.{name}" for name in self._automatic)
        children = self.children.items()
        return (
            *mine,
            *(f"{name}.{inner}" for name, child in children for inner in child.automatic),
        )

    @property
    def children(self) -> Mapping[str, FamilyConfig]:
        """Parameters of the cores inside, by dotted field: none, unless it is an engine."""
        return {}

    def with_children(self, children: Mapping[str, FamilyConfig]) -> Self:
        """Return the parameters with other cores inside."""
        return self

    @property
    def buses(self) -> tuple[BusPort, ...]:
        """Memory-mapped ports: none, unless the accelerator is an engine with a memory port."""
        return ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations that it computes: the product of matrices, unless a family has others."""
        return (
            gemm_operation(
                self.natural_sizes, self.max_k, self.activation, self.weight, self.result
            ),
        )

    @property
    def multiplies(self) -> bool:
        """Whether products of matrices are among its operations."""
        return any(operation.name == GEMM for operation in self.operations)

    @property
    def proven(self) -> dict[str, Any]:
        """Proven error bounds of its results, for the manifest: none, where exact."""
        return {}

    @property
    def parts(self) -> dict[str, Any]:
        """Parts that work at the same time, for the manifest: none, but for engines of units."""
        return {}

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers behind port ``control``: none, unless it is an engine."""
        return ()

    @property
    def post_features(self) -> PostFeatures | None:
        """Features of the post-processing hardware: None, unless the family has some."""
        return None

    if TYPE_CHECKING:
        # Of families that multiply matrices, or queue jobs: fields of some, properties of others.

        @property
        def activation(self) -> NumberFormat:
            """Format of A."""

        @property
        def weight(self) -> NumberFormat:
            """Format of W."""

        @property
        def max_k(self) -> int:
            """Longest reduction."""

        @property
        def result(self) -> Any:
            """Format of the accumulators."""

        @property
        def saturates(self) -> bool:
            """Whether accumulators clamp."""

        @property
        def pipeline(self) -> Any:  # each family has a model of its own
            """Numbers of registers."""

        @property
        def macs_per_cycle(self) -> float:
            """Multiply-accumulates of a full cycle."""

        @property
        def job_interface(self) -> JobInterface:
            """Registers that are specific to an engine that queues jobs."""

        @property
        def natural_sizes(self) -> tuple[int, int, int]:
            """M, K and N that fill the array once."""

    @property
    def weight_bits(self) -> float:
        """Bits of a weight on the port or in the memory that it comes from."""
        return self.weight.width

    @property
    def operations_per_cycle(self) -> float:
        """Arithmetic operations of a full cycle, two for each multiply-accumulate."""
        return 2 * self.macs_per_cycle

    @property
    @abstractmethod
    def latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first result beat."""

    @property
    @abstractmethod
    def ports(self) -> tuple[StreamPort, ...]:
        """The stream ports."""

    def resolved(self) -> dict[str, Any]:
        """Return every parameter, defaults included, as plain JSON values.

        A distribution of activations, a device and a memory are named only where they are given, as
        is which memories are macros: none of them shapes any hardware.  Protection is named if
        there is any, as are registers of the memory port.
        """
        values = self.model_dump(mode="json")
        if self.memories == MemoryChoice():
            del values["memories"]
        if self.protect == Protection():
            del values["protect"]
        if self.target.activation_sigma is None:
            del values["target"]["activation_sigma"]
        if self.target.device is None:
            del values["target"]["device"]
        if self.target.memory == OffChip():
            del values["target"]["memory"]
        if "memory" in values and not values["memory"]["registered"]:
            del values["memory"]["registered"]
        return values

    def identity(self) -> dict[str, Any]:
        """Return the parameters that `digest` is of."""
        return self.resolved()

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 over the resolved configuration and hwgen's version."""
        from hwgen import __version__

        text = json.dumps([__version__, self.identity()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
