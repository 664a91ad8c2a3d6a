# SPDX-License-Identifier: Apache-2.0
"""Search for a core that multiplies the products of a workload: a sweep over all families."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cost_model.sweep.document import read_sweep
from cost_model.sweep.fitted import Fitted
from cost_model.sweep.journal import Journal
from cost_model.sweep.netlists import Netlists
from cost_model.sweep.outcome import Executor
from cost_model.sweep.output.write import write_output
from cost_model.sweep.probe import probe
from cost_model.sweep.refine import sweep
from flows.build.costs import NetlistCosts
from flows.search.goals import METRICS, Goal
from hwgen import __version__
from hwgen.core.params.target import Target
from hwgen.errors import CheckFailed, ConfigError, InputError
from hwgen.technologies import technologies
from hwgen.technologies.fpga_model import Fpga
from hwgen.workloads.network import Network

WORK = "work"
"""Name of the workload in the sweep."""

CORE = "core.yaml"

_EXPRESSIONS: Mapping[str, str] = {
    "tokens_per_s": f"1000 * {{tokens}} / latency_ms({WORK})",
    "ms_per_token": f"latency_ms({WORK}) / {{tokens}}",
    "j_per_token": f"j_per_token({WORK})",
    "area_mm2": "area_mm2",
    "power_w": "power_w",
    "clock_mhz": "fmax_mhz",
    "luts": "luts_used",
    "dsps": "dsps",
    "brams": "brams",
}
"""Expression of a sweep for each metric; a workload without tokens is taken to have one."""


def sweep_document(
    workload: Any, network: Network, goals: Sequence[Goal], target: Target,
    clock_mhz: float | None, count: int,
) -> dict[str, Any]:  # fmt: skip
    """Return a sweep file, as plain values, that looks for the cores of a search.

    Parameters
    ----------
    workload
        As a sweep file names it.
    network : Network
        The same, read.
    goals : sequence of Goal
    target : Target
        Technology or device, and the memory.
    clock_mhz : float or None
        Clock that all have to reach, None for that of the technology, or what is reached of it.
    count : int
        Cores of the short list.

    Raises
    ------
    InputError
        If a goal is one of engines with a memory, and there is none.
    """
    file = yaml.safe_load(Path(__file__).with_name("cores.yaml").read_text(encoding="utf-8"))
    if target.memory.peak_gb_s is None and any(g.metric == "j_per_token" for g in goals):
        raise InputError("j_per_token: needs the memory behind the core; name one by --memory")
    tokens = network.tokens or 1
    specs = [f"{_EXPRESSIONS[g.metric].format(tokens=tokens)} {g.sign} {g.bound!r}" for g in goals]
    targets: dict[str, Any] = {"technology": target.technology}
    if target.device is not None:
        targets = {"device": target.device}
        specs.append("fits")
    if clock_mhz is not None:
        targets["clock_mhz"] = clock_mhz
        specs.append(f"fmax_mhz >= {clock_mhz!r}")
    memory = target.memory.model_dump(mode="json", exclude_none=True)
    memory.pop("ports", None)
    if memory:
        targets["memory"] = memory
    size = "luts_used" if isinstance(technologies()[target.technology], Fpga) else "area_mm2"
    speed = f"latency_ms({WORK})"
    fast = any(g.metric in ("tokens_per_s", "ms_per_token") and
               g.sign == (">=" if METRICS[g.metric][1] else "<=") for g in goals)  # fmt: skip
    return {
        "name": "core",
        "families": file["families"],
        "parameters": file["formats"],
        "targets": targets,
        "workloads": {WORK: workload},
        "specs": specs,
        "objectives": {"minimize": [size, speed] if fast else [speed, size]},
        "top": count,
    }


def search_cores(
    document: Mapping[str, Any],
    count: int,
    executor: Executor,
    journal: Path,
    staging: Callable[[], Any],
    show: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Search for cores, and write the short list.

    Parameters
    ----------
    document : mapping
        See `sweep_document`.
    count : int
        Cores of the short list.
    executor : Executor
    journal : Path
        Directory of finished chunks.
    staging : callable
        Returns a context manager with an empty directory to write into.
    show : callable
        Takes a unit of progress, how many are done, and how many there are.

    Returns
    -------
    dict
        The summary of the sweep, with ``cores``, the paths of the short list.

    Raises
    ------
    CheckFailed
        If no core meets all goals.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "search.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        file = read_sweep(path, __version__)
        probed = probe(file, Fitted())
    units = {"samples": "netlists", "points": "points", "candidates": "candidates"}
    with Journal(journal, probed.fingerprint) as chunks:
        try:
            outcome, model = sweep(
                file, probed, Netlists(NetlistCosts(file.plan.activity)), executor, chunks,
                {step: partial(show, unit) for step, unit in units.items()},
            )  # fmt: skip
        except ConfigError as error:
            raise CheckFailed("\n".join(each.message for each in error.problems)) from None
        with staging() as target:
            summary = write_output(target, outcome, model, probed)
            cores = []
            for number, path in enumerate(sorted((target / "configs").iterdir())[:count], 1):
                folder = target / str(number)
                folder.mkdir()
                (folder / CORE).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
                cores.append(f"{number}/{CORE}")
    return {**summary, "cores": cores}
