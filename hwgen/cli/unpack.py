# SPDX-License-Identifier: Apache-2.0
"""Read back the weights that were packed."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    json_option,
    optional_config,
    path_option,
)
from hwgen.cli.support.outputs import check_file, npy_bytes, write_file
from hwgen.reports.terminal import console


@click.command(epilog=example("hwgen unpack --input packed/w.json -o w.npy"))
@optional_config("Configuration that a core's weights were packed for; a block format needs none.")
@path_option(
    "--input", "NAME.json", "Description that `hwgen pack` wrote; the image lies beside it.",
    "source", required=True,
)  # fmt: skip
@path_option(
    "--output", "W.npy",
    "Where to write the weights, shape (K, N): integers, or float64 of a block format.",
    required=True,
)  # fmt: skip
@force_option
@json_option
def command(config: Path | None, source: Path, output: Path, force: bool, as_json: bool) -> None:
    """Read back the weights that were packed, exactly.

    For weights of a core, the configuration must be the one they were packed for; the image's size
    and SHA-256 are checked.
    """
    import json

    from flows.build.load import load_config
    from hwgen.core.files.block_packing import is_blocks, unpack_matrix
    from hwgen.core.files.packing import unpack
    from hwgen.errors import InputError

    core = load_config(config) if config else None
    check_file(output, force=force)
    try:
        description = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{source} does not exist") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not readable JSON: {error}") from None
    if not isinstance(description, dict):
        raise InputError(f"{source}: must be an object, as `hwgen pack` writes it")
    name = description.get("image")
    if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
        raise InputError(f"{source}: image must be the name of a file beside it, not {name!r:.60}")
    image = source.parent / name
    try:
        if image.exists() and not image.is_file():
            raise InputError(f"{image} is no regular file; {source} describes it")
        data = image.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{image} does not exist; {source} describes it") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{source}: image: {error}") from None
    if not is_blocks(description) and core is None:
        raise click.UsageError(f"{source} describes weights of a core: give its --config")
    if is_blocks(description) and core is not None:
        raise click.UsageError(f"{source} describes a matrix in a block format: leave --config out")
    try:
        weights = unpack(core, description, data) if core else unpack_matrix(description, data)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    write_file(output, npy_bytes(weights), force=force)
    k, n = weights.shape
    if as_json:
        emit_json({"output": str(output), "k": k, "n": n, "dtype": str(weights.dtype)})
        return
    console().print(f"{output}: {k} x {n} weights, {weights.dtype}, from {image}")
