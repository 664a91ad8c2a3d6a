# SPDX-License-Identifier: Apache-2.0
"""Cycles and traffic of compiled models, in all and by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hwgen.families.gemm_stream.cycles.job import queue_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.transformer.list_timing import Share, timed_list
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.host_steps import CACHE
from hwgen.workloads.timing import COMPUTE, MEMORY_PORT

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
        "prefill": decoder_list(compilation, compilation.most, 0),
        "decode": decoder_list(compilation, 1, compilation.context - 1),
    }


def decoder_list(compilation: ListCompilation, tokens: int, position: int) -> dict[str, Any]:
    """Return the cycles of a list that computes some tokens behind others, by operation.

    Parameters
    ----------
    compilation : ListCompilation
    tokens, position : int
        Of a prompt; the positions before it.
    """
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
            "limit": MEMORY_PORT if beats >= _BOUND * share.cycles else COMPUTE,
            "memory_share": round(beats / share.cycles, 4),
            "utilisation": round(share.macs / (peak * share.cycles), 4) if peak else None,
            "macs": share.macs,
        })  # fmt: skip
    return {
        "tokens": tokens, "context": position, "cycles": timing.cycles, "basis": "modelled",
        "least": timing.least, "most": timing.most, "operations": rows,
    }  # fmt: skip


def job_passes(compilation: JobCompilation) -> dict[str, Any]:
    """Return the cycles of two passes, ``prefill`` and ``decode``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, those of a product in its queue, for a memory that answers in the next
    cycle: see `hwgen.families.gemm_stream.cycles.job.queue_cycles`.  What the host computes has
    bytes, those that it reads and writes, and no cycles.  Decode is of one token behind a full
    cache, prefill of as many as are taken at once.
    """
    timer = _JobTimer()
    return {
        "prefill": _job_pass(compilation, timer, compilation.most, 0),
        "decode": _job_pass(compilation, timer, 1, compilation.context - 1),
    }


def decoder_jobs(compilation: JobCompilation, prompt: int, context: int) -> dict[str, Any]:
    """Return the cycles of ``prefill`` of a prompt, and of ``decode`` behind some positions.

    As many tokens of the prompt as the compilation takes at once go together, the rest one by one.
    """
    timer, most = _JobTimer(), compilation.most
    together, single = divmod(prompt, most)
    decode = _job_pass(compilation, timer, 1, context)
    after = {step.name for step in compilation.steps.after}
    rows: dict[str, dict[str, Any]] = {}
    for times, part in ((together, _job_pass(compilation, timer, most, 0)), (single, decode)):
        for row in part["operations"]:
            once = row["operation"] in after  # for the last token alone
            count = int(row["operation"] not in rows) if once else times
            total = rows.setdefault(row["operation"], {**row, **dict.fromkeys(_SUMMED, 0)})
            for key in _SUMMED:
                total[key] += count * (row[key] or 0)
    operations = list(rows.values())
    cycles = sum(row["cycles"] for row in operations)
    prefill = {"tokens": prompt, "context": 0, "cycles": cycles, "operations": operations}
    return {"prefill": prefill, "decode": decode}


_SUMMED = ("jobs", "cycles", "read_bytes", "write_bytes", "macs")


class _JobTimer:
    """Cycles of the jobs of products; those of one shape, alike in memory, are counted once."""

    def __init__(self) -> None:
        self._cycles: dict[tuple[Any, ...], int] = {}

    def cycles(self, jobs: Sequence[Job]) -> int:
        """Return the cycles of jobs of one plan, in the queue of an engine that is idle before."""
        plan = jobs[0].plan
        places = tuple(tuple((*r[:3], r[3] % _PAGE) for r in job.regions.values()) for job in jobs)
        key = (plan.m, plan.k, plan.n, places)
        if key not in self._cycles:
            self._cycles[key] = queue_cycles(plan, [Regions.of(job.regions) for job in jobs])
        return self._cycles[key]


def _job_pass(
    compilation: JobCompilation, timer: _JobTimer, tokens: int, position: int
) -> dict[str, Any]:
    """Return a pass of some tokens behind others; the last row alone goes behind the layers."""
    jobs: dict[str, dict[int | None, list[Job]]] = {}
    for entry in compilation.entries:
        layer = entry.facts["layer"]
        if entry.facts["rows"] == (1 if layer is None else tokens):
            jobs.setdefault(entry.name, {}).setdefault(layer, []).append(entry.job)
    steps, layers = compilation.steps, len(compilation.decoder.layers)
    rows = []
    for step in (*steps.layer, *steps.after):
        after = step in steps.after
        if step.operation == "gemm":
            rows.append(_product_row(timer, step.name, tuple(jobs[step.name].values())))
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


def _product_row(timer: _JobTimer, name: str, products: Sequence[Sequence[Job]]) -> dict[str, Any]:
    """Return cycles and traffic of the jobs of a product, of that of each layer."""
    cycles = sum(map(timer.cycles, products))
    jobs = [job for product in products for job in product]
    config = jobs[0].plan.config
    reads = sum(job.plan.traffic.total - job.plan.traffic.results for job in jobs)
    writes = sum(job.plan.traffic.results for job in jobs)
    beats = max(reads, writes) / config.memory_bytes
    macs = sum(job.plan.macs for job in jobs)
    return {
        "operation": name, "unit": config.name, "jobs": len(jobs),
        "cycles": cycles, "read_bytes": reads, "write_bytes": writes,
        "limit": MEMORY_PORT if beats >= _BOUND * cycles else COMPUTE,
        "memory_share": round(min(1.0, beats / cycles), 4),
        "utilisation": round(macs / (config.macs_per_cycle * cycles), 4),
        "macs": macs,
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
        "limit": "", "memory_share": None, "utilisation": None, "macs": 0,
    }  # fmt: skip


def network_frame(compilation: NetworkCompilation) -> dict[str, Any]:
    """Return the cycles of a ``frame``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, those of a product in its queue, for a memory that answers in the next
    cycle: see `hwgen.families.gemm_stream.cycles.job.queue_cycles`.  What the host computes has
    bytes, those that it reads and writes, and no cycles; of a product that is what the host puts
    into the engine's memory and takes from it.
    """
    timer, shapes = _JobTimer(), compilation.shapes
    jobs: dict[str, list[Job]] = {}
    for entry in compilation.entries:
        jobs.setdefault(entry.name, []).append(entry.job)
    rows = []
    for step in compilation.steps:
        if step.product is not None:
            rows.append(_product_row(timer, step.name, [jobs[step.name]]))
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
