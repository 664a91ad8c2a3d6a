# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run`` of a compiled model: its list or its jobs, by golden models or by the RTL."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.arrays import ArrayRequest, frames_of, inputs_of, tell, written
from hwgen.cli.model.run import (
    Chosen,
    Continuation,
    Request,
    check_layers,
    layers_of,
    show_progress,
    simulated_counts,
    simulated_line,
    token_numbers,
)
from hwgen.cli.support.common import task_progress
from hwgen.models.compile.compiled_files import DOCUMENT, JOBS, NETWORK
from hwgen.models.files.store import TOKENIZER, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from flows.simulation.models.model_run import Record
    from hwgen.models.compile.compiled_files import JobFiles
    from hwgen.models.files.tokenizer_json import AnyTokenizer
    from hwgen.models.run.host_arithmetic import Draws


def form_of(source: Path) -> str:
    """Return ``list``, `JOBS` or `NETWORK` of a compiled model, of others an empty text."""
    if not (source / DOCUMENT).exists():
        return ""
    document = read_json(source / DOCUMENT)
    form = document.get("form") if isinstance(document, dict) else None
    return form if form in (JOBS, NETWORK) else "list"


def check_compiled(request: Chosen) -> None:
    """Refuse options that only models have, which are not compiled."""
    if request.units:
        raise click.UsageError("--unit is for models, not compiled ones")
    if request.engine == "float":
        raise click.UsageError("a compiled model runs by --engine golden or --engine rtl")


def tokens_of(request: Request) -> tuple[AnyTokenizer | None, list[int]]:
    """Return the tokenizer of a compiled model, if a text is given, and the prompt's tokens."""
    from hwgen.errors import InputError
    from hwgen.models.files.tokenizer_json import tokenizer_of

    check_compiled(request)
    if request.prompt is None:
        return None, token_numbers(request.prompt_tokens)
    path = request.source / TOKENIZER
    if not path.exists():
        raise InputError(f"{request.source} has no {TOKENIZER}; use --prompt-tokens")
    tokenizer = tokenizer_of(read_json(path))
    return tokenizer, tokenizer.encode(request.prompt)


def run_program(request: Request, *, as_json: bool) -> None:
    """Continue a text by the list of a compiled model, and print it."""
    from hwgen.models.compile.list_program import CompiledList, ListProgram, generate

    if request.layers is not None or request.journal is not None:
        raise click.UsageError("--layers and --journal are for models and jobs: a list runs whole")
    tokenizer, prompt = tokens_of(request)
    compiled = CompiledList(request.source)
    start, result, simulated = time.monotonic(), [], None
    with task_progress("running", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.models.program_run import run_compiled

            simulated = run_compiled(
                compiled, prompt, request.count,
                on_progress=lambda cycles: update("simulating", cycles, cycles + 1),
            )  # fmt: skip
            result = simulated.tokens
        else:
            for token in generate(ListProgram(compiled), prompt, request.count):
                result.append(token)
                update("tokens", len(result), request.count)
    continuation = Continuation(
        request, compiled.document["name"], tokenizer, prompt, result, time.monotonic() - start
    )
    if simulated is None:
        continuation.tell(as_json=as_json)
        return
    line = (
        f"{simulated.compared:,d} bytes of memory equal to the golden interpreter's;"
        f" {simulated.cycles:,d} cycles"
    )
    counts = {"bytes": simulated.compared, "cycles": simulated.cycles}
    continuation.tell(counts, line, as_json=as_json)


def run_jobs(request: Request, draws: Draws | None, *, as_json: bool) -> None:
    """Continue a text by the jobs of a compiled model, and print it."""
    from hwgen.models.compile.golden_jobs import GoldenJobs
    from hwgen.models.compile.job_program import CompiledJobs, JobProgram, generate

    check_layers(request)
    tokenizer, prompt = tokens_of(request)
    compiled = CompiledJobs(request.source)
    compiled.check_tokens(prompt, request.count)
    result: list[int] = []
    start, record = time.monotonic(), None
    with task_progress("simulating", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.models.job_run import RtlJobs

            record = record_of(
                request, compiled, update,
                lambda layers: compiled.products_of(len(prompt), request.count, layers),
            )  # fmt: skip
            with closing(RtlJobs(compiled, record)) as simulated:
                result += generate(JobProgram(compiled, simulated), prompt, request.count, draws)
        else:
            for token in generate(JobProgram(compiled, GoldenJobs(compiled)), prompt,
                                  request.count, draws):  # fmt: skip
                result.append(token)
                update("tokens", len(result), request.count)
    continuation = Continuation(
        request, compiled.document["name"], tokenizer, prompt, result, time.monotonic() - start
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
    show_progress(record, total(layers), update)
    return record


def run_network(request: ArrayRequest, *, as_json: bool) -> None:
    """Compute the outputs of arrays by the jobs of a network, and print what is largest."""
    from hwgen.models.compile.golden_jobs import GoldenJobs
    from hwgen.models.compile.network_program import CompiledNetwork, NetworkProgram

    check_compiled(request)
    check_layers(request)
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
