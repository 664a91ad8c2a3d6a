# SPDX-License-Identifier: Apache-2.0
"""The components of a design on an FPGA: what rules count exactly, and what look-up tables cover.

Yosys maps adders to carry chains, products to DSP blocks or to rows that are added pairwise, and
memories to block memories, small memories or registers, by rules that
`cost_model.netlist.fabric.fabric.Fabric` knows.  What is left are gates, which look-up tables
cover (`cost_model.netlist.fabric.lut_cover`). Constants, equal registers and what nothing uses are
followed through the whole design, as it is mapped without hierarchy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.netlist.fabric.blocks import Blocks
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.fabric.flat import Unit, units
from cost_model.netlist.fabric.gates import Gates
from cost_model.netlist.fabric.lut_cover import Cover, balanced
from cost_model.netlist.fabric.lut_trees import TreeCover
from cost_model.netlist.netlist import Netlist

COMPONENTS: Mapping[str, tuple[str, float]] = {
    "lut": ("look-up table that covers gates", 1.0),
    "adder_bit": ("bit of an adder on a carry chain", 0.5),
    "memory_bit": ("bit of a memory made of registers", 0.8),
    "memory_word": ("word of a memory made of registers", 1.0),
    "memory_select": ("bit chosen among the parts of a deep small memory", 1.0),
}
"""Kinds of components that look-up tables are fitted to: what one is, and about how many it takes,
which stands in where measured designs do not tell."""

EXACT: Mapping[str, str] = {
    "flip_flop": "flip_flops",
    "carry": "carries",
    "dsp": "dsps",
    "bram": "brams",
    "lutram": "lutrams",
}
"""Kinds that are counted by rules, and the resource of which each takes one."""


@dataclass(frozen=True)
class Mapped:
    """A unit of a design (`cost_model.netlist.fabric.flat`) as an FPGA family has it.

    Parameters
    ----------
    unit : Unit
    blocks : Blocks
        What is no gate.
    gates : Gates
        The gates between them, divided to fill look-up tables.
    sinks : list of int
        The literals in `gates` that those of ``blocks.sinks`` are.
    cover : Cover
        The look-up tables.
    """

    unit: Unit
    blocks: Blocks
    gates: Gates
    sinks: list[int]
    cover: Cover


_latest: list[tuple[Netlist, Fabric, list[Mapped]]] = []


def mapped(design: Netlist, fabric: Fabric) -> list[Mapped]:
    """Map the units of a design to an FPGA family; the latest result is cached."""
    for other, rules, latest in _latest:
        if other is design and rules == fabric:
            return latest
    outputs = {
        name: {port.name for port in module.ports if port.output}
        for name, module in design.modules.items()
    }

    def is_output(module: str, port: str) -> bool:
        return port in outputs[module]

    result: list[Mapped] = []
    inputs: dict[str, Mapping[str, set[int]]] = {}
    for unit in reversed(units(design, is_output)):  # what is inside comes first
        blocks = Blocks(unit, fabric, is_output, inputs)
        inputs[unit.module.name] = blocks.used_inputs
        gates, sinks = balanced(blocks.gates, blocks.sinks, fabric.lut_inputs)
        if fabric.lut_trees:
            cover: Cover = TreeCover(gates, sinks, fabric.lut_trees)
        else:
            cover = Cover(gates, sinks, fabric.lut_inputs, fabric.lut_costs)
        result.append(Mapped(unit, blocks, gates, sinks, cover))
    result.reverse()
    _latest[:] = [(design, fabric, result)]
    return result


def fabric_components(design: Netlist, fabric: Fabric) -> dict[str, dict[str, float]]:
    """Return the components of one instance of each module, on average over all of them."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for each in mapped(design, fabric):
        blocks, count = each.blocks, each.unit.count
        for (owner, component), n in blocks.counts.items():
            totals[owner][component] += count * n
        for node in each.cover.roots():
            totals[blocks.names[each.gates.owners[node]]]["lut"] += count
    return {
        name: {component: n / count for component, n in sorted(totals[name].items()) if n}
        for name, count in design.counts.items()
    }
