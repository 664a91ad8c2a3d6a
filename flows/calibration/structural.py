# SPDX-License-Identifier: Apache-2.0
"""Costs of the components of structures, fitted to mapped designs.

Designs are drawn from everything that the families allow (`flows.calibration.draws`) and mapped as
``hwgen synth`` does by default: modules that `flows.synthesis.outline.separate_modules` finds are
mapped once.  Each of them and the rest of each design gives an equation for the
area, and each whole design one for area, leakage and energy.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.netlist.components import Counts, components
from cost_model.netlist.costs import STORED as REGISTER
from cost_model.netlist.costs import cost, logic_share
from cost_model.netlist.model import TOP
from cost_model.netlist.netlist import Netlist
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration.bounds import bounds
from flows.calibration.draws import NAME
from flows.calibration.fit import Equation, fit_robust
from flows.calibration.mapping_cache import map_cached, versions
from flows.calibration.measure import RECIPE, cell_costs, mapped_costs, provenance
from flows.calibration.results import COVERED, QUANTITIES, covered
from flows.synthesis import outline
from flows.synthesis.standard_cells import Mapped
from flows.tools.cache import Document, text_digest
from flows.tools.executors import LocalProcesses
from flows.tools.toolchain import require
from hwgen.core.params.base import FamilyConfig
from hwgen.technologies import cell_library

ALL_LEGAL, REALISTIC = "all legal", "realistic"

DESIGNS = {
    ALL_LEGAL: Path(__file__).with_name("designs.jsonl"),
    REALISTIC: Path(__file__).with_name("realistic_designs.jsonl"),
}
"""The designs that technologies are calibrated on, one a line, by the distribution that they are
drawn from: everything that is legal (`flows.calibration.draws`), with some deep memories, and what
people build (`flows.calibration.realistic`)."""

FOLDS = 10
"""Parts of the designs of which each is left out once."""

PART = 0.4
"""Weight of the equation of a module beside that of a whole design."""

LEAST_UM2 = 50.0
"""Smaller modules are no equations of their own."""

FLIP_FLOP = 3.0
"""Weight of the equation of the flip-flop that it becomes."""

GUESS = 0.05
"""Weight of what components cost by guess: it decides where the designs do not."""

METRICS = ("area", "power")

CLOCK_MHZ = 500.0
"""Clock at which the error of the power is stated."""

_TIMEOUT = 600.0

Case = tuple[Mapping[str, Mapping[str, float]], Counts, Mapping[str, float]]
"""Prices by quantity, the components of a design, and what it costs by quantity."""


@dataclass(frozen=True)
class Measured:
    """A mapped design and its structure.

    Parameters
    ----------
    name : str
        What it is, for people.
    design : Netlist
    mapped : Mapped
    distribution : str
        What it is drawn from, a key of `DESIGNS`.
    """

    name: str
    design: Netlist
    mapped: Mapped
    distribution: str = ALL_LEGAL

    def costs(self) -> dict[str, float]:
        """Return the cost of the whole design, by quantity."""
        return mapped_costs(self.mapped)


def designs(distribution: str = ALL_LEGAL) -> list[FamilyConfig]:
    """Return the configurations of a distribution that technologies are calibrated on."""
    path = DESIGNS[distribution]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        parse_config(json.dumps({"name": NAME, **json.loads(line)}), path.name, quickly=True)
        for line in lines
    ]


def _outline(verilog: str, top: str) -> outline.Outline:
    """Return the hierarchy of Verilog; kept, as it takes a run of Yosys."""
    entry = Document("outline", text_digest("\n".join([verilog, top, str(versions())])))
    document = entry.read()
    if document is None:
        with tempfile.TemporaryDirectory(prefix="hwgen-calibrate-") as work:
            (Path(work) / "design.v").write_text(verilog, encoding="utf-8")
            result = outline.outline(require("yosys"), top, Path(work), _TIMEOUT)
        document = {
            "top": result.top, "ports": dict(result.ports), "gates": dict(result.gates),
            "inside": {name: dict(inside) for name, inside in result.inside.items()},
            "marked": sorted(result.marked),
        }  # fmt: skip
        entry.write(document)
    return outline.Outline(**{**document, "marked": frozenset(document["marked"])})


def measure(config: FamilyConfig, technology: str, distribution: str = ALL_LEGAL) -> Measured:
    """Map a design; results are kept in the user's cache.

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.synthesis.standard_cells.map_core`.
    """
    tech = cell_library(technology)
    design = Design.of(config)
    netlist = design.netlist  # first: its conversion may write the Verilog as well
    verilog = design.verilog
    mapped = map_cached(
        verilog,
        config.name,
        technology,
        RECIPE,
        1e6 / config.target.clock_mhz,  # as `hwgen synth` does
        keep=outline.separate_modules(_outline(verilog, config.name)),
        full_adders=tech.full_adder is not None,
    )
    return Measured(str(config.resolved()), netlist, mapped, distribution)


def measured(
    technology: str,
    progress: Callable[[int, int], None] | None = None,
    count: int | None = None,
    jobs: int = 1,
) -> list[Measured]:
    """Map the calibration designs.

    Parameters
    ----------
    technology : str
        A standard-cell technology.
    progress : callable, optional
        Takes the designs done and the designs in all.
    count : int, optional
        Only the first designs of each distribution.
    jobs : int, optional
        Processes that map at once.

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.synthesis.standard_cells.map_core`.
    """
    chosen = [
        (technology, name, index) for name in DESIGNS for index in range(len(designs(name)[:count]))
    ]
    results: dict[tuple[str, str, int], Measured] = {}
    if progress:
        progress(0, len(chosen))
    for item, result in LocalProcesses(jobs).run(_measure_listed, chosen):
        results[item] = result
        if progress:
            progress(len(results), len(chosen))
    return [results[item] for item in chosen]


def _measure_listed(item: tuple[str, str, int]) -> Measured:
    technology, distribution, index = item
    return measure(_listed(distribution)[index], technology, distribution)


@cache
def _listed(distribution: str) -> list[FamilyConfig]:
    return designs(distribution)


def table(technology: str, measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the costs that fit measured designs, and how well they do."""
    wholes = [whole(m.design) for m in measured]
    costs = [m.costs() for m in measured]
    modules = [_modules(m) for m in measured]
    flip_flops = _flip_flop(measured)

    limits = {quantity: bounds(technology, quantity) for quantity in QUANTITIES}

    def fitted(chosen: Sequence[int]) -> dict[str, dict[str, float]]:
        result: dict[str, dict[str, float]] = {}
        for quantity in QUANTITIES:
            equations = [Equation(measured[i].name, wholes[i], costs[i][quantity]) for i in chosen]
            weights = [1.0] * len(equations)
            # What a bit of a register takes at least is known apart from all that is around it.
            equations.append(Equation("flip-flop", {REGISTER: 1.0}, flip_flops[quantity]))
            weights.append(FLIP_FLOP)
            if quantity == "area_um2":
                inside = [equation for i in chosen for equation in modules[i]]
                equations, weights = equations + inside, weights + [PART] * len(inside)
            result[quantity] = fit_robust(equations, weights, limits[quantity], GUESS)
        return result

    numbers = range(len(measured))
    without = [fitted([i for i in numbers if i % FOLDS != fold]) for fold in range(FOLDS)]
    cases = {
        name: [
            (without[i % FOLDS], wholes[i], costs[i])
            for i in numbers
            if measured[i].distribution == name
        ]
        for name in dict.fromkeys(each.distribution for each in measured)
    }
    errors = {name: errors_of(of_one) for name, of_one in cases.items()}
    of_logic = [_of_logic(of_one) for of_one in cases.values()]
    return {
        "costs": {
            quantity: {
                each_name: float(f"{price:.6g}") for each_name, price in sorted(prices.items())
            }
            for quantity, prices in fitted(numbers).items()
        },
        "bounds": {
            quantity: {
                name: [float(f"{limit.low:.6g}"), float(f"{limit.high:.6g}")]
                for name, limit in sorted(limits[quantity].items())
            }
            for quantity in QUANTITIES
        },
        # Of the distribution that is estimated worse.
        "uncertainty": {
            name: max(error[name]["covered"] for error in errors.values()) for name in METRICS
        },
        "uncertainty_of_logic": {
            name: round(max(interval(ratios[name]) for ratios in of_logic), 4) for name in METRICS
        },
        "provenance": {
            **provenance(technology),
            "clock_ps": measured[0].mapped.clock_ps,
            "designs": {name: len(of_one) for name, of_one in cases.items()},
            "left_out": errors,
        },
    }


