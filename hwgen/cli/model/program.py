# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run`` of a compiled model: its list by the golden interpreter, or by the RTL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwgen.cli.model.run import Continuation, Request, token_numbers
from hwgen.cli.support.common import task_progress
from hwgen.models.compile.compiled_files import DOCUMENT, JOBS, NETWORK
from hwgen.models.files.store import TOKENIZER, read_json

if TYPE_CHECKING:
    from hwgen.models.files.tokenizer import Tokenizer
    from hwgen.models.files.tokenizer_json import JsonTokenizer


def form_of(source: Path) -> str:
    """Return ``list``, `JOBS` or `NETWORK` of a compiled model, of others an empty text."""
    if not (source / DOCUMENT).exists():
        return ""
    document = read_json(source / DOCUMENT)
    form = document.get("form") if isinstance(document, dict) else None
    return form if form in (JOBS, NETWORK) else "list"


def tokens_of(request: Request) -> tuple[Tokenizer | JsonTokenizer | None, list[int]]:
    """Return the tokenizer of a compiled model, if a text is given, and the prompt's tokens."""
    from hwgen.errors import InputError
    from hwgen.models.files.tokenizer_json import tokenizer_of

    if request.units:
        raise click.UsageError("--unit is for models, not compiled ones")
    if request.engine == "float":
        raise click.UsageError("a compiled model runs by --engine golden or --engine rtl")
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
    tokenizer, given = tokens_of(request)
    compiled = CompiledList(request.source)
    start, result, simulated = time.monotonic(), [], None
    with task_progress("running", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.models.program_run import run_compiled

            simulated = run_compiled(
                compiled, given, request.count,
                on_progress=lambda cycles: update("simulating", cycles, cycles + 1),
            )  # fmt: skip
            result = simulated.tokens
        else:
            for token in generate(ListProgram(compiled), given, request.count):
                result.append(token)
                update("tokens", len(result), request.count)
    continuation = Continuation(
        request, compiled.document["name"], tokenizer, given, result, time.monotonic() - start
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
