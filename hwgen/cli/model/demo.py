# SPDX-License-Identifier: Apache-2.0
"""``hwgen model demo``: from the file of a decoder to a text and figures of a whole engine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    file_option,
    force_option,
    json_option,
    memory_options,
    path_option,
    requested_memory,
    target_option,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.terminal import console


@click.command("demo", epilog=example("hwgen model demo configs/models/austen-16m.gguf"))
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--prompt", metavar="TEXT", help="Text to continue; a short one by default.")
@click.option(
    "--tokens",
    "count",
    metavar="N",
    type=click.IntRange(1, 1 << 10),
    default=8,
    show_default=True,
    help="Most tokens to add.",
)
@file_option("--calibration", "Text to calibrate with; a short one by default.")
@target_option("Technology instead of that of the engine's configuration.")
@memory_options
@path_option("--configs", "DIR", "Directory of shipped configurations; default that of a checkout.")
@path_option("--keep", "DIR", "Directory to keep the model and the quantised model in.")
@force_option
@json_option
def demo_command(
    source: Path,
    prompt: str | None,
    count: int,
    calibration: Path | None,
    target: str | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    configs: Path | None,
    keep: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Demonstrate a decoder on a shipped engine, from its file to tokens per second.

    FILE is a GGUF file or a directory with config.json and safetensors. The command imports and
    quantises the model, generates a text by the golden models, simulates the first layer for one
    token in RTL, and estimates the whole engine: cycles, tokens/s, J/token and area. Without
    --keep nothing is written.
    """
    from flows.simulation.models import demonstration as demo
    from hwgen.core.params.target import Target
    from hwgen.models.files.store import read_text

    if keep is not None:
        check_directory(keep)
    elif force:
        raise click.UsageError("--force belongs to --keep")
    served = requested_memory(Target(), memory or "lpddr4x", gb_s, efficiency)
    request = demo.Request(
        source,
        demo.PROMPT if prompt is None else prompt,
        count,
        demo.TEXT if calibration is None else read_text(calibration),
        target,
        served,
        configs or demo.CONFIGS,
    )
    start = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"{time.monotonic() - start:5.0f} s  {line}", err=True)

    with (
        _directory(keep, force=force) as directory,
        task_progress("demonstrating", quiet=as_json),
    ):
        result = demo.demonstrate(request, directory, tell)
    if as_json:
        emit_json(result)
    else:
        _print(result)


@contextmanager
def _directory(keep: Path | None, *, force: bool) -> Iterator[Path]:
    """Give the directory to work in, which stays where it is asked for."""
    if keep is None:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)
    else:
        with atomic_directory(keep, force=force) as directory:
            yield directory


def _print(result: dict[str, Any]) -> None:
    """Print the text, the simulation, and the figures of the engine."""
    from hwgen.cli.model.estimate import clock_of
    from hwgen.reports.datasheet import describe_size
    from hwgen.reports.roofline import describe_joules, number

    numbers = " ".join(map(str, result["tokens"]))
    click.echo(f"{result['prompt']}{result['text']}" if result["text"] else numbers)
    simulated, entry = result["simulated"], result["estimate"]
    metrics, decode = entry["metrics"], result["passes"]["decode"]
    cycles = sum(simulated["cycles"].values())
    joules = decode["j_per_token"]
    energy = "J/token unknown" if joules is None else f"{number(joules)} J/token"
    rtl = (
        f"RTL of layer 0, one token: {simulated['operations']} operations in {cycles:,d} cycles,"
        " all results equal to the golden model"
    )
    engine = (
        f"{result['engine']} on {entry['technology']} at {clock_of(entry)},"
        f" {describe_size(metrics)}; the whole engine, estimated:"
    )
    speed = (
        f"decode behind {decode['context']} positions: {result['cycles_per_token']:,d}"
        f" cycles/token, {number(decode['tokens_per_s'])} tokens/s, {energy}"
    )
    if parts := describe_joules(decode, "token"):
        speed += f" ({parts.partition(': ')[2]})"
    first = f"time to the first token: {number(result['passes']['prefill']['ms'])} ms"
    for line in (rtl, engine, speed, first):
        console().print(line, highlight=False, soft_wrap=True)
