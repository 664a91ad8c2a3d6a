# SPDX-License-Identifier: Apache-2.0
"""Ternary-LUT cores: configuration and the figures derived from it.

Weights are met as *digits*: ternary weights as they are, integers of b bits as b bit planes of
-1 and 1 (`hwgen.formats.bit_planes`), one after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from hwgen.core.loop_nest import LoopNest
from hwgen.core.params.base import LowBitOperand, Model, OperandFormat, registers
from hwgen.core.params.module_limits import DATA_BITS, input_bits
from hwgen.core.params.product import ProductConfig
from hwgen.core.port import StreamPort
from hwgen.families.ternary_lut import alignment as ternary_lut_alignment
from hwgen.families.ternary_lut import choice as ternary_lut_choice
from hwgen.formats import (
    BINARY,
    TERNARY,
    FloatFormat,
    IntegerFormat,
    bit_planes,
    dot_format,
    enclosing_format,
    integer,
    ternary,
)


class Array(Model):
    """Tables and fetch ports."""

    method: Literal["lut", "select", "multiply"] = Field(
        "lut",
        description="How a weight meets its activation: `lut` fetches sums of groups from tables;"
        " `select` adds, subtracts or skips each activation; `multiply` widens the weights and"
        " multiplies. The last two are baselines.",
    )
    group_size: int = Field(
        2,
        ge=1,
        le=7,
        description="Weights that one key stands for; a table has (3^group_size - 1) / 2 entries"
        " for ternary weights, 2^(group_size - 1) for others.",
        json_schema_extra={"unit": "weights"},
    )
    tables: int = Field(
        16,
        ge=1,
        le=128,
        description="Tables that are built and read in a cycle, each over group_size terms.",
        json_schema_extra={"unit": "tables"},
    )
    fetch_ports: int = Field(
        32,
        ge=1,
        le=256,
        description="Columns of C that are served in a cycle, each by one read of every table.",
        json_schema_extra={"unit": "columns"},
    )
    clusters: int = Field(
        1,
        ge=1,
        le=64,
        description="Smaller cores that the core is built from, each with tables of its own and"
        " fetch_ports / clusters columns, to compare many small cores with a large one.",
        json_schema_extra={"unit": "clusters"},
    )
    fetch: Literal["auto", "binary", "one_hot"] = Field(
        "auto",
        description="How a table is read: by a `binary` tree of multiplexers, the best for FPGAs,"
        " or by `one_hot` select lines and and-or gates; `auto` takes what was measured to be the"
        " smallest in the target technology.",
    )
    reduction: Literal["auto", "adders", "compressors"] = Field(
        "auto",
        description="How a column is summed: by a tree of carry-propagate `adders`, the best for"
        " FPGAs, which have fast carry chains, or by `compressors` of full adders bit by bit, the"
        " total included; `auto` takes what was measured to be the smallest in the target"
        " technology.",
    )
    alignment: Literal["auto", "none", "beat", "exact"] = Field(
        "auto",
        description="With a floating-point activation: `none` adds floating-point numbers, each"
        " sum rounded; `beat` aligns the activations of a beat to their largest exponent and adds"
        " integers, whose sum is rounded once; `exact` makes them multiples of the format's"
        " smallest number, which loses nothing. `auto` is `beat`, and `none` with integers or the"
        " method `multiply`.",
    )
    fraction_bits: Literal["auto"] | Annotated[int, Field(ge=1, le=40)] = Field(
        "auto",
        description="Places that aligned activations have below the leading one of the largest;"
        " `auto` takes the fewest whose error bound is no larger than that of rounded additions.",
        json_schema_extra={"unit": "bits"},
    )
    accumulator_depth: int = Field(
        64,
        ge=1,
        le=65536,
        description="Groups of fetch_ports columns that share the tables of a row of A.",
        json_schema_extra={"unit": "groups"},
    )


class Pipeline(Model):
    """Registers along the datapath."""

    table: int = registers(
        1,
        1,
        4,
        "Registers of the table build, the one that holds the tables included.",
    )
    reduce: int = registers(
        0,
        0,
        4,
        "Registers between the tables and the sum of a column: the first after the fetch, the"
        " others in the adder tree; with a floating-point activation registers in every adder of"
        " the tree; with one that is aligned behind the conversion of a beat's sum, the sum, the"
        " fetch, and in the conversion.",
    )
    accumulate: int = registers(
        0,
        0,
        4,
        "Registers in the adder that accumulates, with a floating-point activation. A pass over"
        " fewer groups of columns waits until its totals are there again.",
    )


class TernaryLutConfig(ProductConfig):
    """Low-bit weights by tables of the sums of groups of activations."""

    no_residues: ClassVar[str] = "sums are read from tables, not made of products of operands"

    family: Literal["ternary_lut"] = Field("ternary_lut", description="Family of the accelerator.")
    activation: OperandFormat = Field(integer("int8"), description="Format of A.")
    weight: LowBitOperand = Field(
        TERNARY,
        description="Format of W: `ternary` is -1, 0 and 1, `int1` is -1 and 1; `int2` to `int4`"
        " take as many cycles as they have bits. With a floating-point activation `ternary`.",
    )
    array: Array = Field(default_factory=Array, description="Tables and fetch ports.")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    @model_validator(mode="wrap")
    @classmethod
    def _choose(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Choose the structure."""
        params = validate(data)._with_structure()
        if not params.is_float:  # hardware for integers has no such register
            params._automatic = tuple(f for f in params._automatic if f != "accumulate")
        return params

    def _with_structure(self) -> Self:
        """Return the parameters with the structure chosen where it is ``auto``."""
        array, technology = self.array, self.target.technology
        structure = ternary_lut_choice.choose_structure(
            array, technology, is_float=self.is_float, aligned=self.aligned
        )
        update = structure | ternary_lut_alignment.chosen_alignment(
            array, self.activation, self.result, aligned=self.aligned
        )
        return self.model_copy(update={"array": array.model_copy(update=update)})

    def registers_on(self, roles: Collection[str]) -> tuple[str, ...]:
        """Return the field of `pipeline` whose registers divide a path through such parts."""
        if "column" not in roles:
            return ("table",) if "table" in roles else ()
        if not self.is_float or "accumulate" not in roles:
            return ("reduce",)
        if self.aligned:
            return ("reduce" if "reduce" in roles else "accumulate",)
        return ("accumulate" if self.pipeline.reduce or "reduce" not in roles else "reduce",)

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken."""
        broken = super().broken_rules()
        array = self.array
        if array.fetch_ports % array.clusters:
            broken.append(
                f"array.clusters: must divide fetch_ports, {array.fetch_ports}, so that clusters"
                f" are alike, not {array.clusters}"
            )
        if self.weight is not TERNARY and array.method != "lut":
            broken.append(
                f"array.method: must be lut with {self.weight} weights, not {array.method}; the"
                " baselines are for ternary weights"
            )
        if self.is_float and self.weight is not TERNARY:
            broken.append(
                f"weight: must be ternary with activation {self.activation}, not {self.weight}; bit"
                " planes are added up in integers"
            )
        elif self.planes > 1 and self.saturates:
            exact = self.partial_sum(self.max_k)
            broken.append(
                f"overflow: must be wrap, not saturate, with {self.weight} weights and an"
                f" accumulator that can overflow, {self.result}: totals of some of the bit planes"
                f" cannot be clamped; use wrap, {exact} or exact"
            )
        if self.array.method != "lut" and self.array.group_size != 1:
            broken.append(
                f"array.group_size: must be 1 with method {self.array.method}, which serves every"
                f" weight alone, not {self.array.group_size}"
            )
        broken += ternary_lut_alignment.broken_rules(array, self.activation, aligned=self.aligned)
        if self.is_float and not self.aligned and self.array.reduction == "compressors":
            broken.append(
                f"array.reduction: must be adders with activation {self.activation} and alignment"
                " none; compressors add integers"
            )
        if not self.is_float and self.pipeline.accumulate:
            broken.append(
                f"pipeline.accumulate: must be 0 with activation {self.activation}; integers are"
                " accumulated in one cycle"
            )
        return broken

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths."""
        array = self.array
        # A cluster takes a beat of A, the keys of its columns, and totals out of their memory.
        totals = self.total_width if array.accumulator_depth > 1 else 0
        column = array.tables * self.key_width
        inputs = input_bits(self.ports)
        cluster = self.terms * self.activation.width
        cluster += array.fetch_ports // array.clusters * (column + totals)
        broken = []
        if max(inputs, cluster) > DATA_BITS:
            most = array.fetch_ports - -(-(inputs - DATA_BITS) // column)
            within = (DATA_BITS - self.terms * self.activation.width) // (column + totals)
            most = min(most, within * array.clusters) // array.clusters * array.clusters
            broken.append(
                f"array.fetch_ports: must be at most {most} with {array.tables} tables of"
                f" {array.group_size} weights, not {array.fetch_ports}: a module takes at most"
                f" {DATA_BITS:,} bits, and this one would take {max(inputs, cluster):,} of keys,"
                " activations and totals; more array.clusters have fewer of them each"
            )
        # A column reads all tables.
        stored = self.table_width + self.key_width
        if array.tables * stored > DATA_BITS - totals:
            broken.append(
                f"array.tables: must be at most {(DATA_BITS - totals) // stored} with tables of"
                f" {self.table_width:,} bits, not {array.tables}: a column takes at most"
                f" {DATA_BITS:,} bits of tables and keys; smaller groups have smaller tables"
            )
        return broken

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that the formats have, as plain JSON values."""
        values = super().resolved()
        if not self.aligned:
            del values["array"]["fraction_bits"]
        if not self.is_float:
            del values["pipeline"]["accumulate"], values["array"]["alignment"]
        elif not self.aligned:
            del values["array"]["reduction"]
        return values

    def identity(self) -> dict[str, Any]:
        """Return the parameters that `digest` is of.

        Without alignment hardware is what it was before there was a choice, and so is its digest.
        """
        values = self.resolved()
        if not self.aligned:
            values["array"].pop("alignment", None)
        return values

    # -- geometry --------------------------------------------------------------------------

    @property
    def terms(self) -> int:
        """Terms of the reduction in one cycle."""
        return self.array.tables * self.array.group_size

    @property
    def planes(self) -> int:
        """Beats of weights, one a bit plane, for each group of columns."""
        return 1 if self.weight is TERNARY else self.weight.width

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle; with bit planes, of a cycle on average."""
        whole, rest = divmod(self.terms * self.array.fetch_ports, self.planes)
        return whole + rest / self.planes if rest else whole

    @property
    def natural_sizes(self) -> tuple[int, int, int]:
        """M, K and N that fill a cycle."""
        return (1, self.terms, self.array.fetch_ports)

    @property
    def core_latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first beat of accumulators.

        One in the key register, the registers of the reduction and of the adder that
        accumulates, one for the totals.
        """
        return 1 + self.total_stages

    @property
    def total_stages(self) -> int:
        """Registers from the tables to the totals."""
        return self.reduce_latency + self.pipeline.accumulate + 1

    @property
    def reduce_latency(self) -> int:
        """Registers between the tables and the adder that accumulates."""
        levels = (self.array.tables - 1).bit_length() + (self.array.method == "multiply")
        return self.pipeline.reduce * (levels if self.is_float and not self.aligned else 1)

    # -- formats ---------------------------------------------------------------------------

    @property
    def aligned(self) -> bool:
        """Whether floating-point activations are aligned, and tables and columns add integers."""
        if not self.is_float or self.array.method == "multiply":
            return False
        return self.array.alignment != "none"

    @property
    def fraction_bits(self) -> int:
        """Places of an aligned activation below the leading one of the largest of its beat."""
        return int(self.array.fraction_bits)

    @cached_property
    def integer_core(self) -> TernaryLutConfig:
        """The core that adds the aligned activations of a beat, its accumulator their exact sum."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values["activation"] = IntegerFormat(self.fraction_bits + 2, True)
        values["accumulator"] = "exact"
        values["max_k"] = self.terms
        registers = {"table": self.pipeline.table - self.alignment_registers, "reduce": 0}
        values["pipeline"] = self.pipeline.model_copy(update=registers)
        return type(self).model_construct(**values)

    @property
    def alignment_registers(self) -> int:
        """Number of registers behind the alignment of activations, of those that build tables.

        One behind the aligned activations, and then one behind the largest exponent.
        """
        most = {"beat": 2, "exact": 1}[self.array.alignment] if self.aligned else 0
        return min(most, self.pipeline.table - 1)

    @property
    def column_cuts(self) -> tuple[str, ...]:
        """Behind what a column of aligned activations has registers, but for the accumulator's."""
        return ternary_lut_alignment.COLUMN_CUTS[self.pipeline.reduce]

    @property
    def sum_registers(self) -> int:
        """Number of the column's registers in front of the conversion of a beat's sum."""
        return len({"read", "summed"} & set(self.column_cuts))

    @property
    def digit(self) -> IntegerFormat:
        """Format of what keys stand for: ternary weights, or the signs of a bit plane."""
        return TERNARY if self.weight is TERNARY else BINARY

    @property
    def stored_patterns(self) -> tuple[tuple[int, ...], ...]:
        """The digits of the groups whose sums a table stores, in the order of its entries."""
        mu = self.array.group_size
        if self.digit is TERNARY:
            return ternary.stored_patterns(mu)
        return bit_planes.stored_patterns(mu)

    @property
    def index_width(self) -> int:
        """Bits of an index: an entry of a table, or, of ternary weights, the group of zeros."""
        mu = self.array.group_size
        return ternary.index_width(mu) if self.digit is TERNARY else mu - 1

    @property
    def key(self) -> IntegerFormat | FloatFormat:
        """Format of a key: sign and index, or a weight as it is multiplied."""
        if self.array.method != "multiply":
            return IntegerFormat(1 + self.index_width, False)
        return self.activation if self.is_float else self.weight

    @property
    def key_width(self) -> int:
        """Bits of a key."""
        return self.key.width

    @property
    def table_width(self) -> int:
        """Bits that the table of a group holds: of `select`, both polarities of an integer."""
        words = {
            "lut": len(self.stored_patterns),
            "select": 1 if self.is_float and not self.aligned else 2,
            "multiply": 1,
        }
        return words[self.array.method] * int(self.entry.width)

    @property
    def weight_bits(self) -> float:
        """Bits of a weight on its port, in groups and by bit planes."""
        return self.planes * self.key_width / self.array.group_size

    @property
    def total_width(self) -> int:
        """Bits of a total; that of several bit planes is twice the result."""
        return int(self.result.width) + (self.planes > 1)

    @property
    def addend(self) -> IntegerFormat:
        """Format of what is added to a total at once, of integers; exact and signed.

        Beside the sum of the last of several bit planes it is what that sum is short of: together
        they are -2 times the activations whose digit is -1.
        """
        a = self.activation
        bound, twice = self.terms * max(-a.min, a.max), 2 * self.terms * (self.planes > 1)
        return enclosing_format(-max(bound, twice * a.max), max(bound, -twice * a.min))

    def digit_sum(self, terms: int) -> IntegerFormat:
        """Format of a sum of up to `terms` products of integers with digits, exact."""
        return dot_format(self.activation, self.digit, terms)

    @cached_property
    def entry(self) -> Any:
        """Format of a table entry, of integers exact: its first non-zero digit is +1."""
        a, others = self.activation, self.array.group_size - 1
        if self.aligned:
            return self.integer_core.entry
        if self.is_float:
            return a
        return enclosing_format(
            a.min + others * min(a.min, -a.max), a.max + others * max(a.max, -a.min)
        )

    @property
    def block_loop_nest(self) -> LoopNest | str:
        """The loops in which the core goes through a block, or why it cannot."""
        if self.is_float:
            return (
                f"activation: must be an integer format in a memory engine, not {self.activation};"
                " sums of blocks would round in another order"
            )
        return LoopNest(
            m_lanes=1,
            k_lanes=self.terms,
            n_lanes=self.array.fetch_ports,
            act=(("rows", "act_row"), ("k_tiles", "beat")),
            wgt=(("rows", "nothing"), ("k_tiles", "weight_row"), ("weight_beats", "beat")),
            out=(("rows", "result_row"), ("column_tiles", "beat")),
            weight_rows=1,
            weight_beats=self.planes,
            image=True,
            max_column_tiles=self.array.accumulator_depth,
        )

    # -- ports -----------------------------------------------------------------------------

    @cached_property
    def core_ports(self) -> tuple[StreamPort, ...]:
        """Stream ports of the core alone: the inputs by name, then the accumulators."""
        array, key = self.array, self.key
        one = plane = ""
        if self.planes > 1:
            one, plane = "a bit plane (the most significant first) of ", "last bit plane of the "
        return (
            StreamPort(
                "act",
                "in",
                self.activation,
                self.terms,
                self.activation.width,
                "A[m, k0..k0+terms-1], terms = tables * group_size",
                "the end of the reduction",
            ),
            StreamPort(
                "wgt",
                "in",
                key,
                array.fetch_ports * array.tables,
                key.width,
                f"keys of {one}W[k0..k0+terms-1, n0..n0+fetch_ports-1],"
                " all tables of a column together",
                f"the {plane}last columns that use this beat of act",
            ),
            StreamPort(
                "out",
                "out",
                self.result,
                array.fetch_ports,
                self.result.lane_width,
                "C[m, n0..n0+fetch_ports-1]",
                "the last columns of a row of C, or of the columns held together",
            ),
        )
