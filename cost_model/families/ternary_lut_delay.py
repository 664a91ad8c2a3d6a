# SPDX-License-Identifier: Apache-2.0
"""Longest paths of a ternary-LUT core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms.component_counts import total
from cost_model.closed_forms.numbers import Counts
from cost_model.closed_forms.space import View
from cost_model.families.ternary_lut_bill import (
    added_bits,
    float_table_latencies,
    sum_width,
    value_width,
)
from hwgen.arithmetic.bit_heap import plan
from hwgen.families.ternary_lut.choice import sum_groups

if TYPE_CHECKING:
    from cost_model.closed_forms.rows import Rows
    from hwgen.families.ternary_lut.params import TernaryLutConfig
    from hwgen.formats import FloatFormat


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    start = {"register": 1.0, "fanout": np.log2(v["array.fetch_ports"] + np.int64(0))}
    names = ("array.group_size", "array.tables", "pipeline.table", "pipeline.reduce", "max_k",
             "pipeline.accumulate")  # fmt: skip
    paths_of: tuple[Callable[[TernaryLutConfig], Counts], ...]
    if v.config.is_float:
        paths_of = (_float_table_path, _float_column_path)
        formats = dict.fromkeys((v.config.activation, v.config.result))
        kinds = ("read", *(f"float_path_{fmt}" for fmt in formats))
    else:
        paths_of = (_table_path, _column_path, _first_column_path)
        kinds = ("gate", "read", "adder_level", "adder_bit", "select", "product", "count")
    return [total(start, v.counts(names, kinds, of)) for of in paths_of]


def stored_paths(v: View, rows: Rows) -> list[Counts]:
    """Return the paths out of and into the rows of totals that SRAM macros hold."""
    names = ("array.group_size", "array.tables", "pipeline.reduce", "max_k", "pipeline.accumulate")
    kinds: tuple[str, ...] = ("gate", "adder_level", "adder_bit", "count")
    if v.config.is_float:
        kinds = (f"float_path_{v.config.result}",)
    return rows.paths({"register": 1.0}, v.counts(names, kinds, _addition_path))


def _addition_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path from an old total to the new one."""
    if config.is_float:
        return _longest_segment([(config.result, config.pipeline.accumulate)])
    if config.array.reduction == "adders":
        planes = [config.addend.width + 1] * (config.planes > 1)
        return _adders_path([*planes, config.total_width])
    path = _stage_paths(config)[-1]
    return {kind: path[kind] for kind in ("gate", "count") if kind in path}


def read_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path through a read."""
    method = config.array.method
    if method == "select":
        return {"select": 1}
    if method == "multiply":
        return {"product": 1}
    return {"read": log2(len(config.stored_patterns) + 1)}


def _adders_path(widths: Iterable[int]) -> dict[str, float]:
    # Sums overlap: the low bits of one are there before its high bits.
    widths = list(widths)
    return {"adder_level": sum(map(log2, widths)), "adder_bit": float(max(widths, default=0))}


def _table_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path of the slowest stage that builds a table."""
    levels = ceil((config.array.group_size - 1) / config.pipeline.table)
    return _adders_path([config.entry.width] * levels)


def _column_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path to the totals."""
    return _stage_paths(config)[-1]


def _first_column_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path of the slowest other stage between tables and totals."""
    return max(_stage_paths(config), key=lambda path: sum(path.values()))


@lru_cache(maxsize=1 << 14)
def _stage_paths(config: TernaryLutConfig) -> list[dict[str, float]]:
    """Return the paths of the stages of a column."""
    registers, tables = config.pipeline.reduce, config.array.tables
    found, read = [], read_path(config)
    if config.array.reduction == "adders":
        levels = (tables - 1).bit_length()
        places = [stage * levels // registers for stage in range(registers)]
        path: list[int] = []
        for level in range(levels + 1):
            for _ in range(places.count(level)):
                found.append(total(read, _adders_path(path)))
                read, path = {}, []
            if level < levels:
                path.append(sum_width(config, min(tables, 2 << level)) + 1)
        if config.planes > 1:
            path.append(config.addend.width + 1)
        return [*found, total(read, _adders_path([*path, config.total_width]))]
    weight, addend, left = int(config.array.method == "lut"), value_width(config), tables
    carries = config.array.method != "multiply"
    covered = 1
    for stage in range(registers):
        if stage == 0:
            found.append(read)
            read = {}
        if stage < registers - 1:
            group = sum_groups(tables, registers)[stage]
            left, covered = ceil(left / group), min(tables, covered * group)
            width = sum_width(config, covered)
            found.append({"gate": sum_delay(group, addend, carries * weight, width, 0)})
            addend, carries = width, False
    low = added_bits(config)
    kept, width = min(low, config.total_width), min(low + 2, config.total_width)
    delay = sum_delay(left, addend, carries * weight if carries else -1, width, kept)
    high = config.total_width - low
    return [*found, total(read, {"gate": delay}, {"count": log2(high + 1)} if high > 0 else {})]


@lru_cache(maxsize=1 << 14)
def sum_delay(addends: int, bits: int, carry: int, width: int, kept: int) -> float:
    """Return the delay of a sum in gates, by the plan that the hardware is made from."""
    heap = [[0] * (addends * (column < bits) + (column < kept)) for column in range(width)]
    if carry >= 0 and carry < width:
        heap[carry] += [0] * addends
    return plan(heap).delay / 10


FLOAT_SHARES = (1.0, 0.58, 0.39, 0.36, 0.35)
"""How much of a floating-point operator with 0, 1, 2, ... registers inside lies before the first of
them, or behind the last, of the whole without registers; measured in nangate45."""


def _longest_segment(operators: Iterable[tuple[FloatFormat, int]]) -> dict[str, float]:
    """Return the longest path between registers through operators in a row.

    Parameters
    ----------
    operators : iterable of (format, int)
        Format, and registers inside.
    """
    segments: list[list[tuple[FloatFormat, float]]] = [[]]
    for fmt, registers in operators:
        half = (fmt, FLOAT_SHARES[registers])
        segments[-1].append(half)
        if registers:
            segments.append([half])
    # Operators of wider formats are slower.
    longest = max(segments, key=lambda some: sum(share * fmt.width for fmt, share in some))
    return total(*({f"float_path_{fmt}": share} for fmt, share in longest))


def _float_table_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path of the slowest stage that builds a table."""
    latency = float_table_latencies(config)[1:]
    stages = [after - before for before, after in pairwise(latency)]
    return _longest_segment((config.activation, registers) for registers in stages)


def _float_column_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the longest path between the tables and the totals."""
    a, registers = config.activation, config.pipeline.reduce
    levels = (config.array.tables - 1).bit_length() + (config.array.method == "multiply")
    tree = [(a, registers)] * levels
    path = _longest_segment([*tree, (config.result, config.pipeline.accumulate)])
    read = {"read": log2(len(config.stored_patterns) + 1)}
    return total(read, path)
