# SPDX-License-Identifier: Apache-2.0
"""Pack weights into the bytes that a core takes."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.common import (
    config_option,
    console,
    emit_json,
    force_option,
    json_option,
    load_matrix,
)
from hwgen.cli.outputs import atomic_directory, check_directory


@click.command()
@config_option
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
@force_option
@json_option
def command(
    config: Path,
    weights: Path,
    output: Path,
    layout: str,
    per_column: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Pack weights into the bytes that a core takes.

    Writes NAME.bin, and NAME.json, which describes it.  Floats are quantised: to ternary weights
    by their mean magnitude, as in BitNet b1.58, to int1 by their signs, to other integers by their
    largest magnitude; then NAME.npy holds the integers and NAME.scales.npy what to multiply
    products with them by.
    """
    import io
    import json

    import numpy as np

    from hwgen.config.load import load_config
    from hwgen.errors import InputError
    from hwgen.packing import pack

    check_directory(output)
    core = load_config(config)
    array = load_matrix(weights, floats=True)
    if output.resolve() == weights.resolve().parent:
        raise InputError(f"{output} holds {weights.name}; choose another directory for the output")
    try:
        packed = pack(core, array, layout=layout, per_column=per_column)
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
