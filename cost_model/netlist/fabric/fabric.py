# SPDX-License-Identifier: Apache-2.0
"""FPGA families: what becomes a carry cell, a DSP block, a memory.

These are rules, not costs: they say what Yosys makes of a component, and count it exactly; their
numbers are in the data file of the technology.  What is left, look-up tables, is fitted to
synthesis results like the area of standard cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from cost_model.closed_forms.numbers import Number, bits_of, ceil_div, register
from hwgen.core.params.base import FamilyConfig
from hwgen.technologies import technologies
from hwgen.technologies.fpga_model import FabricRules, Fpga, LutMemory

COMPONENTS: Mapping[str, str] = {
    "carry": "carry cell",
    "dsp": "DSP block",
    "bram": "block memory",
    "lutram": "memory made of look-up tables",
    "shift": "shift register made of a look-up table",
    "row_bit": "bit of a row of a product in logic",
    "row_adder_bit": "bit of an adder of two such rows or sums of them",
    "memory_select": "bit chosen among the parts of a deep memory of look-up tables",
    "memory_emulation": "bit of a block memory that must not read what is just written",
    "gate": "look-up table of its own",
    "drain_leaf": "look-up table of the tree by which a bit drains",
    "fetch_few": "look-up table that chooses a bit of a table of up to four entries",
    "fetch_entry": "bit of a larger table that is chosen from",
    "fetch_held": "bit of what is chosen that goes into a register, not into an adder",
    "array_control": "sequencer of an array, beside that of a core",
    "drain_control": "sequencer of drains",
    "wait_control": "sequencer that waits for an accumulator",
}
"""Kinds of components that only FPGAs have, and what one of them is."""


CELL_COMPONENTS = ("sum_bit", "multiple", "booth_digit", "ent_digit", "magnitude", "shift_bit")
"""Kinds of `component_counts.COMPONENTS` whose cost is known of standard cells only."""


class Fabric(FabricRules):
    """The rules of an FPGA family, and what follows from them."""

    def carries(self, bits: Number, *, carry_in: bool = False) -> Number:
        """Return the carry cells of an adder of `bits` bits, one more if it takes a carry."""
        if self.last_bit_free:
            return np.maximum(0, bits - 1 - carry_in)
        return ceil_div(bits, self.carry_bits) + self.carry_feeds * (np.asarray(bits) > 0)

    def counter(self, bits: Number) -> dict[str, Number]:
        """Return the carry cells of a counter of `bits` bits, the first of which just toggles."""
        longer = bits > np.int64(self.short_counter)
        return {"carry": longer * self.carries(bits, carry_in=True)}

    def multiplies(self, bits: int, narrow: int) -> bool:
        """Return whether a product of `bits` bits with a factor of `narrow` bits is a DSP block."""
        wide_enough = self.dsp_bits is not None and bits >= self.dsp_bits
        return wide_enough and narrow >= self.dsp_narrow

    def divided(self, wide: int, narrow: int, *, signed: bool) -> tuple[list[int], list[int]]:
        """Return into which parts Yosys's ``mul2dsp`` divides the factors of a product.

        Returns
        -------
        (list of int, list of int)
            Bits of the parts of the longer and of the shorter one; each of one with each of the
            other is a DSP block.
        """
        if self.dsp_factors is None:
            return [wide], [narrow]
        longest, shortest, part, head = self.dsp_factors
        extra = head if not signed else 0

        def parts(bits: int, most: int) -> list[int]:
            step = min(part, most) - head
            result = []
            while bits > most:
                result.append(step)
                bits -= step
            return [*result, bits]

        return parts(wide + extra, longest), parts(narrow + extra, shortest)

    def drained(self, rows: Number) -> Number:
        """Return the look-up tables by which one bit of `rows` words drains.

        Each word has a select signal; a look-up table takes as many words as it has pairs of
        inputs, and those left over enter the tree of ors behind.
        """
        rows = np.asarray(rows, int)
        words = self.lut_inputs // 2
        full, left = rows // words, rows % words
        inputs = full + 2 * left
        tree = full + ceil_div(np.maximum(inputs - 1, 0), self.lut_inputs - 1)
        if not self.drain:
            return tree
        listed = np.array(self.drain)
        return np.where(rows < len(listed), listed[np.minimum(rows, len(listed) - 1)], tree)

    def brams(self, width: Number, depth: Number) -> Number:
        """Return the block memories that a memory takes."""
        block = self.block_memory
        lanes = ceil_div(width, block.lane_bits) * ceil_div(depth, block.words)
        return ceil_div(lanes, block.lanes)

    def memory(self, width: Number, depth: Number, *, clocked: bool) -> dict[str, Number]:
        """Return the bill of a memory that is written and read at one place a cycle.

        Parameters
        ----------
        width, depth : number
        clocked : bool
            Whether it has a register at its output, which is part of the bill.
        """
        width, depth = np.asarray(width), np.asarray(depth)
        deep = depth > 1
        bits, brams = width * depth, self.brams(width, depth)
        small = chosen = np.zeros_like(bits)
        block: Any = False
        if self.lut_memory:
            small, chosen = _small(self.lut_memory, width, depth)
            block = clocked & (small > self.lut_memory.per_block * brams)
        elif self.register_memory:
            more, at_once = self.register_memory.more, self.register_memory.more_at_once
            if not clocked and at_once is not None:
                more = at_once
            block = bits > self.register_memory.per_block * brams + more
        block = block & deep
        spread = deep & ~block
        in_registers = spread if self.lut_memory is None else np.zeros_like(spread)
        counts: dict[str, Number] = {
            "bram": block * brams,
            "lutram": (spread & ~in_registers) * small,
            "memory_bit": in_registers * bits,
            "memory_word": in_registers * depth,
            "memory_select": (spread & ~in_registers) * width * chosen,
        }
        emulated = block & (not self.brams_read_first)
        counts["memory_emulation"] = emulated * width
        if clocked:
            counts["flip_flop"] = (
                in_registers * bits + spread * width + emulated * (2 * width + bits_of(depth) + 2)
            )
        else:  # the block holds the address to read, which is a register anyway
            counts["flip_flop"] = in_registers * bits + block * (width + 1 - bits_of(depth))
        return counts


def delays(
    fabric: Fabric | None, shortest: Number, count: Number, *, enable: bool = False
) -> dict[str, Number]:
    """Return the bill of `count` bits, delayed by `shortest` cycles, by one more, and so on.

    Parameters
    ----------
    fabric : Fabric or None
    shortest, count : number
    enable : bool
        Whether the registers may keep their values.
    """
    if fabric is None or not fabric.shifts:
        return register(count * (2 * shortest + count - 1) // 2, enable=enable)
    registers, shifts = (
        with_count - before
        for with_count, before in zip(_shifts(shortest + count), _shifts(shortest), strict=True)
    )
    return {**register(registers, enable=enable), "shift": shifts}


def _shifts(length: Number) -> tuple[Number, Number]:
    """Return the registers and the shift registers of all delays shorter than `length`.

    Of up to 32 cycles a shift register each; the cycle by which a delay exceeds a multiple of 32,
    or one of 16, has a register of its own.
    """
    length = np.asarray(length)
    rest, pairs = (length + 30) // 32, 1 * (length > 2)
    whole, part = (length - 1) // 32, (length - 1) % 32
    shifts = 16 * whole * (whole + 1) + part * (whole + 1) - rest - pairs
    return rest + (length + 14) // 32 + 2 * pairs, shifts


def product_counts(
    fabric: Fabric,
    a: int,
    w: int,
    *,
    signed: tuple[bool, bool],
    width: int | None = None,
    positive: bool = False,
    top: int | None = None,
) -> dict[str, float]:
    """Return the bill of a product of `a` by `w` bits; see `flows.synthesis.fpga.PRODUCTS`.

    Parameters
    ----------
    fabric : Fabric
    a, w : int
    signed : tuple of bool
    width : int, optional
        Bits of the product that are used, of two factors of which one has two bits.
    positive : bool
        Whether the sign of the shorter factor is known to be zero, so that its row is none.
    top : int, optional
        Bits of the product that are made; default all.
    """
    if fabric.multiplies(a + w, min(a, w)):
        return {"dsp": 1.0}
    unused = 0 if width is None else a + w - width
    counts: dict[str, float] = {"row_bit": 0.0, "row_adder_bit": 0.0, "carry": 0.0}

    def walk(a: int, w: int, last_signed: bool, top: int) -> None:
        if a < w:
            a, w = w, a
        if w == 1 or top < 1:
            counts["row_bit"] += max(0, min(a, top))
            return
        low, high = w // 2, w - w // 2
        walk(a, low, False, top)
        ends = positive and last_signed
        if high == 1 and ends:
            return
        if high == 1 and last_signed:
            counts["row_bit"] += max(0, min(a, top - low))
        else:
            walk(a, high, last_signed, top - low)
        free = fabric.signed_rows_free and signed[0] and high == 1 and not last_signed
        bits = max(0, min(a + high - ends, top - low))
        counts["row_adder_bit"] += bits
        counts["carry"] += float(fabric.carries(max(0, bits - free - unused)))

    walk(a, w, all(signed), a + w if top is None else top)
    return counts


def fetch_counts(fabric: Fabric, entries: int, width: int) -> dict[str, float]:
    """Return the bill of choosing an entry of a table, or its inverse, or zero."""
    if entries <= len(fabric.few):
        return {"fetch_few": float(fabric.few[entries - 1] * width)}
    return {"fetch_entry": float(entries * width)}


def _small(shape: LutMemory, width: Number, depth: Number) -> tuple[Number, Number]:
    """Count the small memories of a memory, and the look-up tables that choose among its parts.

    Returns
    -------
    (number, number)
        Small memories of the shape of which fewest are needed; and for each bit of a word the
        look-up tables that choose.
    """
    counts, parts = [], []
    for words, bits in shape.shapes:
        parts.append(ceil_div(depth, words) + 0 * width)
        counts.append(ceil_div(width, bits) * parts[-1])
    best = np.argmin(counts, axis=0)  # the first of equals
    fewest = np.min(counts, axis=0)
    taken = np.take_along_axis(np.array(parts), best[None], axis=0)[0]
    return fewest, ceil_div(taken - 1, shape.chosen - 1)


LISTED = (
    "carry", "dsp", "shift", "row_bit", "row_adder_bit", "gate", "fetch_few", "fetch_entry",
    "fetch_held",
)  # fmt: skip
"""Kinds that counts by combination of parameters may have."""


@cache
def fabric(technology: str) -> Fabric | None:
    """Return the rules of an FPGA family; None of standard cells, and of families without rules."""
    if technology not in technologies():
        return None
    listed = technologies()[technology]
    if not isinstance(listed, Fpga) or listed.rules is None:
        return None
    return Fabric(**dict(listed.rules))


def has_rules(technology: str) -> bool:
    """Return whether it is known what components become: not of an FPGA family without rules."""
    if technology not in technologies():
        return True
    listed = technologies()[technology]
    return not isinstance(listed, Fpga) or listed.rules is not None


def fabric_of(config: FamilyConfig) -> Fabric | None:
    """Return the FPGA family that a configuration is for, None for standard cells."""
    return fabric(config.target.technology)
