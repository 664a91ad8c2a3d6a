# SPDX-License-Identifier: Apache-2.0
"""Cost of the systolic family: exact cycles and rates.

Its bill of components is in `systolic_bill`, its delay in `systolic_delay`.

The counts follow from the cores' sequencers (`rtl_templates.systolic.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.numbers import Number, ceil_div
from cost_model.closed_forms.space import View
from cost_model.families.systolic_bill import Geometry
from cost_model.families.systolic_bill import parts as parts
from cost_model.families.systolic_delay import paths as paths
from hwgen.families.systolic.cycles import Size, count_cycles, count_passes, count_slices

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig

RULES = ("array.accumulator_depth", "array.carry_spacing", "pipeline.final_adder")
"""Numeric parameters that rules between fields look at."""


def cycles_at(v: View, sizes: Sequence[Size]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    g = Geometry(v)
    latency = g.drain_latency if v.config.output_stationary else g.psum_latency
    if v.config.output_stationary:
        sizes = [(m, count_slices(v.config, k), n) for m, k, n in sizes]
    found = count_cycles(v.config, g.rows, g.cols, v["array.accumulator_depth"], latency, sizes)
    return found + post.latency(v)


# -- rates -----------------------------------------------------------------------------------------


def macs_at(v: View) -> Number:
    """Return the multiply-accumulates of a full cycle."""
    return v["array.rows"] * v["array.cols"]


def port_bits_at(v: View) -> Number:
    """Return the bits of a beat of all ports together."""
    cols = v["array.cols"]
    row, column = v.figures(("array.rows", "array.cols"), 2, _port_bits)
    records = post.port_bits(v, 1 if v.config.input_stationary else cols)
    return row + column + cols * post.lane_bits(v) + records


def _port_bits(config: SystolicConfig) -> tuple[float, float]:
    """Return the bits of a beat of the row and of the column operand."""
    row, column = config.row_port, config.column_port
    return float(row.lanes * row.lane_width), float(column.lanes * column.lane_width)


def traffic_at(v: View, size: Size) -> dict[str, Number]:
    """Return the bytes of the beats of each port for one product, by what they carry."""
    config, rows, cols = v.config, v["array.rows"], v["array.cols"]
    m, k, n = size
    k = count_slices(config, k) if config.output_stationary else k
    x, y = (n, m) if config.input_stationary else (m, n)
    ys = ceil_div(y, cols)
    if config.output_stationary:
        tiles = ceil_div(x, rows) * ys
        beats = tiles * k, tiles * k, tiles * rows
    else:
        _, xs, _ = count_passes(x, k, rows, v["array.accumulator_depth"])
        passes = ceil_div(k, rows) * ys
        beats = passes * x, passes * xs * rows, ys * x
    row_bits, column_bits = v.figures(("array.rows", "array.cols"), 2, _port_bits)
    row = beats[0] * ceil_div(row_bits, 8)
    column = beats[1] * ceil_div(column_bits, 8)
    activations, weights = (column, row) if config.input_stationary else (row, column)
    outputs = beats[2] * ceil_div(cols * post.lane_bits(v), 8)
    return {"activations": activations, "weights": weights, "outputs": outputs}


def weight_bits_at(v: View) -> Number:
    """Return the bits of a weight on its port."""
    return v.config.weight.width
