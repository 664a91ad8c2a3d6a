# SPDX-License-Identifier: Apache-2.0
"""Cost of the systolic family: exact cycles, bill of components, delay, rates.

The counts follow from the cores' sequencers (`rtl_templates.systolic.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cost_model import post
from cost_model.bill import (
    Counts,
    Number,
    Part,
    View,
    adder,
    bit_length,
    bits_of,
    ceil_div,
    memory,
    register,
    times,
    total,
)
from cost_model.fabric import LISTED, SHORT_COUNTER, drain_leaves, fabric_of
from cost_model.fabric import product_counts as logic_or_dsp
from hwgen.families.systolic import BUS_ROWS
from hwgen.schedules.systolic import Schedule

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig

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
    array, plans = config.array, [Schedule(config, *size) for size in sizes]
    latency = config.drain_latency if config.output_stationary else config.psum_latency
    found = _cycles(
        config, array.rows, array.cols, array.accumulator_depth, latency,
        [(plan.m, plan.k, plan.n) for plan in plans],
    )  # fmt: skip
    return int(found) + config.post_latency


def cycles_at(v: View, sizes: Sequence[Size]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    g = _Geometry(v)
    latency = g.drain_latency if v.config.output_stationary else g.psum_latency
    found = _cycles(v.config, g.rows, g.cols, v["array.accumulator_depth"], latency, sizes)
    return found + post.latency(v)


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


# -- bill of components ----------------------------------------------------------------------------

RULES = ("array.accumulator_depth",)
"""Numeric parameters that rules between fields look at."""

PE_KINDS = (
    "flip_flop", "enable", "and", "adder_bit", "adder_level", "saturate", "booth_bit",
    "booth_extension", "product",
)  # fmt: skip


def product_counts(a: int, w: int, *, signed: tuple[bool, bool]) -> dict[str, float]:
    """Return the bill of a multiplier of `a` by `w` bits.

    Of four bits and more it is a Booth multiplier.  Its operands are signed, so an unsigned one
    brings a zero on top, and equally wide, which leaves something of every bit that the narrow one
    lacks.  Where both are unsigned, they stay so, and have one more row.
    """
    if min(a, w) < 4:
        return {"product": float(a * w)}
    if not any(signed):
        return {"booth_bit": float((a + 1) * w), "booth_extension": float(abs(a - w))}
    a, w = a + (not signed[0]), w + (not signed[1])
    return {"booth_bit": float(a * w), "booth_extension": float(abs(a - w))}


def _pe_multiplier(config: SystolicConfig) -> dict[str, float]:
    x, y = config.row_operand, config.column_operand
    signed = (x.signed, y.signed)
    if fabric := fabric_of(config):
        return logic_or_dsp(fabric, x.width, y.width, signed=signed)
    return product_counts(x.width, y.width, signed=signed)


def _kinds(config: SystolicConfig) -> tuple[str, ...]:
    """Return the kinds that PEs have."""
    return (*PE_KINDS, *LISTED) if fabric_of(config) else PE_KINDS


def _pipelined(config: SystolicConfig) -> int:
    """Return the bits of the registers in the path of a product."""
    operands = config.row_operand.width + config.column_operand.width
    return operands * config.pipeline.pe


def output_stationary_pe(config: SystolicConfig) -> dict[str, float]:
    """Return the bill of an output-stationary PE."""
    y, total_width = config.column_operand.width, config.result.width
    return total(
        _pe_multiplier(config),
        {
            "flip_flop": y + _pipelined(config) + total_width,
            "enable": y,
            "and": total_width,
            "saturate": total_width if config.saturates else 0,
        },
        adder(total_width + config.saturates, fabric_of(config)),
    )


def psum_widths(config: SystolicConfig) -> list[int]:
    """Return the width of the partial sums of each row; see `StationaryArray`."""
    rows = config.array.rows
    return [
        config.partial_sum(min(row + 1 if row < BUS_ROWS else -(-(row + 1) // BUS_ROWS) * BUS_ROWS,
                               rows if row >= BUS_ROWS else row + 1)).width
        for row in range(rows)
    ]  # fmt: skip


def stationary_pes(config: SystolicConfig) -> dict[str, float]:
    """Return the bill of a column of weight- or input-stationary PEs."""
    rows, y = config.array.rows, config.column_operand.width
    widths = psum_widths(config)
    psums = sum(widths)
    registers = rows * (2 * y + _pipelined(config)) + psums
    fabric = fabric_of(config)
    enables = {"gate": 2.0 * rows} if fabric else {}
    return total(
        times(rows, _pe_multiplier(config)),
        {"flip_flop": registers, "enable": registers},
        enables,
        *(adder(width, fabric) for width in widths),
    )


def parts(config: SystolicConfig) -> tuple[Part, ...]:
    """Return the parts of a core of the configuration's kind."""
    if config.output_stationary:
        return (
            Part("PEs", ("pe",), _output_stationary_pes),
            Part("drain", ("drain",), _drain),
            Part("edges", (), _output_stationary_edges),
            Part("stream registers", (), _output_stationary_streams),
            Part("sequencer", (), _output_stationary_sequencer),
            *post.parts(config, "array.cols"),
        )
    return (
        Part("PEs", ("pe",), _stationary_pes),
        Part("edges", (), _stationary_edges),
        Part("accumulators", (), _accumulators),
        Part("stream registers", (), _stationary_streams),
        Part("sequencer", (), _stationary_sequencer),
        *post.parts(config, "array.cols"),
    )


