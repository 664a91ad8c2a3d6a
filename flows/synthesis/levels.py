# SPDX-License-Identifier: Apache-2.0
"""The longest path of a mapped netlist, counted in levels of logic.

For targets without a delay model, where the count still tells where the longest path is.  Every
cell is one level, but for those that a `Kinds` says are none, and a carry chain is one in all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["logic", "carry", "free", "state"]
"""A level; a link of a chain that is one; nothing; begin and end of paths."""

_HIDDEN = re.compile(r"_\d+_|\$.*|.*\$.*")


@dataclass(frozen=True)
class Longest:
    """The longest path.

    Parameters
    ----------
    levels : int
    start, end : str
        Register or port where it begins and ends; a bit of several as ``name[3]``.
    """

    levels: int
    start: str
    end: str


def longest(
    module: Mapping[str, Any],
    role: Callable[[str], Role],
    through: Callable[[str, str], bool] = lambda cell, port: False,
) -> Longest | None:
    """Return the longest path of a flat module, None if it has none.

    Parameters
    ----------
    module : mapping
        The module as ``write_json`` of Yosys writes it, with the directions of cells' ports.
    role : callable
        `Role` of a cell type.
    through : callable
        Whether a path leads through a cell of role ``state`` from this port: the read address of a
        small memory.
    """
    graph = _graph(module, role, through)
    arrivals = _arrivals(graph)
    worst: tuple[int, int, int] = (0, -1, -1)
    for bit, end in graph.ends:
        level, start, _ = arrivals.get(bit, (0, -1, False))
        if start >= 0:
            worst = max(worst, (level, start, end))
    level, start, end = worst
    names = _names(module)
    return Longest(level, names.get(start, "?"), names.get(end, "?")) if start >= 0 else None


@dataclass
class _Graph:
    """Cells between the nets where paths begin and those where they end.

    Parameters
    ----------
    starts : list of int
        Nets where paths begin.
    cells : list of tuple
        Role, inputs and outputs of each cell that is passed.
    ends : list of tuple
        A net that is read at the end of a path, and the net that names the end.
    """

    starts: list[int] = field(default_factory=list)
    cells: list[tuple[Role, list[int], list[int]]] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)


def _graph(
    module: Mapping[str, Any], role: Callable[[str], Role], through: Callable[[str, str], bool]
) -> _Graph:
    graph = _Graph()
    for port in module["ports"].values():
        if port["direction"] != "output":
            graph.starts += _nets(port["bits"])
    for cell in module["cells"].values():
        function = role(cell["type"])
        directions = cell["port_directions"]
        inputs: list[int] = []
        outputs: list[int] = []
        for port, bits in cell["connections"].items():
            if directions[port] == "output":
                outputs += _nets(bits)
            elif function != "state" or through(cell["type"], port):
                inputs += _nets(bits)
        if function == "state":
            for port, bits in cell["connections"].items():
                if directions[port] != "output" and outputs:
                    # The register is called as the bit it holds, a block as its first output.
                    same = len(bits) == len(outputs)
                    graph.ends += [
                        (bit, outputs[i] if same else outputs[0])
                        for i, bit in enumerate(bits)
                        if isinstance(bit, int)
                    ]
            if not inputs:
                graph.starts += outputs
                continue
        graph.cells.append((function, inputs, outputs))
    for port in module["ports"].values():
        if port["direction"] != "input":
            graph.ends += [(bit, bit) for bit in _nets(port["bits"])]
    return graph


def _nets(bits: Iterable[int | str]) -> list[int]:
    """Return the bits that are no constants."""
    return [bit for bit in bits if isinstance(bit, int)]


def _arrivals(graph: _Graph) -> dict[int, tuple[int, int, bool]]:
    """Return of each net the levels below it, where its path begins, whether it leaves a chain."""
    arrivals = {bit: (0, bit, False) for bit in graph.starts}
    readers: dict[int, list[int]] = defaultdict(list)
    for number, (_, inputs, _) in enumerate(graph.cells):
        for bit in inputs:
            readers[bit].append(number)
    missing = [len(inputs) for _, inputs, _ in graph.cells]  # inputs that have not arrived
    ready = [number for number, count in enumerate(missing) if not count]
    waiting = list(arrivals)
    while waiting or ready:
        if not ready:
            for number in readers[waiting.pop()]:
                missing[number] -= 1
                if not missing[number]:
                    ready.append(number)
            continue
        function, inputs, outputs = graph.cells[ready.pop()]
        best = (0, -1, False)
        for bit in inputs:
            level, start, chain = arrivals[bit]
            level += function in ("logic", "state") or (function == "carry" and not chain)
            best = max(best, (level, start, function == "carry" or (function == "free" and chain)))
        for bit in outputs:
            if bit not in arrivals:
                arrivals[bit] = best
                waiting.append(bit)
    return arrivals


def _names(module: Mapping[str, Any]) -> dict[int, str]:
    """Return a name for each net: a port's, else the shortest that is not made up."""
    names: dict[int, tuple[bool, int, str]] = {}
    for name, net in module["netnames"].items():
        port = name in module["ports"]
        made_up = bool(net.get("hide_name")) or bool(_HIDDEN.fullmatch(name))
        bits = net["bits"]
        for index, bit in enumerate(bits):
            if isinstance(bit, int):
                text = f"{name}[{index}]" if len(bits) > 1 else name
                rank = (made_up, 0 if port else len(text), text)
                if bit not in names or rank < names[bit]:
                    names[bit] = rank
    return {bit: rank[2] for bit, rank in names.items()}
