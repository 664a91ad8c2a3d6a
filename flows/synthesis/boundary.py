# SPDX-License-Identifier: Apache-2.0
"""Buffers where modules that were mapped on their own meet the rest of a design.

ABC sees one module at a time and takes every output for a small load, whatever it drives in other
modules.  Before the rest is mapped, `buffered` therefore puts buffers in front of the mapped
modules' inputs, as many as their load needs; ABC then sees the inputs of these buffers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from flows.synthesis.liberty import Cell, Library
from hwgen.technologies.model import Buffer

Netlist = dict[str, Any]
"""What ``write_json`` of Yosys writes."""


def buffered(
    netlist: Netlist,
    top: str,
    clock: str,
    library: Library,
    buffer: Buffer,
    light_ff: float,
    macros: Mapping[str, Cell] | None = None,
) -> int:
    """Insert buffers into the top module of `netlist` and return their number.

    Parameters
    ----------
    netlist : dict
        Design whose modules, but for the top module, are mapped; changed in place.
    top, clock : str
        The top module and its clock port, which is left as it is.
    library : Library
    buffer : Buffer
        The buffer to insert.
    light_ff : float
        Loads up to this need none.
    macros : mapping, optional
        Cells of the library that are mapped modules here: macros.
    """
    modules = netlist["modules"]
    module = modules[top]
    unchanged = {
        name: _loads(modules, name, library, {})
        for name in modules
        if name != top and name not in library.cells
    }
    clocks = set(module["ports"][clock]["bits"])
    sinks: dict[int, list[tuple[list[Any], int, float]]] = defaultdict(list)
    for cell in module["cells"].values():
        loads = unchanged.get(cell["type"], {})
        if macro := (macros or {}).get(cell["type"]):
            loads = {
                port: [macro.inputs[port]] * len(bits)
                for port, bits in cell["connections"].items()
                if port in macro.inputs
            }
        for port, each in loads.items():
            bits = cell["connections"].get(port, [])
            for position, bit in enumerate(bits):
                # A constant is a string.
                if isinstance(bit, int) and bit not in clocks and each[position]:
                    sinks[bit].append((bits, position, each[position]))
    free = 1 + max(_numbers(module))
    count = 0
    for bit, pins in sinks.items():
        if sum(load for _, _, load in pins) <= light_ff:
            continue
        output, capacity = 0, 0.0
        for bits, position, load in pins:
            if load > capacity or not output:
                output, capacity = free, buffer.load_ff
                free += 1
                module["cells"][f"$buffer${count}"] = {
                    "hide_name": 1,
                    "type": buffer.cell,
                    "parameters": {},
                    "attributes": {},
                    "port_directions": {buffer.input: "input", buffer.output: "output"},
                    "connections": {buffer.input: [bit], buffer.output: [output]},
                }
                count += 1
            bits[position] = output
            capacity -= load
    return count


def _numbers(module: Netlist) -> Iterator[int]:
    yield 1  # 0 and 1 are never nets
    for named in (*module["ports"].values(), *module["netnames"].values()):
        yield from (bit for bit in named["bits"] if isinstance(bit, int))
    for cell in module["cells"].values():
        for bits in cell["connections"].values():
            yield from (bit for bit in bits if isinstance(bit, int))


def _loads(
    modules: Netlist, name: str, library: Library, cached: dict[str, dict[str, list[float]]]
) -> dict[str, list[float]]:
    """Return the load of each bit of each input of a mapped module, in fF."""
    if name in cached:
        return cached[name]
    module = modules[name]
    loads: dict[int, float] = defaultdict(float)
    for cell in module["cells"].values():
        kind = cell["type"]
        for port, bits in cell["connections"].items():
            if kind in library.cells:
                inside = [library.cells[kind].inputs.get(port, 0.0)] * len(bits)
            elif kind in modules:
                inside = _loads(modules, kind, library, cached).get(port, [0.0] * len(bits))
            else:
                continue
            for bit, load in zip(bits, inside, strict=False):
                if isinstance(bit, int):
                    loads[bit] += load
    cached[name] = {
        port: [loads.get(bit, 0.0) if isinstance(bit, int) else 0.0 for bit in entry["bits"]]
        for port, entry in module["ports"].items()
        if entry["direction"] == "input"
    }
    return cached[name]
