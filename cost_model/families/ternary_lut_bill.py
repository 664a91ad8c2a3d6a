# SPDX-License-Identifier: Apache-2.0
"""Components of the parts of a ternary-LUT core: of a table, a column, a correction.

Each is counted from a configuration, by the same walk through the structure as the hardware is
made by (`rtl_templates.ternary_lut`); full adders and bits of registers are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from cost_model.closed_forms.component_counts import adder, times, total
from cost_model.closed_forms.numbers import Counts, register
from cost_model.netlist.fabric.fabric import delays, fabric_of, fetch_counts, product_counts
from hwgen.arithmetic.bit_heap import count_adders
from hwgen.families.ternary_lut.alignment import table_levels, table_parts, table_sum_format
from hwgen.families.ternary_lut.choice import sum_groups
from hwgen.formats import TERNARY, enclosing_format

if TYPE_CHECKING:
    from cost_model.netlist.fabric.fabric import Fabric
    from hwgen.families.ternary_lut.params import TernaryLutConfig

TABLE_KINDS = ("flip_flop", "enable", "adder_bit", "adder_level")
COLUMN_KINDS = (
    "flip_flop", "enable", "full_adder", "half_adder", "adder_bit", "adder_level", "and", "and_or",
    "mux", "xor", "select", "count", "saturate", "ternary_product",
)  # fmt: skip


def table(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of a table but for the operators of floating-point ones."""
    stages = config.pipeline.table
    if config.is_float:
        bits = _float_table_registers(config) * config.activation.width
        return dict(register(bits, enable=True))
    mu, levels = config.array.group_size, table_levels(config)
    alone = [tuple(int(i == j) for j in range(mu)) for i in range(mu)]
    registers = 0
    for stage in range(stages):
        there = levels[: len(levels) * (stage + 1) // stages]
        held = [*alone, *(pattern for level in there for pattern in level)]
        if stage == stages - 1:  # what no entry is made of any more is not held
            held = list(config.stored_patterns)
        else:
            later = [p for level in levels[len(there) :] for p in level]
            needed = {part for p in later for part in table_parts(config, p)[:2]}
            held = [p for p in held if p in needed or p in config.stored_patterns]
        # Sums of the same activations share their least significant bit.
        shared = len(held) - len({tuple(map(abs, p)) for p in held})
        registers += sum(_made(config, table_sum_format(config, p).width) for p in held) - shared
    fabric = fabric_of(config)
    sums = (
        _sum_of_two(_made(config, table_sum_format(config, p).width), fabric)
        for level in levels
        for p in level
    )
    # On an FPGA an inverse is made where it is held, and not by its readers.
    inverse = fabric is not None and not fabric.inverters and config.array.method == "select"
    inverses = {"select": float(config.activation.width)} if inverse else {}
    return total(register(registers, enable=True), inverses, *sums)


def _sum_of_two(width: int, fabric: Fabric | None, *, carry: bool = False) -> dict[str, float]:
    """Return the bill of an adder of two numbers with a bit less than the sum, and a carry."""
    found = adder(width + carry, fabric, carry_in=carry)
    if fabric is not None and fabric.ends_free:
        found["adder_bit"] -= 1 + carry
    return found


def _depth(pattern: tuple[int, ...]) -> int:
    return sum(map(bool, pattern))


def float_table_latencies(config: TernaryLutConfig) -> list[int]:
    """Return the registers behind x of what has 0, 1, 2, ... non-zero weights."""
    mu, inner = config.array.group_size, config.pipeline.table - 1
    return [0, *(inner * adders // max(1, mu - 1) for adders in range(mu))]


def _float_table_registers(config: TernaryLutConfig) -> int:
    """Return the words that a table delays and holds outside its adders."""
    latency, inner = float_table_latencies(config), config.pipeline.table - 1
    return sum(inner + 1 - latency[_depth(p)] for p in config.stored_patterns)


def _heap(operands: Iterable[tuple[int, int, bool]], width: int) -> tuple[int, int]:
    """Return the full and half adders of a sum of operands of (bits, weight, signed)."""
    heights, constant = [0] * width, 0
    for bits, weight, signed in operands:
        kept = min(bits, max(0, width - weight))
        for column in range(weight, weight + kept):
            heights[column] += 1
        if signed and kept == bits:
            constant -= 1 << (weight + bits - 1)
    return count_adders(heights, constant)


@dataclass
class _Addend:
    """An operand of a sum: its bits, whether it is short of a carry, its tables.

    And the registers that it, and its carry, went through.
    """

    bits: int
    carry: bool
    tables: int
    held: int = 0
    carry_held: int = 0


def column(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of a column of integers that accumulates in one register."""
    array, result, planes = config.array, config.total_width, config.planes
    compressed, on_fpga = array.reduction == "compressors", fabric_of(config) is not None
    found = total(
        times(array.tables, read_counts(config)),
        {
            "flip_flop": result + planes - 1,  # and what the total gives away
            "enable": result + planes - 1 - counted_bits(config),
            "and": result + (planes - 1) * on_fpga,
            "saturate": result if config.saturates else 0,
            "mux": result + planes - 1 if planes > 1 and not on_fpga else 0,
        },
    )
    addends = [_Addend(value_width(config), array.method != "multiply", 1)] * array.tables
    summed = _compressed(config, addends) if compressed else _added(config, addends)
    return total(found, summed)


def counted_bits(config: TernaryLutConfig) -> int:
    """Return the number of bits of a single total that need no enable, as they count or stay."""
    if config.array.reduction != "compressors" or config.saturates or config.planes > 1:
        return 0
    return max(0, config.total_width - added_bits(config))


def added_bits(config: TernaryLutConfig) -> int:
    """Return the number of bits of the total that compressors add; those above are counted."""
    return int(config.addend.width - 1)


def value_width(config: TernaryLutConfig) -> int:
    """Return the bits of what a column reads."""
    if config.array.method == "multiply":
        return _made(config, config.product.width)
    return _made(config, config.entry.width + (not config.entry.signed))


def _made(config: TernaryLutConfig, width: int) -> int:
    """Return the width of an operand of the totals that synthesis for standard cells leaves."""
    if fabric_of(config) or config.saturates:
        return int(width)
    return int(min(width, config.total_width))


def read_counts(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of a read of a table; see `rtl_templates.ternary_lut.fetch`."""
    array, value = config.array, value_width(config)
    if array.method == "select":
        return {"select": value, "and": 1}
    if array.method == "multiply":
        fabric, signed = fabric_of(config), bool(config.activation.signed)
        if fabric is None:
            return {"ternary_product": value}
        return product_counts(
            fabric, config.activation.width, 2, signed=(signed, True), width=value
        )
    if (fabric := fabric_of(config)) and _binary(config):
        held = value * fabric.adders_choose * (config.pipeline.reduce > 0)
        return {**_chosen(config), "fetch_held": float(held)}
    found: dict[str, float] = {"xor": value - (array.reduction == "compressors"), "and": 1}
    return total(found, _chosen(config))


def _binary(config: TernaryLutConfig) -> bool:
    return config.array.fetch != "one_hot" or not config.index_width


def _chosen(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of choosing an entry of a table."""
    rows, width = len(config.stored_patterns), config.entry.width
    width = width if config.is_float else _made(config, width)
    zero = config.digit is TERNARY
    if _binary(config):
        if fabric := fabric_of(config):
            return fetch_counts(fabric, rows, width)
        return {"mux": (rows - 1) * width, "and": width * zero}
    looked_at = sum(
        1
        for number in range(rows)
        for bit in range(config.index_width)
        if number >> bit & 1 or number + (1 << bit) <= rows + zero - 1
    )
    return {"and_or": rows * width, "and": looked_at - rows}


def correction_width(config: TernaryLutConfig) -> int:
    """Return the bits of what the sum of the last bit plane is short of, 0 if there is one."""
    a = config.activation
    exact = enclosing_format(-config.terms * a.max, -config.terms * a.min)
    return exact.width if config.planes > 1 else 0


def correction(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of the sum of activations that corrects the last bit plane."""
    width, registers = correction_width(config), config.pipeline.reduce + 1
    if not width:
        return {}
    entry, fabric = config.entry, fabric_of(config)
    widths = [int(entry.width + (not entry.signed))] * config.array.tables
    bits = full = half = 0
    adders: list[Counts] = []
    for stage in range(registers):
        group = ceil(len(widths) ** (1 / (registers - stage)))
        some = [widths[first : first + group] for first in range(0, len(widths), group)]
        for addends in some:
            found = _heap([(w, 0, True) for w in addends], width)
            full, half = full + found[0], half + found[1]
            if fabric:  # Yosys makes compressors of all operands but two
                adders += [adder(width, fabric), {"full_adder": width * (len(addends) - 1)}]
            else:
                adders += [adder(width)] * (len(addends) - (stage > 0))
        widths = [width] * len(some)
        bits += width * len(some)
    compressed = config.array.reduction == "compressors"
    sums: Counts = {"full_adder": full, "half_adder": half} if compressed else total(*adders)
    return total(register(bits, enable=True), sums, {"and": width})


def sum_width(config: TernaryLutConfig, tables: int) -> int:
    """Return the bits of a sum of reads."""
    return int(config.digit_sum(tables * config.array.group_size).width)


def _compressed(config: TernaryLutConfig, addends: list[_Addend]) -> dict[str, float]:
    registers, result = config.pipeline.reduce, config.total_width
    weight = int(config.array.method == "lut")
    bits = full = half = 0

    def operands(some: Iterable[_Addend]) -> list[tuple[int, int, bool]]:
        values = [(addend.bits, 0, True) for addend in some]
        return values + [(1, weight, False) for addend in some if addend.carry]

    groups = sum_groups(len(addends), registers)
    for stage in range(registers):
        bits += sum(addend.bits + addend.carry for addend in addends)
        if stage == registers - 1:
            break
        group = groups[stage]
        merged = []
        for first in range(0, len(addends), group):
            some = addends[first : first + group]
            if len(some) == 1:
                merged += some
                continue
            tables = sum(addend.tables for addend in some)
            width = sum_width(config, tables)
            adders = _heap(operands(some), width)
            full, half = full + adders[0], half + adders[1]
            merged.append(_Addend(width, False, tables))
        addends = merged
    low = added_bits(config)
    kept = 1 + max(result, low + 1) if config.saturates else result
    last = operands(addends)
    if config.planes > 1:
        last.append((correction_width(config), 0, True))
    if low >= kept:
        adders = _heap([(kept, 0, bool(config.result.signed)), *last], kept)
    else:
        adders = _heap([(low, 0, False), *last], low + 2)
    return {
        **register(bits, enable=True),
        "full_adder": full + adders[0],
        "half_adder": half + adders[1],
        "count": max(0, kept - low),
    }


def _added(config: TernaryLutConfig, addends: list[_Addend]) -> dict[str, float]:
    registers = config.pipeline.reduce
    levels = (len(addends) - 1).bit_length()
    places = [stage * levels // registers for stage in range(registers)]
    fabric, carry = fabric_of(config), config.array.method != "multiply"

    def sum_of(width: int) -> dict[str, float]:
        """Return the bill of an adder, which a bit longer takes the carry of a read."""
        if fabric is None:
            return adder(width + 1)
        return adder(width + carry, fabric, carry_in=carry)

    def registers_of(addend: _Addend, *, carry: bool) -> Counts:
        """Return the bill of the registers that an addend, or its carry, went through."""
        behind = times(addend.bits, delays(fabric, addend.held, 1, enable=True))
        own = delays(fabric, addend.carry_held, 1, enable=True) if carry and addend.carry else {}
        return total(behind, own)

    found: list[Counts] = [sum_of(config.total_width + config.saturates)]
    if config.planes > 1:
        found.append(sum_of(config.addend.width))
    for level in range(levels + 1):
        there, stages = addends, places.count(level)
        addends = [
            replace(a, held=a.held + stages, carry_held=a.carry_held + stages) for a in there
        ]
        merged = []
        for first, second in zip(addends[::2], addends[1::2], strict=False):
            tables = first.tables + second.tables
            width = sum_width(config, tables)
            if fabric:  # Yosys takes what the operands need, which may be less
                width = min(width, max(first.bits, second.bits) + 1)
            found += [
                _sum_of_two(width, fabric, carry=carry) if fabric else sum_of(width),
                registers_of(first, carry=True),
                registers_of(second, carry=False),
            ]
            merged.append(_Addend(width, second.carry, tables, 0, second.carry_held))
        addends = merged + addends[len(addends) & ~1 :]
    return total(*found, *(registers_of(addend, carry=True) for addend in addends))


def exact_sum(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of the sum of the reads of a column of integers, without its total."""
    width, tables = config.result.width, config.array.tables
    carries = config.array.method != "multiply"
    if config.array.reduction == "compressors":
        weight = int(config.array.method == "lut")
        reads = [(value_width(config), 0, True)] * tables + [(1, weight, False)] * tables * carries
        full, half = _heap(reads, width)
        return {"full_adder": full, "half_adder": half}
    fabric = fabric_of(config)
    widths, found = [value_width(config)] * tables, []
    while len(widths) > 1:
        merged = [max(pair) + 1 for pair in zip(widths[::2], widths[1::2], strict=False)]
        found += [_sum_of_two(each, fabric, carry=carries) for each in merged]
        widths = merged + widths[len(widths) & ~1 :]
    return total(*found, adder(width, fabric) if carries else {})


def float_column(config: TernaryLutConfig) -> dict[str, float]:
    """Return the bill of a column of floating-point numbers, its operators by kind."""
    array, pipeline = config.array, config.pipeline
    a, result = config.activation, config.result
    reads: dict[str, float]
    if array.method == "multiply":
        reads = {f"float_multiplier_{a}_{pipeline.reduce}": 1}
    else:
        reads = total({"xor": 1}, _chosen(config))
    waiting, left = 0, array.tables
    while left > 1:
        waiting += left % 2
        left = -(-left // 2)
    found = total(
        times(array.tables, reads),
        {f"float_adder_{a}_{pipeline.reduce}": array.tables - 1},
        {f"float_adder_{result}_{pipeline.accumulate}": 1},
        {f"float_widen_{a}_{result}": 1} if a != result else {},
        register(waiting * a.width * pipeline.reduce + result.width, enable=True),
        {"and": result.width},
    )
    return found


def float_adders_of_table(config: TernaryLutConfig) -> dict[str, float]:
    """Return the adders of a table of floating-point numbers."""
    latency = float_table_latencies(config)
    found: dict[str, float] = {}
    for pattern in config.stored_patterns:
        depth = _depth(pattern)
        if depth > 1:
            stages = latency[depth] - latency[depth - 1]
            kind = f"float_adder_{config.activation}_{stages}"
            found[kind] = found.get(kind, 0) + 1
    return found


def operators(config: TernaryLutConfig) -> tuple[str, ...]:
    """Return the kinds of floating-point operators that a core may have."""
    a, result = config.activation, config.result
    stages = range(5)
    return tuple(
        dict.fromkeys(
            (
                *(f"float_adder_{a}_{n}" for n in stages),
                *(f"float_adder_{result}_{n}" for n in stages),
                *(f"float_multiplier_{a}_{n}" for n in stages),
                f"float_widen_{a}_{result}",
            )
        )
    )
