# SPDX-License-Identifier: Apache-2.0
"""The longest path of a mapped netlist, counted in levels of logic.

For targets without a delay model, where the count still tells where the longest path is.  Every
cell is one level, but for those that a `Kinds` says are none, and a carry chain is one in all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["logic", "carry", "free", "state"]
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
    kind: Callable[[str], Kind],
    through: Callable[[str, str], bool] = lambda cell, port: False,
) -> Longest | None:
    """Return the longest path of a flat module, None if it has none.

    Parameters
    ----------
    module : mapping
        The module as ``write_json`` of Yosys writes it, with the directions of cells' ports.
    kind : callable
        `Kind` of a cell type.
    through : callable
        Whether a path leads through a cell of kind ``state`` from this port: the read address of a
        small memory.
    """
    names = _names(module)
    # Levels below a net, the net where the path begins, whether it comes out of a carry chain.
    arrival: dict[int, tuple[int, int, bool]] = {}
    for port in module["ports"].values():
        if port["direction"] != "output":
            arrival.update({bit: (0, bit, False) for bit in port["bits"] if isinstance(bit, int)})
    readers: dict[int, list[int]] = defaultdict(list)
    missing: list[int] = []  # of each logic cell, inputs whose arrival is not known
    logic: list[tuple[Kind, list[int], list[int]]] = []
    ends: list[tuple[int, int]] = []  # a net that is read at the end of a path; what names the end
    for cell in module["cells"].values():
        function = kind(cell["type"])
        directions = cell["port_directions"]
        inputs: list[int] = []
        outputs: list[int] = []
        for port, bits in cell["connections"].items():
            if directions[port] == "output":
                outputs += [bit for bit in bits if isinstance(bit, int)]
            elif function != "state" or through(cell["type"], port):
                inputs += [bit for bit in bits if isinstance(bit, int)]
        if function == "state":
            for port, bits in cell["connections"].items():
                if directions[port] != "output" and outputs:
                    # The register is called as the bit it holds, a block as its first output.
                    same = len(bits) == len(outputs)
                    ends += [
                        (bit, outputs[i] if same else outputs[0])
                        for i, bit in enumerate(bits)
                        if isinstance(bit, int)
                    ]
            if not inputs:
                arrival.update({bit: (0, bit, False) for bit in outputs})
                continue
        number = len(logic)
        logic.append((function, inputs, outputs))
        missing.append(len(inputs))
        for bit in inputs:
            readers[bit].append(number)
    for port in module["ports"].values():
        if port["direction"] != "input":
            ends += [(bit, bit) for bit in port["bits"] if isinstance(bit, int)]
    ready = [number for number, count in enumerate(missing) if not count]
    waiting = list(arrival)
    while waiting or ready:
        if not ready:
            for number in readers[waiting.pop()]:
                missing[number] -= 1
                if not missing[number]:
                    ready.append(number)
            continue
        function, inputs, outputs = logic[ready.pop()]
        best = (0, -1, False)
        for bit in inputs:
            level, start, chain = arrival[bit]
            level += function in ("logic", "state") or (function == "carry" and not chain)
            best = max(best, (level, start, function == "carry" or (function == "free" and chain)))
        for bit in outputs:
            if bit not in arrival:
                arrival[bit] = best
                waiting.append(bit)
    worst: tuple[int, int, int] = (0, -1, -1)
    for bit, end in ends:
        level, start, _ = arrival.get(bit, (0, -1, False))
        if start >= 0:
            worst = max(worst, (level, start, end))
    level, start, end = worst
    return Longest(level, names.get(start, "?"), names.get(end, "?")) if start >= 0 else None


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
