# SPDX-License-Identifier: Apache-2.0
"""Pack weights into the bytes that a core takes."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import emit_json, force_option, json_option, optional_config
from hwgen.cli.support.operands import load_matrix
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.terminal import console


@click.command(epilog="`hwgen formats` lists the block formats.")
@optional_config("Configuration of the core to pack for (YAML).")
@click.option(
    "--format",
    "block",
    metavar="NAME|FILE",
    help="Block format to quantise to and pack in, instead of a core's: mxfp4, q4_0, int4_g128 ...",
)
@click.option(
    "--weights",
    metavar="W.npy",
    required=True,
    type=click.Path(path_type=Path),
    help="Weights, shape (K, N): integers of the core's format, or floats.",
)
@click.option(
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory to write into; the files are called like the weights.",
)
@click.option(
    "--layout",
    type=click.Choice(["keys", "trits"]),
    default="keys",
    show_default=True,
    help="keys: the beats of port wgt; trits: two bits a ternary weight, row by row.",
)
@click.option("--per-column", is_flag=True, help="Quantise floats with a scale a column.")
@click.option("--strict", is_flag=True, help="Refuse a K that is no multiple of a block.")
@force_option
@json_option
def command(
    config: Path | None,
    block: str | None,
    weights: Path,
    output: Path,
    layout: str,
    per_column: bool,
    strict: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Pack weights into the bytes that a core takes, or in a block format.

    Writes NAME.bin, and NAME.json, which describes it.  For a core, floats are quantised: to
    ternary weights by their mean magnitude, as in BitNet b1.58, to int1 by their signs, to other
    integers by their largest magnitude; then NAME.npy holds the integers and NAME.scales.npy what
    to multiply products with them by.
    """
    if (config is None) == (block is None):
        raise click.UsageError("give either --config, for a core's weights, or --format")
    if block is not None:
        if per_column or layout != "keys":
            raise click.UsageError("--layout and --per-column go with --config, not with --format")
        _pack_blocks(block, weights, output, strict=strict, force=force, as_json=as_json)
        return
    assert config is not None
    _pack(config, weights, output, layout, per_column, strict, force, as_json)


def _pack(
    config: Path,
    weights: Path,
    output: Path,
    layout: str,
    per_column: bool,
    strict: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Pack for a core."""
    import io
    import json

    import numpy as np

    from flows.build.load import load_config
    from hwgen.core.files.packing import pack
    from hwgen.errors import InputError

    check_directory(output)
    core = load_config(config)
    array = load_matrix(weights, floats=True)
    _check_apart(output, weights)
    try:
        packed = pack(core, array, layout=layout, per_column=per_column, strict=strict)
    except InputError as error:
        raise InputError(f"{weights}: {error}") from None
    name = weights.stem
    files = {f"{name}.bin": packed.image}
    description = {**packed.description, "image": f"{name}.bin"}
    if packed.scales is not None:
        arrays = {f"{name}.npy": packed.weights, f"{name}.scales.npy": packed.scales}
        for file, content in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, content)
            files[file] = buffer.getvalue()
        description |= {"weights": f"{name}.npy", "scales": f"{name}.scales.npy"}
    files[f"{name}.json"] = (json.dumps(description, indent=2) + "\n").encode()
    with atomic_directory(output, force=force) as staging:
        for file, data in files.items():
            (staging / file).write_bytes(data)
    if as_json:
        emit_json(
            {
                "directory": str(output),
                "description": f"{name}.json",
                **{key: value for key, value in description.items() if key != "config"},
                "files": {file: len(data) for file, data in files.items()},
            }
        )
        return
    k, n = array.shape
    out = console()
    out.print(f"{weights}: {k} x {n} weights for {core.name} -> {output}")
    density = f"  {description['bits_per_weight']:.4g} bits/weight"
    if layout == "keys":
        planes = f" a bit plane, {count} planes" if (count := description["planes"]) > 1 else ""
        density += (
            f": {description['weights_per_key']} in {description['key_bits']} bits{planes},"
            f" {description['beats']} beats of {description['beat_bytes']} bytes"
        )
    out.print(density)
    out.print(f"  {8 * len(packed.image) / (k * n):.4g} bits/weight with all filling")
    for file, data in files.items():
        out.print(f"  {file:<24} {len(data):10} bytes")


def _check_apart(output: Path, weights: Path) -> None:
    from hwgen.errors import InputError

    if output.resolve() == weights.resolve().parent:
        raise InputError(f"{output} holds {weights.name}; choose another directory for the output")


def _pack_blocks(
    block: str, weights: Path, output: Path, *, strict: bool, force: bool, as_json: bool
) -> None:
    """Quantise to a block format and pack."""
    import json

    from hwgen.core.files.block_formats import block_format_of
    from hwgen.core.files.block_packing import pack_matrix
    from hwgen.errors import InputError

    check_directory(output)
    fmt = block_format_of(block)
    array = load_matrix(weights, floats=True)
    _check_apart(output, weights)
    try:
        packed = pack_matrix(fmt, array, strict=strict)
    except InputError as error:
        raise InputError(f"{weights}: {error}") from None
    name = weights.stem
    description = {**packed.description, "image": f"{name}.bin"}
    files = {
        f"{name}.bin": packed.image,
        f"{name}.json": (json.dumps(description, indent=2) + "\n").encode(),
    }
    with atomic_directory(output, force=force) as staging:
        for file, data in files.items():
            (staging / file).write_bytes(data)
    if as_json:
        sizes = {file: len(data) for file, data in files.items()}
        emit_json({"directory": str(output), **description, "files": sizes})
        return
    k, n = array.shape
    out, lost = console(), description["error"]
    density = 8 * len(packed.image) / (k * n)
    out.print(f"{weights}: {k} x {n} numbers in {fmt} -> {output}")
    out.print(f"  {fmt.bits_per_value:.4g} bits each, {density:.4g} with all filling")
    out.print(
        f"  signal to quantisation noise {lost['qsnr_db']:.2f} dB, relative error (rms)"
        f" {lost['relative_rms']:.3g}, largest {lost['max_abs']:.3g}"
    )
    for file, data in files.items():
        out.print(f"  {file:<24} {len(data):10} bytes")
