# SPDX-License-Identifier: Apache-2.0
"""Networks on arrays that are compiled to jobs: what their jobs take, and running them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.arrays import ArrayRequest, frames_of, inputs_of, tell, written
from hwgen.cli.model.jobs import JobTimer, host_row, product_row, record_of
from hwgen.cli.support.common import task_progress

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.schedule import Job
    from hwgen.models.compile.network_compilation import NetworkCompilation


def frame_of(compilation: NetworkCompilation) -> dict[str, Any]:
    """Return the cycles of a ``frame``, in all and by operation.

    Notes
    -----
    Of the engine's jobs, one after the other, for a memory that answers in the next cycle: see
    `cost_model.engine`.  What the host computes has bytes, those that it reads and writes, and no
    cycles; of a product that is what the host puts into the engine's memory and takes from it.
    """
    timer, shapes = JobTimer(), compilation.shapes
    jobs: dict[str, list[Job]] = {}
    for entry in compilation.entries:
        jobs.setdefault(entry.name, []).append(entry.job)
    rows = []
    for step in compilation.steps:
        if step.product is not None:
            rows.append(product_row(timer, step.name, jobs[step.name]))
            continue
        sizes = [
            compilation.constants[name].nbytes if name in compilation.constants
            else shapes.bytes(name) for name in step.inputs.values()
        ]  # fmt: skip
        moved = compilation.place_of(step.output) == step.output
        size = compilation.work.arrays[step.output].bytes if moved else 0
        rows.append(host_row(step.name, sum(sizes) if moved else 0, size))
    cycles = sum(row["cycles"] or 0 for row in rows)
    return {"frame": {"cycles": cycles, "basis": "modelled", "operations": rows}}


def run_network(request: ArrayRequest, *, as_json: bool) -> None:
    """Compute the outputs of arrays by the jobs of a network, and print what is largest."""
    from hwgen.models.compile.golden_jobs import GoldenJobs
    from hwgen.models.compile.network_program import CompiledNetwork, NetworkProgram

    if request.units:
        raise click.UsageError("--unit is for models, not compiled ones")
    if request.engine == "float":
        raise click.UsageError("a compiled model runs by --engine golden or --engine rtl")
    if request.engine != "rtl" and (request.layers is not None or request.journal is not None):
        raise click.UsageError("--layers and --journal belong to --engine rtl")
    compiled = CompiledNetwork(request.source)
    forms = {name: compiled.forms[name][0] for name in compiled.inputs}
    frames = frames_of(forms, inputs_of(compiled.inputs, request.inputs))
    result: list[dict[str, Any]] = []
    start, record = time.monotonic(), None
    with task_progress("simulating", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.models.job_run import RtlJobs

            record = record_of(
                request, compiled, update,
                lambda layers: len(frames) * compiled.products_of(layers),
            )  # fmt: skip
            with closing(RtlJobs(compiled, record)) as simulated:
                program = NetworkProgram(compiled, simulated)
                result.extend(program.run(frame) for frame in frames)
        else:
            program = NetworkProgram(compiled, GoldenJobs(compiled))
            for frame in frames:
                result.append(program.run(frame))
                update("frames", len(result), len(frames))
    outputs, seconds = written(request, result), time.monotonic() - start
    tell(request, compiled.name, len(frames), outputs, seconds, record, as_json=as_json)
