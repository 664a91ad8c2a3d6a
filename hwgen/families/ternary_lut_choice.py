# SPDX-License-Identifier: Apache-2.0
"""What the generator chooses in a ternary-LUT core: its structure, and registers for a clock.

The structure is the one whose column was measured to be the smallest.

A stage is as slow as the logic between two registers: ``register + read + sum`` where a table is
read and summed in one cycle.  How many gates follow each other is counted, in a sum of bits by the
very plan that the hardware is made from; how long they take was measured (`hwgen.config.measured`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import TYPE_CHECKING, TypeVar

from hwgen.config.measured import Delays, measured, smallest
from hwgen.config.model import AUTO, check_rules
from hwgen.numerics.bit_heap import plan

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig


Config = TypeVar("Config", bound="TernaryLutConfig")

MOST = 4
"""Largest number of registers of each kind."""


def table_ns(config: TernaryLutConfig, delays: Delays, registers: int) -> float:
    """Return the delay of the slowest stage that builds tables, in ns."""
    levels = config.array.group_size - 1
    if config.is_float:
        stages = delays.float_adder[config.activation.name]
        # All registers but the last are spread over the adders.
        inside = (registers - 1) // max(1, levels)
        if inside:
            return stages[inside]
        return delays.register + ceil(levels / registers) * stages[0]
    return delays.register + delays.adder * ceil(levels / registers)


def read_ns(config: TernaryLutConfig, delays: Delays) -> float:
    """Return the delay of a read of a table, without a register, in ns."""
    if config.array.method == "multiply":
        return delays.adder
    return delays.read * log2(len(config.stored_patterns) + 1)


def sum_groups(tables: int, registers: int) -> tuple[int, ...]:
    """Return how many addends each stage of a sum of compressors adds at most.

    The first register stands behind the reads, the others divide the sum, so that every stage has
    about as many addends for each sum; the last stage adds the old total, too.
    """
    groups, left = [], tables
    for stage in range(registers - 1):
        groups.append(ceil(left ** (1 / (registers - stage))))
        left = ceil(left / groups[-1])
    return (*groups, left)


def sum_ns(
    config: TernaryLutConfig, delays: Delays, addends: int, tables: int, *, total: bool
) -> float:
    """Return the delay of a sum in ns.

    Parameters
    ----------
    config : TernaryLutConfig
    delays : Delays
    addends : int
        How many numbers are added.
    tables : int
        How many tables they come from.
    total : bool
        Whether the old total belongs to the sum.
    """
    if config.array.reduction == "adders":
        return delays.adder * ((addends - 1).bit_length() + total)
    addend = config.digit_sum(tables * config.array.group_size // addends).width
    psum = config.digit_sum(tables * config.array.group_size).width
    heap = [
        [0] * (addends * (column < addend) + (total and column < psum))
        for column in range(psum + total)
    ]
    if addends == tables:
        heap[1] += [0] * tables  # what negative entries are short of
    return delays.gate * plan(heap).delay / 10


def reduce_ns(config: TernaryLutConfig, delays: Delays, registers: int) -> float:
    """Return the delay of the slowest stage between the tables and the totals, in ns."""
    tables, read = config.array.tables, read_ns(config, delays)
    if config.is_float:
        # Every adder of the tree has that many registers, and none stands between two of them.
        levels = (tables - 1).bit_length()
        stages = delays.float_adder[config.activation.name]
        if registers and levels:
            return read + stages[registers]
        return delays.register + read + levels * stages[0]
    if registers == 0:
        return delays.register + read + sum_ns(config, delays, tables, tables, total=True)
    slowest, covered = read, 1
    *first, last = sum_groups(tables, registers)
    for group in first:
        covered = min(tables, covered * group)
        slowest = max(slowest, sum_ns(config, delays, group, covered, total=False))
    slowest = max(slowest, sum_ns(config, delays, last, tables, total=True))
    return delays.register + slowest


def accumulate_ns(config: TernaryLutConfig, delays: Delays, registers: int) -> float:
    """Return the delay of the slowest stage that accumulates floating-point numbers, in ns."""
    return delays.float_adder[config.result.name][registers] + delays.register * (not registers)


def registers_for(
    config: TernaryLutConfig, delays: Delays, automatic: Iterable[str]
) -> tuple[dict[str, int], list[str]]:
    """Return the smallest numbers of registers that meet the clock target, and what cannot."""
    clock = config.target.clock_mhz
    stages = {"table": (table_ns, 1), "reduce": (reduce_ns, 0), "accumulate": (accumulate_ns, 0)}
    numbers, broken = {}, []
    for field in automatic:
        delay, least = stages[field]
        by_number = {n: delay(config, delays, n) for n in range(least, MOST + 1)}
        enough = [n for n, ns in by_number.items() if ns <= 1000 / clock]
        if enough:
            numbers[field] = enough[0]
        else:
            broken.append(
                f"pipeline.{field}: auto cannot reach target.clock_mhz {clock:g} in"
                f" {config.target.technology}; any number of registers allows at most"
                f" {1000 / min(by_number.values()):.0f}: lower the clock, or give a number"
            )
    return numbers, broken


def chosen(config: Config, automatic: Sequence[str]) -> Config:
    """Return a configuration with everything chosen that is `auto`.

    Parameters
    ----------
    config : TernaryLutConfig
        With numbers in its pipeline.
    automatic : sequence of str
        The fields of its pipeline to choose: ``table``, ``reduce``, ``accumulate``.

    Raises
    ------
    PydanticCustomError
        As a validator's, if the clock target cannot be reached or delays are not known.
    """
    technology = config.target.technology
    delays = measured(technology)
    array = config.array
    structure = smallest(technology)
    if config.is_float:
        structure = {**structure, "reduction": "adders"}
    update = {f: way for f, way in structure.items() if getattr(array, f) == AUTO}
    config = config.model_copy(update={"array": array.model_copy(update=update)})
    if not automatic:
        return config
    if delays is None:
        unknown = "must be a number with target.technology"
        return check_rules(
            config,
            [
                f"pipeline.{field}: {unknown} {technology}, whose delays have not been measured"
                for field in automatic
            ],
        )
    if not config.is_float:
        automatic = [field for field in automatic if field != "accumulate"]
    numbers, broken = registers_for(config, delays, automatic)
    check_rules(config, broken)
    return config.model_copy(update={"pipeline": config.pipeline.model_copy(update=numbers)})
