# SPDX-License-Identifier: Apache-2.0
"""Files of a search for systems, and a system simulated with both workloads at once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from flows.build.build import Build
from flows.build.design import Design
from flows.build.load import parse_config
from flows.search.systems import (
    ENGINE,
    NAMES_OF_CORES,
    RESULT,
    Ranked,
    System,
    SystemRequest,
    engine_of,
    front_of,
    verdict,
)
from flows.simulation.side_by_side import Network, interleaved, run_side_by_side


def configuration(request: SystemRequest, system: System) -> str:
    """Return the configuration of a system, with what runs where in comments."""
    engine = engine_of(request, system.width, system.cores)
    if math.isfinite(system.metrics["clock_mhz"]):
        engine["target"]["clock_mhz"] = math.floor(10 * system.metrics["clock_mhz"]) / 10
    lines = [
        f"# {task.name} ({task.weights} weights) is on {name}: {core.shown}"
        for task, name, core in _uses(request, system)
    ]
    return "\n".join([*lines, yaml.safe_dump(engine, sort_keys=False)])


def _uses(request: SystemRequest, system: System) -> list[tuple[Any, str, Any]]:
    """Return each workload with the unit that it is on, and its core."""
    names, cores = NAMES_OF_CORES[len(system.cores)], system.cores
    return [
        (task, names[number % len(names)], cores[number % len(names)])
        for number, task in enumerate(request.tasks)
    ]


def write_systems(target: Path, request: SystemRequest, answer: Ranked) -> dict[str, Any]:
    """Write the short list and all figures into a directory; return the latter.

    Parameters
    ----------
    target : Path
        An empty directory.
    request : SystemRequest
    answer : Ranked
    """
    chosen = answer.best[: request.count]
    for number, system in enumerate(chosen, 1):
        folder = target / str(number)
        folder.mkdir()
        (folder / ENGINE).write_text(configuration(request, system), encoding="utf-8")
    document = {
        "workloads": [
            {"name": t.name, "weights": t.weights, "products": len(t.products)}
            for t in request.tasks
        ],
        "goals": [str(goal) for goal in request.goals],
        "points": len(answer.systems), "feasible": len(answer.best), "rejected": answer.rejected,
        "unusable": answer.unusable, "verdict": verdict(request, answer),
        "systems": [
            {"engine": f"{number}/{ENGINE}", **_entry(system)}
            for number, system in enumerate(chosen, 1)
        ],
        "fronts": {
            str(number): [_entry(system) for system in front_of(answer.systems, number)]
            for number in request.cores
        },
    }  # fmt: skip
    (target / RESULT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def _entry(system: System) -> dict[str, Any]:
    metrics = {name: value if math.isfinite(value) else None
               for name, value in system.metrics.items()}  # fmt: skip
    return {
        "cores": [core.shown for core in system.cores], "port": system.width, "metrics": metrics,
    }  # fmt: skip


def apply_system(request: SystemRequest, system: System) -> tuple[dict[str, str], dict[str, Any]]:
    """Build a system, and simulate both workloads on it at once, with random operands.

    Parameters
    ----------
    request : SystemRequest
    system : System

    Returns
    -------
    files : dict of str
        Those of ``hwgen build``.
    applied : dict
        ``cycles`` of the simulation, ``ranked``, those of the search for a memory that answers at
        once; ``modelled``, ``least`` and ``most`` of the command list; ``estimated`` metrics of the
        complete engine.

    Raises
    ------
    CheckFailed
        If a result differs from the golden model.
    """
    config = parse_config(configuration(request, system))
    design = Design.of(config)
    networks = [
        Network(task.name, unit, task.products, ternary=task.weights == "ternary")
        for task, unit, _ in _uses(request, system)
    ]
    done = run_side_by_side(design, networks, order=_order(request, system))
    build = Build(design)
    metrics = build.estimate()["metrics"]
    applied = {
        "cycles": done.cycles, "ranked": round(system.shared.cycles),
        "modelled": done.timing.cycles, "least": done.timing.least, "most": done.timing.most,
        "products": sum(len(task.products) for task in request.tasks),
        "estimated": {name: metrics.get(name) for name in ("area_mm2", "fmax_mhz")},
        "searched": {name: _entry(system)["metrics"][name] for name in ("area_mm2", "fmax_mhz")},
    }  # fmt: skip
    return build.files, applied


def _order(request: SystemRequest, system: System) -> list[tuple[int, int]]:
    """Return products, as numbers of workload and product, as they are to be submitted."""
    rows = [[(i, n) for n in range(len(t.products))] for i, t in enumerate(request.tasks)]
    if len(system.cores) == 1:
        return interleaved(rows)
    starts = {pair: start for row, times in zip(rows, system.shared.starts, strict=True)
              for pair, start in zip(row, times, strict=True)}  # fmt: skip
    return sorted(starts, key=lambda pair: (starts[pair], pair))
