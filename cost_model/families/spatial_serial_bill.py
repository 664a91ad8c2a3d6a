# SPDX-License-Identifier: Apache-2.0
"""Components of the parts of the spatial families' cores with serial PEs.

The counts are closed forms, written from `rtl_templates.spatial.serial`, `serial_row`, and the PEs
and encoders of `rtl_templates.arithmetic`; full adders and bits of registers are exact.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms.component_counts import Part, adder, times, total
from cost_model.closed_forms.numbers import Counts, Number, register
from cost_model.closed_forms.space import View
from hwgen.arithmetic.digits import digit_count
from hwgen.arithmetic.sparse_digits import CHOSEN_ARRIVAL, FINAL_STEPS, GROUP_TERMS, SerialSum

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

SUM = ("max_k", "array.depth", "array.carry_spacing")
"""Numeric parameters on which accumulators depend."""

FIGURES = (*SUM, "array.queue", "pipeline.pe")
"""Numeric parameters on which a PE depends."""

PE_KINDS = ("flip_flop", "full_adder", "half_adder", "and_or", "multiple")
EDGE_KINDS = (
    "flip_flop", "enable", "reset", "full_adder", "half_adder", "and", "and_or", "mux",
    "booth_digit", "ent_digit", "magnitude", "adder_level",
)  # fmt: skip

LINES = 3
"""Lines that say a digit: one, two, negative."""


def parts(config: SpatialConfig) -> tuple[Part, ...]:
    """Return the parts of a core with serial PEs."""
    return (
        Part("PEs", ("pe",), _pes),
        Part("encoders", ("edge",), _edges),
        Part("queue of W", ("window",), _windows),
        Part("drain", ("drain",), _drain),
        Part("carry resolution", ("resolve",), _resolvers),
        Part("results on their way", (), _leaving),
        Part("operands on their way", (), _broadcast),
        Part("synchronisation", (), _slots),
        *post.parts(config, "array.cols"),
    )


class SerialGeometry:
    """Sizes that several parts need, and the paths."""

    def __init__(self, v: View) -> None:
        self.rows, self.cols = v["array.rows"], v["array.cols"]
        self.queue, self.stages = v["array.queue"], v["pipeline.pe"]
        self.own = v.config.array.pe == "serial_digit"
        self.lanes, self.result, self.held = v.figures(SUM, 3, _sum_sizes)
        self.passes = v.config.passes
        self.feedback = (1 + (self.passes > 1)) * self.stages
        self.choices = GROUP_TERMS * self.queue * self.lanes

    @property
    def edges(self) -> Number:
        """Groups of encoders: one for each row, or for each PE."""
        return self.rows * (self.cols if self.own else 1)


def _sum_sizes(config: SpatialConfig) -> tuple[float, float, float]:
    what = serial_sum(config)
    return float(what.lanes), float(what.width), float(what.register_bits)


def serial_sum(config: SpatialConfig) -> SerialSum:
    """Return the serial sum of a configuration with serial PEs."""
    assert config.serial is not None
    return config.serial


# -- processing elements ---------------------------------------------------------------------------


@lru_cache(maxsize=1 << 12)
def sums(what: SerialSum, registers: int) -> tuple[elements.Heap, ...]:
    """Return the sums of a PE: of its multiples, if there are several, and the accumulator."""
    rows = [elements.Operand(what.row_width, 0, CHOSEN_ARRIVAL * (registers < 2))] * what.lanes
    first: list[elements.Heap] = []
    if registers and what.lanes > 2:
        width = what.rows_width
        first = [elements.heap_of(0, rows, width, range(width))]
        carries = max(column for column, _ in first[0].plan.carries)
        rows = [elements.Operand(width), elements.Operand(carries, 1)]
    elif registers:
        rows = [elements.Operand(what.row_width)] * what.lanes
    operands = [
        *rows,
        elements.Operand(what.plus_ones_width),
        *elements.read(what.width, what.carries),
    ]
    return (*first, elements.heap_of(1, operands, what.width, what.carries))


def pe(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of a PE without encoders."""
    what, registers = serial_sum(config), config.pipeline.pe
    heaps, rows = sums(what, registers), what.lanes * what.row_width
    # What is summed in two numbers, or the multiples; behind the multiples as well.
    stages = (heaps[0].bits if len(heaps) > 1 else rows) * (registers > 0) + rows * (registers > 1)
    chosen = GROUP_TERMS * config.array.queue * what.lanes * what.factor.width
    return total(
        register(what.register_bits + stages),
        # The factor; the sum as it is and shifted.
        {"and_or": float(chosen + 2 * what.register_bits), "multiple": float(rows)},
        *(heap.adders for heap in heaps),
    )


def _pes(v: View) -> Counts:
    g = SerialGeometry(v)
    # One more never gets a digit and says what is too much.
    return times(g.rows * g.cols + 1, v.counts(FIGURES, PE_KINDS, pe))


# -- encoders --------------------------------------------------------------------------------------


