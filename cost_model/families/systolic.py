# SPDX-License-Identifier: Apache-2.0
"""Cost of the systolic family: exact cycles and rates.

Its bill of components is in `systolic_bill`, its delay in `systolic_delay`.

The counts follow from the cores' sequencers (`rtl_templates.systolic.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.numbers import Number, ceil_div
from cost_model.closed_forms.space import View
from cost_model.families.systolic_bill import Geometry, parts
from cost_model.families.systolic_delay import paths
from cost_model.families.systolic_flow import core_flow
from hwgen.families.systolic.schedule import schedule

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig

__all__ = [
    "RULES", "core_flow", "cycles", "cycles_at", "cycles_of", "macs_at", "parts", "paths",
    "port_bits_at", "traffic_at",
]  # fmt: skip

RULES = ("array.accumulator_depth", "array.carry_spacing", "pipeline.final_adder")
"""Numeric parameters that rules between fields look at."""

Size = tuple[int, int, int]
"""M, K and N of one product."""


def cycles(config: SystolicConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]`` at full-rate streams.

    Counted from the cycle of the first input beat to that of the last output beat, both included.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: SystolicConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products that follow each other without a pause.

    Parameters
    ----------
    config : SystolicConfig
    sizes : iterable of (m, k, n)
        At least one.

    Notes
    -----
    Output-stationary: slots of a tile follow those of the tile before, but drains, at the slot
    after each tile, are at least `rows` apart, so a tile takes ``max(K, rows)`` slots; the first
    is not held up.  After the last drain starts, `rows` rows drain.

    Weight- and input-stationary: the first tile loads for `rows` cycles; a pass takes as long as
    its beats, or as the next tile's loading (`rows`) if that is longer; the last pass is not
    held up.

    Both: a beat spends one cycle in the buffer of its port on the way in, a result one on the
    way out, where post-processing delays it further.
    """
    array, plans = config.array, [schedule(config, *size) for size in sizes]
    latency = config.drain_latency if config.output_stationary else config.psum_latency
    found = _cycles(
        config, array.rows, array.cols, array.accumulator_depth, latency,
        [(plan.m, plan.slices, plan.n) for plan in plans],
    )  # fmt: skip
    return int(found) + config.post_latency


def cycles_at(v: View, sizes: Sequence[Size]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    g = Geometry(v)
    latency = g.drain_latency if v.config.output_stationary else g.psum_latency
    if v.config.output_stationary:
        sizes = [(m, _slices(v.config, k), n) for m, k, n in sizes]
    found = _cycles(v.config, g.rows, g.cols, v["array.accumulator_depth"], latency, sizes)
    return found + post.latency(v)


def _slices(config: SystolicConfig, k: int) -> int:
    """Return the slices of a reduction: of blocks whole ones."""
    if config.block_product is None:
        return k
    length = config.block_product.length
    return -(-k // length) * length


def _cycles(
    config: SystolicConfig,
    rows: Number,
    cols: Number,
    depth: Number,
    latency: Number,
    sizes: Sequence[Size],
) -> Number:
    """Return the cycles of arrays of the configuration's kind."""
    slots: Number = 0
    if config.output_stationary:
        for (m, k, n), repeats in Counter(sizes).items():
            slots = slots + repeats * ceil_div(m, rows) * ceil_div(n, cols) * np.maximum(k, rows)
        k = sizes[0][1]
        last_drain = 1 + slots - np.maximum(k, rows) + k
        return last_drain + rows + latency + 2
    for (m, k, n), repeats in Counter(sizes).items():
        x, y = (n, m) if config.input_stationary else (m, n)
        block, xs, remainder = _blocks(x, k, rows, depth)
        passes = repeats * ceil_div(k, rows) * ceil_div(y, cols)
        slots = slots + passes * ((xs - 1) * np.maximum(block, rows) + np.maximum(remainder, rows))
    m, k, n = sizes[-1]
    _, _, remainder = _blocks(n if config.input_stationary else m, k, rows, depth)
    last_beat = rows + slots - np.maximum(remainder, rows) + remainder
    # Behind the partial sums: their register, the totals, the output buffer.
    return last_beat + latency + 4


def _blocks(x: int, k: int, rows: Number, depth: Number) -> tuple[Number, Number, Number]:
    """Return the beats of a pass, the passes over `x`, and the beats of the last of them."""
    # One tile that covers the whole reduction accumulates nothing, so no memory bounds it.
    block = np.where(k <= np.asarray(rows), x, np.minimum(x, depth))
    passes = ceil_div(x, block)
    return block, passes, x - (passes - 1) * block


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
    k = _slices(config, k) if config.output_stationary else k
    x, y = (n, m) if config.input_stationary else (m, n)
    ys = ceil_div(y, cols)
    if config.output_stationary:
        tiles = ceil_div(x, rows) * ys
        beats = tiles * k, tiles * k, tiles * rows
    else:
        _, xs, _ = _blocks(x, k, rows, v["array.accumulator_depth"])
        passes = ceil_div(k, rows) * ys
        beats = passes * x, passes * xs * rows, ys * x
    row_bits, column_bits = v.figures(("array.rows", "array.cols"), 2, _port_bits)
    row = beats[0] * ceil_div(row_bits, 8)
    column = beats[1] * ceil_div(column_bits, 8)
    activations, weights = (column, row) if config.input_stationary else (row, column)
    outputs = beats[2] * ceil_div(cols * post.lane_bits(v), 8)
    return {"activations": activations, "weights": weights, "outputs": outputs}
