# SPDX-License-Identifier: Apache-2.0
"""Timing arcs of each type of operator, see `cost_model.timing.arcs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import log2

import numpy as np

from cost_model.netlist.model import Bits, Cell, Memory
from cost_model.netlist.products import sum_levels
from cost_model.timing.arcs import (
    Arcs,
    Costs,
    Dense,
    Nets,
    Parallel,
    Steps,
    Times,
    Tree,
    carry_propagate,
    running,
    simple_bits,
    spread,
)


def product(out: Nets, a: Nets, b: Nets, costs: Costs) -> Dense:
    """Return the paths of a multiplier.

    Below four bits it adds up products of bits.  Otherwise the operands are made equally wide, one
    of them becomes digits of two bits, and what the carries of the sum cross is a chain.
    """
    width, short = len(out), min(len(a), len(b))
    digits = short if short < 4 else max(len(a), len(b)) // 2 + 1
    index = np.concatenate([np.arange(len(a)), np.arange(len(b))])
    column = np.arange(width)[:, None]
    reaches = column >= index[None]
    # Fewer words meet in the columns at the right end; the left one waits for their carries.
    words = np.minimum(column[:, 0] // (1 if short < 4 else 2) + 1, digits)
    levels = np.array([[sum_levels(count)] for count in words.tolist()], np.float64)
    crossed = np.maximum(column - 1.0, 0.0)
    times: dict[str, Times] = (
        {"gate": np.ones((width, 1)), "compress": levels, "adder": np.ones((width, 1)),
         "adder_level": np.log2(1.0 + crossed), "adder_bit": crossed}
        if short < 4
        else {"multiplier": np.ones((width, 1)), "multiplier_level": levels,
              "multiplier_bit": crossed}
    )  # fmt: skip
    steps = {step_type: np.broadcast_to(count, reaches.shape) for step_type, count in times.items()}
    return Dense(out, np.concatenate([a, b]), steps, reaches, costs)


Numbering = Callable[[Bits], Nets]
"""Gives the numbers of bits; all constants have the same."""


def _extended(bits: Nets, width: int, constant: int, *, signed: bool) -> Nets:
    if len(bits) >= width:
        return bits[:width]
    fill = bits[-1] if signed and len(bits) else constant
    return np.concatenate([bits, np.full(width - len(bits), fill, np.int64)])


def words_of(cell: Cell, pins: Mapping[str, Nets], constant: int) -> list[Nets]:
    """Return operands ``a`` and ``b`` of a cell, as wide as its result."""
    width = len(pins["y"])
    return [
        _extended(pins[pin], width, constant, signed=cell.signed[index])
        for index, pin in enumerate("ab")
        if pin in pins
    ]


def nested(cells: Sequence[Cell]) -> frozenset[Bits]:
    """Return operands of reductions that are the first bits of others, or have such ones."""
    result: set[Bits] = set()
    for step_type in ("reduce_and", "reduce_or"):
        reduced = {c.pins["a"] for c in cells if c.operator == step_type and "b" not in c.pins}
        for bits in reduced:
            if len(bits) > 1 and bits[:-1] in reduced:
                result |= {bits, bits[:-1]}
    return frozenset(result)


def operator(
    cell: Cell,
    number: Numbering,
    constant: int,
    costs: Costs,
    chained: Collection[Bits] = (),
) -> Arcs:
    """Return the paths of a cell that is no register.

    Parameters
    ----------
    cell : Cell
    number : callable
    constant : int
        The number of constants.
    costs : Costs
    chained : collection of tuple
        What is `nested` among the cells of its module.
    """
    pins = {pin: number(bits) for pin, bits in cell.pins.items()}
    y, step_type = pins["y"], cell.operator
    words = words_of(cell, pins, constant)
    if step_type in ("and", "or", "xor", "not"):
        steps: Steps = {} if step_type == "not" else {"xor" if step_type == "xor" else "gate": 1.0}
        return Parallel(y, np.stack(words), [steps] * len(words), costs)
    if step_type == "mux":
        select = np.full(len(y), pins["s"][0])
        return Parallel(y, np.stack([*words, select]), [{"mux": 1.0}] * 3, costs)
    if step_type in ("add", "sub", "neg"):
        both = words if len(words) == 2 else [words[0], np.full(len(y), constant)]
        if cell.type == "pos":
            return Parallel(y, np.stack(words), [{}], costs)
        return carry_propagate(
            y, np.concatenate(both), costs, simple_bits(np.stack(both), constant)
        )
    if step_type == "mul":
        return product(y, pins["a"], pins["b"], costs)
    if step_type in ("pmux", "bmux"):
        return _selected(cell, pins, constant, costs)
    if step_type == "equal":
        width = max(len(pins["a"]), len(pins["b"]))
        sides = [
            _extended(pins[pin], width, constant, signed=all(cell.signed)) for pin in "ab"
        ]  # fmt: skip
        fixed = any((side == constant).all() for side in sides)
        before = {} if fixed else {"xor": 1.0}
        return Tree(y[:1], np.stack(sides)[:, :, None], before, "gate", costs)
    if step_type == "less":
        return _compared(cell, pins, constant, costs)
    if step_type.startswith("reduce"):
        ins = np.concatenate([pins["a"], pins.get("b", y[:0])])
        if step_type != "reduce_xor" and cell.pins["a"] in chained:
            return running(y[:1], ins, costs)
        level = "xor" if step_type == "reduce_xor" else "gate"
        return Tree(y[:1], ins[None, :, None], {}, level, costs)
    if step_type == "shift":
        return _shifted(pins, costs)
    # Something without a model of its own is taken for two levels of gates.
    ins = np.unique(np.concatenate([nets for pin, nets in pins.items() if pin != "y"]))
    gates = {"gate": np.full((len(y), len(ins)), 2.0)}
    return Dense(y, ins, gates, np.ones((len(y), len(ins)), bool), costs)


def _selected(cell: Cell, pins: Mapping[str, Nets], constant: int, costs: Costs) -> Tree:
    """Return the paths of one of several words, each behind a select line or an address."""
    y, s = pins["y"], pins["s"]
    width = len(y)
    if cell.type == "bmux":
        data = pins["a"].reshape(-1, width)
        select = np.broadcast_to(s[:, None], (len(s), width))
        lines = [np.broadcast_to(line, data.shape) for line in select]
        return Tree(y, np.stack([data, *lines]), {"gate": 1.0}, "select", costs)
    data = np.concatenate([pins["b"], pins["a"]]).reshape(-1, width)
    each = np.concatenate([s, [constant]])[:, None]
    ins = np.stack([data, np.broadcast_to(each, data.shape)])
    return Tree(y, ins, {"gate": 1.0}, "select", costs)


def _compared(cell: Cell, pins: Mapping[str, Nets], constant: int, costs: Costs) -> Dense:
    """Return the paths of a comparison: those to the carry of an adder."""
    width = max(len(pins["a"]), len(pins["b"]))
    ins = np.concatenate([
        _extended(pins[pin], width, constant, signed=all(cell.signed)) for pin in "ab"
    ])  # fmt: skip
    crossed = width - 1.0 - np.tile(np.arange(width), 2)[None]
    steps = {
        "adder": np.ones((1, 2 * width)),
        "adder_level": np.log2(1.0 + crossed),
        "adder_bit": crossed,
    }
    return Dense(pins["y"][:1], ins, steps, np.ones((1, 2 * width), bool), costs)


def _shifted(pins: Mapping[str, Nets], costs: Costs) -> Dense:
    """Return the paths of a shifter: a level of multiplexers for each bit of the distance."""
    y, a, b = pins["y"], pins["a"], pins["b"]
    ins = np.concatenate([a, b])
    levels = float(min(len(b), max(len(a), len(y)).bit_length()))
    steps = {"shift": np.full((len(y), len(ins)), levels)}
    return Dense(y, ins, steps, np.ones((len(y), len(ins)), bool), costs)


def address_steps(memory: Memory) -> Steps:
    """Return the steps from the address of a memory to a word that is read."""
    return {"read": log2(max(2, memory.depth)), "fanout": spread(memory.width)}


def write_steps(memory: Memory, address: int) -> Steps:
    """Return the steps from the address of a memory to the registers of the word written."""
    return {"gate": log2(max(2, address)), "mux": 1.0, "fanout": spread(memory.width)}


def loads(cell: Cell) -> Mapping[str, int]:
    """Return the loads of a bit of each pin, where it is not one."""
    width = len(cell.result)
    if cell.operator == "register":
        return {"en": width, "srst": width}
    if cell.operator in ("mux", "pmux"):
        return {"s": width}
    if cell.operator == "mul":
        return {"a": cell.width("b"), "b": cell.width("a")}
    if cell.operator == "shift":
        return {"b": width}
    return {}
