# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run`` of a compiled model: its list by the golden interpreter, or by the RTL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from hwgen.cli.common import console, emit_json, task_progress
from hwgen.cli.model_run import Request, token_numbers
from hwgen.models.store import TOKENIZER, read_json

_DOCUMENT = "compiled.json"


def is_compiled(source: Path) -> bool:
    """Return whether a directory holds a compiled model."""
    return (source / _DOCUMENT).exists()


def run_program(request: Request, *, as_json: bool) -> None:
    """Continue a text by the list of a compiled model, and print it."""
    from hwgen.errors import InputError
    from hwgen.models.compiled import Compiled
    from hwgen.models.program import Program, generate
    from hwgen.models.tokenizer import Tokenizer

    if request.units or request.layers is not None or request.journal is not None:
        raise click.UsageError("--unit, --layers and --journal are for models, not compiled ones")
    if request.engine == "float":
        raise click.UsageError("a compiled model runs by --engine golden or --engine rtl")
    compiled = Compiled(request.source)
    tokenizer = None
    if request.prompt is not None:
        path = request.source / TOKENIZER
        if not path.exists():
            raise InputError(f"{request.source} has no {TOKENIZER}; use --prompt-tokens")
        tokenizer = Tokenizer(read_json(path))
    given = (
        tokenizer.encode(request.prompt or "")
        if tokenizer
        else token_numbers(request.prompt_tokens)
    )
    start, found, simulated = time.monotonic(), [], None
    with task_progress("running", quiet=as_json) as update:
        if request.engine == "rtl":
            from flows.simulation.program_run import run_compiled

            simulated = run_compiled(
                compiled, given, request.count,
                on_progress=lambda cycles: update("simulating", cycles, cycles + 1),
            )  # fmt: skip
            found = simulated.tokens
        else:
            for token in generate(Program(compiled), given, request.count):
                found.append(token)
                update("tokens", len(found), request.count)
    text = tokenizer.decode(found) if tokenizer else ""
    document: dict[str, Any] = {
        "model": compiled.document["name"],
        "engine": request.engine,
        "prompt_tokens": given,
        "tokens": found,
        "text": text,
        "wall_seconds": round(time.monotonic() - start, 3),
    }
    if simulated is not None:
        document["simulated"] = {"bytes": simulated.compared, "cycles": simulated.cycles}
    if as_json:
        emit_json(document)
        return
    click.echo(f"{request.prompt}{text}" if tokenizer else " ".join(map(str, found)))
    if simulated is not None:
        console().print(
            f"{simulated.compared:,d} bytes of memory equal to the golden interpreter's;"
            f" {simulated.cycles:,d} cycles",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
