# SPDX-License-Identifier: Apache-2.0
"""Cycles and traffic of compiled models, in all and by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.transformer.list_timing import Share, timed_list
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.host_steps import CACHE

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.schedule import Job
    from hwgen.models.compile.host_steps import Step
    from hwgen.models.compile.job_compilation import JobCompilation
    from hwgen.models.compile.list_compilation import ListCompilation
    from hwgen.models.compile.network_compilation import NetworkCompilation

_BOUND = 0.9  # share of a job's cycles in which the memory moves a beat, from which on it limits
_PAGE = 4096


def list_passes(compilation: ListCompilation) -> dict[str, Any]:
    """Return the cycles of two passes, ``prefill`` and ``decode``, in all and by operation.

    Notes
    -----
    Modelled, for a memory that answers in the next cycle: see
    `hwgen.families.transformer.list_timing`. Decode is of one token behind a full cache, prefill
    of as many tokens as are taken at once.
    """
    return {
        "prefill": _list_pass(compilation, compilation.most, 0),
        "decode": _list_pass(compilation, 1, compilation.context - 1),
    }


def _list_pass(compilation: ListCompilation, tokens: int, position: int) -> dict[str, Any]:
    config, place = compilation.config, compilation.memory
    registers = compilation.registers(position, position + tokens, 1)
    events = trace(config, place.at("list"), compilation.program, registers)
    timing = timed_list(config, events)
    jobs = {job.index: job for job in compilation.jobs}
    result: dict[tuple[str, str], Share] = {}
    for index, share in timing.shares.items():
        key = jobs[index].node, jobs[index].unit
        result[key] = result.get(key, Share()) + share
    width = config.memory_bytes
    rows = []
    for (node, unit), share in result.items():
        beats = max(share.read_beats, share.write_beats)
        peak = config.units[unit].macs_per_cycle if share.macs else 0.0
        rows.append({
            "operation": node, "unit": unit, "jobs": share.jobs, "cycles": share.cycles,
            "read_bytes": share.read_beats * width, "write_bytes": share.write_beats * width,
            "limit": "memory" if beats >= _BOUND * share.cycles else "unit",
            "memory_share": round(beats / share.cycles, 4),
            "utilisation": round(share.macs / (peak * share.cycles), 4) if peak else None,
        })  # fmt: skip
    return {
        "tokens": tokens, "context": position, "cycles": timing.cycles, "basis": "modelled",
        "least": timing.least, "most": timing.most, "operations": rows,
    }  # fmt: skip


def job_passes(compilation: JobCompilation) -> dict[str, Any]:
    """Return the cycles of two passes, ``prefill`` and ``decode``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, one after the other, for a memory that answers in the next cycle: see
    `cost_model.engine`.  What the host computes has bytes, those that it reads and writes, and no
    cycles.  Decode is of one token behind a full cache, prefill of as many as are taken at once.
    """
    timer = _JobTimer()
    return {
        "prefill": _job_pass(compilation, timer, compilation.most, 0),
        "decode": _job_pass(compilation, timer, 1, compilation.context - 1),
    }


class _JobTimer:
    """Cycles of jobs; those of one shape, alike in memory, are counted once."""

    def __init__(self) -> None:
        self._cycles: dict[tuple[Any, ...], int] = {}

    def cycles(self, job: Job) -> int:
        """Return the cycles of a job on an idle engine."""
        plan = job.plan
        regions = tuple((*r[:3], r[3] % _PAGE) for r in job.regions.values())
        key = (plan.m, plan.k, plan.n, regions)
        if key not in self._cycles:
            self._cycles[key] = job_cycles(plan, Regions.of(job.regions))
        return self._cycles[key]


def _job_pass(
    compilation: JobCompilation, timer: _JobTimer, tokens: int, position: int
) -> dict[str, Any]:
    """Return a pass of some tokens behind others; the last row alone goes behind the layers."""
    jobs: dict[str, list[Job]] = {}
    for entry in compilation.entries:
        if entry.facts["rows"] == (1 if entry.facts["layer"] is None else tokens):
            jobs.setdefault(entry.name, []).append(entry.job)
    steps, layers = compilation.steps, len(compilation.decoder.layers)
    rows = []
    for step in (*steps.layer, *steps.after):
        after = step in steps.after
        if step.operation == "gemm":
            rows.append(_product_row(timer, step.name, jobs[step.name]))
        else:
            rows.append(
                _host_operation(
                    compilation,
                    step,
                    1 if after else tokens,
                    1 if after else layers,
                    position + tokens,
                )
            )
    return {
        "tokens": tokens, "context": position, "cycles": sum(row["cycles"] or 0 for row in rows),
        "basis": "modelled", "operations": rows,
    }  # fmt: skip


def _product_row(timer: _JobTimer, name: str, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return cycles and traffic of the jobs of a product."""
    config = jobs[0].plan.config
    cycles = sum(map(timer.cycles, jobs))
    reads = sum(job.plan.traffic.total - job.plan.traffic.results for job in jobs)
    writes = sum(job.plan.traffic.results for job in jobs)
    beats = max(reads, writes) / config.memory_bytes
    macs = sum(job.plan.macs for job in jobs)
    return {
        "operation": name, "unit": config.name, "jobs": len(jobs),
        "cycles": cycles, "read_bytes": reads, "write_bytes": writes,
        "limit": "memory" if beats >= _BOUND * cycles else "unit",
        "memory_share": round(min(1.0, beats / cycles), 4),
        "utilisation": round(macs / (config.macs_per_cycle * cycles), 4),
    }  # fmt: skip


