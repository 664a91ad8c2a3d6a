# SPDX-License-Identifier: Apache-2.0
"""Pack weights into the bytes that a core takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    json_option,
    optional_config,
    path_option,
)
from hwgen.cli.support.names import FormatName
from hwgen.cli.support.operands import load_matrix
from hwgen.cli.support.outputs import atomic_directory, check_directory, npy_bytes
from hwgen.reports.terminal import console


@click.command(
    epilog=example(
        "hwgen pack --format mxfp4 --weights w.npy -o packed",
        "`hwgen formats` lists the block formats.",
    )
)
@optional_config("Configuration of the core to pack for (YAML).")
@click.option(
    "--format",
    "block",
    metavar="NAME|FILE",
    type=FormatName(),
    help="Block format to quantise to and pack in, instead of a core's: mxfp4, q4_0, int4_g128 ...",
)
@path_option(
    "--weights", "W.npy", "Weights, shape (K, N): integers of the core's format, or floats.",
    required=True,
)  # fmt: skip
@path_option(
    "--output", "DIR", "Directory to write into; the files are called like the weights.",
    required=True,
)  # fmt: skip
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
    if block is not None and (per_column or layout != "keys"):
        raise click.UsageError("--layout and --per-column go with --config, not with --format")
    import json

    from flows.build.load import load_config
    from hwgen.core.files.block_formats import block_format_of
    from hwgen.core.files.block_packing import PackedBlocks, pack_matrix
    from hwgen.core.files.packing import Packed, pack
    from hwgen.errors import InputError

    check_directory(output)
    core = load_config(config) if config else None
    fmt = block_format_of(block) if block else None
    packed: Packed | PackedBlocks
    array = load_matrix(weights, floats=True)
    if output.resolve() == weights.resolve().parent:
        raise InputError(f"{output} holds {weights.name}; choose another directory for the output")
    try:
        if fmt is not None:
            packed = pack_matrix(fmt, array, strict=strict)
        elif core is not None:
            packed = pack(core, array, layout=layout, per_column=per_column, strict=strict)
    except InputError as error:
        raise InputError(f"{weights}: {error}") from None
    name = weights.stem
    files = {f"{name}.bin": packed.image}
    description = {**packed.description, "image": f"{name}.bin"}
    if isinstance(packed, Packed) and packed.scales is not None:
        files[f"{name}.npy"] = npy_bytes(packed.weights)
        files[f"{name}.scales.npy"] = npy_bytes(packed.scales)
        description |= {"weights": f"{name}.npy", "scales": f"{name}.scales.npy"}
    files[f"{name}.json"] = (json.dumps(description, indent=2) + "\n").encode()
    with atomic_directory(output, force=force) as staging:
        for file, data in files.items():
            (staging / file).write_bytes(data)
    sizes = {file: len(data) for file, data in files.items()}
    if as_json:
        facts = {key: value for key, value in description.items() if key != "config"}
        of_core = {} if core is None else {"description": f"{name}.json"}
        emit_json({"directory": str(output), **of_core, **facts, "files": sizes})
        return
    k, n = array.shape
    out, density = console(), 8 * len(packed.image) / (k * n)
    if core is not None:
        out.print(f"{weights}: {k} x {n} weights for {core.name} -> {output}")
        out.print(f"  {_density(description)}")
        out.print(f"  {density:.4g} bits/weight with all filling")
    if fmt is not None:
        lost = description["error"]
        out.print(f"{weights}: {k} x {n} numbers in {fmt} -> {output}")
        out.print(f"  {fmt.bits_per_value:.4g} bits each, {density:.4g} with all filling")
        out.print(
            f"  signal to quantisation noise {lost['qsnr_db']:.2f} dB, relative error (rms)"
            f" {lost['relative_rms']:.3g}, largest {lost['max_abs']:.3g}"
        )
    for file, size in sizes.items():
        out.print(f"  {file:<24} {size:10} bytes")


def _density(description: Mapping[str, Any]) -> str:
    """Return the bits of a weight, and of what they consist, in words."""
    density = f"{description['bits_per_weight']:.4g} bits/weight"
    if description["layout"] != "keys":
        return density
    planes = f" a bit plane, {count} planes" if (count := description["planes"]) > 1 else ""
    return (
        f"{density}: {description['weights_per_key']} in {description['key_bits']} bits{planes},"
        f" {description['beats']} beats of {description['beat_bytes']} bytes"
    )
