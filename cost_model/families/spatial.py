# SPDX-License-Identifier: Apache-2.0
"""Cost of the families `cube`, `adder_tree` and `broadcast_2d`: exact cycles and rates.

Their bill of components is in `spatial_bill`, their delay in `spatial_delay`, and what depends on
values, with serial PEs, in `spatial_serial`.

The counts follow from the sequencer of the core (`rtl_templates.spatial.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.numbers import Number, ceil_div
from cost_model.closed_forms.space import View
from cost_model.families import spatial_serial
from cost_model.families.spatial_bill import Geometry
from cost_model.families.spatial_bill import parts as parts
from cost_model.families.spatial_delay import paths as paths
from hwgen.core.params.spatial_timing import core_latency, serial_latency
from hwgen.families.spatial.cycles import Size, count_cycles

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

RULES = (
    "array.depth", "array.carry_spacing", "array.queue", "pipeline.pe", "pipeline.final_adder",
)  # fmt: skip
"""Numeric parameters that rules between fields look at."""


def cycles_at(v: View, sizes: Sequence[Size]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    g = Geometry(v)
    if v.config.array.serial:
        latency = serial_latency(g.stages) + post.latency(v)
        return spatial_serial.expected_at(v, (g.rows, g.depth, g.cols), latency, sizes)
    if v.config.block_product is None:
        latency = core_latency(g.stages, g.digits, v["pipeline.final_adder"]) + post.latency(v)
    else:
        latency = 2 + g.lead + v.config.output_registers
    lengths = {k: _beats_at(v, g, k) for _, k, _ in sizes}
    return count_cycles((g.rows, g.cols), g.lead, latency, sizes, lengths)


def _beats_at(v: View, g: Geometry, k: int) -> Number:
    """Return the beats of a reduction."""
    if v.config.block_product is None:
        return ceil_div(k, g.depth)
    return v.figure(("array.depth",), _steps_of(k)) * v.config.slots


@lru_cache(maxsize=1024)
def _steps_of(k: int) -> Callable[[SpatialConfig], float]:
    return lambda config: float(config.lanes[0].steps(k))


def _lane_bits(config: SpatialConfig) -> tuple[float, float]:
    """Return the bits of a row of A and of a column of W in a beat."""
    if config.block_product is None:
        a, w = config.activation, config.weight
        return float(config.depth * a.width), float(config.depth * w.width)
    return float(config.lanes[0].width), float(config.lanes[1].width)


# -- rates -----------------------------------------------------------------------------------------


def macs_at(v: View) -> Number:
    """Return the multiply-accumulates of a full cycle, of serial PEs the expected ones."""
    g = Geometry(v)
    if v.config.array.serial:
        return spatial_serial.macs_at(v, (g.rows, g.depth, g.cols))
    return g.rows * g.depth * g.cols * (v.config.block_depth / v.config.depth) / v.config.slots


def port_bits_at(v: View) -> Number:
    """Return the bits of a beat of all ports together."""
    g = Geometry(v)
    row, column = v.figures(("array.depth",), 2, _lane_bits)
    inputs = g.rows * row + g.cols * column
    return inputs + g.cols * post.lane_bits(v) + post.port_bits(v, g.cols)


def traffic_at(v: View, size: Size) -> dict[str, Number]:
    """Return the bytes of the beats of each port for one product, by what they carry."""
    g, (m, k, n) = Geometry(v), size
    tiles = ceil_div(m, g.rows) * ceil_div(n, g.cols)
    beats = tiles * _beats_at(v, g, k) / v.config.slots * v.config.passes
    row, column = v.figures(("array.depth",), 2, _lane_bits)
    return {
        "activations": beats * ceil_div(g.rows * row, 8),
        "weights": beats * ceil_div(g.cols * column, 8),
        "outputs": tiles * g.rows * ceil_div(g.cols * post.lane_bits(v), 8),
    }


def weight_bits_at(v: View) -> Number:
    """Return the bits of a weight on its port."""
    return v.config.weight.width
