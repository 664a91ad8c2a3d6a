# SPDX-License-Identifier: Apache-2.0
"""From measured cores to the table of a technology."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cost_model.bill import Counts, Space
from cost_model.fabric import fabric
from cost_model.technology import Technology
from flows.calibration.element_points import Values
from flows.calibration.fit import Equation, fit, fit_longest
from flows.calibration.measure import Measured, measure, provenance
from flows.calibration.points import NAME, calibration_points, config_of
from hwgen.config.dotted import flattened
from hwgen.errors import InputError
from hwgen.families import family
from hwgen.technologies import technology as installed

OPERATOR = re.compile(rf"{NAME}_(add|multiply)_(\w+?)_(\d+)e?")
FLOAT = "float_"
_OPERATORS = {"add": "float_adder", "multiply": "float_multiplier"}


def operator_kind(match: re.Match[str]) -> str:
    """Return the kind of the floating-point operator whose module's name is matched."""
    return f"{_OPERATORS[match[1]]}_{match[2]}_{match[3]}"


def calibrate(
    technology: str,
    progress: Callable[[int, int], None] | None = None,
    designs: int | None = None,
) -> Technology:
    """Synthesize the calibration cores and return the table that fits them.

    Parameters
    ----------
    technology : str
        A standard-cell library, or an FPGA family whose rules are known.
    progress : callable, optional
        Takes the cores done and the cores in all.
    designs : int, optional
        Take the first so many cores only: a quick look, from which less is known.

    Raises
    ------
    InputError
        If the technology is unknown, or nothing is known of how it works.
    ToolMissing, CheckFailed
        As `flows.standard_cells.map_core`.
    """
    from flows.calibration import fit_fpga, fpga

    on_fpga = installed(technology).kind == "fpga"
    if on_fpga and fabric(technology) is None:
        raise InputError(
            f"{technology!r} cannot be calibrated: its data file has no `rules`, what components"
            " become there"
        )
    points = list(calibration_points(fpga=on_fpga))[:designs]
    measured: list[Any] = []
    for number, values in enumerate(points):
        if progress:
            progress(number, len(points))
        measured.append((fpga.measure if on_fpga else measure)(values, technology))
    return fit_fpga.table(technology, measured) if on_fpga else table(technology, measured)


def table(technology: str, measured: Sequence[Measured]) -> Technology:
    """Return the table that fits measured cores."""
    areas = [equation for m in measured for equation in area_equations(m)]
    costs, residuals = {}, {}
    costs["area_um2"], errors = fit(areas)
    residuals["area_of_parts"] = summary(errors)
    wholes = [_whole(m) for m in measured]
    for quantity in ("leakage_nw", "energy_fj"):
        equations = [
            Equation(str(m.values), _joined(counts, costs["area_um2"]), getattr(m, quantity))
            for m, counts in zip(measured, wholes, strict=True)
        ]
        costs[quantity], errors = fit(equations)
        each = costs[quantity].pop(FLOAT, 0.0)
        floats = {k: each * area for k, area in costs["area_um2"].items() if k.startswith(FLOAT)}
        costs[quantity] |= floats
        residuals[quantity] = summary(errors)
    predicted = [
        sum(costs["area_um2"].get(kind, 0.0) * n for kind, n in counts.items()) / m.area_um2 - 1
        for m, counts in zip(measured, wholes, strict=True)
    ]
    residuals["area_of_cores"] = summary(predicted)
    timed = [m for m in measured if m.delay_ns]
    delays: dict[str, float] = {}
    if timed:
        paths = [_paths(m.values) for m in timed]
        delays, errors = fit_longest(paths, [m.delay_ns or 0.0 for m in timed])
        residuals["delay"] = summary(errors)
    return Technology(
        technology,
        {quantity: rounded(prices) for quantity, prices in costs.items()},  # type: ignore[misc]
        rounded(delays),
        ranges(dict(m.values) for m in measured),
        {},
        {**provenance(technology), "cores": len(measured), "residuals": residuals},
    )


