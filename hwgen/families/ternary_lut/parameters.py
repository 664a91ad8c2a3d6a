# SPDX-License-Identifier: Apache-2.0
"""The parameters of ternary-LUT cores: tables and fetch ports, and registers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hwgen.core.params.base import Model, or_auto


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

    table: int = Field(
        1,
        ge=1,
        le=4,
        description="Registers of the table build, the one that holds the tables included; `auto`"
        " takes as many as the clock target needs.",
        json_schema_extra=or_auto("registers"),
    )
    reduce: int = Field(
        0,
        ge=0,
        le=4,
        description="Registers between the tables and the sum of a column: the first after the"
        " fetch, the others in the adder tree; with a floating-point activation registers in every"
        " adder of the tree; with one that is aligned behind the conversion of a beat's sum, the"
        " sum, the fetch, and in the conversion; or `auto`.",
        json_schema_extra=or_auto("registers"),
    )
    accumulate: int = Field(
        0,
        ge=0,
        le=4,
        description="Registers in the adder that accumulates, with a floating-point activation. A"
        " pass over fewer groups of columns waits until its totals are there again; or `auto`.",
        json_schema_extra=or_auto("registers"),
    )
