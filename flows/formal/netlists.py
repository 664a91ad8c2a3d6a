# SPDX-License-Identifier: Apache-2.0
"""Searches in word-level netlists of Yosys: combinational paths, and lanes of a payload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

Netlist = Mapping[str, Any]
"""A module of Yosys' JSON."""

_BITWISE = {"$and", "$or", "$xor", "$xnor", "$not", "$mux", "$pos"}
_REGISTERS = {"$ff", "$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff", "$adffe", "$dffsr"}


class Pin(NamedTuple):
    """A bit of a port."""

    port: str
    bit: int


class PathSearch:
    """Combinational paths through a hierarchy of modules.

    Parameters
    ----------
    modules : mapping
        Netlists of the modules, by name.
    """

    def __init__(self, modules: Mapping[str, Netlist]) -> None:
        self.modules = modules
        self._sinks: dict[str, dict[int, list[tuple[str, Pin]]]] = {}
        self._reached: dict[tuple[str, Pin], frozenset[Pin]] = {}

    def reached(self, module: str, pin: Pin) -> frozenset[Pin]:
        """Return the outputs of a module that an input reaches without a register between."""
        key = module, pin
        if key not in self._reached:
            self._reached[key] = frozenset(self._search(module, pin))
        return self._reached[key]

    def _search(self, module: str, pin: Pin) -> Iterator[Pin]:
        netlist = self.modules[module]
        sinks = self._sinks.get(module)
        if sinks is None:
            sinks = self._sinks[module] = _sinks(netlist)
        outputs = defaultdict(list)
        for name, port in netlist["ports"].items():
            if port["direction"] == "output":
                for bit, net in enumerate(port["bits"]):
                    outputs[net].append(Pin(name, bit))
        pending, seen = [netlist["ports"][pin.port]["bits"][pin.bit]], set()
        while pending:
            net = pending.pop()
            if net in seen:
                continue
            seen.add(net)
            yield from outputs.get(net, ())
            for name, sink in sinks.get(net, ()):
                cell = netlist["cells"][name]
                pending += [
                    cell["connections"][port][bit] for port, bit in self._through(cell, sink)
                ]

    def _through(self, cell: Mapping[str, Any], pin: Pin) -> Iterable[Pin]:
        """Return the outputs of a cell that one of its inputs reaches in the same cycle."""
        cell_type, wires = cell["type"], cell["connections"]
        if cell_type in self.modules:
            return self.reached(cell_type, pin)
        if cell_type in _REGISTERS:
            return ()
        if cell_type == "$mem_v2":
            return _through_memory(cell, pin)
        width = len(wires["Y"])
        same = all(len(wires[port]) == width for port in ("A", "B") if port in wires)
        if cell_type in _BITWISE and same and pin.port in ("A", "B"):
            return (Pin("Y", pin.bit),)
        return [Pin("Y", bit) for bit in range(width)]


def _through_memory(cell: Mapping[str, Any], pin: Pin) -> Iterable[Pin]:
    if pin.port != "RD_ADDR":
        return ()
    parameters = cell["parameters"]
    reader = pin.bit // number(parameters["ABITS"])
    if parameters["RD_CLK_ENABLE"][::-1][reader] == "1":
        return ()
    width = number(parameters["WIDTH"])
    return [Pin("RD_DATA", reader * width + bit) for bit in range(width)]


def number(value: str | int) -> int:
    """Return a parameter of a cell, which Yosys writes in binary."""
    return value if isinstance(value, int) else int(value, 2)


def _sinks(netlist: Netlist) -> dict[int, list[tuple[str, Pin]]]:
    """Return the input pins of cells that each net drives."""
    sinks = defaultdict(list)
    for name, cell in netlist["cells"].items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit, net in enumerate(bits):
                    sinks[net].append((name, Pin(port, bit)))
    return sinks