def interval(ratios: Sequence[float]) -> float:
    """Return the bound of the next absolute ratio with a probability of `COVERED`.

    The quantile of conformal prediction: of n ratios that with the number ``(n + 1) COVERED``,
    rounded up.
    """
    index = min(len(ratios), math.ceil((len(ratios) + 1) * COVERED))
    return float(np.sort(np.abs(ratios))[index - 1])


def _of_logic(cases: Sequence[Case]) -> dict[str, list[float]]:
    """Return the errors of area and power of designs, divided by the share of the logic."""
    ratios: dict[str, list[float]] = {"area": [], "power": []}
    for prices, counts, costs in cases:
        for name, amount in (("area", _area), ("power", _power)):
            sums = _sums(prices, counts)
            share = logic_share(amount, prices, counts)
            ratios[name].append((amount(sums) / amount(costs) - 1) / share)
    return ratios


def errors_of(
    cases: Sequence[Case],
) -> dict[str, dict[str, float]]:
    """Return the errors of area and power of designs.

    Parameters
    ----------
    cases : sequence of tuple
        Of each design the prices by quantity, its components, and what it costs by quantity.

    Returns
    -------
    dict
        By metric: ``mape``, the mean; ``worst``; ``covered``, see `covered`.
    """
    errors: dict[str, list[float]] = {"area": [], "power": []}
    for prices, counts, costs in cases:
        sums = _sums(prices, counts)
        errors["area"].append(sums["area_um2"] / costs["area_um2"] - 1)
        errors["power"].append(_power(sums) / _power(costs) - 1)
    return {
        name: {
            "mape": round(float(np.abs(values).mean()), 4),
            "worst": round(values[int(np.abs(values).argmax())], 4),
            "covered": round(covered(values), 4),
        }
        for name, values in errors.items()
    }


