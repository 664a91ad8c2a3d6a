# SPDX-License-Identifier: Apache-2.0
"""Answers to the page: parameters and messages, cycles, costs and pictures of a configuration."""

from __future__ import annotations

from typing import Any

from flows.build.block_diagram import block_diagram
from flows.build.build import Build
from flows.build.files import description
from flows.build.load import parse_config
from flows.explorer.draft import Edited, Request, controls, edit
from flows.simulation.job_trace import trace_job, typical_job
from hwgen.core.core import Core
from hwgen.core.registry import core_of, families
from hwgen.errors import HwgenError, InputError
from hwgen.models.workload import named_workloads
from hwgen.reports import diagram, job_timing
from hwgen.reports.datasheet import tiles
from hwgen.reports.roofline import number
from hwgen.workloads import Network, shipped

DEFAULT_WORKLOAD = "64,768,768"


def choices() -> dict[str, Any]:
    """Return the families, with their summaries, and the workloads."""
    return {
        "families": [{"name": name, "summary": each.summary} for name, each in families().items()],
        "workloads": [DEFAULT_WORKLOAD, *shipped()],
    }


def check(request: Request) -> dict[str, Any]:
    """Return parameters, problems and YAML of a configuration; no hardware is generated."""
    edited = edit(request)
    if edited.draft is None:  # its controls need a valid neighbour only for defaults
        return {"problems": _problems(edited), "text": edited.text, "controls": controls(edited)}
    core = core_of(edited.draft.params)
    return {
        "problems": [],
        "text": edited.text,
        "controls": controls(edited),
        "multiplies": core.multiplies,
        "automatic": list(edited.draft.params.automatic),
        "macs_per_cycle": core.macs_per_cycle,
    }


def cycles(request: Request) -> dict[str, Any]:
    """Return the cycles of the request's workload; where registers are ``auto``, of the fewest."""
    edited = edit(request)
    if edited.draft is None:
        return {"problems": _problems(edited)}
    core = core_of(edited.draft.params)
    try:
        if not core.multiplies:
            job = typical_job(core)
            return {"name": job.operation.name, **_cycles_text(core.cycles([job]), job.sizes)}
        workloads = _workloads(request, core)
        name, network = next(iter(workloads.items()))
        # In sequence, as the estimate counts them: a product begins while the last one ends.
        counted = core.cycles([core.gemm(*product) for product in network])
    except HwgenError as error:
        return {"problems": [{"field": "workload", "message": str(error)}]}
    return {
        "name": name, "cycles": counted.number, "text": number(counted.number),
        "basis": counted.basis,
    }  # fmt: skip


def costs(request: Request) -> dict[str, Any]:
    """Return tiles of costs, and pictures, of the hardware of a configuration."""
    edited = edit(request)
    if edited.draft is None:
        return {"problems": _problems(edited)}
    try:
        params = parse_config(edited.text, "configuration")
        core = core_of(params)
        from flows.build.design import Design

        design = Design(core)
        workloads = _workloads(request, core) if core.multiplies else {}
        blocks = block_diagram(design)
        entry = Build(design).estimate(workloads)
        trace = trace_job(core, typical_job(core))
    except HwgenError as error:
        problems = getattr(error, "problems", ())
        found = [{"field": each.field, "message": each.message} for each in problems]
        return {"problems": found or [{"field": "", "message": str(error)}]}
    return {
        "tiles": tiles({"manifest": description(core), "estimates": [entry]}),
        "notes": entry["notes"],
        "diagram": diagram.draw(blocks),
        "timing": job_timing.draw(trace),
    }


def _problems(edited: Edited) -> list[dict[str, str]]:
    return [{"field": field, "message": message} for field, message in edited.problems]


def _cycles_text(counted: Any, sizes: Any) -> dict[str, Any]:
    text = ", ".join(f"{name} {size}" for name, size in sizes.items())
    return {
        "cycles": counted.number, "text": number(counted.number), "basis": counted.basis,
        "sizes": text,
    }  # fmt: skip


def _workloads(request: Request, core: Core[Any]) -> dict[str, Network]:
    """Return the workload of a request: a shipped one, or a product.

    Raises
    ------
    InputError
        If it is neither, or too large for the core.
    """
    name = str(request.get("workload") or DEFAULT_WORKLOAD)
    if name in shipped():
        return dict(named_workloads((), (name,), [core.params]))
    if not name.replace(",", "").replace(" ", "").isdigit():
        raise InputError(f"must be M,K,N or one of {', '.join(shipped())}, not {name[:60]!r}")
    return dict(named_workloads((name.replace(" ", ""),), (), [core.params]))