def sources_of_bit(cell: Mapping[str, Any], port: str, bit: int) -> list[Any]:
    """Return the nets that a bit of an output of a cell depends on, now or a cycle before."""
    cell_type, wires = cell["type"], cell["connections"]
    if cell_type == "$mem_v2":
        width, address = _width(cell), number(cell["parameters"]["ABITS"])
        reader, lane = divmod(bit, width)
        return [
            *wires["RD_ADDR"][reader * address : (reader + 1) * address],
            *(wires[pin][reader] for pin in ("RD_EN", "RD_ARST", "RD_SRST")),
            *wires["WR_DATA"][lane::width],
            *wires["WR_EN"][lane::width],
            *wires["WR_ADDR"],
        ]
    if cell_type in ("$dff", "$ff"):
        return [wires["D"][bit]]
    operands = [wires[pin] for pin in ("A", "B") if pin in wires]
    result = wires.get("Y", ())
    if cell_type in _BITWISE and all(len(bits) == len(result) for bits in operands):
        return [*(bits[bit] for bits in operands), *wires.get("S", ())]
    if cell_type == "$pmux":
        return [wires["A"][bit], *wires["B"][bit :: len(result)], *wires["S"]]
    if cell_type in ("$add", "$sub", "$neg"):
        return [net for bits in operands for net in bits[: bit + 1]]
    return [
        net
        for pin, bits in wires.items()
        if cell["port_directions"][pin] == "input" and pin != "CLK"
        for net in bits
    ]


_MOVES = {"$mux": (("A", "B"), "Y"), "$dff": (("D",), "Q"), "$dffe": (("D",), "Q"),
          "$mem_v2": (("WR_DATA",), "RD_DATA")}  # fmt: skip
"""Cells that move bits without a look at them: their inputs and their output."""


class NotMoved(Exception):
    """A payload is not only moved; the text says where it is looked at."""


def one_lane(netlist: Netlist, source: str, sink: str) -> dict[str, Any]:
    """Return a flat netlist of which one bit of the payload is left.

    Every bit of the payload goes through the same multiplexers, registers and memories, under the
    same control, from its bit of `source` to its bit of `sink` and nowhere else.  So what holds
    for one bit holds for each.

    Raises
    ------
    NotMoved
        If that is not so.
    """
    ports, cells = netlist["ports"], netlist["cells"]
    lanes: dict[Any, int] = {net: lane for lane, net in enumerate(ports[source]["bits"])}
    count, before = len(lanes), 0
    while len(lanes) != before:
        before = len(lanes)
        for cell in cells.values():
            for sources, target in _moves(cell):
                for net in sources:
                    if net in lanes and lanes.setdefault(target, lanes[net]) != lanes[net]:
                        raise NotMoved(f"bits {lanes[target]} and {lanes[net]} meet")
    if [lanes.get(net) for net in ports[sink]["bits"]] != list(range(count)):
        raise NotMoved(f"{sink} is not {source}, bit by bit")
    for name, port in ports.items():
        if name not in (source, sink) and any(net in lanes for net in port["bits"]):
            raise NotMoved(f"{name} has bits of the payload")
    result = deepcopy(dict(netlist))
    for name, cell in result["cells"].items():
        _narrow(name, cell, lanes, count)
    for name in (source, sink):
        result["ports"][name]["bits"] = result["ports"][name]["bits"][:1]
    for name, wire in list(result["netnames"].items()):
        wire["bits"] = [net for net in wire["bits"] if lanes.get(net, 0) == 0]
        if not wire["bits"]:
            del result["netnames"][name]
    return result


