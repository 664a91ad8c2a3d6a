# SPDX-License-Identifier: Apache-2.0
"""Models that are compiled to jobs: what their jobs take, and running them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.program import tokens_of
from hwgen.cli.model.run import (
    Chosen,
    Continuation,
    Request,
    layers_of,
    simulated_counts,
    simulated_line,
)
from hwgen.cli.support.common import task_progress

if TYPE_CHECKING:
    from flows.simulation.models.model_run import Record
    from hwgen.families.gemm_stream.schedule import Job
    from hwgen.models.compile.compiled_files import JobFiles
    from hwgen.models.compile.host_steps import Step
    from hwgen.models.compile.job_compilation import JobCompilation
    from hwgen.models.run.host_arithmetic import Draws

_BOUND = 0.9  # of a job's cycles in which the memory moves a beat: it is the memory that limits
_PAGE = 4096


def passes_of(compilation: JobCompilation) -> dict[str, Any]:
    """Return the cycles of two passes, ``prefill`` and ``decode``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, one after the other, for a memory that answers in the next cycle: see
    `cost_model.engine`.  What the host computes has bytes, those that it reads and writes, and no
    cycles.  Decode is of one token behind a full cache, prefill of as many as are taken at once.
    """
    timer = JobTimer()
    return {
        "prefill": _pass(compilation, timer, compilation.most, 0),
        "decode": _pass(compilation, timer, 1, compilation.context - 1),
    }


class JobTimer:
    """Cycles of jobs; those of one shape, alike in memory, are counted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], int] = {}

    def cycles(self, job: Job) -> int:
        """Return the cycles of a job on an idle engine."""
        from hwgen.families.gemm_stream.cycles.job import job_cycles
        from hwgen.families.gemm_stream.cycles.steps import Places

        plan = job.plan
        regions = tuple((*r[:3], r[3] % _PAGE) for r in job.regions.values())
        key = (plan.m, plan.k, plan.n, regions)
        if key not in self._known:
            self._known[key] = job_cycles(plan, Places.of(job.regions))
        return self._known[key]


def _pass(
    compilation: JobCompilation, timer: JobTimer, tokens: int, position: int
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
            rows.append(product_row(timer, step.name, jobs[step.name]))
        else:
            rows.append(_host(compilation, step, 1 if after else tokens, 1 if after else layers,
                              position + tokens))  # fmt: skip
    return {
        "tokens": tokens, "context": position, "cycles": sum(row["cycles"] or 0 for row in rows),
        "basis": "modelled", "operations": rows,
    }  # fmt: skip


def product_row(timer: JobTimer, name: str, jobs: Sequence[Job]) -> dict[str, Any]:
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


def _host(
    compilation: JobCompilation, step: Step, rows: int, layers: int, positions: int
) -> dict[str, Any]:
    """Return the bytes that the host reads and writes for an operation."""
    from hwgen.models.compile.host_steps import CACHE

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
    return host_row(step.name, layers * reads, layers * rows * work[step.output])


def host_row(name: str, reads: int, writes: int) -> dict[str, Any]:
    """Return the bytes that the host reads and writes for an operation."""
    return {
        "operation": name, "unit": "host", "jobs": 0, "cycles": None,
        "read_bytes": reads, "write_bytes": writes,
        "limit": "", "memory_share": None, "utilisation": None,
    }  # fmt: skip


def run_jobs(request: Request, draws: Draws | None, *, as_json: bool) -> None:
    """Continue a text by the jobs of a compiled model, and print it."""
    from hwgen.models.compile.golden_jobs import GoldenJobs
    from hwgen.models.compile.job_program import CompiledJobs, JobProgram, generate

    if request.engine != "rtl" and (request.layers is not None or request.journal is not None):
        raise click.UsageError("--layers and --journal belong to --engine rtl")
    tokenizer, given = tokens_of(request)
    compiled = CompiledJobs(request.source)
    compiled.check_tokens(given, request.count)
    result: list[int] = []
    start, record = time.monotonic(), None
    with task_progress("simulating", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.models.job_run import RtlJobs

            record = record_of(
                request, compiled, update,
                lambda layers: compiled.products_of(len(given), request.count, layers),
            )  # fmt: skip
            with closing(RtlJobs(compiled, record)) as simulated:
                result += generate(JobProgram(compiled, simulated), given, request.count, draws)
        else:
            for token in generate(JobProgram(compiled, GoldenJobs(compiled)), given,
                                  request.count, draws):  # fmt: skip
                result.append(token)
                update("tokens", len(result), request.count)
    continuation = Continuation(
        request, compiled.document["name"], tokenizer, given, result, time.monotonic() - start
    )
    if record is None:
        continuation.tell(as_json=as_json)
        return
    continuation.tell(product_counts(record), simulated_line(record), as_json=as_json)


def product_counts(record: Record) -> dict[str, Any]:
    """Return the counts of simulated products, for `--json`."""
    counts = simulated_counts(record)
    counts["products"] = counts.pop("operations")
    return counts


def record_of(
    request: Chosen, compiled: JobFiles, update: Any, total: Callable[[frozenset[int] | None], int]
) -> Record:
    """Return the record of what is simulated, which shows how far it is.

    Parameters
    ----------
    request : Chosen
    compiled : JobFiles
    update : callable
        Shows how far it is.
    total : callable
        Gets the layers that are simulated, None of all; returns how many products that will be.
    """
    from flows.simulation.models.model_run import Record

    layers = layers_of(request.layers, compiled.layers)
    record = Record(layers, request.journal, compiled.digest() if request.journal else "")
    products = total(layers)

    def show(record: Record) -> None:
        done = record.simulated + record.reused
        update(record.node, done, max(products, done + 1))

    record.on_operation = show
    return record