def _host_operation(
    compilation: JobCompilation, step: Step, rows: int, layers: int, positions: int
) -> dict[str, Any]:
    """Return the bytes that the host reads and writes for an operation."""
    work, reads = compilation.steps.work, 0
    for operand, name in step.inputs.items():
        if operand in CACHE:
            array = compilation.work.arrays[name]
            reads += array.bytes * positions // compilation.context
        elif name in work:
            reads += rows * work[name]
        elif operand == "turns":
            reads += rows * 4 * step.sizes["elements"]
        else:
            reads += compilation.host.arrays[name].bytes
    return _host_row(step.name, layers * reads, layers * rows * work[step.output])


def _host_row(name: str, reads: int, writes: int) -> dict[str, Any]:
    """Return the bytes that the host reads and writes for an operation."""
    return {
        "operation": name, "unit": "host", "jobs": 0, "cycles": None,
        "read_bytes": reads, "write_bytes": writes,
        "limit": "", "memory_share": None, "utilisation": None,
    }  # fmt: skip


def network_frame(compilation: NetworkCompilation) -> dict[str, Any]:
    """Return the cycles of a ``frame``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, one after the other, for a memory that answers in the next cycle: see
    `cost_model.engine`.  What the host computes has bytes, those that it reads and writes, and no
    cycles; of a product that is what the host puts into the engine's memory and takes from it.
    """
    timer, shapes = _JobTimer(), compilation.shapes
    jobs: dict[str, list[Job]] = {}
    for entry in compilation.entries:
        jobs.setdefault(entry.name, []).append(entry.job)
    rows = []
    for step in compilation.steps:
        if step.product is not None:
            rows.append(_product_row(timer, step.name, jobs[step.name]))
            continue
        sizes = [
            compilation.constants[name].nbytes if name in compilation.constants
            else shapes.bytes(name) for name in step.inputs.values()
        ]  # fmt: skip
        moved = compilation.place_of(step.output) == step.output
        size = compilation.work.arrays[step.output].bytes if moved else 0
        rows.append(_host_row(step.name, sum(sizes) if moved else 0, size))
    cycles = sum(row["cycles"] or 0 for row in rows)
    return {"frame": {"cycles": cycles, "basis": "modelled", "operations": rows}}
