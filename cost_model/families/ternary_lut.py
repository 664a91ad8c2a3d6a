# SPDX-License-Identifier: Apache-2.0
"""Cost of the ternary-LUT family: exact cycles, bill of components, rates.

The counts follow from the core's sequencer (`rtl_templates.ternary_lut.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.component_counts import Part, memory, times, total
from cost_model.closed_forms.numbers import Counts, Number, bit_length, bits_of, ceil_div, register
from cost_model.closed_forms.rows import Rows, rows_of
from cost_model.closed_forms.space import View
from cost_model.families.ternary_lut_aligned import (
    ALIGNED,
    aligned_column,
    alignment,
)
from cost_model.families.ternary_lut_aligned import paths as aligned_paths
from cost_model.families.ternary_lut_bill import (
    COLUMN_KINDS,
    TABLE_KINDS,
    column,
    correction,
    counted_bits,
    float_adders_of_table,
    float_column,
    operators,
    table,
)
from cost_model.families.ternary_lut_delay import paths as core_paths
from cost_model.families.ternary_lut_delay import stored_paths
from cost_model.netlist.fabric.fabric import LISTED, fabric_of
from hwgen.families.ternary_lut.core import count_cycles

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


def cycles_at(v: View, sizes: Sequence[tuple[int, int, int]]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    found = count_cycles(
        v.config, v["array.tables"] * v["array.group_size"], v["array.fetch_ports"],
        v["array.accumulator_depth"], v["pipeline.table"], v["pipeline.accumulate"],
        2 + _latency(v), sizes,
    )  # fmt: skip
    return found + post.latency(v)


# -- bill of components ----------------------------------------------------------------------------


def parts(config: TernaryLutConfig) -> tuple[Part, ...]:
    """Return the parts of a core of the configuration's kind."""
    operators = ("add_", "multiply_") if config.is_float else ()
    shared = (
        Part("rows of totals", (), _rows),
        Part("stream registers", (), _streams),
        Part("sequencer", (), _sequencer),
        *post.parts(config, "array.fetch_ports"),
    )
    if config.aligned:
        return (
            Part("alignment", ("align", "largest_"), _alignment),
            Part("tables", ("table",), _aligned_tables),
            Part("columns", ("column", "scaled_", *operators), _aligned_columns),
            *shared,
        )
    if config.is_float:
        return (
            Part("tables", ("table",), _float_tables),
            Part("columns", ("column", *operators), _float_columns),
            *shared,
        )
    return (
        Part("tables", ("table",), _tables),
        Part("columns", ("column", "counts"), _columns),
        Part("corrections", (), _corrections),
        *shared,
    )


RULES = (
    "array.group_size", "array.fetch_ports", "array.clusters", "pipeline.accumulate", "max_k",
)  # fmt: skip
"""Numeric parameters that rules between fields look at."""

_TABLE = ("array.group_size", "pipeline.table")
_COLUMN = ("array.group_size", "array.tables", "pipeline.reduce", "max_k")
_ALIGNED_KINDS = ("flip_flop", "enable", "adder_bit", "adder_level", "and", "mux", "xor")
_FLOAT_COLUMN = ("array.group_size", "array.tables", "pipeline.reduce", "pipeline.accumulate")


def _more(v: View) -> tuple[str, ...]:
    """Return the kinds that only FPGAs have."""
    return LISTED if fabric_of(v.config) else ()


def _tables(v: View) -> Counts:
    count = v["array.clusters"] * v["array.tables"]
    return times(count, v.counts(_TABLE, (*TABLE_KINDS, *_more(v), "select"), table))


def _corrections(v: View) -> Counts:
    return times(v["array.clusters"], v.counts(_COLUMN, (*COLUMN_KINDS, *_more(v)), correction))


def _columns(v: View) -> Counts:
    one = v.counts(_COLUMN, (*COLUMN_KINDS, *_more(v)), column)
    held = v["array.accumulator_depth"] > np.int64(1)
    names = ("array.group_size", "array.tables", "max_k")
    old = v.figure(("max_k",), _total_width) * (fabric_of(v.config) is None)
    deep = {"mux": old, "enable": v.figure(names, counted_bits)}
    inputs = v["array.tables"] * v.figure(("array.group_size",), _table_width)
    return times(v["array.fetch_ports"], total(one, times(held, deep), {"fanout": inputs}))


def _float_tables(v: View) -> Counts:
    words = v.counts(_TABLE, ("flip_flop", "enable"), table)
    adders = v.counts(_TABLE, operators(v.config), float_adders_of_table)
    return times(v["array.clusters"] * v["array.tables"], total(words, adders))


def _float_columns(v: View) -> Counts:
    kinds = ("flip_flop", "enable", "and", "and_or", "mux", "xor", *operators(v.config), *_more(v))
    one = v.counts(_FLOAT_COLUMN, kinds, float_column)
    held = v["array.accumulator_depth"] > np.int64(1)
    inputs = v["array.tables"] * v.figure(("array.group_size",), _table_width)
    old = held * v.config.result.width * (fabric_of(v.config) is None)
    deep = {"mux": old, "fanout": inputs}
    return times(v["array.fetch_ports"], total(one, deep))


def _alignment(v: View) -> Counts:
    kinds = (*_ALIGNED_KINDS, *_more(v))
    return times(v["array.clusters"], v.counts(ALIGNED, kinds, alignment))