def _joined(counts: Counts, areas: Mapping[str, float]) -> dict[str, float]:
    """Return counts with all floating-point operators as one kind, counted by their area.

    They are too many kinds to tell apart by whole cores.
    """
    joined = {kind: n for kind, n in counts.items() if not kind.startswith(FLOAT)}
    floats = (areas[kind] * n for kind, n in counts.items() if kind.startswith(FLOAT))
    return {**joined, FLOAT: sum(floats)}


def _space(values: Mapping[str, Any]) -> tuple[str, Space]:
    fixed = dict(values)
    name = fixed.pop("family")
    return name, Space(name, fixed)


def _paths(values: Mapping[str, Any]) -> list[dict[str, float]]:
    name, space = _space(values)
    view = space.view({})
    return [_scalars(path) for path in family(name).part("cost").paths(view)]


def _scalars(counts: Counts) -> dict[str, float]:
    return {kind: float(n) for kind, n in counts.items() if float(n)}


def _whole(m: Measured) -> dict[str, float]:
    name, space = _space(m.values)
    view = space.view({})
    totals: dict[str, float] = {}
    for part in family(name).part("cost").parts(view.config):
        for kind, n in _scalars(part.counts(view)).items():
            totals[kind] = totals.get(kind, 0.0) + n
    return totals


def area_equations(m: Measured) -> list[Equation]:
    """Return an equation for each part that is mapped on its own, and one for the rest."""
    name, space = _space(m.values)
    view = space.view({})
    rest: dict[str, float] = {}
    own: list[tuple[str, tuple[str, ...], dict[str, float]]] = []
    for part in family(name).part("cost").parts(view.config):
        counts = _scalars(part.counts(view))
        if part.modules:
            # What is between the modules belongs to the rest.
            rest["fanout"] = rest.get("fanout", 0.0) + counts.pop("fanout", 0.0)
            own.append((part.name, part.modules, counts))
        else:
            for kind, n in counts.items():
                rest[kind] = rest.get(kind, 0.0) + n
    areas = dict.fromkeys((part for part, _, _ in own), 0.0)
    equations, left = [], 0.0
    for module, area in m.modules.items():
        if operator := OPERATOR.fullmatch(module):
            kind = operator_kind(operator)
            equations.append(Equation(kind, {kind: 1.0}, area / m.instances[module]))
            continue
        short = module.removeprefix(f"{NAME}_")
        owner = next((p for p, names, _ in own if short != NAME and short.startswith(names)), None)
        if owner is None:
            left += area
        else:
            areas[owner] += area
    for part, _, counts in own:
        mine = {k: n for k, n in counts.items() if not k.startswith(tuple(_OPERATORS.values()))}
        if areas[part]:
            equations.append(Equation(f"{part} of {m.values}", mine, areas[part]))
    return [*equations, Equation(f"rest of {m.values}", rest, left)]


def summary(errors: Iterable[float]) -> dict[str, float]:
    """Return the mean and the worst of relative errors."""
    relative = np.array(list(errors))
    return {
        "mape": round(float(np.abs(relative).mean()), 4),
        "worst": round(float(relative[np.abs(relative).argmax()]), 4),
        "count": len(relative),
    }


def rounded(prices: Mapping[str, float]) -> dict[str, float]:
    """Return prices of six digits."""
    return {kind: float(f"{price:.6g}") for kind, price in prices.items()}


def ranges(points: Iterable[Values]) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each size and pipeline depth, by family."""
    bounds: dict[str, tuple[float, float]] = {}
    for values in points:
        config = config_of(values)
        for name, value in flattened(config.resolved()).items():
            if type(value) is int and name.startswith(("array.", "pipeline.")):
                key = f"{config.family}:{name}"
                low, high = bounds.get(key, (value, value))
                bounds[key] = (min(low, value), max(high, value))
    return bounds