def _sums(
    prices: Mapping[str, Mapping[str, float]], counts: Mapping[str, float]
) -> dict[str, float]:
    return {quantity: cost(prices[quantity], counts) for quantity in QUANTITIES}


def _area(costs: Mapping[str, float]) -> float:
    return costs["area_um2"]


def _power(costs: Mapping[str, float]) -> float:
    return costs["leakage_nw"] + costs["energy_fj"] * CLOCK_MHZ


def _flip_flop(measured: Sequence[Measured]) -> dict[str, float]:
    """Return the mean cost of a flip-flop, by quantity."""
    number, result = 0, dict.fromkeys(QUANTITIES, 0.0)
    for m in measured:
        costs = cell_costs(m.mapped.technology)
        for cell, count in m.mapped.cells.items():
            if costs[cell].sequential:
                number += count
                for quantity in QUANTITIES:
                    result[quantity] += count * getattr(costs[cell], quantity)
    return {quantity: total / number for quantity, total in result.items()}


def whole(design: Netlist) -> Counts:
    """Return the components of a design."""
    result: Counter[str] = Counter()
    for name, counts in components(design).items():
        for each_name, n in counts.items():
            result[each_name] += n * design.counts[name]  # type: ignore[assignment]
    return dict(result)


def _modules(m: Measured) -> list[Equation]:
    """Return an equation for each module that was mapped on its own, and one for the rest."""
    short = {
        name: TOP if name == NAME else name.removeprefix(f"{NAME}_") for name in m.mapped.parts
    }
    local = components(m.design)
    separate = set(short.values()) - {TOP}
    if not separate:
        return []

    def inside(name: str) -> Counter[str]:
        result = Counter(local[name])
        for instance in m.design.modules[name].instances:
            if instance.module not in separate:
                for each_name, n in inside(instance.module).items():
                    result[each_name] += n
        return result

    return [
        Equation(f"{name} of {m.name}", dict(inside(short[name])), part.area)
        for name, part in m.mapped.parts.items()
        if part.area >= LEAST_UM2
    ]