def _aligned_tables(v: View) -> Counts:
    count = v["array.clusters"] * v["array.tables"]
    return times(count, v.counts(ALIGNED, (*TABLE_KINDS, *_more(v), "select"), _aligned_table))


def _aligned_table(config: TernaryLutConfig) -> Counts:
    return table(config.integer_core)


def _aligned_columns(v: View) -> Counts:
    kinds = (*COLUMN_KINDS, *operators(v.config), *_more(v))
    one = v.counts(ALIGNED, kinds, aligned_column)
    held = v["array.accumulator_depth"] > np.int64(1)
    inputs = v["array.tables"] * v.figure(ALIGNED, _table_width)
    old = held * v.config.result.width * (fabric_of(v.config) is None)
    return times(v["array.fetch_ports"], total(one, {"mux": old, "fanout": inputs}))


def _table_width(config: TernaryLutConfig) -> float:
    return float(config.table_width)


def _total_width(config: TernaryLutConfig) -> float:
    return config.total_width


def _key_width(config: TernaryLutConfig) -> float:
    return config.key_width


def _result_width(config: TernaryLutConfig) -> float:
    return float(config.result.width)


def _reduce_latency(config: TernaryLutConfig) -> float:
    return config.reduce_latency


def _latency(v: View) -> Number:
    names = ("array.tables", "pipeline.reduce")
    return v.figure(names, _reduce_latency) + v["pipeline.accumulate"]


def stored_rows(v: View) -> Rows:
    """Return the memory of rows of totals."""
    width = v["array.fetch_ports"] * v.figure(("max_k",), _total_width)
    return rows_of(v, width, v["array.accumulator_depth"], held=False)


def _rows(v: View) -> Counts:
    rows, fabric, behind = stored_rows(v), fabric_of(v.config), _latency(v)
    deep, address = np.asarray(rows.depth) > 1, bits_of(rows.depth)
    stored = rows.counts()
    if fabric:
        stored = memory(rows.width, rows.depth, fabric, clocked=True)
    return total(
        stored,
        fabric.counter(address) if fabric else {},
        times(
            deep,
            total(register(address + 1, reset=True), register(address * behind, enable=True)),
        ),
    )


def _streams(v: View) -> Counts:
    a = v.config.activation.width
    act = v["array.tables"] * v["array.group_size"] * a + 1
    keys = v["array.fetch_ports"] * v["array.tables"] * v.figure(("array.group_size",), _key_width)
    out = v["array.fetch_ports"] * v.figure(("max_k",), _result_width) + 1
    return total(
        register(act + keys + 1, enable=True),
        register(2, enable=True, reset=True),
        register(out, enable=True),
        register(1, reset=True),
        {"mux": out},
    )


def _sequencer(v: View) -> Counts:
    table, accumulate = v["pipeline.table"], v["pipeline.accumulate"]
    planes = v.config.planes
    shown = bits_of(planes) + 2 * (planes > 1) * v["pipeline.reduce"]
    waits = (accumulate > np.int64(0)) * (1 + 2 * bit_length(accumulate))
    control: Counts = {"control": 1}
    if fabric := fabric_of(v.config):  # the flags of what is being added are those that wait
        waits = waits - accumulate
        control = {
            "control": 1,
            "wait_control": accumulate > np.int64(0),
            **times(2, fabric.counter(bit_length(accumulate))),
        }
    return total(
        register(2 * table + 1 + 4 * _latency(v) + 2 + waits + shown, enable=True, reset=True),
        control,
    )


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    if v.config.aligned:
        return [*aligned_paths(v), *stored_paths(v, stored_rows(v))]
    return [*core_paths(v), *stored_paths(v, stored_rows(v)), *post.paths(v)]


# -- rates -----------------------------------------------------------------------------------------


def macs_at(v: View) -> Number:
    """Return the multiply-accumulates of a full cycle; with bit planes, of a cycle on average."""
    return v["array.tables"] * v["array.group_size"] * v["array.fetch_ports"] / v.config.planes


def port_bits_at(v: View) -> Number:
    """Return the bits of a beat of all ports together."""
    ports, key = v["array.fetch_ports"], v.figure(("array.group_size",), _key_width)
    act = v["array.tables"] * v["array.group_size"] * v.config.activation.width
    columns = ports * (v["array.tables"] * key + post.lane_bits(v))
    return act + columns + post.port_bits(v, ports)


def traffic_at(v: View, size: tuple[int, int, int]) -> dict[str, Number]:
    """Return the bytes of the beats of each port for one product, by what they carry."""
    ports, terms = v["array.fetch_ports"], v["array.tables"] * v["array.group_size"]
    m, k, n = size
    tiles, groups = ceil_div(k, terms), ceil_div(n, ports)
    keys = ports * v["array.tables"] * v.figure(("array.group_size",), _key_width)
    acts = m * tiles * ceil_div(groups, v["array.accumulator_depth"])
    return {
        "activations": acts * ceil_div(terms * v.config.activation.width, 8),
        "weights": m * tiles * groups * v.config.planes * ceil_div(keys, 8),
        "outputs": m * groups * ceil_div(ports * post.lane_bits(v), 8),
    }


def weight_bits_at(v: View) -> Number:
    """Return the bits of a weight on its port, in groups and by bit planes."""
    key = v.figure(("array.group_size",), _key_width)
    return v.config.planes * key / v["array.group_size"]
