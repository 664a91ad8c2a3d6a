# SPDX-License-Identifier: Apache-2.0
"""FPGA families: what becomes a carry cell, a DSP block, a memory.

These are rules, not costs: they say what Yosys makes of a component, and count it exactly; their
numbers are in the data file of the technology.  What is left, look-up tables, is fitted to
synthesis results like the area of standard cells.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hwgen.core.cycles.counting import Number, bits_of, ceil_div
from hwgen.technologies import technologies
from hwgen.technologies.fpga_model import FabricRules, Fpga, LutMemory


class Fabric(FabricRules):
    """The rules of an FPGA family, and what follows from them."""

    def carries(self, bits: Number, *, carry_in: bool = False) -> Number:
        """Return the carry cells of an adder of `bits` bits, one more if it takes a carry."""
        if self.last_bit_free:
            return np.maximum(0, bits - 1 - carry_in)
        return ceil_div(bits, self.carry_bits) + self.carry_feeds * (np.asarray(bits) > 0)

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
        """Return the components of a memory that is written and read at one place a cycle.

        Parameters
        ----------
        width, depth : number
        clocked : bool
            Whether it has a register at its output, which is counted too.
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
