# SPDX-License-Identifier: Apache-2.0
"""Components of the parts of the cores of `cube`, `adder_tree` and `broadcast_2d`.

The counts are closed forms, written from `rtl_templates.spatial`; full adders and bits of registers
are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms import products
from cost_model.closed_forms.component_counts import Part, adder, buffer, times, total
from cost_model.closed_forms.numbers import Counts, Number, register
from cost_model.closed_forms.space import View
from cost_model.families import spatial_serial_bill
from cost_model.netlist.fabric.fabric import fabric_of
from hwgen.core.params.spatial import SERIAL
from hwgen.core.params.spatial_timing import block_lead, lead
from hwgen.formats import TERNARY

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

MAC_KINDS = (
    "flip_flop", "and", "adder_bit", "adder_level", "saturate", "sum_bit", *products.PRODUCT_KINDS,
)  # fmt: skip

HELD = ("max_k", "array.depth", "array.carry_spacing")
"""Numeric parameters on which the registers of accumulators depend."""

RESOLVED = (*HELD, "pipeline.final_adder")
"""Numeric parameters on which it depends how results are put together."""

FIGURES = (*HELD, "pipeline.pe")
"""Numeric parameters on which a PE depends."""


_PES = ("mac", "carry_save", "same_weight", *SERIAL)
"""Processing elements that have closed forms."""


def parts(config: SpatialConfig) -> tuple[Part, ...]:
    """Return the parts of a core of the configuration's kind.

    There are none on an FPGA, of blocks, of packed products, of ternary operands, and of other PEs.
    """
    if config.array.pe not in _PES:
        return ()
    if fabric_of(config) or config.block_product is not None or config.packing is not None:
        return ()
    if TERNARY in (config.activation, config.weight):
        return ()
    if config.array.serial:
        return spatial_serial_bill.parts(config)
    resolvers = (
        Part("carry resolution", ("resolve",), _resolvers),
        Part("results on their way", (), _leaving),
    )
    return (
        Part("PEs", ("pe",), _pes),
        Part("edges", ("edge",), _edges),
        Part("rows that wait", ("result_register",), _held),
        Part("drain", ("drain",), _drain),
        *(resolvers if config.digits else ()),
        Part("operands on their way", (), _broadcast),
        Part("stream registers", (), _streams),
        Part("sequencer", (), _sequencer),
        *post.parts(config, "array.cols"),
    )


class Geometry:
    """Sizes that several parts need."""

    def __init__(self, v: View) -> None:
        self.rows, self.cols = v["array.rows"], v["array.cols"]
        # Not every family has the parameter.
        depth = v["array.depth"]
        self.depth: Number = v.config.depth if depth is None else depth
        self.stages = v["pipeline.pe"]
        blocks = v.config.block_product is not None
        self.lead: Number = lead(self.stages)
        if blocks:
            self.lead = block_lead(self.stages) + v.figure(("array.depth",), _scale_cycles)
        self.digits = v.config.digits is not None
        fmt = v.config.activation
        self.moving = elements.lines(fmt) if self.digits else fmt.width
        self.result = v.figure(("max_k",), _result_width)
        self.held = v.figure(HELD, _held_width)


def _scale_cycles(config: SpatialConfig) -> float:
    return float(config.scale_cycles)


def _result_width(config: SpatialConfig) -> float:
    return float(config.result.width)


def _held_width(config: SpatialConfig) -> float:
    return float(config.accumulator_bits)


# -- parts -----------------------------------------------------------------------------------------


def _pes(v: View) -> Counts:
    one = (
        v.counts(FIGURES, elements.DIGIT_KINDS, digit_pe)
        if v.config.digits
        else v.counts(FIGURES, MAC_KINDS, mac_pe)
    )
    return times(v["array.rows"] * v["array.cols"], one)


def digit_pe(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of a PE that multiplies by digits."""
    return elements.digit_sums(elements.digits_of(config), config.pipeline.pe)