def edge(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of the encoders of a row: one for each lane."""
    what = serial_sum(config)
    short = elements.heap_of(0, [elements.Operand(1)] * what.lanes, what.plus_ones_width, range(0))
    return total(
        times(what.lanes, encoder(config)),
        short.adders,
        register(what.plus_ones_width * config.pipeline.pe),
        {"and": float((what.lanes - 1) * config.array.queue)},
    )


def encoder(config: SpatialConfig) -> dict[str, float]:
    """Return the bill of an encoder that leaves out digits of zero."""
    fmt, queue = config.activation, config.array.queue
    digits = digit_count(fmt)
    if config.array.encoding == "booth4":
        # The bits of one digit are chosen, and that one is made.
        made = {"booth_digit": 1.0}
    else:
        # The path from the port to the queue is long: the carries of the magnitude are fast ones.
        carries = float((fmt.width - 1) * fmt.signed)
        made = total(elements.recoder("ent", fmt), {"adder_level": carries * log2(fmt.width)})
    chosen = {"and_or": float(LINES * digits * (digits > 1))}
    slot = {
        **register(3 * GROUP_TERMS + 2),
        "enable": 2.0 * GROUP_TERMS,
        "mux": float(GROUP_TERMS),
        "and_or": float(LINES * GROUP_TERMS),
        # The first that is left, what is left behind it, at most one; active, pending, finished.
        "and": 9.0 + GROUP_TERMS + 6.0 + 6.0,
    }
    return total(
        times(GROUP_TERMS, total(made, chosen, {"and": 1.0})),
        times(queue, slot),
        register(GROUP_TERMS * queue + LINES),
        register(queue * (queue > 1), enable=True, reset=True),
    )


def _edges(v: View) -> Counts:
    return times(SerialGeometry(v).edges, v.counts(FIGURES, EDGE_KINDS, edge))


def _windows(v: View) -> Counts:
    g = SerialGeometry(v)
    return register(g.cols * g.choices * v.config.weight.width, enable=True)


# -- results ---------------------------------------------------------------------------------------


def _drain(v: View) -> Counts:
    g = SerialGeometry(v)
    return {"and_or": g.rows * g.cols * g.held}


@lru_cache(maxsize=1 << 12)
def joined(what: SerialSum) -> elements.Heap:
    """Return the sum of accumulator, carries and excess in two numbers."""
    operands = [elements.Operand(what.width), *elements.read(what.width, what.carries)]
    return elements.heap_of(0, operands, what.width, range(what.width))


def resolve(config: SpatialConfig) -> Counts:
    """Return the bill of what puts a result together."""
    what = serial_sum(config)
    ends = [what.finished_bits(steps) for steps in range(FINAL_STEPS + 1)]
    added = (adder(float(b - a)) for a, b in pairwise(ends) if b > a)
    return total(joined(what).adders, *added)


def _resolvers(v: View) -> Counts:
    g = SerialGeometry(v)
    return times(g.cols + 1, v.counts(SUM, elements.RESOLVE_KINDS, resolve))


def _steps(config: SpatialConfig) -> list[float]:
    what = serial_sum(config)
    return [float(what.width_after(steps)) for steps in range(1, FINAL_STEPS + 1)]


def _slice(bits: Number) -> Counts:
    """Return the bill of a `StreamSlice`."""
    return total(register(bits, enable=True), register(1, enable=True, reset=True), {"and": 2})


def _leaving(v: View) -> Counts:
    """Return the registers between accumulators and output, and those of the excess."""
    g = SerialGeometry(v)
    first, second, third = v.figures(SUM, FINAL_STEPS, _steps)
    return total(
        _slice(g.cols * g.held + g.result + 1),
        *(_slice(g.cols * bits + 1) for bits in (first, second, third)),
        register(first + second + third + g.feedback),
        register(g.rows, enable=True, reset=True),
        register(2 + g.stages, reset=True),
    )


# -- what all PEs have in common -------------------------------------------------------------------


def _broadcast(v: View) -> Counts:
    """Return the lines to PEs and encoders, and the registers of those that are common to all."""
    g = SerialGeometry(v)
    factors = g.choices * v.config.weight.width
    digit = 0 if g.own else g.choices + (LINES + 1) * g.lanes
    common = g.passes + 2 * g.queue
    terms = g.lanes * GROUP_TERMS * v.config.activation.width
    lines = g.rows * g.cols * (factors + digit + 2) + g.edges * (common + g.own * terms)
    return total(register(g.feedback), {"fanout": lines})


def _slots(v: View) -> Counts:
    """Return the bill of `rtl_templates.spatial.serial.Slots`."""
    g = SerialGeometry(v)
    turns = g.queue * (g.queue > 1)
    several = g.passes > 1
    return total(
        register(3 * g.queue, reset=True),  # full, by port, and open
        register(3 * turns + 1 + g.passes * several, enable=True, reset=True),
        # What is known of a beat: it is the first of a pass, of a tile, the last.
        register((2 + several) * g.queue, enable=True),
        register(2 + several, reset=True),
        {"and": g.queue * (24 + g.rows), "control": 1},
    )