def one_bit_of_memory(netlist: Netlist, memory: str, sinks: Sequence[str]) -> dict[str, Any]:
    """Return a flat netlist in which one bit of the words of a memory is left.

    Each word leaves at an output for each port that reads, and nowhere else.

    Parameters
    ----------
    netlist : mapping
    memory : str
        Instance of the memory.
    sinks : sequence of str
        Output of each port that reads.

    Raises
    ------
    NotMoved
        If that is not so.
    """
    result = deepcopy(dict(netlist))
    (cell,) = (
        cell
        for name, cell in result["cells"].items()
        if cell["type"] == "$mem_v2" and name.startswith(f"{memory}.")
    )
    wires, width = cell["connections"], _width(cell)
    reads = [wires["RD_DATA"][at : at + width] for at in range(0, len(wires["RD_DATA"]), width)]
    outputs = {
        name: port["bits"] for name, port in result["ports"].items()
        if port["direction"] == "output"
    }  # fmt: skip
    if sorted(reads) != sorted(outputs[name] for name in sinks):
        raise NotMoved(f"the words of {memory} are not those of {', '.join(sinks)}")
    moved = {net for word in reads for net in word}
    for name, other in result["cells"].items():
        used = {
            net for port, nets in other["connections"].items() for net in nets
            if other["port_directions"][port] == "input"
        }  # fmt: skip
        if used & moved:
            raise NotMoved(f"{name} looks at words of {memory}")
    if any(len(set(wires["WR_EN"][at : at + width])) > 1
           for at in range(0, len(wires["WR_EN"]), width)):  # fmt: skip
        raise NotMoved(f"bits of {memory} are written alone")
    for port in ("WR_DATA", "WR_EN", "RD_DATA"):
        wires[port] = wires[port][::width]
    _narrow_values(cell, width, 1)
    cell["parameters"]["WIDTH"] = f"{1:032b}"
    for name in sinks:
        result["ports"][name]["bits"] = result["ports"][name]["bits"][:1]
    first = {word[0] for word in reads}
    for name, wire in list(result["netnames"].items()):
        wire["bits"] = [net for net in wire["bits"] if net not in moved or net in first]
        if name == f"{memory}.w_data":
            wire["bits"] = wire["bits"][:1]
        if not wire["bits"]:
            del result["netnames"][name]
    return result


def _narrow_values(cell: dict[str, Any], width: int, stays: int) -> None:
    """Adapt the undefined first values of a memory to fewer bits."""
    for initial in ("INIT", "RD_INIT_VALUE", "RD_ARST_VALUE", "RD_SRST_VALUE"):
        value = cell["parameters"].get(initial)
        if value is not None:
            if set(value) - {"x"}:
                raise NotMoved("a memory has a value at first")
            cell["parameters"][initial] = "x" * max(1, len(value) // width * stays)


def _width(cell: Mapping[str, Any]) -> int:
    return number(cell["parameters"]["WIDTH"])


def _moves(cell: Mapping[str, Any]) -> Iterator[tuple[list[Any], Any]]:
    """Yield the nets that may be moved to an output of a cell, and that output."""
    if cell["type"] not in _MOVES:
        return
    inward, outward = _MOVES[cell["type"]]
    wires, width = cell["connections"], _width(cell)
    for bit, target in enumerate(wires[outward]):
        yield [net for port in inward for net in wires[port][bit % width :: width]], target


def _narrow(name: str, cell: dict[str, Any], lanes: Mapping[Any, int], count: int) -> None:
    """Leave one lane of a cell that moves the payload; refuse one that looks at it."""
    wires, moved = cell["connections"], [*_moves(cell)]
    inward, outward = _MOVES.get(cell["type"], ((), ""))
    for port, bits in wires.items():
        if port not in (*inward, outward) and any(net in lanes for net in bits):
            raise NotMoved(f"{port} of {name} is a bit of the payload")
    if not any(target in lanes for _, target in moved):
        if any(net in lanes for sources, _ in moved for net in sources):
            raise NotMoved(f"{name} stores a bit of the payload elsewhere")
        return
    for sources, target in moved:
        if any(lanes.get(net) != lanes.get(target) and net != "x" for net in sources):
            raise NotMoved(f"{name} mixes the payload with something else")
    width = _width(cell)
    first = [lanes.get(net) for net in wires[outward][:width]]
    if sorted(lane for lane in first if lane is not None) != list(range(count)):
        raise NotMoved(f"{name} does not move every bit of the payload once")
    stays = [bit for bit, lane in enumerate(first) if lane in (None, 0)]
    for port in [*inward, outward, *(["WR_EN"] if "WR_EN" in wires else [])]:
        words = [wires[port][at : at + width] for at in range(0, len(wires[port]), width)]
        if port == "WR_EN" and any(
            len({net for net, lane in zip(word, first, strict=True) if lane is not None}) > 1
            for word in words
        ):
            raise NotMoved(f"{name} writes some bits of the payload alone")
        wires[port] = [word[bit] for word in words for bit in stays]
    cell["parameters"]["WIDTH"] = f"{len(stays):032b}"
    _narrow_values(cell, width, len(stays))
