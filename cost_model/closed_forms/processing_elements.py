# SPDX-License-Identifier: Apache-2.0
"""Components and delays of what processing elements are made of, in every family that says `pe`.

Sums by digits are counted by the very plan that the hardware is made from
(`hwgen.arithmetic.bit_heap`): `sums` walks through their heaps of bits as
`rtl_templates.arithmetic.integer.digit_accumulator` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log2

import numpy as np

from cost_model.closed_forms.component_counts import adder, total
from cost_model.closed_forms.numbers import Counts, Number, register
from hwgen.arithmetic.bit_heap import ZERO, Plan, count_adders, plan
from hwgen.arithmetic.digit_sums import (
    CARRY_ARRIVAL,
    MULTIPLE_ARRIVAL,
    SUMMED_PRODUCTS,
    Accumulator,
    DigitAccumulation,
    DigitSum,
    FinalAddition,
)
from hwgen.arithmetic.digits import Encoding, digit_count
from hwgen.core.params.base import FamilyConfig
from hwgen.formats import IntegerFormat

DIGIT_KINDS = (
    "flip_flop", "enable", "full_adder", "half_adder", "and", "multiple",
)  # fmt: skip
"""Kinds that sums by digits have."""

EDGE_KINDS = (*DIGIT_KINDS, "booth_digit", "ent_digit", "magnitude")
LINES = 4
"""Select lines of a digit."""

RESOLVE_KINDS = ("full_adder", "half_adder", "adder_bit", "adder_level")


@dataclass(frozen=True)
class Heap:
    """A sum made by full adders.

    Parameters
    ----------
    stage : int
        How many registers its bits come through.
    arrivals : tuple of tuples of int
        Of the bits of each column, in tenths of a gate's delay.
    saved : range
        Columns to which the last carry is not added.
    """

    stage: int
    arrivals: tuple[tuple[int, ...], ...]
    saved: range

    @property
    def adders(self) -> dict[str, float]:
        """The bill of its adders."""
        full, half = count_adders([len(column) for column in self.arrivals], 0, self.saved)
        return {"full_adder": float(full), "half_adder": float(half)}

    @cached_property
    def plan(self) -> Plan:
        """Assignment of bits to adders."""
        return plan(self.arrivals, 0, self.saved)

    @property
    def gates(self) -> float:
        """Its delay in gates."""
        return self.plan.delay / 10

    @property
    def bits(self) -> int:
        """Its bits, sum and carries, that are not always zero."""
        return sum(bit != ZERO for bit in self.plan.result) + len(self.plan.carries)


@dataclass(frozen=True)
class Operand:
    """A number to add: its bits, the weight of the lowest, and when they arrive."""

    bits: int
    weight: int = 0
    arrival: int = 0


def heap_of(stage: int, operands: Iterable[Operand], width: int, saved: range) -> Heap:
    """Return the sum of numbers, of so many bits; see `Heap`."""
    columns: list[list[int]] = [[] for _ in range(width)]
    for operand in operands:
        for column in range(operand.weight, min(width, operand.weight + operand.bits)):
            columns[column].append(operand.arrival)
    return Heap(stage, tuple(map(tuple, columns)), saved)


def read(width: int, carries: range, arrival: int = 0, place: int = 0) -> list[Operand]:
    """Return a number with carries kept beside it, as operands."""
    return [
        Operand(width, place, arrival),
        *(Operand(1, place + column, arrival) for column in carries),
    ]


def _correction_operands(what: DigitSum) -> list[Operand]:
    return [Operand(1, 2 * n) for _ in range(what.terms) for n in range(len(what.digits))]


@lru_cache(maxsize=1 << 12)
def sums(what: DigitAccumulation, registers: int) -> tuple[Heap, ...]:
    """Return the sums of a PE, each in front of registers.

    Parameters
    ----------
    what : DigitAccumulation
    registers : int
        In the path of the products.
    """
    heaps: list[Heap] = []
    for part in what.parts:
        rows = [
            Operand(part.sum.row_width, 2 * i, MULTIPLE_ARRIVAL)
            for i in range(len(part.sum.digits))
        ]
        groups, terms = [rows] * part.sum.terms, 1
        for stage in range(registers):
            size = len(groups) if stage == registers - 1 else SUMMED_PRODUCTS
            terms = min(terms * size, part.sum.terms)
            some = DigitSum(part.sum.recoded, part.sum.factor, terms, part.sum.digits)
            width = min(some.total.width, part.width)
            saved = range(part.spacing, width, part.spacing)
            summed = []
            for first in range(0, len(groups), size):
                merged = [operand for group in groups[first : first + size] for operand in group]
                heaps.append(heap_of(stage, merged, width, saved))
                summed.append(read(width, saved))
            groups = summed
        heaps.append(heap_of(registers, _accumulated(part, groups), part.width, part.carries))
    return tuple(heaps)


def _accumulated(part: Accumulator, groups: Sequence[list[Operand]]) -> list[Operand]:
    """Return the addends of an accumulator: sums, the correction and the stored total."""
    correction = (
        _correction_operands(part.sum) if part.sum.plain else [Operand(part.sum.plus_ones_width)]
    )
    return [
        *(operand for group in groups for operand in group),
        *correction,
        *read(part.width, part.carries, CARRY_ARRIVAL),
    ]


def digit_sums(what: DigitAccumulation, registers: int) -> dict[str, float]:
    """Return the bill of a PE's multiples, sums and accumulators."""
    heaps = sums(what, registers)
    multiples = sum(
        part.sum.terms * max(0, min(part.sum.row_width, part.width - 2 * i))
        for part in what.parts
        for i in range(len(part.sum.digits))
    )
    return total(
        {
            "multiple": multiples,
            "and": what.register_bits,
            "flip_flop": sum(heap.bits for heap in heaps),
        },
        *(heap.adders for heap in heaps),
    )


