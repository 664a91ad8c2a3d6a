# SPDX-License-Identifier: Apache-2.0
"""Attention: softmax of scaled scores times values, in one pass over keys and values.

Rows of queries are held; keys and values go past them. Weights are powers of two relative to a
running maximum that is an integer, so that rescaling what was added up is a shift.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from hwgen.config.model import AUTO, FamilyConfig, IntegerOperand, check_rules
from hwgen.families import Family
from hwgen.families.attention_parameters import Array, Dots, Pipeline, Softmax
from hwgen.numerics import IntegerFormat, dot_format, integer
from hwgen.numerics.functions import FunctionUnit, Wanted, design
from hwgen.numerics.integer import enclosing_format
from hwgen.streams import StreamPort

if TYPE_CHECKING:
    from hwgen.operations import Operation

SCALE = IntegerFormat(16, signed=False)
"""Scales of keys and values, in units of 2**-16, and mantissas of those of queries."""

QUERY_SCALE = IntegerFormat(22, signed=False)
"""Scales of queries: a mantissa of 16 bits, above it by how many bits a score is shifted."""

SUM_GUARD = 8
"""Bits behind the point that sums of weights have beyond the weights that values take."""

COMMAND = ("queries", "keys", "group", "first", "last", "moves")
"""Words of a command."""

FIRST_MOVES, LAST_MOVES = 1, 2
"""Bits of the word `moves`."""

WIDEST = 63
"""Bits of the widest number between scores and results."""

OUTPUT_GUARD = 4
"""Bits of a quotient beyond those of a result."""

_QUEUE = 2


@cache
def _unit(function: str, source: str, target: str) -> FunctionUnit:
    return design(function, source, target, Wanted(ulp=1))


class AttentionConfig(FamilyConfig):
    """Attention behind AXI4-Stream ports."""

    family: Literal["attention"] = Field("attention", description="Family of the accelerator.")
    query: IntegerOperand = Field(integer("int8"), description="Format of Q.")
    key: IntegerOperand = Field(integer("int8"), description="Format of K.")
    value: IntegerOperand = Field(integer("int8"), description="Format of V.")
    output: IntegerOperand = Field(
        integer("int16"),
        description="Format of the results: averages of V with as many more bits behind the point"
        " as it is wider than V.",
    )
    scales: Literal["token", "none"] = Field(
        "token",
        description="Scales of keys and of values: one for each token, or none beside those of the"
        " queries.",
    )
    head: int = Field(
        64,
        ge=1,
        le=256,
        description="Size of a head; smaller ones are filled up with zeros.",
        json_schema_extra={"unit": "elements"},
    )
    max_keys: int = Field(
        8192,
        ge=1,
        le=1 << 20,
        description="Most keys that a row of queries looks at.",
        json_schema_extra={"unit": "keys"},
    )
    array: Array = Field(default_factory=Array, description="The arrays of multipliers.")
    softmax: Softmax = Field(default_factory=Softmax, description="Formats within the softmax.")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        return check_rules(self, self._broken())

    def _broken(self) -> list[str]:
        broken = []
        rows, lanes, units = self.array.rows, self.array.lanes, self.array.units
        if units != AUTO and (units > rows or rows % units):
            broken.append(
                f"array.units: must divide the {rows} rows, not {units}; use auto, or one of"
                f" {', '.join(str(n) for n in range(1, rows + 1) if not rows % n)}"
            )
        elif units != AUTO and rows // units > self.steps:
            broken.append(
                f"array.units: must be at least {self._fewest_units}, not {units}: a unit takes"
                f" {rows // units} rows one after the other, but a key of {self.head} elements is"
                f" there after {self.steps} cycles"
            )
        if lanes == 1 and self.pipeline.dot == 2:
            broken.append(
                "pipeline.dot: must be 0 or 1 with one lane, not 2: the second register stands"
                " among several products"
            )
        if self.score.width + SCALE.width * (1 + self.scaled_keys) > WIDEST:
            broken.append(
                f"query: {self.query} x {self.key} with {self.head} elements gives scores of"
                f" {self.score.width} bits, which have more than {WIDEST} once they are scaled;"
                " use narrower operands"
            )
        if self.total.width > WIDEST:
            broken.append(
                f"max_keys: sums of {self.max_keys} weights of {self.softmax.weight_bits} bits"
                f" times {self.value} have {self.total.width} bits, more than {WIDEST}"
            )
        if self.output.signed < self.value.signed:
            broken.append(f"output: must be signed as V is, {self.value}, not {self.output}")
        elif not 0 <= self.fraction <= self.softmax.weight_bits:
            broken.append(
                f"output: must hold V, {self.value}, and have up to"
                f" {self.softmax.weight_bits} bits behind the point (softmax.weight_bits), not"
                f" {self.output}"
            )
        return broken

    # -- geometry --------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Beats of a query, a key or a value."""
        return -(-self.head // self.array.lanes)

    @property
    def _fewest_units(self) -> int:
        rows = self.array.rows
        return next(n for n in range(1, rows + 1) if not rows % n and rows // n <= self.steps)

    @property
    def units(self) -> int:
        """Softmax units."""
        return self._fewest_units if self.array.units == AUTO else int(self.array.units)

    @property
    def phases(self) -> int:
        """Rows that a softmax unit takes one after the other."""
        return self.array.rows // self.units

    @property
    def scaled_keys(self) -> bool:
        """Whether keys and values have scales."""
        return self.scales == "token"

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of a full cycle, of both arrays."""
        return 2 * self.array.rows * self.array.lanes

    # -- formats ---------------------------------------------------------------------------

    @property
    def key_bits(self) -> int:
        """Bits by which sums of all keys are wider than a weight."""
        return max(1, (self.max_keys - 1).bit_length())

    @property
    def score(self) -> IntegerFormat:
        """Format of a score, the exact product of a query and a key."""
        return dot_format(self.query, self.key, self.head)

    @property
    def scaled(self) -> IntegerFormat:
        """Format of a scaled score, in units of ``2**-softmax.fraction_bits``."""
        return IntegerFormat(
            1 + self.softmax.integer_bits + self.softmax.fraction_bits, signed=True
        )

    @property
    def level(self) -> IntegerFormat:
        """Format of the running maximum, a power of two above all scaled scores."""
        return IntegerFormat(self.softmax.integer_bits + 2, signed=True)

    @property
    def sum_fraction(self) -> int:
        """Bits behind the point of a sum of weights."""
        return self.softmax.weight_bits + SUM_GUARD

    @property
    def sum_bits(self) -> int:
        """Bits of a sum of weights."""
        return self.sum_fraction + self.key_bits

    @property
    def weight_width(self) -> int:
        """Bits of a weight that values are multiplied by; only without scales it may be 1."""
        return self.softmax.weight_bits + (not self.scaled_keys)

    @property
    def total(self) -> IntegerFormat:
        """Format of the sums of weighted values."""
        most = self.max_keys << self.softmax.weight_bits
        return enclosing_format(most * self.value.min, most * self.value.max)

    @property
    def clears(self) -> int:
        """Shift from which on nothing is left of sums."""
        return max(self.total.width, self.sum_bits)

    @property
    def fraction(self) -> int:
        """Bits of a result behind the point, relative to V."""
        return self.output.width - self.value.width - (self.output.signed - self.value.signed)

    @property
    def quotient_fraction(self) -> int:
        """Bits behind the point of what is multiplied by the reciprocal of a sum."""
        return min(self.fraction + OUTPUT_GUARD, self.softmax.weight_bits + self.key_bits - 1)

    @property
    def reciprocal_bits(self) -> int:
        """Bits behind the point of the reciprocal and of its argument."""
        return max(8, self.output.width + 1)

    @cached_property
    def powers(self) -> FunctionUnit:
        """The unit of powers of two, of what is behind the point of a scaled score."""
        softmax = self.softmax
        return _unit("exp2", f"uq0.{softmax.fraction_bits}", f"uq1.{softmax.weight_bits}")

    @cached_property
    def reciprocals(self) -> FunctionUnit:
        """The unit of reciprocals of normalised sums."""
        name = f"uq1.{self.reciprocal_bits}"
        return _unit("reciprocal", name, name)

    @cached_property
    def dots(self) -> Dots:
        """The products of a row of queries and keys, as an array of its own."""
        return Dots.model_validate(
            {
                "name": self.name,
                "family": self.family,
                "activation": self.query.name,
                "weight": self.key.name,
                "max_k": max(self.head, self.array.lanes),
                "array": {"depth": self.array.lanes},
                "pipeline": {"pe": self.pipeline.dot},
            }
        )

    @property
    def bound_bits(self) -> int:
        """Bits of the first key of a row's range, and of the one behind the last, signed."""
        return (self.max_keys + self.array.rows).bit_length() + 1

    # -- timing ----------------------------------------------------------------------------

    @property
    def score_latency(self) -> int:
        """Cycles from a key's last beat to the first rows in the softmax units."""
        return 3 + self.pipeline.dot

    @property
    def unit_latency(self) -> int:
        """Cycles from a score to its weight."""
        return 3 + self.scaled_keys + self.pipeline.exponential + self.scaled_keys

    @property
    def weight_latency(self) -> int:
        """Cycles from a key's last beat to the first cycle in which its value may be taken."""
        return self.score_latency + self.phases - 1 + self.unit_latency + 1

    @property
    def weights_ahead(self) -> int:
        """Keys whose weights wait, or are on their way."""
        return -(-(self.weight_latency + self.steps) // self.steps)

    @property
    def divide_latency(self) -> int:
        """Cycles from a row's sums to its results in the queue of results."""
        return 6 + self.pipeline.reciprocal

    @property
    def results_ahead(self) -> int:
        """Beats of results that wait, or are on their way."""
        return self.divide_latency + _QUEUE

    @property
    def latency(self) -> int:
        """Cycles from a job's last key beat to its first result beat, if values do not wait."""
        return 1 + self.weight_latency + self.steps + self.divide_latency + 2

    # -- operations ------------------------------------------------------------------------

    @property
    def operations_per_cycle(self) -> float:
        """Arithmetic operations of a full cycle: those of the two products."""
        return 2 * self.macs_per_cycle

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """What it computes: `attention`."""
        from hwgen.operations import Operation, Scalar, Size, Tensor

        keys = ("kv_heads", "keys", "elements")
        queries = ("kv_heads", "group", "queries", "elements")
        operands = [
            Tensor("query", "query", queries, self.query, "query_scale"),
            Tensor("query_scale", "query_scale", queries[:-1], QUERY_SCALE),
            Tensor("key", "key", keys, self.key, "key_scale" if self.scaled_keys else ""),
            Tensor("value", "value", keys, self.value, "value_scale" if self.scaled_keys else ""),
        ]
        if self.scaled_keys:
            operands += [
                Tensor(f"{name}_scale", f"{name}_scale", keys[:-1], SCALE)
                for name in ("key", "value")
            ]
        rows = self.array.rows
        reach = self.max_keys
        return (
            Operation(
                "attention",
                "output = softmax(query key^T scale) value, heads in groups that share keys",
                tuple(operands),
                (Tensor("output", "out", queries, self.output),),
                (
                    Size("kv_heads"),
                    Size("group", natural=min(rows, 2)),
                    Size("queries", natural=-(-rows // min(rows, 2))),
                    Size("elements", self.head, natural=self.head),
                    Size("keys", reach, natural=min(reach, 8)),
                ),
                lambda sizes: (
                    4 * sizes["kv_heads"] * sizes["group"] * sizes["queries"]
                    * sizes["elements"] * sizes["keys"]
                ),
                (
                    Scalar("causal", "1: no key behind the position of a query", 0, 0, 1, True),
                    Scalar("offset", "position of the first query", 0, -reach, reach, True),
                    Scalar("window", "only so many keys up to the position; 0: all",
                           0, 0, reach, True),
                ),
            ),
        )  # fmt: skip

    @cached_property
    def proven(self) -> dict[str, Any]:
        """What is proven of weights and results, for rows of 512 keys and of as many as there are.

        None where nothing is.
        """
        from hwgen.families.attention_bound import bound_of

        found: dict[str, Any] = {
            "powers": self.powers.document(),
            "reciprocals": self.reciprocals.document(),
        }
        for keys in sorted({min(512, self.max_keys), self.max_keys}):
            try:
                found[f"keys_{keys}"] = bound_of(self, keys).document()
            except ValueError:
                found[f"keys_{keys}"] = None
        return found

    # -- ports -----------------------------------------------------------------------------

    @cached_property
    def ports(self) -> tuple[StreamPort, ...]:
        """The stream ports: inputs by name, then the output."""
        lanes = self.array.lanes
        word = IntegerFormat(32, signed=True)
        slices = f"elements c0..c0+{lanes - 1}"
        ports = [
            StreamPort(
                "command",
                "in",
                word,
                len(COMMAND),
                32,
                "a job: " + ", ".join(COMMAND),
                per_job=True,
            ),
            StreamPort("query", "in", self.query, lanes, self.query.width, f"Q[row, c], {slices}"),
            StreamPort(
                "query_scale",
                "in",
                QUERY_SCALE,
                1,
                QUERY_SCALE.lane_width,
                "scale of a row of queries: a mantissa, above it a shift",
            ),
            StreamPort("key", "in", self.key, lanes, self.key.width, f"K[key, c], {slices}"),
            StreamPort("value", "in", self.value, lanes, self.value.width, f"V[key, c], {slices}"),
        ]
        if self.scaled_keys:
            ports += [
                StreamPort("key_scale", "in", SCALE, 1, SCALE.width, "scale of a key"),
                StreamPort("value_scale", "in", SCALE, 1, SCALE.width, "scale of a value"),
            ]
        out = self.output
        width = max(8, 1 << (out.width - 1).bit_length())
        ports.append(
            StreamPort("out", "out", out, lanes, width, f"O[row, c], {slices}", "the end of a job")
        )
        return tuple(ports)


FAMILY = Family(
    name="attention",
    summary="softmax(Q K^T) V in one pass over K and V: integers, scales, masks, grouped heads",
    config=AttentionConfig,
    schedule="hwgen.schedules.attention",
    golden="hwgen.golden.attention",
    rtl="rtl_templates.attention",
    cost="cost_model.families.attention",
)
