# SPDX-License-Identifier: Apache-2.0
"""FPGA families: what becomes a carry cell, a DSP block, a memory.

These are rules, not costs: they say what Yosys makes of a component, and count it exactly.  What is
left, look-up tables, is fitted to synthesis results like the area of standard cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cost_model.bill import Number, bits_of, ceil_div, register

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

KINDS: Mapping[str, str] = {
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


CELL_KINDS = ("sum_bit", "multiple", "booth_digit", "ent_digit", "magnitude", "shift_bit")
"""Kinds of `cost_model.bill.KINDS` whose cost is known of standard cells only."""


@dataclass(frozen=True)
class Fabric:
    """An FPGA family.

    Parameters
    ----------
    carry_bits : int
        Bits of an adder in one carry cell.
    last_bit_free : bool
        Whether an adder's last bit needs no carry cell.
    short_counter : int
        Bits of the longest counter without carry cells.
    dsp_bits : int or None
        Bits of the smallest product that becomes a DSP block; None if none does.
    drain : callable
        Takes a number of words, each with a select line, and returns the look-up tables of a bit
        of their or.
    few : tuple of float
        Look-up tables by which a bit of a table of one entry, of two and so on is chosen; half a
        one if the adder behind chooses one of its two operands.
    lutrams : callable or None
        Takes width and depth of a memory and returns the small memories that it takes, and for
        each bit of a word the look-up tables that choose among them.
    brams : callable
        Takes width and depth of a memory and returns the block memories that it takes.
    lutrams_per_bram : float
        Small memories that are dearer than a block memory.
    registers_per_bram : tuple of float
        The same for bits of registers, where there are no small memories, and how many more a
        memory must have.
    brams_read_first : bool
        Whether a block memory reads what was there before it is written in the same cycle; else
        there is logic around it for that.
    dsp_adds : bool
        Whether a DSP block contains the adder behind the product, and registers between them,
        behind, and in front if nothing else reads them.
    signed_rows_free : bool
        Whether the sum of two signed rows of a product needs no carry cell for its last bit.
    adders_choose : bool
        Whether the look-up tables of an adder choose one of its operands as well.
    ends_free : bool
        Whether an adder needs no look-up table for the bit where a carry enters, and for the one
        above the signs of both its operands.
    inverters : bool
        Whether an inverter in front of a register is a cell that is no look-up table.
    shifts : bool
        Whether three registers and more, one behind the other and without reset, become a shift
        register.
    """

    carry_bits: int
    last_bit_free: bool
    short_counter: int
    dsp_bits: int | None
    drain: Callable[[Number], Number]
    few: tuple[float, ...]
    lutrams: Callable[[Number, Number], tuple[Number, Number]] | None
    brams: Callable[[Number, Number], Number]
    lutrams_per_bram: float = 0.0
    registers_per_bram: tuple[float, float] = (0.0, 0.0)
    brams_read_first: bool = False
    dsp_adds: bool = False
    signed_rows_free: bool = False
    adders_choose: bool = False
    ends_free: bool = False
    inverters: bool = False
    shifts: bool = False

    def carries(self, bits: Number, *, carry_in: bool = False) -> Number:
        """Return the carry cells of an adder of `bits` bits, one more if it takes a carry."""
        if self.last_bit_free:
            return np.maximum(0, bits - 1 - carry_in)
        return ceil_div(bits, self.carry_bits)

    def counter(self, bits: Number) -> dict[str, Number]:
        """Return the carry cells of a counter of `bits` bits, the first of which just toggles."""
        longer = bits > np.int64(self.short_counter)
        return {"carry": longer * self.carries(bits, carry_in=True)}

    def multiplies(self, bits: int, narrow: int) -> bool:
        """Return whether a product of `bits` bits with a factor of `narrow` bits is a DSP block."""
        return self.dsp_bits is not None and bits >= self.dsp_bits and narrow >= 2

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
        zero = np.zeros_like(bits)
        small, chosen = self.lutrams(width, depth) if self.lutrams else (zero, zero)
        if self.lutrams:
            block: Any = clocked & (small > self.lutrams_per_bram * brams)
        else:
            per, more = self.registers_per_bram
            block = bits > per * brams + more
        block = block & deep
        spread = deep & ~block
        held = spread if self.lutrams is None else np.zeros_like(spread)
        found: dict[str, Number] = {
            "bram": block * brams,
            "lutram": (spread & ~held) * small,
            "memory_bit": held * bits,
            "memory_word": held * depth,
            "memory_select": (spread & ~held) * width * chosen,
        }
        emulated = block & (not self.brams_read_first)
        found["memory_emulation"] = emulated * width
        if clocked:
            found["flip_flop"] = (
                held * bits + spread * width + emulated * (2 * width + bits_of(depth) + 2)
            )
        else:  # the block holds the address to read, which is a register anyway
            found["flip_flop"] = held * bits + block * (width + 1 - bits_of(depth))
        return found


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
        there - before
        for there, before in zip(_shifts(shortest + count), _shifts(shortest), strict=True)
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
    fabric: Fabric, a: int, w: int, *, signed: tuple[bool, bool], width: int | None = None
) -> dict[str, float]:
    """Return the bill of a product of `a` by `w` bits; see `flows.fpga.PRODUCTS`.

    Parameters
    ----------
    fabric : Fabric
    a, w : int
    signed : tuple of bool
    width : int, optional
        Bits of the product that are used, of two factors of which one has two bits.
    """
    if fabric.multiplies(a + w, min(a, w)):
        return {"dsp": 1.0}
    unused = 0 if width is None else a + w - width
    found: dict[str, float] = {"row_bit": 0.0, "row_adder_bit": 0.0, "carry": 0.0}

    def walk(a: int, w: int, last_signed: bool) -> None:
        if a < w:
            a, w = w, a
        if w == 1:
            found["row_bit"] += a
            return
        low, high = w // 2, w - w // 2
        walk(a, low, False)
        if high == 1 and last_signed:
            found["row_bit"] += a
        else:
            walk(a, high, last_signed)
        free = fabric.signed_rows_free and signed[0] and high == 1 and not last_signed
        found["row_adder_bit"] += a + high
        found["carry"] += float(fabric.carries(a + high - free - unused))

    walk(a, w, all(signed))
    return found


def _drain_4(rows: Number) -> Number:
    """Return the look-up tables of four inputs by which one bit of `rows` words drains."""
    pairs, odd = np.asarray(rows) // 2, np.asarray(rows) % 2
    inputs = pairs + 2 * odd
    return pairs + ceil_div(np.maximum(inputs - 1, 0), 3)


def _drain_6(rows: Number) -> Number:
    """Return the same of six inputs, as Yosys makes them; up to 16 words."""
    return np.array((0, 1, 1, 1, 3, 3, 3, 5, 5, 5, 7, 7, 9, 9, 8, 8, 11))[np.asarray(rows, int)]


def fetch_counts(fabric: Fabric, entries: int, width: int) -> dict[str, float]:
    """Return the bill of choosing an entry of a table, or its inverse, or zero."""
    if entries <= len(fabric.few):
        return {"fetch_few": float(fabric.few[entries - 1] * width)}
    return {"fetch_entry": float(entries * width)}


def _bram_18k(width: Number, depth: Number) -> Number:
    """Return memories of 512 words of four bytes of nine bits."""
    return ceil_div(ceil_div(width, 9) * ceil_div(depth, 512), 4)


def _bram_4k(width: Number, depth: Number) -> Number:
    """Return memories of 256 words of 16 bits."""
    return ceil_div(width * ceil_div(depth, 256), 16)


def _lutrams_16x4(width: Number, depth: Number) -> tuple[Number, Number]:
    parts = ceil_div(depth, 16)
    return ceil_div(width, 4) * parts, parts - 1


def _lutrams_32x6(width: Number, depth: Number) -> tuple[Number, Number]:
    """Return memories of 32 words of 6 bits, or of 64 words of 3 bits if these are fewer."""
    short, long = ceil_div(depth, 32), ceil_div(depth, 64)
    small, large = ceil_div(width, 6) * short, ceil_div(width, 3) * long
    parts: Number = np.where(large < small, long, short)
    # A look-up table of six inputs chooses among four.
    return np.minimum(small, large), ceil_div(parts - 1, 3)


LISTED = (
    "carry", "dsp", "shift", "row_bit", "row_adder_bit", "gate", "fetch_few", "fetch_entry",
    "fetch_held",
)  # fmt: skip
"""Kinds that counts by combination of parameters may have."""

FABRICS: Mapping[str, Fabric] = {
    "ecp5": Fabric(
        carry_bits=2, last_bit_free=False, short_counter=4, dsp_bits=0, drain=_drain_4,
        few=(1, 1, 2, 3),
        lutrams=_lutrams_16x4, brams=_bram_18k, lutrams_per_bram=24.5,
    ),
    "ice40": Fabric(
        carry_bits=1, last_bit_free=True, short_counter=2, dsp_bits=None, drain=_drain_4,
        few=(1, 1, 2, 3),
        lutrams=None, brams=_bram_4k, registers_per_bram=(64.0, 32.0),
    ),
    "xc7": Fabric(
        carry_bits=4, last_bit_free=False, short_counter=2, dsp_bits=9, drain=_drain_6,
        few=(0.5, 1, 2, 2),
        lutrams=_lutrams_32x6, brams=_bram_18k, lutrams_per_bram=14.5, brams_read_first=True,
        dsp_adds=True, signed_rows_free=True, adders_choose=True, ends_free=True, inverters=True,
        shifts=True,
    ),
}  # fmt: skip
"""By technology; what is not here is made of standard cells.  Thresholds are those at which Yosys
0.70 changes from one to the other."""


WITHOUT_RULES = ("xcup", "gowin")
"""FPGA families of which it is not known what components become there."""


def fabric_of(config: FamilyConfig) -> Fabric | None:
    """Return the FPGA family that a configuration is for, None for standard cells."""
    return FABRICS.get(config.target.technology)
