# SPDX-License-Identifier: Apache-2.0
"""The components of a design on an FPGA: what rules count exactly, and what look-up tables cover.

Yosys maps adders to carry chains, products to DSP blocks or to rows that are added pairwise, and
memories to block memories, small memories or registers, by rules that `cost_model.fabric.Fabric`
knows.  What is left are gates, which look-up tables cover (`cost_model.structure.lut_cover`).
Constants, equal registers and what nothing uses are followed through the whole design, as it is
mapped without hierarchy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cost_model.structure.blocks import Blocks
from cost_model.structure.flat import units
from cost_model.structure.lut_cover import Cover, balanced
from cost_model.structure.model import Design

if TYPE_CHECKING:
    from cost_model.fabric import Fabric

KINDS: Mapping[str, tuple[str, float]] = {
    "lut": ("look-up table that covers gates", 1.0),
    "adder_bit": ("bit of an adder on a carry chain", 0.5),
    "memory_bit": ("bit of a memory made of registers", 0.8),
    "memory_word": ("word of a memory made of registers", 1.0),
    "memory_select": ("bit chosen among the parts of a deep small memory", 1.0),
    "memory_emulation": ("bit of a block memory that must not read what is written", 2.0),
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


def fabric_components(
    design: Design, is_output: Callable[[str, str], bool], fabric: Fabric
) -> dict[str, dict[str, float]]:
    """Return the components of one instance of each module, on average over all of them.

    Parameters
    ----------
    design : Design
    is_output : callable
        Tells whether a module, by its name, has an output of a name.
    fabric : Fabric
    """
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for unit in units(design, is_output):
        blocks = Blocks(unit, fabric, is_output)
        for (owner, kind), count in blocks.found.items():
            totals[owner][kind] += unit.count * count
        gates, sinks = balanced(blocks.gates, blocks.sinks, fabric.lut_inputs)
        for node in Cover(gates, sinks, fabric.lut_inputs, fabric.lut_costs).roots():
            totals[blocks.names[gates.owners[node]]]["lut"] += unit.count
    return {
        name: {kind: n / count for kind, n in sorted(totals[name].items()) if n}
        for name, count in design.counts.items()
    }
