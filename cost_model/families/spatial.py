# SPDX-License-Identifier: Apache-2.0
"""Cost of the families `cube`, `adder_tree` and `broadcast_2d`: exact cycles and rates.

Their bill of components is in `spatial_bill`, their delay in `spatial_delay`, and what depends on
values, with serial PEs, in `spatial_serial`.

The counts follow from the sequencer of the core (`rtl_templates.spatial.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.numbers import Number, ceil_div
from cost_model.closed_forms.space import View
from cost_model.families import spatial_serial
from cost_model.families.spatial_bill import Geometry, parts
from cost_model.families.spatial_delay import paths
from cost_model.families.spatial_flow import core_flow
from hwgen.core.figures import Cycles
from hwgen.families.spatial.schedule import Schedule, schedule
from hwgen.families.spatial.timing import core_latency, serial_latency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.spatial.params import SpatialConfig

__all__ = [
    "RULES", "core_flow", "cycles", "cycles_at", "cycles_of", "cycles_of_operands", "macs_at",
    "most_cycles_of", "parts", "paths", "port_bits_at", "timed", "traffic_at",
]  # fmt: skip

RULES = (
    "array.depth", "array.carry_spacing", "array.queue", "pipeline.pe", "pipeline.final_adder",
)  # fmt: skip
"""Numeric parameters that rules between fields look at."""

Size = tuple[int, int, int]
"""M, K and N of one product."""


def cycles(config: SpatialConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]`` at full-rate streams.

    Counted from the cycle of the first input beat to that of the last output beat, both included.
    Of serial PEs an expectation; see `cycles_of`.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: SpatialConfig, sizes: Iterable[Size], sigma: float | None = None) -> int:
    """Return the cycles of products that follow each other without a pause.

    Exact, unless PEs are serial: their cycles depend on A.  Then this is the expectation for
    random activations, interpolated between those of samples.

    Parameters
    ----------
    config : SpatialConfig
    sizes : iterable of (m, k, n)
        At least one.
    sigma : float, optional
        Activations of serial PEs are normally distributed with this deviation, rounded and clipped
        to their format; by default ``target.activation_sigma``, and uniformly without.

    Notes
    -----
    A tile takes as many slots as it has beats.  Its drain starts at the slot behind them, and the
    next one not before this one's rows have left: a tile of fewer beats takes ``rows + lead``
    slots, but for the first one, which nothing holds up.
    """
    if config.array.serial:
        return spatial_serial.expected(config, sizes, sigma or config.target.activation_sigma)
    plans = [schedule(config, *size) for size in sizes]
    products = [(plan.m, plan.k, plan.n) for plan in plans]
    beats = {plan.k: plan.blocks[1] * config.slots for plan in plans}
    return int(_cycles((config.rows, config.cols), config.lead, config.latency, products, beats))


def _cycles(
    shape: tuple[Number, Number],
    lead: Number,
    latency: Number,
    sizes: Sequence[Size],
    beats_of: Mapping[int, Number],
) -> Number:
    """Return the cycles of `cycles_of` of arrays of rows and columns of PEs.

    `beats_of` says how many beats a reduction of K takes.
    """
    rows, cols = shape
    shortest = rows + lead
    slots: Number = 0
    for (m, k, n), repeats in Counter(sizes).items():
        beats = np.maximum(beats_of[k], shortest)
        slots = slots + repeats * ceil_div(m, rows) * ceil_div(n, cols) * beats
    first = beats_of[sizes[0][1]]
    last_drain = first + slots - np.maximum(first, shortest)
    return last_drain + rows + latency - 1


def cycles_of_operands(
    config: SpatialConfig, operands: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> int:
    """Return the exact cycles of products of given matrices that follow each other.

    Parameters
    ----------
    config : SpatialConfig
    operands : sequence of (ndarray, ndarray)
        A, shape (m, k), and W, shape (k, n), of at least one product.
    """
    if config.array.serial:
        return spatial_serial.counted(config, operands)
    return cycles_of(config, [(a.shape[0], a.shape[1], w.shape[1]) for a, w in operands])


def most_cycles_of(config: SpatialConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products of the values that take most: no digit is zero."""
    if config.array.serial:
        return spatial_serial.most(config, [Schedule(config, *size) for size in sizes])
    return cycles_of(config, sizes)


def timed(config: SpatialConfig, sizes: Sequence[Size]) -> Cycles:
    """Return the cycles of products of any values: exact, of serial PEs expected."""
    number = cycles_of(config, sizes)
    if not config.array.serial:
        return Cycles(number)
    return Cycles(number, "expected", most=most_cycles_of(config, sizes))


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
    return _cycles((g.rows, g.cols), g.lead, latency, sizes, lengths)


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
