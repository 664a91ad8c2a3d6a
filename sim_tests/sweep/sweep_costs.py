# SPDX-License-Identifier: Apache-2.0
"""A cost model in a few formulas, for tests of the sweep: quick, and easy to check by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cost_model.sweep import fitted, refine
from cost_model.sweep.document import SweepFile
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.journal import Journal
from cost_model.sweep.netlists import Netlists
from cost_model.sweep.outcome import Executor, Outcome, Progress
from cost_model.sweep.plan import Evaluate
from cost_model.sweep.probe import Probe

AREA = {"nangate45": 1.0, "asap7": 0.1}

PAGE_SWEEP = """\
name: page
families:
  ternary_lut:
    parameters: {array: {group_size: [1, 2, 3], tables: {from: 1, to: 64, log: 2}}}
  systolic:
    parameters: {array: {rows: {from: 64, to: 256, step: 16}, cols: 64}}
workloads: {decode: [{m: 1, k: 768, n: 768}]}
objectives: {minimize: [area_mm2, latency_ms(decode)], maximize: [tops]}
"""
"""Sweep whose page has two families and three objectives."""


def evaluate(
    family: str,
    fixed: Mapping[str, Any],
    varying: Mapping[str, NDArray[Any]],
    technology: str,
    workloads: Mapping[str, Sequence[tuple[int, int, int]]],
) -> dict[str, NDArray[Any]]:
    """Return made-up metrics, like a cost model; see `cost_model.sweep.plan.Evaluate`."""
    p = {**fixed, **varying}
    shape = np.broadcast_shapes(*(np.shape(values) for values in varying.values()))
    bits = int(re.sub(r"\D", "", p["activation"]))
    scale = AREA.get(technology, np.nan)
    if family == "ternary_lut":
        terms = np.float64(p["array.tables"]) * p["array.group_size"]
        macs = terms * p["array.fetch_ports"]
        tables = p["array.tables"] * 3.0 ** p["array.group_size"] * bits
        columns = macs * (bits / 4 if p["array.method"] == "lut" else bits)
        valid = (p["array.method"] == "lut") | (np.asarray(p["array.group_size"]) == 1)
        width = p["array.fetch_ports"]
    else:
        terms, width = p["array.rows"], p["array.cols"]
        macs = np.float64(terms) * width
        tables, columns = 0.0 * macs, macs * bits * 1.5
        valid = np.asarray(True)
    area = (tables + columns) * scale * 1e-4
    fmax = 1000.0 / (1 + 0.1 * np.log2(macs))
    power = area * 0.5 + 0.01
    result = {
        "area_mm2": area,
        "area_mm2[tables]": tables * scale * 1e-4,
        "area_mm2[columns]": columns * scale * 1e-4,
        "power_w": power,
        "fmax_mhz": fmax,
        "tops": 2e-6 * macs * fmax,
        "tops_per_w": 2e-6 * macs * fmax / power,
        "unknown_mw": np.nan,
    }
    for name, gemms in workloads.items():
        cycles = sum(m * np.ceil(k / terms) * np.ceil(n / width) for m, k, n in gemms)
        result[f"cycles({name})"] = cycles
        result[f"latency_ms({name})"] = cycles / fmax * 1e-3
    arrays = {key: np.broadcast_to(value, shape) for key, value in result.items()}
    return {**arrays, "valid": np.broadcast_to(valid, shape)}


MODEL: Evaluate = evaluate
"""The costs that sweeps use, see `use_made_up_costs`."""


def _sweep(
    file: SweepFile,
    probed: Probe,
    netlists: Netlists,
    executor: Executor,
    journal: Journal,
    progress: Mapping[str, Progress],
) -> tuple[Outcome, Evaluate]:
    return run_sweep(file, probed, MODEL, executor, journal, progress["points"]), MODEL


def use_made_up_costs(patch: pytest.MonkeyPatch) -> None:
    """Have `hwgen sweep` rank and return points by these costs."""
    patch.setattr(fitted, "Fitted", lambda: MODEL)
    patch.setattr(refine, "sweep", _sweep)
