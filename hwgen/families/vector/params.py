# SPDX-License-Identifier: Apache-2.0
"""Vector units: row operations between streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from hwgen.config.parameters import either
from hwgen.core.operation import Operation, Scalar, Size, Tensor
from hwgen.core.params.base import FamilyConfig, Model, check_rules, format_field, registers
from hwgen.core.port import StreamPort
from hwgen.families.vector.functions import Powers, online_bound, powers_of, unit_within
from hwgen.families.vector.operations import DATAPATHS, NAMED, ONLINE_SOFTMAX, Datapath
from hwgen.formats.floating import FloatFormat, floating
from hwgen.formats.integer import IntegerFormat
from hwgen.formats.registry import number_format

if TYPE_CHECKING:
    from hwgen.arithmetic.functions.unit import FunctionUnit

INTEGERS = ("int8", "int16", "int32")
FLOATS = ("fp16", "bf16", "fp32")
FORMATS = (*INTEGERS, *FLOATS)
QUANTISED = ("int4", *INTEGERS)
"""Integer formats of results; int4 is sign-extended to a byte, as products take it."""

BLOCK_ELEMENTS = ("fp8_e4m3", "fp4_e2m1")
"""Formats of the results of `quantise_block`, elements of MXFP8 and MXFP4."""

EXPONENT = IntegerFormat(8, False)
"""Format of a biased exponent, the scale of a block."""

COMMAND_WORDS = 5
"""Words of 32 bits in a command: code, rows, length, `c1`, `c2`."""

MOST_ROWS = (1 << 31) - 1
_BYTE = 8

Name = Literal[
    "softmax",
    "rms_norm",
    "layer_norm",
    "rope",
    "gated",
    "add",
    "quantise",
    "dequantise",
    "argmax",
    "dequantise_rows",
    "hadamard_quantise",
    "quantise_block",
    "quantise_fp32_int8",
    "quantise_fp32_int16",
    "dequantise_fp32_int16",
    "dequantise_int16_fp32",
    "dequantise_rows_int32_fp32",
]
_SILU_BITS = 19
"""Most `function_bits` of silu, larger results of which are rounded to fp32 by more."""

Gate = Literal["silu", "gelu", "gelu_tanh", "sigmoid", "relu2"]


def _formats(names: tuple[str, ...]) -> Any:
    return (
        BeforeValidator(format_field(either(names), names)),
        PlainSerializer(str, return_type=str),
        WithJsonSchema({"type": "string", "enum": list(names)}),
    )


Element = Annotated[Any, *_formats(FORMATS)]
Result = Annotated[Any, *_formats((*QUANTISED, *FLOATS, *BLOCK_ELEMENTS))]
Parameter = Annotated[Any, *_formats(FLOATS)]


class Array(Model):
    """Operations, and elements at a time."""

    operations: list[Name] = Field(
        ["softmax", "rms_norm", "gated", "add"],
        min_length=1,
        description="Row operations that the hardware offers; `quantise` also by one scale for all"
        f" rows. There are {', '.join(NAMED)}. Those with two formats in their names are between"
        " these, on a unit whose `input` and `output` are fp32.",
    )
    lanes: int = Field(
        4,
        ge=1,
        le=64,
        description="Elements that are taken in one cycle, a power of two.",
        json_schema_extra={"unit": "elements"},
    )
    longest_row: int = Field(
        1024,
        ge=1,
        le=1 << 20,
        description="Longest row; rows wait in memories of that size for what is computed of them,"
        " unless `stored_row` is smaller.",
        json_schema_extra={"unit": "elements"},
    )
    stored_row: int | None = Field(
        None,
        ge=0,
        le=1 << 20,
        description="Longest row of operations that need a whole row before its first result, such"
        " as normalisations and `quantise`; 0 if none is offered. Memories have that size, and rows"
        " of other operations, such as `argmax` and `dequantise_rows`, may be longer. By default"
        " `longest_row`.",
        json_schema_extra={"unit": "elements"},
    )
    softmax: Literal["two_pass", "online"] = Field(
        "two_pass",
        description="How `softmax` finds a row's maximum and sum: one after the other, or both in"
        " one pass, with a running maximum and a sum that is rescaled by shifts.",
    )
    gate: Gate = Field("silu", description="Function of `gated`; `relu2` is max(x, 0) squared.")
    hadamard: int = Field(
        4,
        ge=2,
        le=64,
        description="Elements of a block that `hadamard_quantise` turns, a power of two, at most"
        " `lanes`.",
        json_schema_extra={"unit": "elements"},
    )
    function_bits: int = Field(
        13,
        ge=6,
        le=20,
        description="Largest error of exponentials, reciprocals and reciprocal square roots,"
        " relative, and of gates, absolute, 2 to the minus this.",
        json_schema_extra={"unit": "bits"},
    )

    def __hash__(self) -> int:
        """Return a hash: configurations are keys of caches, and lists have none."""
        values = (self.lanes, self.longest_row, self.softmax, self.gate, self.function_bits)
        return hash((*self.operations, *values, self.hadamard, self.stored_row))


class Pipeline(Model):
    """Registers inside the operators; all work in single precision."""

    adder: int = registers(3, 1, 8, "Of an adder.")
    multiplier: int = registers(2, 1, 8, "Of a multiplier.")
    function: int = registers(3, 1, 8, "Of a function.")
    convert: int = registers(
        0, 0, 2,
        "Of the conversion of inputs, beside the one behind it, and of that to integers which are"
        " the format of an operation's own.",
    )  # fmt: skip


class VectorConfig(FamilyConfig):
    """Row operations between AXI4-Stream ports."""

    family: Literal["vector"] = Field("vector", description="Family of the accelerator.")
    input: Element = Field(floating("bf16"), description="Format of x and of the second operand.")
    output: Result = Field(
        floating("bf16"),
        description=f"Format of the results; {either(BLOCK_ELEMENTS)} of `quantise_block` only.",
    )
    parameters: Parameter = Field(
        floating("bf16"), description="Format of gamma, beta, cosines, sines and scales of columns."
    )
    array: Array = Field(default_factory=Array, description="The lanes.")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        array, names, broken = self.array, self.array.operations, []
        if len(set(names)) != len(names):
            broken.append("array.operations: must name each operation once")
        if array.lanes & (array.lanes - 1):
            broken.append(f"array.lanes: must be a power of two, not {array.lanes}")
        for field in ("lanes", "longest_row"):
            if "rope" in names and getattr(array, field) < 2:
                broken.append(f"array.{field}: rope turns pairs, so it must be at least 2, not 1")
        for name in ("quantise", "hadamard_quantise"):
            if name in names and not self.output.is_integer:
                broken.append(
                    f"output: {name} gives integers, {either(QUANTISED)}, not {self.output}; change"
                    f" it, or remove {name} from array.operations"
                )
        broken += self._hadamard_errors()
        if str(self.input) != "fp32" or str(self.output) != "fp32":
            between = [name for name in names if DATAPATHS[name].generic]
            if between:
                broken.append(
                    f"array.operations: {between[0]} needs a unit whose input and output are fp32,"
                    f" not {self.input} and {self.output}; change them, or offer"
                    f" {DATAPATHS[between[0]].generic}"
                )
        in_blocks = str(self.output) in BLOCK_ELEMENTS
        if ("quantise_block" in names or in_blocks) and not (
            names == ["quantise_block"] and in_blocks
        ):
            broken.append(
                f"output: must be {either(BLOCK_ELEMENTS)} with array.operations:"
                f" [quantise_block], and only then, not {self.output} with [{', '.join(names)}]"
            )
        quantising = ("quantise", "hadamard_quantise", "quantise_block")
        wide = [name for name in (*quantising, "argmax") if name in names]
        width = self.output.lane_width
        if wide and array.lanes * width < 32:
            broken.append(
                f"array.lanes: a beat of results must have 32 bits for {wide[0]}, not"
                f" {array.lanes} x {width}; take {32 // width} lanes"
            )
        if "gated" not in names and "gate" in array.model_fields_set:
            broken.append("array.gate: is for gated, which array.operations does not name")
        if "gated" in names and array.gate == "silu" and array.function_bits > _SILU_BITS:
            broken.append(
                f"array.function_bits: silu of fp32 is exact to {_SILU_BITS} bits at most, not"
                f" {array.function_bits}; its large values alone are rounded by more"
            )
        if "softmax" not in names and array.softmax != "two_pass":
            broken.append("array.softmax: is for softmax, which array.operations does not name")
        if "argmax" in names and array.longest_row > 1 << 23:
            broken.append("array.longest_row: positions of argmax have 23 bits")
        broken += self._stored_errors()
        check_rules(broken)
        return self

    def _stored_errors(self) -> list[str]:
        """Return the errors of rows that are stored."""
        array, broken = self.array, []
        if array.stored_row is None:
            return []
        storing = [name for name, path in self.datapaths.items() if path.stores]
        if array.stored_row > array.longest_row:
            broken.append(
                f"array.stored_row: must be at most array.longest_row, {array.longest_row}, not"
                f" {array.stored_row}"
            )
        elif storing and not array.stored_row:
            broken.append(
                f"array.stored_row: must be 1 or more with {storing[0]}, which needs a whole row"
                " before its first result"
            )
        elif array.stored_row and not storing:
            broken.append(
                f"array.stored_row: must be 0 or left out with [{', '.join(array.operations)}]: no"
                " rows are stored"
            )
        return broken

    def _hadamard_errors(self) -> list[str]:
        """Return the errors of Hadamard transforms of blocks."""
        array, name = self.array, "hadamard_quantise"
        if name not in array.operations:
            if "hadamard" not in array.model_fields_set:
                return []
            return [f"array.hadamard: is for {name}, which array.operations does not name"]
        broken = []
        if array.hadamard & (array.hadamard - 1) or array.hadamard > array.lanes:
            broken.append(
                f"array.hadamard: must be a power of two and at most array.lanes, {array.lanes},"
                f" not {array.hadamard}"
            )
        for field in ("longest_row", "stored_row"):
            longest = getattr(array, field)
            if longest is not None and array.hadamard > longest:
                broken.append(
                    f"array.{field}: must hold a block of {array.hadamard}, not {longest}"
                )
        if str(self.input) != "fp32":
            broken.append(
                f"input: {name} takes fp32, not {self.input}; change it, or remove {name} from"
                " array.operations"
            )
        return broken

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that means something, as plain JSON values."""
        values = super().resolved()
        if "gated" not in self.array.operations:
            del values["array"]["gate"]
        if not self.online:  # digests stay what they were before there was a choice
            del values["array"]["softmax"]
        if not self.hadamard_size:
            del values["array"]["hadamard"]
        if self.array.stored_row in (None, self.array.longest_row):
            del values["array"]["stored_row"]
        if not self.pipeline.convert:
            del values["pipeline"]["convert"]
        return values

    # -- datapaths -------------------------------------------------------------------------------

    @cached_property
    def datapaths(self) -> dict[str, Datapath]:
        """The datapaths of the offered operations by name, in the order of their codes."""
        names: set[str] = set(self.array.operations)
        if "quantise" in names:
            names.add("quantise_tensor")
        offered = (
            {**DATAPATHS, "softmax": ONLINE_SOFTMAX}
            if self.array.softmax == "online"
            else DATAPATHS
        )
        return {name: path for name, path in offered.items() if name in names}

    @property
    def online(self) -> bool:
        """Whether `softmax` is offered, in one pass."""
        return self.any_path(lambda path: path.value == "power")

    @cached_property
    def powers(self) -> Powers:
        """Conversion of exponentials to powers of two in one pass."""
        return powers_of(self.input, self.array.function_bits)

    @property
    def real(self) -> FloatFormat:
        """Format of what is computed between input and output."""
        return floating("fp32")

    def any_path(self, test: Callable[[Datapath], bool]) -> bool:
        """Return whether the datapath of any operation passes a test."""
        return any(test(path) for path in self.datapaths.values())

    @cached_property
    def hadamard_size(self) -> int:
        """Elements of a block of a Hadamard transform, 0 without one."""
        return self.array.hadamard if self.any_path(lambda path: path.hadamard) else 0

    def input_of(self, path: Datapath) -> Any:
        """Return the format of the elements that an operation takes."""
        return number_format(path.input) if path.input else self.input

    def output_of(self, path: Datapath) -> Any:
        """Return the format of an operation's results."""
        return number_format(path.output) if path.output else self.output

    @cached_property
    def other_inputs(self) -> tuple[IntegerFormat, ...]:
        """The formats that elements of some operations have, beside `input`."""
        return self._formats_except(self.input, self.input_of)

    @cached_property
    def other_outputs(self) -> tuple[IntegerFormat, ...]:
        """The formats that results of some operations have, beside `output`."""
        return self._formats_except(self.output, self.output_of)

    def _formats_except(
        self, usual: Any, of: Callable[[Datapath], Any]
    ) -> tuple[IntegerFormat, ...]:
        there = {str(fmt): fmt for fmt in map(of, self.datapaths.values()) if fmt != usual}
        return tuple(there[name] for name in sorted(there))

    def port_of(self, path: Datapath, name: str) -> StreamPort:
        """Return a port as an operation uses it: with elements in formats of its own."""
        port = next(port for port in self.ports if port.name == name)
        fmt = {"x": self.input_of(path), "out": self.output_of(path)}.get(name, port.format)
        if fmt == port.format:
            return port
        lanes = port.lanes * port.lane_width // fmt.lane_width
        return replace(port, format=fmt, lanes=lanes, lane_width=fmt.lane_width)

    @cached_property
    def has_first(self) -> bool:
        """Whether there is a first stage."""
        return self.any_path(lambda path: bool(path.first))

    @cached_property
    def has_second(self) -> bool:
        """Whether there are values that wait for what is computed of their row."""
        return self.any_path(lambda path: bool(path.second))

    @cached_property
    def has_p(self) -> bool:
        """Whether there is a port ``p``."""
        return self.any_path(lambda path: path.reads_p)

    @cached_property
    def has_r(self) -> bool:
        """Whether there is a port ``r``."""
        return self.any_path(lambda path: path.reads_r)

    @cached_property
    def has_y(self) -> bool:
        """Whether there is a port ``y``."""
        return self.any_path(lambda path: path.reads_y)

    @cached_property
    def p_lanes(self) -> int:
        """Numbers in a beat of port ``p``: gamma and beta of each lane, or one number."""
        both = self.any_path(lambda path: path.factor == path.term == "p")
        return self.array.lanes * (2 if both else 1)

    @cached_property
    def functions(self) -> dict[str, FunctionUnit]:
        """The function units by name, but for `relu2`, which is a multiplier."""
        error = 2.0**-self.array.function_bits
        result = {}
        wanted = {
            "exp": self.any_path(lambda path: path.value == "exp"),
            "reciprocal": self.any_path(lambda path: path.scale == "reciprocal"),
            "rsqrt": self.any_path(lambda path: path.scale == "rsqrt"),
        }
        for name in (name for name, used in wanted.items() if used):
            result[name] = unit_within(name, self.real, self.real, relative=error)
        if self.online:
            result["exp2"] = self.powers.unit
        if "gated" in self.array.operations and self.array.gate != "relu2":
            gate = self.array.gate
            result[gate] = unit_within(gate, self.real, self.real, absolute=error)
        return result

    @property
    def proven(self) -> dict[str, Any]:
        """The function units with the bounds of their errors, for the manifest."""
        result = {name: unit.document() for name, unit in self.functions.items()}
        if self.online:
            bound = online_bound(
                self.stored_row,
                self.array.lanes,
                self.partial_sums,
                self.powers,
                self.functions["reciprocal"],
            )
            result["softmax"] = {"bound": bound.document()}
        return result

    # -- figures that hardware, golden model and cycles share ---------------------------------

    @property
    def lane_bits(self) -> int:
        """Bits of a lane's number."""
        return (self.array.lanes - 1).bit_length()

    @property
    def partial_sums(self) -> int:
        """Sums that a row's beats are added to in turn, so that no addition waits for another."""
        return self.pipeline.adder + 1

    @property
    def stored_row(self) -> int:
        """Longest row of operations that store rows, in elements; 0 without any."""
        array = self.array
        return array.longest_row if array.stored_row is None else array.stored_row

    @property
    def streams_rows(self) -> bool:
        """Whether rows that need not be stored may be longer than those that are."""
        return self.stored_row < self.array.longest_row

    def row_limit(self, path: Datapath) -> tuple[str, int]:
        """Return the parameter that limits rows of an operation, and their elements."""
        if path.stores and self.streams_rows:
            return "stored_row", self.stored_row
        return "longest_row", self.array.longest_row

    @property
    def stored_beats(self) -> int:
        """Beats of the longest row that is stored, with the one that may follow it."""
        tail = self.any_path(lambda path: path.tail)
        return -(-self.stored_row // self.array.lanes) + tail

    @property
    def sum_latency(self) -> int:
        """Cycles from the last beat of a row to its sum."""
        levels = self.lane_bits + 1 + (self.partial_sums - 1).bit_length()
        return levels * self.pipeline.adder + 1

    @property
    def max_latency(self) -> int:
        """Cycles from the last beat of a row to its largest element."""
        return self.lane_bits + 1

    @property
    def hadamard_latency(self) -> int:
        """Cycles of the Hadamard transform, which all beats pass."""
        return max(0, self.hadamard_size.bit_length() - 1) * self.pipeline.adder

    def first_latency(self, path: Datapath) -> int:
        """Cycles from a row's last beat to ``a``; one more for the register of the conversion."""
        if not path.first:
            return 0
        if path.first == "sum":
            mean = path.mean * self.pipeline.multiplier
            return 1 + self.pipeline.convert + self.sum_latency + mean
        return 1 + self.pipeline.convert + self.max_latency

    def centred_latency(self, path: Datapath) -> int:
        """Cycles from a beat to its elements, centred or not."""
        return 1 + self.pipeline.convert + path.centred * self.pipeline.adder

    def value_latency(self, path: Datapath) -> int:
        """Cycles from a beat to ``v``."""
        gate = self.pipeline.multiplier if self.array.gate == "relu2" else self.pipeline.function
        extra = {
            "x": 0, "exp": self.pipeline.function, "power": self.weight_latency, "gate": gate,
        }[path.value]  # fmt: skip
        return self.centred_latency(path) + extra

    @property
    def weight_latency(self) -> int:
        """Cycles from elements to their powers of two over the running maximum.

        A power's table does not wait for the maximum.
        """
        later = max(self.pipeline.function, self.max_latency)
        return self.pipeline.multiplier + later + 1

    def reduced_latency(self, path: Datapath) -> int:
        """Cycles from a row's last beat to ``b``."""
        if path.direct:
            return self.value_latency(path)
        square = self.pipeline.multiplier if path.second == "squares" else 0
        return self.value_latency(path) + square + self.sum_latency

    def scale_latency(self, path: Datapath) -> int:
        """Cycles from ``b`` to ``s``."""
        result = self.pipeline.multiplier + path.epsilon * self.pipeline.adder
        return result + (self.pipeline.function if path.evaluated else 0)

    @property
    def apply_latency(self) -> int:
        """Cycles from a beat of ``v`` to its results."""
        has_factor = self.any_path(lambda path: bool(path.factor))
        has_term = self.any_path(lambda path: bool(path.term))
        multiplications = 1 + has_factor
        result = multiplications * self.pipeline.multiplier + has_term * self.pipeline.adder + 1
        if self.other_outputs:  # conversion, and a register in front of what joins results
            result += self.pipeline.convert + 1
        return result

    @cached_property
    def first_depth(self) -> int:
        """Beats that wait for ``a``: a row, and what arrives while its reduction ends."""
        late = max(self.first_latency(path) for path in self.datapaths.values())
        return self.stored_beats + late + 4

    @cached_property
    def second_depth(self) -> int:
        """Beats that wait for ``s``."""
        late = max(
            self.reduced_latency(path) + self.scale_latency(path) - self.value_latency(path)
            for path in self.datapaths.values()
            if path.second
        )
        return self.stored_beats + late + 4

    # -- the contract ----------------------------------------------------------------------------

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The row operations."""
        return tuple(self._operation(name, path) for name, path in self.datapaths.items())

    def _operation(self, name: str, path: Datapath) -> Operation:
        matrix, output = ("rows", "length"), self.output_of(path)
        whole = float(output.max)
        operands = [Tensor("x", "x", matrix, self.input_of(path))]
        if path.reads_y:
            operands.append(Tensor("y", "y", matrix, self.input))
        if path.factor == "p":
            text = "scales" if path.second in ("", "row") else "gamma"
            operands.append(Tensor(text, "p", ("length",), self.parameters))
        if path.term == "p":
            operands.append(Tensor("beta", "p", ("length",), self.parameters))
        if path.factor == "rotate":
            operands.append(Tensor("turns", "p", matrix, self.parameters))
        if path.reads_r:
            operands.append(Tensor("row_scales", "r", ("rows",), self.real))
        results = [Tensor("result", "out", matrix, output, "scales" if path.tail else "")]
        if path.tail:
            scale = EXPONENT if path.exponent else self.real
            results.append(Tensor("scales", "out", ("rows",), scale))
        if path.last_only:
            results = [Tensor("positions", "out", ("rows",), IntegerFormat(32, True))]
        scalars = []
        if path.epsilon:
            scalars.append(Scalar("epsilon", "Added to the mean of squares.", 1e-5, 0.0, 1e30))
        elif name == "softmax":
            unit = whole if output.is_integer else 1.0
            scalars.append(Scalar("scale", "Multiplies the result.", unit, 1e-30, 1e30))
        elif path.second in ("", "row") and name != "rope":
            scalars.append(Scalar("scale", "Multiplies x.", 1.0, -1e30, 1e30))
        block = self.hadamard_size if path.hadamard else 2 if name == "rope" else 1
        if output.lane_width < _BYTE:  # rows in memory are whole bytes
            block = _BYTE // output.lane_width
        _, longest = self.row_limit(path)
        usual = min(3 * self.array.lanes, longest // block * block)
        sizes = [
            Size("rows", MOST_ROWS, 3),
            Size("length", longest, usual, block),
        ]
        per_element = self._work(path)
        return Operation(
            name,
            path.summary,
            tuple(operands),
            tuple(results),
            tuple(sizes),
            lambda sizes: per_element * sizes["rows"] * sizes["length"],
            tuple(scalars),
            path.generic,
        )

    def _work(self, path: Datapath) -> int:
        """Return the arithmetic operations of an element."""
        squares = path.second == "squares"
        stages = self.hadamard_size.bit_length() - 1 if path.hadamard else 0
        return (
            stages + bool(path.first) + path.centred + (path.value != "x") + bool(path.second)
            + squares + (not path.last_only) + bool(path.factor) + bool(path.term)
            + (path.factor == "rotate")
        )  # fmt: skip

    @property
    def operations_per_cycle(self) -> float:
        """Arithmetic operations of a full cycle, of the operation with most of them."""
        return self.array.lanes * max(self._work(path) for path in self.datapaths.values())

    @property
    def latency(self) -> int:
        """Cycles from the last input beat of a row to its last result, of the slowest operation."""
        return max(self.job_latency(path) for path in self.datapaths.values())

    def job_latency(self, path: Datapath) -> int:
        """Cycles of a job beyond those of its beats."""
        result = self.hadamard_latency
        if self.has_first:
            result += self.first_latency(path) if path.first else 2
        if self.has_second:
            waiting = self.reduced_latency(path) + self.scale_latency(path)
            waiting += path.direct  # which is valid before the values are
            result += waiting if path.second else self.value_latency(path) + 2
        else:
            result += self.value_latency(path)
        return result + self.apply_latency

    @cached_property
    def ports(self) -> tuple[StreamPort, ...]:
        """The stream ports: the inputs by name, then the output."""
        x, out, lanes = self.input, self.output, self.array.lanes
        word = IntegerFormat(32, False)
        result = [
            StreamPort(
                "cmd",
                "in",
                word,
                COMMAND_WORDS,
                32,
                "a job: code, rows, length, c1, c2 (fp32)",
                per_job=True,
            ),
            StreamPort("x", "in", x, lanes, x.width, "x[row, i..i+lanes-1]"),
        ]
        if self.has_y:
            result.append(StreamPort("y", "in", x, lanes, x.width, "y[row, i..i+lanes-1]"))
        if self.has_p:
            p = self.parameters
            text = "gamma or scales of columns i..i+lanes-1, then beta of these, for every row"
            if self.any_path(lambda path: path.factor == "rotate"):
                text += "; of rope cosine and sine of pairs in turn"
            result.append(StreamPort("p", "in", p, self.p_lanes, p.width, text))
        if self.has_r:
            result.append(StreamPort("r", "in", self.real, 1, 32, "scale of a row, one for each"))
        text = "result[row, i..i+lanes-1]"
        if self.any_path(lambda path: path.tail):
            exponent = self.any_path(lambda path: path.exponent)
            text += (
                "; the biased exponent of the row's scale behind it (uint8)"
                if exponent
                else "; the scale of the row behind it (fp32)"
            )
        tail = 4 if self.any_path(lambda path: path.tail) else 0
        result.append(
            StreamPort(
                "out", "out", out, lanes, out.lane_width, text, "the end of a row", tail_bytes=tail
            )
        )
        return tuple(result)
