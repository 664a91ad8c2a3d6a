# SPDX-License-Identifier: Apache-2.0
"""Modules as JSON values, compact enough to be kept by the thousand.

Bits are runs, two numbers each: the first net and how many follow one another.  A run of one and
the same bit (a constant, a sign) has the negative of its length instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cost_model.netlist.model import Bits, Cell, Instance, Memory, MemoryPort, Module, Port


def packed(bits: Bits) -> list[int]:
    """Return bits as runs."""
    result: list[int] = []
    index, end = 0, len(bits)
    while index < end:
        first, stop = bits[index], index + 1
        if first >= 0:
            while stop < end and bits[stop] == first + stop - index:
                stop += 1
        length = stop - index
        if length == 1:
            while stop < end and bits[stop] == first:
                stop += 1
            length = index - stop if stop - index > 1 else 1
        result += (first, length)
        index = stop
    return result


def unpacked(runs: Sequence[int]) -> Bits:
    """Return the bits of runs."""
    if len(runs) == 2 and runs[1] > 0:
        return tuple(range(runs[0], runs[0] + runs[1]))
    result: list[int] = []
    for first, length in zip(runs[::2], runs[1::2], strict=True):
        if length > 0:
            result += range(first, first + length)
        else:
            result += [first] * -length
    return tuple(result)


def _pins(pins: Mapping[str, Bits]) -> dict[str, list[int]]:
    return {name: packed(bits) for name, bits in pins.items()}


def _bits_of(pins: Mapping[str, Sequence[int]]) -> dict[str, Bits]:
    return {name: unpacked(runs) for name, runs in pins.items()}


def document_of(module: Module) -> dict[str, Any]:
    """Return a module as plain JSON values."""
    return {
        "name": module.name,
        "kept": module.keep_hierarchy,
        "ports": [[port.name, port.output, packed(port.bits)] for port in module.ports],
        "cells": [
            [cell.operator, cell.type, cell.signed[0] + 2 * cell.signed[1], sorted(cell.low),
             _pins(cell.pins), cell.name]
            for cell in module.cells
        ],
        "memories": [
            [memory.name, memory.width, memory.depth,
             *([_port(port) for port in ports] for ports in (memory.reads, memory.writes))]
            for memory in module.memories
        ],
        "instances": [
            [instance.name, instance.module, _pins(instance.connections),
             *([instance.role] if instance.role else [])]
            for instance in module.instances
        ],
    }  # fmt: skip


def _port(port: MemoryPort) -> list[Any]:
    return [packed(port.address), packed(port.data), packed(port.enable), port.clocked]


def _port_of(entry: Sequence[Any]) -> MemoryPort:
    address, data, enable, clocked = entry
    return MemoryPort(unpacked(address), unpacked(data), unpacked(enable), clocked)


def module_of(document: Mapping[str, Any]) -> Module:
    """Return the module that `document_of` made a document of.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is none.
    """
    return Module(
        document["name"],
        tuple(Port(name, output, unpacked(runs)) for name, output, runs in document["ports"]),
        tuple(
            Cell(
                operator,
                of,
                (bool(signed & 1), bool(signed & 2)),
                _bits_of(pins),
                frozenset(low),
                name,
            )
            for operator, of, signed, low, pins, name in document["cells"]
        ),
        tuple(
            Memory(name, width, depth, tuple(map(_port_of, reads)), tuple(map(_port_of, writes)))
            for name, width, depth, reads, writes in document["memories"]
        ),
        tuple(
            Instance(name, module, _bits_of(pins), *role)
            for name, module, pins, *role in document["instances"]
        ),
        document["kept"],
    )
