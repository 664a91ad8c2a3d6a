# SPDX-License-Identifier: Apache-2.0
"""``hwgen model compile``: a decoder as a command list, and what is in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.common import config_option, console, emit_json, force_option, json_option
from hwgen.cli.outputs import atomic_directory, check_directory

if TYPE_CHECKING:
    from hwgen.models.placement import Array


def _number(_: Any, __: Any, text: str | None) -> int | None:
    """Return a number of bytes, in any notation."""
    if text is None:
        return None
    try:
        found = int(text.replace("_", ""), 0)
    except ValueError:
        found = -1
    if found < 0:
        raise click.BadParameter(f"must be a number of bytes such as 0x40000000, not {text[:40]!r}")
    return found


@click.command("compile")
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@config_option
@click.option(
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory to write the compiled model into.",
)
@click.option(
    "--context",
    metavar="POSITIONS",
    type=click.IntRange(1, 1 << 24),
    help="Positions that the cache has room for; default those of the model.",
)
@click.option(
    "--at-once",
    metavar="TOKENS",
    type=click.IntRange(1, 256),
    default=4,
    show_default=True,
    help="Tokens of a prompt that are taken at once; the rest of it follows one by one.",
)
@click.option(
    "--base",
    metavar="ADDRESS",
    default="0",
    show_default=True,
    callback=_number,
    help="Address of the first byte.",
)
@click.option(
    "--memory-bytes",
    metavar="BYTES",
    callback=_number,
    help="Bytes of the memory from there on; default what addresses reach.",
)
@force_option
@json_option
def compile_command(
    source: Path,
    config: Path,
    output: Path,
    context: int | None,
    at_once: int,
    base: int,
    memory_bytes: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compile a quantised decoder for an engine that executes command lists.

    One list does all layers and all tokens, from the tokens of a prompt in memory to the tokens
    that follow it. What is written: image.bin, the contents of memory at first; program.bin, the
    list, and program.txt, to read; compiled.json, the memory map; layers.json, the cycles of each
    operation; C of a driver, with a function that generates tokens.
    """
    from hwgen.cli.model_layers import LAYERS, passes_of, print_passes
    from hwgen.config.load import load_config
    from hwgen.emission.model_driver import model_driver
    from hwgen.errors import InputError
    from hwgen.list_builder import executes_lists
    from hwgen.models.compiled import Compilation, Settings
    from hwgen.models.store import Model

    check_directory(output)
    core = load_config(config)
    if not executes_lists(core):
        raise InputError(
            f"{config}: family: must be one that executes command lists, not {core.family}"
        )
    settings = Settings(at_once, context, base, memory_bytes)
    compilation = Compilation(Model(source), core, settings)
    timing = passes_of(compilation)
    document = {**compilation.document(), "passes": timing}
    with atomic_directory(output, force=force) as directory:
        compilation.write(directory)
        layers = json.dumps(timing, indent=1) + "\n"
        for name, text in {**model_driver(core, document), LAYERS: layers}.items():
            (directory / name).write_text(text, encoding="utf-8")
    if as_json:
        emit_json({"output": str(output), **document})
        return
    _print(output, document, list(compilation.place.arrays.values()))
    print_passes(timing)


def _print(output: Path, document: dict[str, Any], arrays: list[Array]) -> None:
    """Print the memory map."""
    from rich.table import Table

    out = console()
    out.print(
        f"{output}: {document['name']} on {document['engine']},"
        f" {document['list']['descriptors']:,d} descriptors, {document['bytes']:,d} bytes from"
        f" {document['base']:#x}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for heading in ("region", "array", "address", "bytes", "times", "every"):
        right = heading not in ("region", "array")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for array in arrays:
        table.add_row(
            array.region,
            array.name,
            f"{array.address:#x}",
            f"{array.bytes:,d}",
            f"{array.count}" if array.count > 1 else "",
            f"{array.stride:,d}" if array.count > 1 else "",
        )
    out.print(table)
