# SPDX-License-Identifier: Apache-2.0
"""Parameters of attention, and the formats of the numbers between scores and results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from hwgen.arithmetic.functions import FunctionUnit, Wanted, design
from hwgen.core.params.base import (
    AUTO,
    FamilyConfig,
    Model,
    OperandFormat,
    StoredFormat,
    registers,
)
from hwgen.core.params.spatial import SpatialArray, SpatialConfig
from hwgen.formats import IntegerFormat, NumberFormat, dot_format, integer
from hwgen.formats.block.elements import E8M0_BIAS, MX_BLOCK
from hwgen.formats.integer import enclosing_format


def _units(value: Any) -> Any:
    if value == AUTO or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise PydanticCustomError("units", "must be auto or 1..64, not {value}", {"value": repr(value)})


Units = Annotated[
    Any,
    BeforeValidator(_units),
    PlainSerializer(lambda value: value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 64},
                {"type": "string", "const": AUTO},
            ]
        }
    ),
]


class Array(Model):
    """The two arrays of multipliers, of Q K^T and of the weights times V, and what is between."""

    rows: int = Field(
        16,
        ge=1,
        le=64,
        description="Rows of queries that are held while K and V go by.",
        json_schema_extra={"unit": "rows"},
    )
    lanes: int = Field(
        16,
        ge=1,
        le=128,
        description="Elements of a key and of a value that each row takes in a cycle.",
        json_schema_extra={"unit": "elements"},
    )
    units: Units = Field(
        AUTO,
        description="Softmax units, each for `rows / units` rows, which it takes one after the"
        " other; `auto`: as few as keep up with the keys.",
        json_schema_extra={"unit": "units"},
    )
    buffers: Literal["single", "double"] = Field(
        "single",
        description="Places for queries and for sums; `double`: the next queries come in, and"
        " results leave, while keys and values of another job go by.",
    )


class Softmax(Model):
    """Fixed-point formats between scores and weights."""

    weight_bits: int = Field(
        16,
        ge=8,
        le=22,
        description="Bits behind the point of a weight that V is multiplied by; the largest weight"
        " of a row is between 1/2 and 1.",
        json_schema_extra={"unit": "bits"},
    )
    fraction_bits: int = Field(
        12,
        ge=6,
        le=16,
        description="Bits behind the point of a scaled score, in powers of two.",
        json_schema_extra={"unit": "bits"},
    )
    integer_bits: int = Field(
        10,
        ge=4,
        le=16,
        description="Bits before the point of a scaled score, without its sign; scores beyond"
        " saturate.",
        json_schema_extra={"unit": "bits"},
    )


class Pipeline(Model):
    """Registers beyond those that are always there."""

    dot: int = registers(
        1,
        0,
        2,
        "Registers between operands and accumulator of a score: 1 in front of the"
        " accumulator; 2 also behind the multipliers.",
    )
    exponential: int = registers(2, 0, 4, "Registers of the unit of powers of two.")
    reciprocal: int = registers(2, 0, 5, "Registers of the unit of reciprocals.")


class DotArray(SpatialArray):
    """One processing element, which adds the products of a beat."""

    depth: int = Field(1, ge=1, le=128, description="Products that are added.")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""
        return 1, self.depth, 1


class Dots(SpatialConfig):
    """A row of queries times keys, on a processing element of the spatial families."""

    array: DotArray


SCALE = IntegerFormat(16, signed=False)
"""Scales of keys and values, in units of 2**-16, and mantissas of those of queries."""

QUERY_SCALE = IntegerFormat(22, signed=False)
"""Scales of queries: a mantissa of 16 bits, above it by how many bits a score is shifted."""

BLOCK = MX_BLOCK
"""Elements of a key or value that share a power of two, as in the MX formats."""

BLOCK_SCALE_BITS = 8
"""Bits of a block's power of two, E8M0: biased by 127."""

SUM_GUARD = 8
"""Bits behind the point that sums of weights have beyond the weights that values take."""