class _Geometry:
    """Sizes that several parts need; see `rtl_templates.systolic.tile`."""

    def __init__(self, v: View) -> None:
        self.rows, self.cols, self.broadcast = (
            v["array.rows"],
            v["array.cols"],
            v["array.broadcast"],
        )
        self.stages = v["pipeline.pe"]
        self.x, self.y = v.config.row_operand.width, v.config.column_operand.width
        self.result = v.figure(("max_k",), _result_width)
        self.on_fpga = fabric_of(v.config) is not None
        self.groups = ceil_div(self.cols, self.broadcast)
        self.bands = ceil_div(self.rows, BUS_ROWS)
        self.groups_per_tile = np.maximum(1, TILE_COLUMNS // self.broadcast)
        self.tiles = ceil_div(self.cols, self.broadcast * self.groups_per_tile)
        # Sum over the columns of the group that each is in.
        before = self.groups - 1
        self.skewed = before * (self.cols - before * self.broadcast) + (
            self.broadcast * (before * (before - 1)) // 2
        )
        self.drain_latency = self.stages + (self.bands > 1) + before + (v.config.digits is not None)
        self.psum_latency = self.rows + 2 + self.stages + before

    @property
    def inner(self) -> Number:
        """Column groups that begin within a tile, over all tiles."""
        return self.groups - self.tiles

    @property
    def merged(self) -> Number:
        """Column groups within a tile whose registers are those from tile to tile.

        Synthesis for an FPGA finds that they are the same.
        """
        return (self.tiles - 1) * (self.groups_per_tile - 1) * self.on_fpga

    @property
    def passed(self) -> Number:
        """Registers from tile to tile."""
        return (self.tiles - 1) * self.groups_per_tile


TILE_COLUMNS = 16


def _result_width(config: SystolicConfig) -> float:
    return float(config.result.width)


def _psum_width(config: SystolicConfig) -> float:
    return float(config.partial_sum(config.array.rows).width)


UNPRICED = "digit_pe"
"""PE by digits, a component that no technology has a price of yet."""


def _output_stationary_pes(v: View) -> Counts:
    if v.config.digits:
        return {UNPRICED: v["array.rows"] * v["array.cols"]}
    one = v.counts(("max_k", "pipeline.pe"), _kinds(v.config), output_stationary_pe)
    return times(v["array.rows"] * v["array.cols"], one)


def _drain(v: View) -> Counts:
    width = v.figure(("max_k",), _result_width)
    if fabric_of(v.config):
        rows = v["array.rows"]
        bands, rest = rows // BUS_ROWS, rows % BUS_ROWS
        leaves = bands * drain_leaves(BUS_ROWS) + drain_leaves(rest)
        return {"drain_leaf": leaves * v["array.cols"] * width}
    return {"and_or": v["array.rows"] * v["array.cols"] * width}


def _output_stationary_edges(v: View) -> Counts:
    g = _Geometry(v)
    triangle = g.x * (g.rows * (g.rows - 1)) // 2
    free = (
        g.rows * g.x  # operands at the edge
        + g.rows * (g.tiles * g.stages + g.inner * (g.x + 1))  # rows: flags, then every group
        + g.rows * (g.tiles * g.stages + g.inner)  # drain flags
        + (g.passed - g.merged) * g.rows * (g.x + 2)
        + g.y * g.skewed
        + g.result * (g.cols * (g.groups - 1) - g.skewed)
        + (g.bands > 1) * g.cols * g.result * g.bands
    )
    chains = 2 * (g.rows - 1)
    return total(
        register(free),
        register(triangle, enable=True),
        register(chains, enable=True, reset=True),
        register(2 * g.rows + (g.groups - 1), reset=True),
        {
            # Registers of an FPGA have a reset for zeros.
            "and": g.rows * (g.x + 2) * (not g.on_fpga) + g.cols * g.result * (g.bands - 1),
            "fanout": g.rows * g.cols * (g.x + 2),
        },
    )


def _buffer(width: Number) -> dict[str, Number]:
    """Return the bill of a `StreamBuffer`."""
    return total(register(2 * width, enable=True), {"mux": width}, register(2, reset=True))


def _input_ports(v: View, g: _Geometry) -> Counts:
    lasts = {port.name: bool(port.last) for port in v.config.core_ports}
    return total(
        _buffer(g.rows * g.x + lasts[v.config.row_port.name]),
        _buffer(g.cols * g.y + lasts[v.config.column_port.name]),
    )


def _output_stationary_streams(v: View) -> Counts:
    g = _Geometry(v)
    width, depth = g.cols * g.result + 1, 2 + g.drain_latency
    fifo = depth > 2
    # Yosys does not see that the FIFO's level is what the credits are short of.
    pointers = 2 * bits_of(depth) + bit_length(depth) * (1 + g.on_fpga)
    return total(
        _input_ports(v, g),
        times(~np.asarray(fifo), _buffer(width)),
        times(fifo, register(pointers, enable=True, reset=True)),
        times(fifo, memory(width, depth, fabric_of(v.config))),
    )


def _output_stationary_sequencer(v: View) -> Counts:
    g = _Geometry(v)
    fabric, bits = fabric_of(v.config), bit_length(g.rows)
    # Shorter counters are made of look-up tables alone.
    carries = {"carry": (bits > SHORT_COUNTER) * fabric.carries(bits)} if fabric else {}
    flags = 2 + bit_length(g.rows) + bit_length(2 + g.drain_latency) + 2 * (1 + g.drain_latency)
    control: Counts = {"and": g.rows * g.x, "control": 1}
    if g.on_fpga:
        control = {"array_control": 1, "drain_control": 1}
    return total(register(flags, reset=True), control, carries)


def _stationary_pes(v: View) -> Counts:
    column = v.counts(("array.rows", "pipeline.pe"), _kinds(v.config), stationary_pes)
    return times(v["array.cols"], column)


def _stationary_edges(v: View) -> Counts:
    g = _Geometry(v)
    psum = v.figure(("array.rows",), _psum_width)
    before = g.bands - 1
    rows_behind_bands = before * (g.rows - before * BUS_ROWS) + (
        BUS_ROWS * (before * (before - 1)) // 2
    )
    enabled = (
        g.x * (2 * g.rows + (g.rows * (g.rows - 1)) // 2)
        + g.cols * g.y  # at the edge
        + g.rows * g.inner * (g.x + 2)
        + (g.passed - g.merged) * g.rows * (g.x + 2)
        + before * g.cols * g.y
        + g.y * g.skewed
        + psum * (g.cols * (g.groups - 1) - g.skewed)
    )
    return total(
        register(enabled, enable=True),
        register(2 * g.rows + rows_behind_bands, enable=True, reset=True),
        {
            "and": g.rows * (1 if g.on_fpga else g.x + 1),
            "fanout": g.rows * g.cols * (g.x + g.y + 2),
        },
    )


def _accumulators(v: View) -> Counts:
    g = _Geometry(v)
    depth, psum = v["array.accumulator_depth"], v.figure(("array.rows",), _psum_width)
    deep, address = np.asarray(depth) > 1, bits_of(depth)
    width = g.cols * g.result
    again = deep & (np.asarray(g.rows) == 1)
    saturates, fabric = v.figure(("max_k",), _saturates), fabric_of(v.config)
    rows = memory(width, depth, fabric, clocked=True)
    old: Number = width
    counter: Counts = {}
    if fabric:
        old = width - rows["memory_emulation"]  # which is a choice, too, in the same tables
        counter = {"carry": (address > SHORT_COUNTER) * fabric.carries(address)}
    return total(
        rows,
        counter,
        register(g.cols * psum + address + width, enable=True),
        register(4 + 2 + address + again, enable=True, reset=True),
        {} if fabric else times(deep, register(width, enable=True)),  # of the memory's port
        {
            "and": old,
            "mux": again * width,
            "saturate": saturates * width,
        },
        times(g.cols, adder(g.result + saturates, fabric)),
    )


def _saturates(config: SystolicConfig) -> float:
    return float(config.saturates)


def _stationary_streams(v: View) -> Counts:
    g = _Geometry(v)
    return total(_input_ports(v, g), _buffer(g.cols * g.result + 1))


def _stationary_sequencer(v: View) -> Counts:
    g = _Geometry(v)
    return total(
        register(5 + g.rows * (g.rows > np.int64(1)), enable=True, reset=True),
        register(4 * g.psum_latency, enable=True, reset=True),
        {"array_control" if g.on_fpga else "control": 1},
    )


# -- delay -----------------------------------------------------------------------------------------


def paths(v: View) -> list[Counts]:
    """Return what the longest paths lead through; see `cost_model.technology.Technology.delays`."""
    if v.config.digits:
        return [{UNPRICED: 1.0}]
    g = _Geometry(v)
    x, y = v.config.row_operand, v.config.column_operand
    product = {
        "multiplier": np.log2(float(x.width + y.width)),
        "multiplier_bit": float(x.width + y.width),
    }
    if v.config.output_stationary:
        bits = g.result
        fanout = np.log2(np.minimum(g.cols, g.broadcast))
    else:
        bits = v.figure(("array.rows",), _psum_width)
        fanout = np.log2(np.minimum(g.cols, g.broadcast))
    accumulate = {"adder_bit": bits, "adder_level": np.log2(bits)}
    alone = np.asarray(g.stages) == 0
    start = {"register": 1.0}
    reach = {"fanout": fanout}
    return [
        *post.paths(v),
        total(start, reach, product, times(alone, accumulate)),
        total(start, accumulate),
        *(
            []
            if v.config.output_stationary
            else [
                total(
                    start,
                    {
                        "adder_bit": g.result,
                        "adder_level": np.log2(g.result),
                        "read": bits_of(v["array.accumulator_depth"]),
                    },
                )
            ]
        ),
    ]


# -- rates -----------------------------------------------------------------------------------------


def macs_at(v: View) -> Number:
    """Return the multiply-accumulates of a full cycle."""
    return v["array.rows"] * v["array.cols"]


def port_bits_at(v: View) -> Number:
    """Return the bits of a beat of all ports together."""
    cols = v["array.cols"]
    x, y = v.config.row_operand.width, v.config.column_operand.width
    records = post.port_bits(v, 1 if v.config.input_stationary else cols)
    return v["array.rows"] * x + cols * (y + post.lane_bits(v)) + records