def mac_pe(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of a PE of multipliers and adders."""
    x, w, width = config.activation, config.weight, config.result.width
    addend, multiplied = config.partial_sum(config.depth).width, config.product.width
    registers, whole = config.pipeline.pe, width
    if config.saturates:  # what is clamped is the whole sum
        whole = max(width, addend) + 1
    addend, multiplied = min(addend, whole), min(multiplied, whole)
    signed = (x.signed, w.signed)
    if registers == 0:
        sums: Counts = products.sum_of_products(
            config.depth, x.width, w.width, signed=signed, summed=addend, width=whole, numbers=1
        )
    else:
        summed = products.sum_of_products(
            config.depth, x.width, w.width, signed=signed, summed=addend, width=addend
        )
        sums = total(summed, adder(float(whole)))
    held = (registers > 1) * config.depth * multiplied + (registers > 0) * addend
    return total(
        sums,
        register(held + width),
        {"and": width, "saturate": width * config.saturates},
    )


def _edges(v: View) -> Counts:
    one = v.counts(FIGURES, elements.EDGE_KINDS, edge)
    return times(v["array.rows"], one)


def edge(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of the edge of a row."""
    fmt, depth = config.activation, config.depth
    if config.digits is None:
        return {**register(depth * fmt.width), "and": float(depth * fmt.width)}
    # What lines say of every term, that it is positive, is said once for all of them.
    idle = 0 if fmt.signed else depth * elements.idle_lines(fmt) + depth - 1
    plain, short = config.digits.parts[0].sum.plain, config.digits.plus_ones_width
    if plain:  # the lines themselves
        short = (short - (not fmt.signed)) * (config.lead - 1 > 0)
    return total(
        times(depth, elements.recoder(config.array.encoding, fmt)),
        times(depth, elements.line_gates(fmt)),
        elements.corrections(config.digits),
        register(depth * elements.lines(fmt) - idle + short * max(1, config.lead - 1)),
    )


def _held(v: View) -> Counts:
    g = Geometry(v)
    return register((g.rows - 1) * g.cols * g.held, enable=True)


def _drain(v: View) -> Counts:
    g = Geometry(v)
    return {"and_or": g.rows * g.cols * g.held}


def _resolvers(v: View) -> Counts:
    return times(v["array.cols"], v.counts(RESOLVED, elements.RESOLVE_KINDS, elements.resolve))


def _leaving(v: View) -> Counts:
    """Return the registers around what resolves carries, and the excess."""
    g = Geometry(v)
    lane, common = v.figures(RESOLVED, 2, elements.resolve_registers)
    return total(
        register(g.cols * (g.held + lane) + 1 + common, enable=True),
        register(1 + v["pipeline.final_adder"], enable=True, reset=True),
        register(g.result, enable=True),
        elements.excess(g.result),
    )


def _broadcast(v: View) -> Counts:
    """Return the registers of what all PEs of a column share, and of what all PEs do."""
    g = Geometry(v)
    return total(
        register(g.cols * g.depth * v.config.weight.width + g.lead),
        {"fanout": g.rows * g.cols * g.depth * (g.moving + v.config.weight.width)},
    )


def _streams(v: View) -> Counts:
    g = Geometry(v)
    act, wgt, _ = v.config.core_ports
    x, w = v.config.activation.width, v.config.weight.width
    return total(
        buffer(g.rows * g.depth * x + bool(act.last)),
        buffer(g.cols * g.depth * w + bool(wgt.last)),
        buffer(g.cols * g.result + 1),
    )


def _sequencer(v: View) -> Counts:
    g = Geometry(v)
    return total(
        register(1 + g.rows - np.int64(1), enable=True, reset=True),  # first beat; rows that leave
        register(1 + g.lead, reset=True),  # a tile that waits for its drain; drains under way
        {"control": 1},
    )
