# SPDX-License-Identifier: Apache-2.0
"""Components and paths of ternary-LUT cores whose floating-point activations are aligned.

Tables and reads are those of the core of integers, ``config.integer_core``; this is what stands
before and behind them (`rtl_templates.ternary_lut.alignment`, `.aligned_column`).
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms.component_counts import adder, times, total
from cost_model.closed_forms.numbers import Counts, register
from cost_model.closed_forms.space import View
from cost_model.families.ternary_lut_bill import exact_sum, read_counts, value_width
from cost_model.families.ternary_lut_delay import FLOAT_SHARES, read_path, sum_delay
from cost_model.netlist.fabric.fabric import fabric_of

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


ALIGNED = (
    "array.group_size", "array.tables", "array.fraction_bits", "pipeline.table",
    "pipeline.reduce", "pipeline.accumulate",
)  # fmt: skip
"""Parameters on which components and paths depend."""


def alignment(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of what aligns the activations of a beat, and of their exponent's registers.

    The exponent accompanies the beat to the tables and on to the conversion of sums.
    """
    fmt, fabric, registers = config.activation, fabric_of(config), config.alignment_registers
    exponent, beat = fmt.exponent_bits, config.array.alignment == "beat"
    places, levels = config.fraction_bits + 2, _shifts(config)
    each = total(
        adder(places, fabric), {"xor": places - 1, "mux": places * levels}, adder(exponent, fabric)
    )
    flags = 1 + exponent * beat
    bits = flags * (config.pipeline.table + config.sum_registers)
    if registers:
        bits += config.terms * places
    if registers > 1:
        bits += config.terms * fmt.width
    found = total(times(config.terms, each), register(bits, enable=True))
    if beat:
        compared = total(adder(exponent, fabric), {"mux": exponent})
        return total(found, times(config.terms - 1, compared))
    return total(found, {"and": config.terms * exponent})


def aligned_column(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of a column, its operator that accumulates by kind."""
    core, result, fabric = config.integer_core, config.result, fabric_of(config)
    width, tables = core.result.width, config.array.tables
    read = config.column_cuts
    held = tables * (value_width(core) + 1) * ("read" in read)
    held += width * ("summed" in read)
    # A sum that is short of the result's places leaves zeros in them.
    converted = min(result.width, 1 + result.exponent_bits + width - 2)
    held += converted * ("converted" in read)
    held += (converted + 1) * ("normalised" in read)
    return total(
        times(tables, read_counts(core)),
        exact_sum(core),
        {
            "xor": width,
            "mux": width * ((width - 1).bit_length() + 1),
            "and": 2 * width + result.width,
        },
        adder(width, fabric),
        adder(result.exponent_bits + 1, fabric),
        adder(min(result.width, converted), fabric),
        {f"float_adder_{result}_{config.pipeline.accumulate}": 1},
        register(held + result.width, enable=True),
    )


def _shifts(config: TernaryLutConfig) -> int:
    """Return the levels of the shifter that aligns an activation."""
    return int(min((config.fraction_bits + 2).bit_length(), config.activation.exponent_bits))


# -- paths -----------------------------------------------------------------------------------------


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    start = {"register": 1.0, "fanout": np.log2(v["array.fetch_ports"] + np.int64(0))}
    kinds = ("gate", "read", "adder_level", "adder_bit", "select", f"float_path_{v.config.result}")
    paths_of = (alignment_path, sum_path, total_path)
    return [total(start, v.counts(ALIGNED, kinds, of)) for of in paths_of]


def alignment_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path of the slowest stage that aligns activations and builds tables."""
    exponent, registers = config.activation.exponent_bits, config.alignment_registers
    levels = (config.terms - 1).bit_length() * (config.array.alignment == "beat")
    largest = {"adder_level": levels * log2(exponent), "gate": float(levels)}
    places = config.fraction_bits + 2
    shifted = {"adder_level": log2(exponent) + log2(places), "adder_bit": float(places)}
    shifted["gate"] = _shifts(config) + 2.0
    core = config.integer_core
    sums = ceil((core.array.group_size - 1) / core.pipeline.table)
    table = {"adder_level": sums * log2(core.entry.width), "adder_bit": float(core.entry.width)}
    if registers == 0:
        return total(largest, shifted, table if sums else {})
    first = total(largest, shifted) if registers == 1 else shifted
    return max(first, largest, table, key=_steps)


def _steps(path: Counts) -> float:
    return float(sum(path.values()))


def sum_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the slowest stage between the tables and the adder that accumulates, {} if none."""
    return max(_column_stages(config)[:-1], key=_steps, default={})


def total_path(config: TernaryLutConfig) -> dict[str, float]:
    """Return the path to the totals."""
    share = FLOAT_SHARES[config.pipeline.accumulate]
    return total(_column_stages(config)[-1], {f"float_path_{config.result}": share})


def _column_stages(config: TernaryLutConfig) -> list[dict[str, float]]:
    """Return the logic between the registers of a column, the last in front of its accumulator."""
    core, result, cuts = config.integer_core, config.result, config.column_cuts
    width = core.result.width
    summed: Counts
    if core.array.reduction == "adders":
        levels = (core.array.tables - 1).bit_length() + 1
        summed = {"adder_level": levels * log2(width), "adder_bit": float(width)}
    else:
        weight = int(core.array.method == "lut")
        summed = {"gate": sum_delay(core.array.tables, value_width(core), weight, width, 0)}
    normalised = {
        "adder_level": log2(width),
        "adder_bit": float(width),
        "gate": 2.0 * (width - 1).bit_length() + 1,
    }
    rounded = {"adder_level": log2(result.width), "adder_bit": float(result.width), "gate": 3.0}
    segments = {
        "read": read_path(core), "summed": summed, "normalised": normalised, "converted": rounded,
    }  # fmt: skip
    stages: list[dict[str, float]] = [{}]
    for cut, segment in segments.items():
        stages[-1] = total(stages[-1], segment)
        if cut in cuts:
            stages.append({})
    return stages
