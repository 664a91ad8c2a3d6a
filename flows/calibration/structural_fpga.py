# SPDX-License-Identifier: Apache-2.0
"""Costs of the components of structures on an FPGA family, fitted to mapped designs.

Designs are mapped as ``hwgen synth`` does by default, everything as one.  Flip-flops, carry cells,
DSP blocks and memories are counted by rules (`cost_model.netlist.fabric.components`) and cost one
each; how far that is off is measured.  Look-up tables are fitted: each design is an equation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model.netlist.components import components
from cost_model.netlist.fabric.components import COMPONENTS, EXACT
from cost_model.netlist.fabric.fabric import Fabric, fabric
from cost_model.netlist.netlist import Netlist
from flows.build.design import Design
from flows.calibration import fpga
from flows.calibration.fit import Bound, Equation, fit_robust
from flows.calibration.results import covered
from flows.calibration.structural import designs
from hwgen.errors import InputError

STEP, LAST = 2, 78
"""Every second of the designs that standard cells are calibrated on, up to this one: some minutes
of Yosys."""

MOST = 4.0
"""How many times its usual look-up tables a component takes at most."""

GUESS = 0.02
"""Weight of what components cost by guess: it decides where the designs do not."""


@dataclass(frozen=True)
class Measured:
    """A mapped design and its structure.

    Parameters
    ----------
    name : str
        What it is, for people.
    counts : mapping
        Components of the whole design.
    resources : mapping
        Cells by resource.
    """

    name: str
    counts: Mapping[str, float]
    resources: Mapping[str, int]


def measured(
    target: str, progress: Callable[[int, int], None] | None = None, count: int | None = None
) -> list[Measured]:
    """Map the calibration designs; see `flows.calibration.structural.measured`."""
    rules = fabric(target)
    if rules is None:
        raise InputError(f"{target}: its data file has no `rules`, what components become there")
    chosen = designs()[:LAST:STEP][:count]
    result: list[Measured] = []
    for config in chosen:
        if progress:
            progress(len(result), len(chosen))
        design = Design.of(config)
        counts = totals(design.netlist, rules)
        resources = fpga.mapped(design.verilog, target)["resources"]
        result.append(Measured(str(config.resolved()), counts, resources))
    return result


def totals(design: Netlist, rules: Fabric) -> dict[str, float]:
    """Return the components of a whole design on an FPGA family."""
    result: Counter[str] = Counter()
    for name, counts in components(design, (), rules).items():
        for each_name, n in counts.items():
            result[each_name] += n * design.counts[name]  # type: ignore[assignment]
    return dict(result)


def table(target: str, measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the costs that fit measured designs, and how well they do when left out."""
    equations = [
        Equation(
            each.name,
            {each_name: n for each_name, n in each.counts.items() if each_name in COMPONENTS},
            float(each.resources["luts"]),
        )
        for each in measured
    ]
    limits = {name: Bound(0.0, share, MOST * share) for name, (_, share) in COMPONENTS.items()}

    def fitted(chosen: Sequence[Equation]) -> dict[str, float]:
        return fit_robust(chosen, [1.0] * len(chosen), limits, GUESS)

    luts = [
        sum(prices.get(each_name, 0.0) * n for each_name, n in equation.counts.items())
        / equation.measured
        - 1
        for index, equation in enumerate(equations)
        for prices in [fitted(equations[:index] + equations[index + 1 :])]
    ]
    errors = {"luts": luts}
    for each_name, resource in EXACT.items():
        errors[resource] = [
            each.counts.get(each_name, 0.0) / each.resources[resource] - 1
            for each in measured
            if each.resources[resource]
        ]
    summaries = {name: _summary(values) for name, values in errors.items() if values}
    costs = {"luts": {k: float(f"{p:.4g}") for k, p in sorted(fitted(equations).items())}}
    costs |= {resource: {each_name: 1.0} for each_name, resource in EXACT.items()}
    return {
        "costs": costs,
        "uncertainty": {name: each["covered"] for name, each in summaries.items()},
        "provenance": {
            **fpga.provenance(target),
            "kept_modules": "none: as hwgen synth maps by default",
            "designs": len(measured),
            "left_out": summaries,
        },
    }


def _summary(errors: Sequence[float]) -> dict[str, float]:
    wrong = np.abs(errors)
    return {
        "mape": round(float(wrong.mean()), 4),
        "worst": round(float(errors[int(wrong.argmax())]), 4),
        "covered": round(covered(list(errors)), 4),
        "designs": len(errors),
    }
