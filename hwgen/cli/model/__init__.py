# SPDX-License-Identifier: Apache-2.0
"""Read a network from a file, run it, and say what it takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwgen.cli.model.compare import compare_command
from hwgen.cli.model.compile import compile_command
from hwgen.cli.model.demo import demo_command
from hwgen.cli.model.importing import import_command
from hwgen.cli.model.mix import mix_command
from hwgen.cli.model.passes import estimate_command
from hwgen.cli.model.quantise import quantise_command
from hwgen.cli.model.show import show_command
from hwgen.cli.support.common import example, file_option, force_option, json_option, path_option
from hwgen.cli.support.groups import AliasedGroup

if TYPE_CHECKING:
    from hwgen.models.run.host_arithmetic import Draws
    from hwgen.models.run.sampling import Sampling


@click.group(
    cls=AliasedGroup,
    epilog=example("hwgen model import configs/models/austen-16m.gguf -o austen"),
)
def command() -> None:
    """Read a network from a file, run it, and say what it takes."""


command.add_command(compare_command)
command.add_command(compile_command)
command.add_command(demo_command)
command.add_command(estimate_command)
command.add_command(import_command)
command.add_command(mix_command)
command.add_command(quantise_command)
command.add_command(show_command)


@command.command(
    "run",
    epilog=example('hwgen model run austen --prompt "Emma was" --tokens 12'),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "inputs",
    metavar="[NAME=]FILE.npy",
    multiple=True,
    help="Input of a network that is no decoder; may hold several frames, one behind another.",
)
@path_option(
    "--output", "FILE.npy", "Where to write what it gives; several outputs to a .npz file."
)
@click.option("--prompt", metavar="TEXT", help="What to continue; special tokens may stand in it.")
@path_option(
    "--prompt-tokens",
    "FILE.npy",
    "Tokens to continue by number, of a model without a tokenizer.",
)
@click.option(
    "--tokens",
    "count",
    metavar="N",
    type=click.IntRange(1, 1 << 20),
    default=32,
    show_default=True,
    help="Most tokens to add.",
)
@click.option(
    "--temperature",
    metavar="T",
    type=click.FloatRange(0, 100),
    default=0.0,
    show_default=True,
    help="Draw tokens by their probabilities, logits divided by T; 0: the most likely one.",
)
@click.option(
    "--top-k",
    metavar="N",
    type=click.IntRange(1, 1 << 24),
    help="Draw from the N most likely tokens; all by default.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(0, (1 << 63) - 1), help="Of draws; default 0."
)
@click.option(
    "--engine",
    type=click.Choice(["float", "golden", "rtl"]),
    help="float: single precision, the reference and the default; golden: what hardware computes,"
    " bit for bit; rtl: the same, each operation held against the simulated hardware. Of a compiled"
    " model golden, the default, or rtl.",
)
@file_option(
    "--unit",
    "Configuration of the hardware; may be repeated, the first that fits does.",
    "units",
    multiple=True,
)
@click.option(
    "--layers",
    metavar="N,N,...",
    help="Layers that are simulated by --engine rtl, from 0; all and the rest by default.",
)
@click.option(
    "--journal",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What --engine rtl found equal; a run that was interrupted goes on from it.",
)
@force_option
@json_option
def run_command(
    source: Path,
    inputs: tuple[str, ...],
    output: Path | None,
    prompt: str | None,
    prompt_tokens: Path | None,
    count: int,
    temperature: float,
    top_k: int | None,
    seed: int | None,
    engine: str | None,
    units: tuple[Path, ...],
    layers: str | None,
    journal: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run a model: continue a text by a decoder, or compute what a network gives for arrays.

    A decoder adds the most likely token, or one that is drawn, again and again. DIR is a model, or
    what `hwgen model compile` made of one, whose command list or jobs then run.
    """
    from hwgen.cli.model.arrays import ArrayRequest, run_arrays
    from hwgen.cli.model.run import Request
    from hwgen.cli.model.run import run as run_decoder
    from hwgen.cli.model.run_compiled import form_of, run_jobs, run_network, run_program
    from hwgen.models.compile.compiled_files import NETWORK

    form = form_of(source)
    if inputs:
        if prompt is not None or prompt_tokens is not None:
            raise click.UsageError("give --input, or a prompt of a decoder, not both")
        if form not in ("", NETWORK):
            raise click.UsageError(f"--input: {source} is a compiled decoder: give it a prompt")
        kind = engine or ("golden" if form else "float")
        run = run_network if form else run_arrays
        run(
            ArrayRequest(source, inputs, output, kind, units, layers, journal, force),
            as_json=as_json,
        )
        return
    if form == NETWORK:
        raise click.UsageError(f"{source} is a compiled network: give it arrays by --input")
    if output is not None or force:
        raise click.UsageError("--output and --force belong to --input")
    if (prompt is None) == (prompt_tokens is None):
        raise click.UsageError("give either --prompt or --prompt-tokens, or arrays by --input")
    draws = (temperature, top_k, seed)
    sampling = None if form == "jobs" else _sampling(*draws, compiled=form == "list")
    kind = engine or ("golden" if form else "float")
    request = Request(source, prompt, prompt_tokens, count, kind, units, layers, journal, sampling)
    if form == "jobs":
        run_jobs(request, _draws(*draws), as_json=as_json)
    else:
        (run_program if form else run_decoder)(request, as_json=as_json)


def _draws(temperature: float, top_k: int | None, seed: int | None) -> Draws | None:
    """Return the sampling of tokens by a host, None for the most likely token."""
    from hwgen.models.run.host_arithmetic import Draws

    if _sampling(temperature, top_k, seed, compiled=False) is None:
        return None
    return Draws(temperature, top_k, seed or 0)


def _sampling(
    temperature: float, top_k: int | None, seed: int | None, *, compiled: bool
) -> Sampling | None:
    """Return the sampling of tokens, None for the most likely token."""
    from hwgen.models.run.sampling import Sampling

    if not temperature:
        if top_k is not None or seed is not None:
            raise click.UsageError("--top-k and --seed belong to --temperature")
        return None
    if math.isnan(temperature):
        raise click.UsageError("--temperature: must be a number")
    if compiled:
        raise click.UsageError("--temperature: hardware chooses the tokens of a compiled model")
    return Sampling(temperature, top_k, seed or 0)
