# SPDX-License-Identifier: Apache-2.0
"""From Yosys's JSON netlist of word-level cells to `cost_model.netlist.model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cost_model.netlist.model import (
    ONE,
    OPERATOR_OF,
    TOP,
    UNDEFINED,
    ZERO,
    Bits,
    Cell,
    Instance,
    Memory,
    MemoryPort,
    Module,
    Port,
)

_CONSTANTS = {"0": ZERO, "1": ONE, "x": UNDEFINED, "z": UNDEFINED}
_POLARITY = {"en": "EN_POLARITY", "srst": "SRST_POLARITY", "arst": "ARST_POLARITY"}
ROLE = "role"
"""Attribute of an instance with a role."""

_NOTHING = frozenset(("scopeinfo", "print", "assert", "assume", "cover", "check"))
"""Cells that are no hardware."""


def short_name(name: str, prefix: str) -> str:
    """Return the name of a module of a design without the design's own, `prefix`."""
    return TOP if name == prefix else name.removeprefix(f"{prefix}_")


def module_of(
    name: str,
    netlist: Mapping[str, Any],
    short: Callable[[str], str],
    *,
    keep_hierarchy: bool = False,
) -> Module:
    """Return a module.

    Parameters
    ----------
    name : str
        Its name in `Netlist.modules`.
    netlist : mapping
        Its entry below ``modules`` in what ``write_json`` of Yosys writes.
    short : callable
        Gives the names of the modules that it instantiates in `Netlist.modules`.
    keep_hierarchy : bool
        As in `Module`.
    """
    cells, memories, instances = [], [], []
    signals = _signals(netlist)
    for label, cell in netlist["cells"].items():
        pins = {pin: _bits(bits) for pin, bits in cell["connections"].items()}
        type_name = cell["type"]
        if not type_name.startswith("$"):
            role = cell.get("attributes", {}).get(ROLE, "")
            instances.append(Instance(label, short(type_name), pins, role))
        elif type_name.startswith("$mem"):
            memories.append(_memory(label, cell["parameters"], pins))
        elif type_name[1:] not in _NOTHING:
            cells.append(_cell(type_name[1:], cell["parameters"], pins, signals))
    ports = tuple(
        Port(port, entry["direction"] == "output", _bits(entry["bits"]))
        for port, entry in netlist["ports"].items()
    )
    return Module(name, ports, tuple(cells), tuple(memories), tuple(instances), keep_hierarchy)


def _bits(bits: list[Any]) -> Bits:
    return tuple(bit if type(bit) is int else _CONSTANTS[bit] for bit in bits)


def _number(parameters: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a parameter; Yosys writes them as binary digits."""
    value = parameters.get(name, default)
    return value if isinstance(value, int) else int(value.replace("x", "0") or "0", 2)


def _signals(netlist: Mapping[str, Any]) -> dict[int, str]:
    """Return the name of the widest signal that each net belongs to, if it has any."""
    named = sorted(
        (len(entry["bits"]), name, entry["bits"])
        for name, entry in netlist.get("netnames", {}).items()
        if not entry.get("hide_name")
    )
    return {bit: name for _, name, bits in named for bit in bits if type(bit) is int}


def _cell(
    cell_type: str,
    parameters: Mapping[str, Any],
    pins: Mapping[str, Bits],
    signals: Mapping[int, str],
) -> Cell:
    low = frozenset(
        pin for pin, name in _POLARITY.items() if name in parameters
        and not _number(parameters, name)
    )  # fmt: skip
    signed = (bool(_number(parameters, "A_SIGNED")), bool(_number(parameters, "B_SIGNED")))
    named = {pin.lower(): bits for pin, bits in pins.items()}
    name = signals.get(pins["Q"][0], "") if "Q" in pins else ""
    return Cell(OPERATOR_OF.get(cell_type, cell_type), cell_type, signed, named, low, name)


def _memory(label: str, parameters: Mapping[str, Any], pins: Mapping[str, Bits]) -> Memory:
    width, address = _number(parameters, "WIDTH"), _number(parameters, "ABITS")
    clocked = _number(parameters, "RD_CLK_ENABLE")

    def part(pin: str, index: int, size: int) -> Bits:
        return pins[pin][index * size : (index + 1) * size]

    reads = tuple(
        MemoryPort(
            part("RD_ADDR", port, address), part("RD_DATA", port, width), part("RD_EN", port, 1),
            bool(clocked >> port & 1),
        )
        for port in range(_number(parameters, "RD_PORTS"))
    )  # fmt: skip
    writes = tuple(
        MemoryPort(
            part("WR_ADDR", port, address), part("WR_DATA", port, width),
            part("WR_EN", port, width), True,
        )
        for port in range(_number(parameters, "WR_PORTS"))
    )  # fmt: skip
    return Memory(label, width, _number(parameters, "SIZE"), reads, writes)
