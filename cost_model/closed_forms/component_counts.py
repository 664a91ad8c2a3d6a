# SPDX-License-Identifier: Apache-2.0
"""Bills of components: what a core consists of, as closed forms of its parameters.

A family divides a core into parts.  Each part says how many components of each kind it has; a
technology says what one of each kind costs.  Kinds are the terms of the RTL: bits of registers and
of multiplexers, full adders, cells of a multiplier.

Numeric parameters may be arrays, so that one formula serves a single configuration and a million
of them; see `cost_model.closed_forms.space`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cost_model.closed_forms.numbers import Counts, Number, register
from cost_model.closed_forms.space import View
from cost_model.netlist.fabric.fabric import Fabric

COMPONENTS: Mapping[str, str] = {
    "flip_flop": "bit of a register",
    "enable": "bit of a register that may keep its value",
    "reset": "bit of a register with a reset",
    "full_adder": "adder of three bits",
    "half_adder": "adder of two bits",
    "adder_bit": "bit of a carry-propagate adder",
    "adder_level": "bit of such an adder, on each level of its carry tree",
    "and": "gate of two inputs",
    "and_or": "bit that a select line lets through, and its share of the or behind",
    "mux": "multiplexer of two bits",
    "xor": "exclusive or of two bits",
    "select": "bit of an activation or its inverse or -1",
    "count": "bit that counts up or down by flags",
    "saturate": "bit of a clamp",
    "ternary_product": "bit of a product with a ternary weight",
    "product": "bit of a plain partial product",
    "product_extension": "bit by which such a row is narrower than its sum",
    "booth_bit": "bit of one operand of a Booth multiplier by a bit of the other",
    "booth_extension": "bit by which one operand of it is narrower",
    "sum_bit": "bit of a number more than two in a sum of several",
    "multiple": "bit of a multiple by a radix-4 digit",
    "booth_digit": "digit from an encoder of Booth's",
    "ent_digit": "digit of a magnitude, from an encoder",
    "magnitude": "bit of a magnitude, from a signed number",
    "shift_bit": "bit of a level of a shifter that tells whether ones are lost",
    "memory_bit": "bit of a memory with a port to write and one to read",
    "memory_word": "word of such a memory",
    "float_convert": "bit of an integer that becomes a floating-point number",
    "float_scale": "multiplier of floating-point numbers of 32 bits",
    "float_narrow": "bit of a floating-point number from a wider one",
    "fanout": "input of a module of which many are driven by one signal",
    "control": "core's sequencer and handshakes",
}
"""Kinds of components, and what one of them is.  Floating-point operators, a kind for each format
and number of registers, come in addition: ``float_adder_fp16_1``."""


@dataclass(frozen=True)
class Part:
    """A part of a core.

    Parameters
    ----------
    name : str
        For people.
    modules : tuple of str
        Beginnings of the names of its modules where they are mapped on their own; empty if it
        belongs to the rest of the core.
    counts : callable
        Takes a `View` and returns the `Counts` of the whole part.
    """

    name: str
    modules: tuple[str, ...]
    counts: Callable[[View], Counts]


def times(count: Number, counts: Counts) -> dict[str, Number]:
    """Return the bill of `count` of the same thing."""
    return {kind: count * each for kind, each in counts.items()}


def total(*bills: Counts) -> dict[str, Number]:
    """Return the sum of bills."""
    result: dict[str, Number] = {}
    for bill in bills:
        for kind, count in bill.items():
            result[kind] = result[kind] + count if kind in result else count
    return result


def buffer(width: Number) -> dict[str, Number]:
    """Return the bill of a `StreamBuffer`."""
    return total(register(2 * width, enable=True), {"mux": width}, register(2, reset=True))


def adder(
    bits: Number, fabric: Fabric | None = None, *, carry_in: bool = False
) -> dict[str, Number]:
    """Return the bill of a carry-propagate adder.

    Parameters
    ----------
    bits : number
    fabric : Fabric, optional
        Of an FPGA, whose carry chains have no levels.
    carry_in : bool
        Whether one of the bits is there for a carry to enter.
    """
    if fabric is not None:
        return {"adder_bit": bits, "carry": fabric.carries(bits, carry_in=carry_in)}
    return {"adder_bit": bits, "adder_level": bits * np.log2(bits)}


def memory(
    width: Number, depth: Number, fabric: Fabric | None = None, *, clocked: bool = False
) -> dict[str, Number]:
    """Return the bill of a memory that is written and read at one place a cycle.

    Parameters
    ----------
    width, depth : number
        A memory of a single word is none.
    fabric : Fabric, optional
        Of an FPGA.
    clocked : bool
        Whether a register of `width` bits follows it, which of an FPGA is part of the bill: block
        memories contain it.
    """
    if fabric is not None:
        return fabric.memory(width, depth, clocked=clocked)
    deep = np.asarray(depth) > 1
    return {"memory_bit": deep * width * depth, "memory_word": deep * depth}
