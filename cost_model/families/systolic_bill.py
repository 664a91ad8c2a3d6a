# SPDX-License-Identifier: Apache-2.0
"""Components of the parts of a systolic core.

The counts are closed forms, written from `rtl_templates.systolic`; full adders, bits of registers
and of memories are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms.component_counts import Part, adder, buffer, memory, times, total
from cost_model.closed_forms.numbers import Counts, Number, bit_length, bits_of, register
from cost_model.closed_forms.processing_elements import DIGIT_KINDS
from cost_model.closed_forms.rows import Rows, rows_of
from cost_model.closed_forms.space import View
from cost_model.families.systolic_pes import (
    digit_pe,
    output_stationary_pe,
    pe_kinds,
    stationary_pes,
)
from cost_model.netlist.fabric.fabric import delays, fabric_of
from hwgen.families.systolic.params import BUS_ROWS, ArrayGeometry, block_stages
from hwgen.formats import TERNARY

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig


def _digit_parts(config: SystolicConfig) -> tuple[Part, ...]:
    """Return the parts that only a core has whose PEs multiply by digits."""
    if config.digits is None:
        return ()
    return (
        Part("recoders", ("recode",), _recoders),
        Part("carry resolution", ("resolve",), _resolvers),
        Part("results on their way", (), _leaving),
    )


class Geometry:
    """Sizes that several parts need; see `rtl_templates.systolic.tile`."""

    def __init__(self, v: View) -> None:
        self.rows, self.cols, self.broadcast = (
            v["array.rows"],
            v["array.cols"],
            v["array.broadcast"],
        )
        self.stages = v["pipeline.pe"]
        blocks = v.config.block_product is not None and v.config.output_stationary
        row = v.config.row_operand
        self.x, self.y = row.width, v.config.column_operand.width
        self.digits = v.config.digits is not None
        # What moves along the rows: the operand, or the select lines of its digits.
        self.moving = elements.lines(row) if self.digits else self.x
        self.result = v.figure(("max_k",), _result_width)
        self.held = v.figure(("max_k", "array.carry_spacing"), _held_width)
        self.fabric = fabric_of(v.config)
        self.on_fpga = self.fabric is not None
        self.resolve = v["pipeline.final_adder"]
        divided = ArrayGeometry(
            self.rows, self.cols, self.broadcast,
            block_stages(self.stages) if blocks else self.stages,
            self.resolve, self.digits or (blocks and v.config.rounds_at_end),
        )  # fmt: skip
        self.groups, self.bands = divided.groups, divided.segments
        self.groups_per_tile, self.tiles = divided.groups_per_tile, divided.tiles
        self.bus_latency, self.drain_latency = divided.bus_latency, divided.drain_latency
        self.in_steps = np.asarray(divided.in_steps)
        self.drain_stages, self.drain_entries = divided.drain_stages, divided.drain_entries
        self.psum_latency = divided.psum_latency

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

    def skewed(self, first: int, *, enable: bool = False) -> Counts:
        """Return a bit for each column, delayed by `first` cycles and one more for each group."""
        before = self.groups - 1
        return total(
            times(self.broadcast, delays(self.fabric, first, before, enable=enable)),
            times(self._last, delays(self.fabric, first + before, 1, enable=enable)),
        )

    def deskewed(self, first: int, *, enable: bool = False) -> Counts:
        """Return the same, where the last group is the one that is delayed by `first` cycles."""
        return total(
            times(self.broadcast, delays(self.fabric, first + 1, self.groups - 1, enable=enable)),
            times(self._last, delays(self.fabric, first, 1, enable=enable)),
        )

    @property
    def _last(self) -> Number:
        """Columns of the last group."""
        return self.cols - (self.groups - 1) * self.broadcast

    @property
    def passed(self) -> Number:
        """Registers from tile to tile."""
        return (self.tiles - 1) * self.groups_per_tile


def _result_width(config: SystolicConfig) -> float:
    return float(config.result.width)


def _held_width(config: SystolicConfig) -> float:
    return float(config.accumulator_bits)


def psum_width(config: SystolicConfig) -> float:
    """Return the bits of the sums that leave the last row."""
    return float(config.partial_sum(config.array.rows).width)


def parts(config: SystolicConfig) -> tuple[Part, ...]:
    """Return the parts of a core of the configuration's kind: none of blocks, nor of ternary."""
    if config.block_product is not None or TERNARY in (config.activation, config.weight):
        return ()
    if config.output_stationary:
        return (
            Part("PEs", ("pe",), _output_stationary_pes),
            Part("drain", ("drain",), _drain),
            *_digit_parts(config),
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


def _output_stationary_pes(v: View) -> Counts:
    if v.config.digits:
        names = ("max_k", "pipeline.pe", "array.carry_spacing")
        one = v.counts(names, DIGIT_KINDS, digit_pe)
    else:
        one = v.counts(("max_k", "pipeline.pe"), pe_kinds(v.config), output_stationary_pe)
    return times(v["array.rows"] * v["array.cols"], one)


def _drain(v: View) -> Counts:
    width = v.figure(("max_k", "array.carry_spacing"), _held_width)
    if fabric := fabric_of(v.config):
        rows = v["array.rows"]
        bands, rest = rows // BUS_ROWS, rows % BUS_ROWS
        leaves = bands * fabric.drained(BUS_ROWS) + fabric.drained(rest)
        return {"drain_leaf": leaves * v["array.cols"] * width}
    return {"and_or": v["array.rows"] * v["array.cols"] * width}


def _output_stationary_edges(v: View) -> Counts:
    g = Geometry(v)
    free = (
        g.rows * g.moving  # operands at the edge
        + g.rows * (g.tiles * g.stages + g.inner * (g.moving + 1))  # rows: flags, then every group
        + g.rows * (g.tiles * g.stages + g.inner)  # drain flags
        + (g.passed - g.merged) * g.rows * (g.moving + 2)
        + (g.bands > 1) * g.cols * g.held * g.bands
    )
    chains = (2 + g.digits) * (g.rows - 1)
    return total(
        register(free),
        times(g.y, g.skewed(0)),
        times(g.held, g.deskewed(0)),
        # The first registers of the rows have a reset for zeros.
        register(g.x * (g.rows - 1), enable=True),
        times(g.x, delays(g.fabric, 0, g.rows - 1, enable=True)),
        register(chains, enable=True, reset=True),
        register(2 * g.rows + (g.groups - 1), reset=True),
        {
            # Registers of an FPGA have a reset for zeros.
            "and": g.rows * (g.moving + 2) * (not g.on_fpga) + g.cols * g.held * (g.bands - 1),
            "fanout": g.rows * g.cols * (g.moving + 2),
        },
    )


def _recoders(v: View) -> Counts:
    fmt = v.config.row_operand
    return times(v["array.rows"], elements.recoder(v.config.array.encoding, fmt))


DIGIT_FIGURES = ("max_k", "array.carry_spacing")
"""Numeric parameters on which sums by digits depend, beside registers."""

RESOLVE_FIGURES = (*DIGIT_FIGURES, "pipeline.final_adder")
"""Numeric parameters on which it depends how results are put together."""


def _resolvers(v: View) -> Counts:
    one = v.counts(RESOLVE_FIGURES, elements.RESOLVE_KINDS, elements.resolve)
    return times(v["array.cols"], one)


def _leaving(v: View) -> Counts:
    """Return the registers around what resolves carries, and the excess on its way there."""
    g = Geometry(v)
    row = elements.line_gates(v.config.row_operand)
    lane, common = v.figures(RESOLVE_FIGURES, 2, elements.resolve_registers)
    return total(
        register(~g.in_steps * g.cols * g.held + g.drain_stages * g.result),
        register(g.result, reset=True),
        {"mux": g.result},
        elements.excess(g.result),
        times(g.rows, row),
        times(g.in_steps, _reserved(v, g, g.cols * g.held + g.result + 1)),
        register(g.cols * lane + common, enable=True),
        register(g.resolve, enable=True, reset=True),
    )


def _input_ports(v: View, g: Geometry) -> Counts:
    lasts = {port.name: bool(port.last) for port in v.config.core_ports}
    return total(
        buffer(g.rows * g.x + lasts[v.config.row_port.name]),
        buffer(g.cols * g.y + lasts[v.config.column_port.name]),
    )


def _output_stationary_streams(v: View) -> Counts:
    g = Geometry(v)
    width = g.cols * g.result + 1
    return total(
        _input_ports(v, g),
        times(~g.in_steps, _reserved(v, g, width)),
        times(g.in_steps, buffer(width)),
    )


def _reserved(v: View, g: Geometry, width: Number) -> Counts:
    """Return the bill of the buffer in which a row that drains has an entry."""
    depth = g.drain_entries
    fifo = depth > 2
    # Yosys does not see that the FIFO's level is what the credits are short of.
    level, address = bit_length(depth), bits_of(depth)
    pointers = 2 * address + level * (1 + g.on_fpga)
    carries = (
        total(*(g.fabric.counter(n) for n in (level, level, address, address))) if g.fabric else {}
    )
    return total(
        times(fifo, carries),
        times(~np.asarray(fifo), buffer(width)),
        times(fifo, register(pointers, enable=True, reset=True)),
        times(fifo, memory(width, depth, fabric_of(v.config))),
    )


def _output_stationary_sequencer(v: View) -> Counts:
    g = Geometry(v)
    carries = g.fabric.counter(bit_length(g.rows)) if g.fabric else {}
    flags = 2 + bit_length(g.rows) + bit_length(g.drain_entries) + 2 * g.drain_stages
    control: Counts = {"and": g.rows * g.x, "control": 1}
    if g.on_fpga:
        control = {"array_control": 1, "drain_control": 1}
    return total(register(flags, reset=True), control, carries)


def _stationary_pes(v: View) -> Counts:
    column = v.counts(("array.rows", "pipeline.pe"), pe_kinds(v.config), stationary_pes)
    return times(v["array.cols"], column)


def _stationary_edges(v: View) -> Counts:
    g = Geometry(v)
    psum = v.figure(("array.rows",), psum_width)
    before = g.bands - 1
    rows_behind_bands = before * (g.rows - before * BUS_ROWS) + (
        BUS_ROWS * (before * (before - 1)) // 2
    )
    enabled = (
        g.x * g.rows  # with a reset for zeros
        + g.rows * g.inner * (g.x + 2)
        + (g.passed - g.merged) * g.rows * (g.x + 2)
        + before * g.cols * g.y
    )
    return total(
        register(enabled, enable=True),
        times(g.x, delays(g.fabric, 1, g.rows, enable=True)),
        times(g.y, g.skewed(1, enable=True)),
        times(psum, g.deskewed(1, enable=True)),  # and in front of the accumulators
        register(2 * g.rows + rows_behind_bands, enable=True, reset=True),
        {
            "and": g.rows * (1 if g.on_fpga else g.x + 1),
            "fanout": g.rows * g.cols * (g.x + g.y + 2),
        },
    )


def accumulated_rows(v: View, g: Geometry) -> Rows:
    """Return the memory of rows of totals of an array that is not output-stationary."""
    return rows_of(v, g.cols * g.result, v["array.accumulator_depth"], held=True)


def _accumulators(v: View) -> Counts:
    g = Geometry(v)
    depth = v["array.accumulator_depth"]
    deep, address = np.asarray(depth) > 1, bits_of(depth)
    width = g.cols * g.result
    again = deep & (np.asarray(g.rows) == 1)
    saturates, fabric = v.figure(("max_k",), _saturates), fabric_of(v.config)
    stored, old = accumulated_rows(v, g).counts(), width
    counter: Counts = {}
    if fabric:
        stored = memory(width, depth, fabric, clocked=True)
        old = width - stored["memory_emulation"]  # which is a choice, too, in the same tables
        counter = fabric.counter(address)
    return total(
        stored,
        counter,
        register(address + width, enable=True),
        register(4 + 2 + address + again, enable=True, reset=True),
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
    g = Geometry(v)
    return total(_input_ports(v, g), buffer(g.cols * g.result + 1))


def _stationary_sequencer(v: View) -> Counts:
    g = Geometry(v)
    return total(
        register(5 + g.rows * (g.rows > np.int64(1)), enable=True, reset=True),
        register(4 * g.psum_latency, enable=True, reset=True),
        {"array_control" if g.on_fpga else "control": 1},
    )
