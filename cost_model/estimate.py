# SPDX-License-Identifier: Apache-2.0
"""The estimate of one configuration as plain data, for people, manifests and programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cost_model import technology as technologies
from cost_model.bill import Space
from cost_model.evaluate import RESOURCES, Workloads, evaluate, flattened
from hwgen.families import family

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

_OF = {"area_mm2": "area", "fmax_mhz": "fmax", "power_w": "power", "luts": "luts",
       **{name: name for name in RESOURCES}}  # fmt: skip
"""Metrics of which the uncertainty is known, and its name in a table of costs."""


def estimate(
    config: FamilyConfig,
    technology: str | None = None,
    clock_mhz: float | None = None,
    workloads: Workloads | None = None,
) -> dict[str, Any]:
    """Return what a configuration costs and how fast it is.

    Parameters
    ----------
    config : FamilyConfig
    technology, clock_mhz : optional
        Instead of those of ``config.target``.
    workloads : mapping, optional
        Name: sizes (M, N, K) of products.

    Returns
    -------
    dict
        JSON values: ``metrics`` as `cost_model.evaluate.evaluate` names them, None if unknown;
        ``uncertainty``, by metric, the relative error that nine of ten designs that calibration
        has not seen stay within; ``breakdown``, what each part costs and consists of;
        ``extrapolated``, the parameters beyond those that the costs were checked on.
    """
    technology = technology or config.target.technology
    clock = float(clock_mhz or config.target.clock_mhz)
    resolved = {**config.resolved(), "target": {"technology": technology, "clock_mhz": clock}}
    fixed = flattened(resolved)
    found = evaluate(config.family, fixed, {}, technology, workloads or {})
    metrics = {name: plain(values[0]) for name, values in found.items() if name != "valid"}
    tech = technologies.technology(technology) if technology in technologies.calibrated() else None
    return {
        "name": config.name,
        "family": config.family,
        "technology": technology,
        "calibrated": tech is not None,
        "clock_mhz": clock,
        "meets_clock": None if metrics["fmax_mhz"] is None else metrics["fmax_mhz"] >= clock,
        "metrics": metrics,
        "uncertainty": {m: tech.uncertainty.get(n) if tech else None for m, n in _OF.items()},
        "breakdown": _breakdown(config.family, fixed, tech),
        "extrapolated": _extrapolated(config.family, fixed, tech),
    }


def plain(value: Any) -> float | int | None:
    """Return a number as JSON has it, None for what is unknown."""
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) >= 1 else number


def _breakdown(
    name: str, fixed: Mapping[str, Any], tech: technologies.Technology | None
) -> list[dict[str, Any]]:
    view, module = Space(name, fixed).view({}), family(name).part("cost")
    found = []
    for part in module.parts(view.config) if hasattr(module, "parts") else ():
        counts = part.counts(view)
        components = {kind: plain(n) for kind, n in counts.items() if float(n)}
        costs: dict[str, Any] = {}
        if tech is not None:
            costs = {quantity: plain(tech.cost(quantity, counts)) for quantity in tech.costs}
        found.append({"part": part.name, **costs, "components": components})
    return found


def _extrapolated(
    name: str, fixed: Mapping[str, Any], tech: technologies.Technology | None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for key, (low, high) in sorted(tech.ranges.items()) if tech else ():
        owner, _, path = key.partition(":")
        value = fixed.get(path)
        if owner == name and isinstance(value, int) and not low <= value <= high:
            found.append({"parameter": path, "value": value, "checked": [low, high]})
    return found
