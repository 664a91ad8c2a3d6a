# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run``: a decoder by the reference, by golden models, or by simulated hardware."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.common import console, emit_json, task_progress

if TYPE_CHECKING:
    from hwgen.models.sampling import Sampling
    from hwgen.models.store import Model


@dataclass(frozen=True)
class Request:
    """What is to be run; see the options of ``hwgen model run``."""

    source: Path
    prompt: str | None
    prompt_tokens: Path | None
    count: int
    engine: str
    units: tuple[Path, ...]
    layers: str | None
    journal: Path | None
    sampling: Sampling | None = None


def run(request: Request, *, as_json: bool) -> None:
    """Continue a text and print it, and what was simulated."""
    from hwgen.models.engine import Run, generate
    from hwgen.models.store import Model
    from hwgen.models.tokenizer import Tokenizer

    model = Model(request.source)
    tokenizer = Tokenizer(model.tokenizer()) if request.prompt is not None else None
    given = (
        tokenizer.encode(request.prompt or "")
        if tokenizer
        else token_numbers(request.prompt_tokens)
    )
    found: list[int] = []
    start = time.monotonic()
    with task_progress("simulating", quiet=as_json) as update:
        engine, record = _engine(model, request, update, len(given))
        end = tokenizer.end if tokenizer else None
        tokens = generate(Run(engine), given, request.count, end, request.sampling)
        found.extend(tokens)
    seconds = time.monotonic() - start
    text = tokenizer.decode(found) if tokenizer else ""
    document = {
        "model": model.description.name,
        "engine": request.engine,
        "prompt_tokens": given,
        "tokens": found,
        "text": text,
        "wall_seconds": round(seconds, 3),
    }
    if record is not None:
        document["simulated"] = {
            "operations": record.simulated + record.kept,
            "of_journal": record.kept,
            "cycles": dict(record.cycles),
        }
    if as_json:
        emit_json(document)
        return
    click.echo(f"{request.prompt}{text}" if tokenizer else " ".join(map(str, found)))
    if record is not None:
        for line in simulated_lines(record):
            console().print(line, markup=False, highlight=False, soft_wrap=True)


def simulated_lines(record: Any) -> list[str]:
    """Return what was simulated, in words."""
    kept = f", {record.kept} of them before" if record.kept else ""
    cycles = ", ".join(f"{name} {count:,d}" for name, count in record.cycles.items())
    text = (
        f"{record.simulated + record.kept} operations simulated{kept}, each equal to the golden"
        f" model in every bit; cycles: {cycles}"
    )
    return [text]


def _engine(model: Model, request: Request, update: Any, prompt: int) -> tuple[Any, Any]:
    """Return the engine that a request names, and the record of what is simulated."""
    if request.engine != "rtl" and (request.layers is not None or request.journal is not None):
        raise click.UsageError("--layers and --journal belong to --engine rtl")
    if request.engine == "float":
        if request.units:
            raise click.UsageError("--unit belongs to --engine golden and --engine rtl")
        from hwgen.models.float_engine import FloatEngine

        return FloatEngine(model), None
    if not request.units:
        raise click.UsageError(f"--engine {request.engine} needs the hardware: give --unit FILE")
    from hwgen.config.load import load_config

    configs = [load_config(path) for path in request.units]
    if request.engine == "golden":
        from hwgen.models.golden_engine import GoldenEngine
        from hwgen.models.units import Units

        return GoldenEngine(model, Units(configs)), None
    from flows.simulation.model_run import Record, RtlEngine, digest_of
    from hwgen.emission import remember

    remember(len(configs))  # each is simulated many times

    layers = layers_of(request.layers, model.description.layers)
    digest = digest_of(model, configs) if request.journal else ""
    record = Record(layers, request.journal, digest)
    engine = RtlEngine(model, configs, record)
    total = engine.operations(prompt, layers) + engine.operations(1, layers) * (request.count - 1)

    def show(record: Record) -> None:
        done = record.simulated + record.kept
        update(record.node, done, max(total, done + 1))

    record.on_operation = show
    return engine, record


def layers_of(text: str | None, count: int) -> frozenset[int] | None:
    """Return the layers that an option names."""
    if text is None:
        return None
    try:
        found = frozenset(int(part) for part in text.split(","))
    except ValueError:
        found = frozenset({-1})
    if not all(0 <= layer < count for layer in found):
        raise click.UsageError(
            f"--layers: must be numbers from 0 to {count - 1} with commas, not {text[:40]!r}"
        )
    return found


def token_numbers(path: Path | None) -> list[int]:
    """Return tokens of a file."""
    from hwgen.arrays import read_npy
    from hwgen.errors import InputError

    assert path is not None
    array = read_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) > 1 << 24:
        raise InputError(f"{path}: must be integers in one row, not {array.dtype} {array.shape}")
    return [int(number) for number in array]