OUTPUT_GUARD = 4
"""Bits of a quotient beyond those of a result."""


@cache
def _unit(function: str, source: str, target: str) -> FunctionUnit:
    return design(function, source, target, Wanted(ulp=1))


class AttentionFormats(FamilyConfig):
    """Formats and sizes of attention, and properties that do not depend on timing."""

    family: Literal["attention"] = Field("attention", description="Family of the accelerator.")
    query: OperandFormat = Field(integer("int8"), description="Format of Q.")
    key: StoredFormat = Field(integer("int8"), description="Format of K.")
    value: StoredFormat = Field(
        integer("int8"),
        description="Format of V. Q, K, V and results are all integers or all floating point.",
    )
    output: OperandFormat = Field(
        integer("int16"),
        description="Format of the results: averages of V with as many more bits behind the point"
        " as it is wider than V; with floating point the nearest numbers of this format.",
    )
    scales: Literal["token", "block", "none"] = Field(
        "token",
        description="Scales of keys and of values: one for each token of integers; a power of two"
        f" for each {BLOCK} elements of floating point, as in MXFP8 and MXFP4; or none beside those"
        " of the queries.",
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
    alignment_bits: int = Field(
        10,
        ge=2,
        le=14,
        description="With floating point: bits behind the leading one of a row's largest"
        " element, to which queries, keys and values are aligned; all of these are kept.",
        json_schema_extra={"unit": "bits"},
    )
    array: Array = Field(default_factory=Array, description="The arrays of multipliers.")
    softmax: Softmax = Field(default_factory=Softmax, description="Formats within the softmax.")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    # -- geometry --------------------------------------------------------------------------

    @property
    def doubled(self) -> bool:
        """Whether queries come in and results leave while keys and values of another job go by."""
        return self.array.buffers == "double"

    @property
    def steps(self) -> int:
        """Beats of a query, a key or a value."""
        return -(-self.head // self.array.lanes)

    @property
    def fewest_units(self) -> int:
        """The fewest softmax units that keep up."""
        rows = self.array.rows
        return next(n for n in range(1, rows + 1) if not rows % n and rows // n <= self.steps)

    @property
    def units(self) -> int:
        """Softmax units."""
        return self.fewest_units if self.array.units == AUTO else int(self.array.units)

    @property
    def phases(self) -> int:
        """Rows that a softmax unit takes one after the other."""
        return self.array.rows // self.units

    @property
    def scaled_keys(self) -> bool:
        """Whether keys and values have scales of tokens."""
        return self.scales == "token"

    @property
    def blocks(self) -> int:
        """Blocks with a power of two in a key or value, 0 without."""
        return self.head // BLOCK if self.scales == "block" else 0

    @property
    def block_scales(self) -> IntegerFormat:
        """Format of the powers of two of a key or value, the first block's in the lowest bits."""
        return IntegerFormat(BLOCK_SCALE_BITS * self.blocks, signed=False)

    def exponent_bits(self, name: str) -> int:
        """Return the bits of the biased exponent of a vector of queries, keys or values."""
        bits = int(getattr(self, name).exponent_bits)
        return max(bits, BLOCK_SCALE_BITS) + 1 if self.blocks and name != "query" else bits

    def exponent_bias(self, name: str) -> int:
        """Return the bias of exponents of vectors of queries, keys or values."""
        bias = int(getattr(self, name).bias)
        return bias + E8M0_BIAS * (self.blocks > 0 and name != "query")

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of a full cycle, of both arrays."""
        return 2 * self.array.rows * self.array.lanes

    # -- formats ---------------------------------------------------------------------------

    @property
    def floating(self) -> bool:
        """Whether operands and results are floating point."""
        return bool(self.query.is_float)

    def inner(self, operand: NumberFormat) -> IntegerFormat:
        """Return the format in which the arrays take an operand's format."""
        if operand.is_float:
            return IntegerFormat(self.alignment_bits + 2, signed=True)
        return operand

    @property
    def align_shift(self) -> int:
        """Constant added to the shift of a query's scale; both biased exponents are subtracted."""
        return 2 * self.alignment_bits + self.exponent_bias("query") + self.exponent_bias("key")

    @property
    def row_shift(self) -> IntegerFormat:
        """Format of the shift of a row's scale, less the exponent of its queries."""
        low = self.align_shift - (1 << self.exponent_bits("query")) + 1
        return enclosing_format(min(low, -1), self.align_shift + 63)

    @property
    def row_scale_bits(self) -> int:
        """Bits of what is kept of a row's scale: of floats with a bit for those not finite."""
        if self.floating:
            return SCALE.width + self.row_shift.width + 1
        return QUERY_SCALE.width

    @property
    def value_level(self) -> IntegerFormat:
        """Format of the running maximum of weights times their values' powers of two."""
        top = (1 << self.softmax.integer_bits) + (1 << self.exponent_bits("value"))
        return enclosing_format(-(1 << self.softmax.integer_bits), top)

    @property
    def gap_bits(self) -> int:
        """Bits by which both running maxima differ."""
        return self.exponent_bits("value") if self.floating else 0

    @property
    def state_bits(self) -> int:
        """Bits of the state of a row without its sums of values."""
        return self.sum_bits + (self.gap_bits + 1 if self.floating else 0)

    @property
    def quotient(self) -> IntegerFormat:
        """Format of a sum of values times the reciprocal of that of weights, of floats."""
        return IntegerFormat(self.total.width + self.reciprocal_bits + 1, signed=True)

    @property
    def quotient_scale(self) -> int:
        """Power of two of a quotient's unit, without the exponents that it comes with."""
        return int(
            SUM_GUARD + 1 - self.exponent_bias("value") - self.alignment_bits - self.sum_bits
            - self.reciprocal_bits
        )  # fmt: skip

    @property
    def key_bits(self) -> int:
        """Bits by which sums of all keys are wider than a weight."""
        return max(1, (self.max_keys - 1).bit_length())

    @property
    def score(self) -> IntegerFormat:
        """Format of a score, the exact product of a query and a key."""
        return dot_format(self.inner(self.query), self.inner(self.key), self.head)

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
        """Bits of a weight that values are multiplied by.

        It may be 1, also times the largest scale, which is less: that product is rounded.
        """
        bits = self.softmax.weight_bits
        return bits + (not self.scaled_keys or bits < SCALE.width)

    @property
    def total(self) -> IntegerFormat:
        """Format of the sums of weighted values."""
        most = self.max_keys << self.softmax.weight_bits
        value = self.inner(self.value)
        return enclosing_format(most * value.min, most * value.max)

    @property
    def clears(self) -> int:
        """Shift from which on nothing is left of sums."""
        return max(self.total.width, self.sum_bits)

    @property
    def fraction(self) -> int:
        """Bits of a result behind the point, relative to V."""
        signs = self.output.signed - self.value.signed
        return int(self.output.width - self.value.width - signs)

    @property
    def quotient_fraction(self) -> int:
        """Bits behind the point of what is multiplied by the reciprocal of a sum."""
        return min(self.fraction + OUTPUT_GUARD, self.softmax.weight_bits + self.key_bits - 1)

    @property
    def reciprocal_bits(self) -> int:
        """Bits behind the point of the reciprocal and of its argument."""
        precision = self.output.precision + 3 if self.floating else self.output.width + 1
        return int(max(8, precision))

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
                "activation": self.inner(self.query).name,
                "weight": self.inner(self.key).name,
                "max_k": max(self.head, self.array.lanes),
                "array": {"depth": self.array.lanes},
                "pipeline": {"pe": self.pipeline.dot},
            }
        )

    @property
    def bound_bits(self) -> int:
        """Bits of the first key of a row's range, and of the one behind the last, signed."""
        return (self.max_keys + self.array.rows).bit_length() + 1


_UP = 1 + 2.0**-40  # for what is rounded in double precision here


@dataclass(frozen=True)
class AttentionBound:
    """Proven error bounds for rows of up to `keys` keys, of which no scaled score saturates.

    Parameters
    ----------
    keys : int
    relative, absolute : float
        No weight of the softmax is off by more than `relative` times itself plus `absolute`.
    output : float
        No result is off by more, in units of V; the largest magnitude of V counts in it. In
        floating point the unit is the largest magnitude of the values that the row looks at.
    alignment : float
        No score, before its scale, is off by more times the elements of a head and the largest
        magnitudes of query and key; zero of integers.
    """

    keys: int
    relative: float
    absolute: float
    output: float
    alignment: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as plain values, for a manifest."""
        return {
            "keys": self.keys,
            "weight_relative": self.relative,
            "weight_absolute": self.absolute,
            "output_absolute": self.output,
            **({"score_alignment": self.alignment} if self.alignment else {}),
        }


def bound_of(config: AttentionFormats, keys: int | None = None) -> AttentionBound:
    """Return the bound for rows of up to so many keys, by default ``config.max_keys``.

    Raises
    ------
    ValueError
        If so many weights are cut off that nothing can be said.
    """
    keys = config.max_keys if keys is None else keys
    softmax = config.softmax
    table = config.powers.bound.max_relative
    assert table is not None, "powers from 1 to 2 have a relative error"
    power = 2.0 ** (2.0**-softmax.fraction_bits / 2)
    unit = 2.0**-softmax.weight_bits
    high = (1 + table) * power
    cut = 2 * power * (keys + 2) * unit * 2.0**-SUM_GUARD
    low = (1 - table) / power - cut
    if low <= 0:
        raise ValueError(
            f"{keys} weights may be cut off by as much as they are; take more softmax.weight_bits"
        )
    rounded = (1.0 if config.scaled_keys else 0.5) + 2.0**-SUM_GUARD
    relative = high / low - 1
    absolute = 2 * power * rounded * unit / low
    if config.floating:
        return _floating(config, AttentionBound(keys, relative, absolute, 4 * power * unit / low))
    largest = max(-config.value.min, config.value.max)
    # The sum of values in its own units: cut off by less than 2, relative to a sum of 1/(2 E).
    values = largest * (relative + keys * absolute) + 4 * power * unit / low
    return AttentionBound(
        keys, relative * _UP, absolute * _UP, (values + _division(config, values)) * _UP
    )


def _floating(config: AttentionFormats, bound: AttentionBound) -> AttentionBound:
    """Return the bound of floats from that of weights; `output` is what sums of values lose."""
    u = 2.0 ** -(config.alignment_bits + 1)
    # Integers of values are less than twice the power of two of their vector, which is at most the
    # largest magnitude, and are rounded once.
    values = bound.relative + 2 * bound.keys * bound.absolute + 2 * u * bound.output + u
    reciprocal = config.reciprocals.bound.max_abs
    assert reciprocal is not None, "reciprocals from 1/2 to 1 have an absolute error"
    share = 2 * reciprocal + 2.0**-config.reciprocal_bits
    share += (1 + share) * 2.0**-config.output.precision
    output = values + (1 + values) * share
    return AttentionBound(
        bound.keys, bound.relative * _UP, bound.absolute * _UP, output * _UP, 2 * u + u * u
    )


def _division(config: AttentionFormats, values: float) -> float:
    """Return the error that the division adds, in units of V.

    The argument of the reciprocal is cut off, and so is the shifted sum; their product is rounded.
    """
    largest = max(-config.value.min, config.value.max) + values
    reciprocal = config.reciprocals.bound.max_abs
    assert reciprocal is not None, "reciprocals from 1/2 to 1 have an absolute error"
    share = 2 * reciprocal + 2.0**-config.reciprocal_bits
    cut = 2.0**-config.quotient_fraction
    return float(largest * share + cut + 2.0 ** -(config.fraction + 1))