def digit_sum_paths(what: DigitAccumulation, registers: int) -> tuple[float, float]:
    """Return the gates on the longest path from the digits, and on that between registers."""
    heaps = sums(what, registers)
    return (
        max(heap.gates for heap in heaps if heap.stage == 0),
        max(heap.gates for heap in heaps),
    )


# -- digits ----------------------------------------------------------------------------------------


def recoder(encoding: Encoding, fmt: IntegerFormat) -> dict[str, float]:
    """Return the bill of an encoder of digits."""
    if encoding == "booth4":
        return {"booth_digit": float(digit_count(fmt))}
    return {"ent_digit": float(digit_count(fmt)), "magnitude": float(fmt.width * fmt.signed)}


def lines(fmt: IntegerFormat) -> int:
    """Return the select lines of a number."""
    return LINES * digit_count(fmt)


def idle_lines(fmt: IntegerFormat) -> int:
    """Return the number of select lines that are always zero: an unsigned top digit is positive."""
    return 0 if fmt.signed else 1 + (fmt.width % 2 == 0)


def line_gates(fmt: IntegerFormat) -> dict[str, float]:
    """Return the bill of the gates that make the select lines of a number zero."""
    return {"and": float(lines(fmt))}


def corrections(what: DigitAccumulation) -> dict[str, float]:
    """Return the bill of the sums of the corrections."""
    return total(*(heap.adders for heap in _correction_heaps(what)))


def correction_path(what: DigitAccumulation) -> float:
    """Return the gates on the longest path through the sums of the corrections."""
    return max((heap.gates for heap in _correction_heaps(what)), default=0.0)


def _correction_heaps(what: DigitAccumulation) -> list[Heap]:
    return [
        heap_of(0, _correction_operands(part.sum), part.sum.plus_ones_width, range(0))
        for part in what.parts
        if not part.sum.plain
    ]


# -- results ---------------------------------------------------------------------------------------


def resolution_of(config: FamilyConfig) -> FinalAddition:
    """Return the final addition of a core whose PEs accumulate by digits."""
    how = config.final_addition  # type: ignore[attr-defined]
    assert isinstance(how, FinalAddition)
    return how


@lru_cache(maxsize=1 << 12)
def _resolved(how: FinalAddition) -> tuple[Heap, ...]:
    """Return the heap of addends that each step reduces to two numbers."""
    heaps = []
    for step in range(how.steps):
        columns = how.columns(step)
        operands = [Operand(len(columns)), Operand(how.carry_width(step))]
        for part in how.accumulation.parts:
            for found in (how.sums(part, columns.start), how.carries(part, columns.start)):
                places = [place + part.position for place in found]
                operands += [Operand(1, p - columns.start) for p in places if p in columns]
        behind = how.carry_width(step + 1) if step < how.registers else 0
        width = len(columns) + behind
        heaps.append(heap_of(0, operands, width, range(width)))
    return tuple(heaps)


def digits_of(config: FamilyConfig) -> DigitAccumulation:
    """Return the digit accumulation of a configuration whose PEs accumulate by digits."""
    digits = config.digits  # type: ignore[attr-defined]
    assert isinstance(digits, DigitAccumulation)
    return digits


def resolve(config: FamilyConfig) -> dict[str, float]:
    """Return the bill of what puts a result together, without registers."""
    heaps = _resolved(resolution_of(config))
    return total(*(total(h.adders, adder(float(len(h.arrivals)))) for h in heaps))


def resolve_path(config: FamilyConfig) -> dict[str, float]:
    """Return the path through the longest of its steps."""
    heaps = _resolved(resolution_of(config))
    width = float(max(len(heap.arrivals) for heap in heaps))
    gates = max(heap.gates for heap in heaps)
    return {"gate": gates, "adder_bit": width, "adder_level": log2(width)}


def resolve_registers(config: FamilyConfig) -> tuple[float, float]:
    """Return the bits of the registers between the steps: of each column, and of all together."""
    how = resolution_of(config)
    steps = range(1, how.steps)
    left = [how.accumulation.width - how.finished_bits(step) for step in steps]
    return float(sum(map(how.width, steps))), float(sum(left) + len(left))


RESOLVE_PATH = ("gate", "adder_bit", "adder_level")


def recoder_path(encoding: Encoding, fmt: IntegerFormat) -> dict[str, float]:
    """Return the path through an encoder of digits."""
    if encoding == "booth4":
        return {"gate": 3.0}
    return {"gate": 3.0 + digit_count(fmt)}


def excess(width: Number) -> Counts:
    """Return the bill of the counter of the excess, of so many bits."""
    return total(register(width, enable=True), {"and": width}, adder(width))


def excess_path(width: Number) -> dict[str, Number]:
    """Return the path through it."""
    return {"adder_bit": width, "adder_level": np.log2(width)}


DRIVEN = 16
"""Gates that one drives before the mapper inserts buffers."""


def clearing(accumulators: Number) -> dict[str, Number]:
    """Return the path from the register of the flag that clears accumulators to their adders.

    A flag for more accumulators than a gate drives goes through a tree of buffers.
    """
    return {"spread": np.maximum(np.log2(accumulators / DRIVEN), 0.0), "gate": 1.0}
