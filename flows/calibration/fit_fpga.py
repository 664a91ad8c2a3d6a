# SPDX-License-Identifier: Apache-2.0
"""From cores mapped to an FPGA to the table of its family.

Registers, carry cells, DSP blocks and memories are counted by rules
(`cost_model.netlist.fabric.fabric`) and cost one each; look-up tables are fitted.  Floating-point
operators are modules of their own, and cost what was measured of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost_model.closed_forms.closed_forms import view_of
from cost_model.closed_forms.component_counts import COMPONENTS, Part
from cost_model.estimate.technology import Technology
from cost_model.families import CLOSED_FORMS
from cost_model.netlist.fabric.fabric import CELL_COMPONENTS
from cost_model.netlist.fabric.fabric import COMPONENTS as FABRIC_COMPONENTS
from flows.calibration.fit import Equation, fit
from flows.calibration.fpga import Used, provenance
from flows.calibration.parts import FLOAT, float_operator, owner, without_operators
from flows.calibration.points import NAME, config_of
from flows.calibration.results import ranges, rounded, summary

EXACT: Mapping[str, tuple[str, ...]] = {
    "flip_flops": ("flip_flop",),
    "carries": ("carry",),
    "dsps": ("dsp",),
    "brams": ("bram",),
    "lutrams": ("lutram", "shift"),
}
"""Resources that are counted by rules, and the kinds of which each component takes one."""


_FREE = ("flip_flop", "enable", "shift")
"""Kinds that take no look-up tables of `luts`: a register and its enable are a cell."""


def table(target: str, measured: Sequence[Used]) -> Technology:
    """Return the table that fits cores mapped to an FPGA family."""
    names = [
        each_name
        for each_name in (*COMPONENTS, *FABRIC_COMPONENTS)
        if each_name not in CELL_COMPONENTS
    ]
    equations: list[Equation] = []
    operators: dict[str, Mapping[str, int]] = {}
    for used in measured:
        of_core, result = lut_equations(used, target)
        equations += of_core
        operators |= result
    floats = {each_name: dict(resources) for each_name, resources in operators.items()}
    luts, errors = fit([e for e in equations if e.measured > 0])
    costs: dict[str, dict[str, float]] = {
        "luts": {**dict.fromkeys(names, 0.0), **luts},
    }
    for resource, counted in EXACT.items():
        costs[resource] = {**dict.fromkeys(names, 0.0), **dict.fromkeys(counted, 1.0)}
        costs[resource] |= {name: 0.0 for name in luts if name.startswith(FLOAT)}
    for each_name, resources in floats.items():
        for resource, prices in costs.items():
            prices[each_name] = float(resources[resource])
    residuals = {"luts_of_parts": summary(errors)}
    tech = Technology(target, {q: rounded(p) for q, p in costs.items()})  # type: ignore[misc]
    for resource in ("luts", *EXACT):
        relative = [
            estimated / used.resources[resource] - 1
            for used in measured
            if used.resources[resource]
            and np.isfinite(estimated := estimate_of(tech, used.values, resource))
        ]
        if relative:
            residuals[f"{resource}_of_cores"] = summary(relative)
    return Technology(
        target,
        tech.costs,
        {},
        ranges(config_of(used.values) for used in measured),
        {},
        {**provenance(target), "cores": len(measured), "residuals": residuals},
    )


def estimate_of(tech: Technology, values: Mapping[str, Any], resource: str) -> float:
    """Estimate the use of a resource by a core with a table."""
    parts = _bills(values, tech.name).values()
    return float(sum(tech.cost(resource, counts) for _, counts in parts))  # type: ignore[arg-type]


def _bills(values: Mapping[str, Any], target: str) -> dict[str, tuple[Part, dict[str, float]]]:
    """Return each part, by name, and its bill."""
    view = view_of(config_of({**values, "target.technology": target}))
    parts = CLOSED_FORMS[view.space.family].parts(view.config)
    return {
        part.name: (part, {k: float(n) for k, n in part.counts(view).items() if float(n)})
        for part in parts
    }


def lut_equations(used: Used, target: str) -> tuple[list[Equation], dict[str, Mapping[str, int]]]:
    """Return an equation for each part that is mapped on its own, one for the rest, and operators.

    Returns
    -------
    equations : list of Equation
        Look-up tables.
    operators : dict
        Kind of each floating-point operator: the resources of one.
    """
    counts_of = _bills(used.values, target)
    parts = tuple(part for part, _ in counts_of.values())
    luts = dict.fromkeys((part.name for part in parts if part.modules), 0.0)
    rest, operators = 0.0, {}
    for module, (count, resources) in used.parts.items():
        short = module.removeprefix(f"{NAME}_")
        if each_name := float_operator(short):
            operators[each_name] = resources
            continue
        part_name = None if short == NAME else owner(short, parts)
        if part_name is None:
            rest += count * resources["luts"]
        else:
            luts[part_name] += count * resources["luts"]
    together: dict[str, float] = {}
    equations = []
    for name, (part, counts) in counts_of.items():
        logic = {k: n for k, n in without_operators(counts).items() if k not in _FREE}
        if part.modules and luts[name]:
            equations.append(Equation(f"{name} of {used.values}", logic, luts[name]))
        elif not part.modules:
            for each_name, n in logic.items():
                together[each_name] = together.get(each_name, 0.0) + n
    return [*equations, Equation(f"rest of {used.values}", together, rest)], operators
