# SPDX-License-Identifier: Apache-2.0
"""Components of modules: counts of types that cost about the same in every design.

Counts are of what synthesis leaves: bits that are used, of operands that are not constant.  They
are the features that costs of technologies are fitted to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from cost_model.netlist.fabric.components import fabric_components
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.few_inputs import few_input_counts, function_of
from cost_model.netlist.module_components import Counts, count_components
from cost_model.netlist.netlist import Netlist

__all__ = ["COMPONENTS", "Counts", "components", "totals"]

COMPONENTS: Mapping[str, tuple[str, float]] = {
    "register_bit": ("bit of a register or of a memory made of registers", 1.0),
    "enable_bit": ("bit of them that may keep its value", 0.3),
    "reset_bit": ("bit of them with a reset", 0.1),
    "read_bit": ("bit of a word that a port of a memory chooses from", 0.4),
    "adder_bit": ("bit of an adder", 0.6),
    "adder_level": ("bit of an adder, for each level of its tree of carries", 0.2),
    "increment_bit": ("bit of an adder of which one operand is constant", 0.4),
    "sum_bit": ("bit of a number more than two in a sum of several", 1.2),
    "less_bit": ("bit of a comparison by size", 1.0),
    "equal_bit": ("bit of a comparison for equality, behind its exclusive or", 0.2),
    "product_bit": ("bit of one narrow factor by a bit of the other", 0.9),
    "product_extension": ("bit by which a row of a signed product is narrower than its sum", 0.8),
    "booth_bit": ("bit of one factor by a bit of the other", 1.1),
    "booth_extension": ("bit by which one of these factors is narrower", 3.5),
    "booth_square": ("square of these bits: rows of the narrow factor's sign, widened", 0.4),
    "full_adder": ("full adder of the design's own", 1.3),
    "half_adder": ("the same, one of its inputs constant", 0.6),
    "mux_bit": ("multiplexer of two bits", 0.4),
    "mask_bit": ("multiplexer of a bit and a constant", 0.2),
    "select_bit": ("bit that one of several select signals lets through", 0.3),
    "and_bit": ("and, or of two bits", 0.2),
    "reduce_bit": ("bit more than one of an and, an or of many bits", 0.2),
    "xor_bit": ("exclusive or of two bits", 0.35),
    "not_bit": ("inverter", 0.05),
    "buffer": ("load of a signal by sixteen gates", 0.2),
}
"""Kinds of components: what one is, and about what it costs, in bits of a register.  The latter
stands in where measured designs do not tell."""

FAR_MORE = 2.5
"""How many times what a diagram takes is far more.  Of encoders and small adders, whose diagrams
take half of what is written, a mapper keeps most; of tables, which take a fifth, next to none."""


def components(
    design: Netlist, macros: Collection[str] = (), fabric: Fabric | None = None
) -> dict[str, Counts]:
    """Return the components of each module of a design, without those of modules in it.

    Parameters
    ----------
    design : Netlist
    macros : collection of str
        Modules whose memories are macros, which are not counted, instead of registers.
    fabric : Fabric, optional
        The FPGA family that it is for; default standard cells.

    Raises
    ------
    ValueError
        If one of these modules is not there, or has no memory.
    """
    for name in macros:
        if name not in design.modules or not design.modules[name].memories:
            raise ValueError(f"the hardware has no module {name} with a memory")
    if fabric is not None:
        return fabric_components(design, fabric)
    context = design.surroundings
    loads: dict[str, Mapping[str, list[int]]] = {}
    result: dict[str, Counts] = {}
    for name in reversed(design.counts):  # what is inside comes first
        result[name], loads[name] = count_components(
            context.modules[name],
            context.live[name],
            context.is_output,
            loads,
            macros=name in macros,
        )
        few = function_of(context.modules[name], context.live[name])
        if few is not None:
            result[name] = _needed(result[name], few_input_counts(*few))
    return {name: result[name] for name in design.counts}


def _needed(written: Counts, few: Counts) -> Counts:
    """Choose the counts of a function of a few bits: the written ones, unless they are far more."""
    return few if _about(few) * FAR_MORE <= _about(written) else written


def _about(counts: Counts) -> float:
    """Return about what components cost, in bits of a register."""
    return sum(COMPONENTS[component][1] * n for component, n in counts.items())


def totals(design: Netlist) -> Counts:
    """Return the components of a whole design."""
    result: Counter[str] = Counter()
    for name, counts in components(design).items():
        for component, count in counts.items():
            result[component] += count * design.counts[name]  # type: ignore[assignment]
    return dict(result)
