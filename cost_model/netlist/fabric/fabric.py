# SPDX-License-Identifier: Apache-2.0
"""FPGA families: what becomes a carry cell, a DSP block, a memory.

These are rules, not costs: they say what Yosys makes of a component, and count it exactly; their
numbers are in the data file of the technology.  What is left, look-up tables, is fitted to
synthesis results like the area of standard cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from hwgen.core.cycles.counting import Number, ceil_div
from hwgen.technologies import technologies
from hwgen.technologies.fpga_model import FabricRules, Fpga, LutMemory

Read = Literal["clocked", "registered", "at once"]
"""How a memory is read: through a register behind it, from an address in a register, or neither."""


@dataclass(frozen=True)
class Store:
    """Form of a memory.

    Parameters
    ----------
    form : {"registers", "small", "block"}
    cells : int
        Small memories of each port to read.
    bits : int
        Bits of a word of one of them.
    chosen : int
        Look-up tables by which a bit is chosen among their parts.
    """

    form: Literal["registers", "small", "block"]
    cells: int = 0
    bits: int = 1
    chosen: int = 0


class Fabric(FabricRules):
    """The rules of an FPGA family, and what follows from them."""

    def carries(self, bits: Number, *, carry_in: bool = False) -> Number:
        """Return the carry cells of an adder of `bits` bits, one more if it takes a carry."""
        if self.last_bit_free:
            return np.maximum(0, bits - 1 - carry_in)
        return ceil_div(bits, self.carry_bits) + self.carry_feeds * (np.asarray(bits) > 0)

    def borrows(self, bits: int) -> int:
        """Return the carry cells of a comparison of `bits` bits, of which a carry is used."""
        return bits if self.last_bit_free else int(self.carries(bits))

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

    def dsps(self, wide: Sequence[int], narrow: Sequence[int]) -> int:
        """Return the DSP blocks of the products of parts; a part may be too narrow for one."""
        return sum(self.multiplies(a + b, min(a, b)) for a in wide for b in narrow)

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

    def brams(self, width: int, depth: int) -> int:
        """Return the block memories that a memory with one port to read takes."""
        block = self.block_memory
        lanes = -(-width // block.lane_bits) * -(-depth // block.words)
        return -(-lanes // block.lanes)

    def slice_bits(self, depth: int) -> int:
        """Return the bits of a word that one block memory has, of a memory of some depth."""
        block = self.block_memory
        return max(1, block.lanes * block.lane_bits // -(-depth // block.words))

    def store(self, width: int, depth: int, reads: Sequence[Read], enables: int = 1) -> Store:
        """Return the form of a memory that is written at one address a cycle.

        Yosys takes the cheapest: registers, a bit of which costs one; small memories, and
        multiplexers behind deep ones; block memories, and the logic around them.  Every port to
        read has small memories or blocks of its own.

        Parameters
        ----------
        width, depth : int
        reads : sequence of Read
        enables : int, optional
            Signals that enable bits of a word to be written.
        """
        if depth < 2 or not reads:
            return Store("registers")
        possible = all(read != "at once" for read in reads)
        block_count = self.brams(width, depth) * len(reads)
        if self.lut_memory is None:
            rules = self.register_memory
            assert rules is not None
            more = rules.more
            if "clocked" not in reads and rules.more_at_once is not None:
                more = rules.more_at_once
            is_block = possible and width * depth > rules.per_block * block_count + more
            return Store("block") if is_block else Store("registers")
        small, bits, chosen, cost = _small(self.lut_memory, width, depth, enables)
        score = {"clocked": 1, "registered": 4, "at once": 1}
        choices = [(float(width * depth), Store("registers"))]
        small_cost = cost * len(reads) + _EMULATED * sum(score[read] for read in reads)
        choices.append((small_cost, Store("small", small, bits, chosen)))
        if possible and self.block_memory.cost is not None:
            if not self.brams_read_first:
                score["clocked"] = 7
            emulated = _EMULATED * sum(score[read] for read in reads)
            choices.append((self.block_memory.cost * block_count + emulated, Store("block")))
        return min(choices, key=lambda choice: choice[0])[1]  # the first of equals


_EMULATED = 2
"""What Yosys adds for a point of logic around a memory."""


def _small(shape: LutMemory, width: int, depth: int, enables: int) -> tuple[int, int, int, float]:
    """Count the small memories of a port of a memory.

    Returns
    -------
    (int, int, int, float)
        Small memories of the shape of which fewest are needed, their width, for each bit of a word
        the look-up tables that choose among the parts, and what Yosys takes the memory for.
    """
    counts, costs = [], []
    for words, bits in shape.shapes:
        parts = -(-depth // words)
        cells = -(-width // bits) * parts
        counts.append((cells, bits, -(-(parts - 1) // (shape.chosen - 1))))
        whole = shape.cost - shape.cost_by_width
        chosen = (parts - 1) * width / 2 + (parts * enables / 2 if parts > 1 else 0)
        costs.append(whole * cells + shape.cost_by_width * parts * width / bits + chosen)
    cells, bits, behind = min(counts, key=lambda count: count[0])  # the first of equals
    return cells, bits, behind, min(costs)


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
