# SPDX-License-Identifier: Apache-2.0
"""Outline of a design before it is mapped: modules, their instances and sizes.

`separate_modules` chooses the modules that are mapped once and kept, of any family: those with
several instances that are large enough for the losses at their borders not to count, and those that
the design itself marks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.tools import process
from flows.tools.toolchain import Installation

INSTANCES = 4
"""A kept module is there so often at least."""

GATES = 150.0
"""A kept module has so many gates at least, in the estimate of `Outline`.

Full adders and multiplexers stay with what uses them, where a mapper finds gates to share; the
smallest processing element, for operands of two bits, is above."""

SHARE = 0.9
"""Part of a module that is in kept modules of its own from which it is not kept itself."""


@dataclass(frozen=True)
class Outline:
    """The hierarchy of a design.

    Parameters
    ----------
    top : str
    ports : mapping
        Ports of the top module: name to direction (``input`` or ``output``) and width.
    gates : mapping
        Gates of each module without those in it, a rough estimate.
    inside : mapping
        How often each module instantiates each other.
    marked : frozenset of str
        Modules with the attribute ``keep_hierarchy``.
    """

    top: str
    ports: Mapping[str, tuple[str, int]]
    gates: Mapping[str, float]
    inside: Mapping[str, Mapping[str, int]]
    marked: frozenset[str] = frozenset()

    def instances(self) -> dict[str, int]:
        """Count the instances of each module in the whole design."""
        counts: Counter[str] = Counter()

        def visit(name: str, times: int) -> None:
            counts[name] += times
            for child, count in self.inside[name].items():
                visit(child, times * count)

        visit(self.top, 1)
        return dict(counts)

    def size(self) -> float:
        """Return the gates of the whole design, a rough estimate."""
        return sum(count * self.gates[name] for name, count in self.instances().items())


def outline(yosys: Installation, top: str, work: Path, timeout: float) -> Outline:
    """Read ``design.v`` in a directory and return its hierarchy.

    Raises
    ------
    CheckFailed
        If it is not Verilog that Yosys reads, or has no such top module.
    """
    script = f"read_verilog design.v\nhierarchy -check -top {top}\nproc\nwrite_json outline.json\n"
    (work / "outline.ys").write_text(script, encoding="utf-8")
    process.run(yosys, ["-q", "-T", "outline.ys"], work, "outline.log", timeout)
    modules = json.loads((work / "outline.json").read_text(encoding="utf-8"))["modules"]
    gates: dict[str, float] = {}
    inside: dict[str, dict[str, int]] = {}
    for name, module in modules.items():
        children: Counter[str] = Counter()
        memories = module.get("memories", {}).values()
        local = sum(5.0 * memory["width"] * memory["size"] for memory in memories)
        for cell in module["cells"].values():
            if cell["type"] in modules:
                children[cell["type"]] += 1
            else:
                local += _gates(cell)
        gates[name], inside[name] = local, dict(children)
    ports = {
        name: (str(port["direction"]), len(port["bits"]))
        for name, port in modules[top]["ports"].items()
    }
    marked = {name for name, module in modules.items() if "keep_hierarchy" in module["attributes"]}
    return Outline(top, ports, gates, inside, frozenset(marked))


def separate_modules(design: Outline) -> tuple[str, ...]:
    """Return the modules to keep, none of them inside another."""
    instances = design.instances()
    sizes: dict[str, float] = {}

    def size(name: str) -> float:
        if name not in sizes:
            inside = design.inside[name].items()
            sizes[name] = design.gates[name] + sum(n * size(child) for child, n in inside)
        return sizes[name]

    def choose(name: str) -> tuple[float, set[str]]:
        """Return the gates of a module that are in kept modules, and which these are."""
        if name in design.marked:
            return size(name), {name}
        covered, chosen = 0.0, set()
        for child, count in design.inside[name].items():
            part, names = choose(child)
            covered += count * part
            chosen |= names
        repeated = name != design.top and instances[name] >= INSTANCES and size(name) >= GATES
        if repeated and covered < SHARE * size(name):
            return size(name), {name}
        return covered, chosen

    modules = choose(design.top)[1]
    # A module may be chosen in one place and be inside a chosen one in another.
    within: set[str] = set()
    waiting = [child for name in modules for child in design.inside[name]]
    while waiting:
        name = waiting.pop()
        if name not in within:
            within.add(name)
            waiting.extend(design.inside[name])
    return tuple(sorted(modules - within))


def _gates(cell: Mapping[str, Any]) -> float:
    """Return about how many gates a cell of Yosys's word library needs."""
    kind = cell["type"]
    bits = {port: len(net) for port, net in cell["connections"].items()}
    widest = float(max(bits.values(), default=0))
    if kind == "$mul":
        return 6.0 * bits["A"] * bits["B"]
    if kind in ("$add", "$sub", "$alu", "$neg", "$lt", "$le", "$gt", "$ge"):
        return 5.0 * widest
    if kind == "$pmux":
        return 2.0 * bits["B"]
    if kind.startswith(("$dff", "$sdff", "$adff", "$dlatch")):
        return 5.0 * bits["Q"]
    if kind in ("$shift", "$shiftx", "$shl", "$shr", "$sshl", "$sshr"):
        return 2.0 * bits["Y"] * bits["B"]
    return widest
