# SPDX-License-Identifier: Apache-2.0
"""Number formats compared at equal throughput: area, clock and energy by synthesis, and accuracy.

``python -m flows.bench.formats [--json] [--technology T] [--only NAME] [--energy]``
``python -m flows.bench.formats --serial [--json] [--technology T]``
``python -m flows.bench.formats --scalable [--energy] [--json] [--technology T]``
``python -m flows.bench.formats --error [W.npy | MODEL.gguf [TENSOR]]``

Each format multiplies itself in a cube of 2 x 2 processing elements of 16 products a cycle, whose
terms are added in single precision; so all make as many products, and a block of 32 takes two
cycles.  *PE* is the area of one; the core has decoders, ports and registers around four of them.
Energies are of simulations of the whole core's netlist.

With ``--serial`` processing elements for fp16 activations are compared: those of fp16 weights, and
of 4-bit ones multiplied whole, by significands, and term by term.

With ``--scalable`` the processing element of several formats is compared with one for each of them
that makes as many products a cycle as it does in that format.

Beside it stand the figures of a published gate-count model (INT v.s. FP, arXiv 2510.25602, table
5), relative to MXFP8 as ours are to ``mxfp8_e4m3``.  It counts multipliers, alignment and a
normaliser, without registers and without decoders.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hwgen.cli import main as command
from hwgen.core.registry import family
from hwgen.errors import InputError
from hwgen.formats.block import error_of, quantise_blocks
from hwgen.formats.block.products import SCALABLE
from hwgen.formats.registry import block_format

FORMATS = (
    "mxfp8_e4m3", "mxint8", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "nvint4", "int4_g32",
)  # fmt: skip
REFERENCE = "mxfp8_e4m3"

PUBLISHED = {
    "mxfp8_e4m3": (1.0, 1.0),
    "mxint8": (0.79, 0.63),
    "nvfp4": (0.54, 0.55),
    "nvint4": (0.38, 0.34),
}
"""Area and energy of the published model, relative to MXFP8."""

CLOCK_MHZ = {"nangate45": 200, "asap7": 700}
SIZE = "4,128,8"
DEPTH = 16

SERIAL = (
    ("fp16", "mac", 1), ("fp16", "mac", 4), ("bitmod_fp4", "mac", 4), ("int4_g128", "hybrid", 4),
    ("bitmod_fp4", "bit_serial", 4), ("bitmod_fp3", "bit_serial", 4),
    ("bitmod_fp4", "bit_serial", 8),
)  # fmt: skip
"""Weights, processing element and products a beat, of cores with fp16 activations."""

LANES = 8
"""Lanes of the processing element of several formats."""

ERRORS = (
    *FORMATS, "mxfp8_e5m2", "int4_g128", "int4_g128_min", "int4_g128_zero", "bitmod_fp4",
    "bitmod_fp3", "int3_g128", "int3_g128_min", "q4_0", "q4_1", "q8_0",
)  # fmt: skip


def configuration(name: str, technology: str) -> dict[str, Any]:
    """Return the configuration of a format's core."""
    return {
        "name": "bench", "family": "cube", "activation": name, "weight": name,
        "accumulator": "fp32", "max_k": 4096, "array": {"rows": 2, "cols": 2, "depth": DEPTH},
        "pipeline": {"pe": 2},
        "target": {"technology": technology, "clock_mhz": CLOCK_MHZ[technology]},
    }  # fmt: skip


def synthesized(config: dict[str, Any], directory: Path, *more: str) -> dict[str, Any]:
    """Return what ``hwgen synth`` says of a configuration."""
    file = directory / "bench.json"
    file.write_text(json.dumps(config))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = command(["synth", "--config", str(file), "--json", *more])
    if status:
        raise SystemExit(status)
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


def serial(technology: str, directory: Path) -> Iterator[dict[str, Any]]:
    """Yield processing elements for fp16 activations."""
    for weight, pe, depth in SERIAL:
        values = configuration(weight, technology)
        values |= {"activation": "fp16", "array": {"rows": 2, "cols": 2, "depth": depth, "pe": pe}}
        config: Any = family(values["family"]).config.model_validate(values)
        document = synthesized(values, directory)
        area = next(m["area_um2"] for m in document["modules"] if m["name"] == "bench_pe")
        products = depth / config.slots
        yield {
            "weight": weight,
            "pe": pe,
            "technology": technology,
            "products": depth,
            "cycles": config.slots,
            "pe_um2": area,
            "um2_per_product_per_cycle": area / products,
            "fmax_mhz": document["fmax_mhz"],
        }


def scalable(technology: str, directory: Path, *, energy: bool) -> Iterator[dict[str, Any]]:
    """Yield the processing element of several formats, and one for each of them.

    The first is mapped once; with energies once more for each format of its operands.
    """
    formats = list(SCALABLE.items())
    several = [(name, 1, True) for name, _ in (formats if energy else formats[:1])]
    for name, count, shared in [*several, *((name, count, False) for name, count in formats)]:
        values = configuration(name, technology)
        values["array"] = {"rows": 2, "cols": 2, "depth": LANES * count}
        if shared:
            values["array"]["pe"] = "scalable"
        document = synthesized(values, directory, *_activity(energy=energy))
        area = next(m["area_um2"] for m in document["modules"] if m["name"] == "bench_pe")
        yield {
            "pe": "scalable" if shared else "mac",
            "format": name if energy or not shared else None,
            "technology": technology,
            "products": LANES * SCALABLE[name] if energy or not shared else None,
            "core_um2": document["area_um2"],
            "pe_um2": area,
            "fmax_mhz": document["fmax_mhz"],
            "fj_per_product": _fj_per_product(document, energy=energy),
        }


def _activity(*, energy: bool) -> list[str]:
    return ["--activity", f"random:{SIZE}"] if energy else []


def _fj_per_product(document: dict[str, Any], *, energy: bool) -> float | None:
    return document["power"]["energy_per_operation_fj"] * 2 if energy else None


def measured(name: str, technology: str, directory: Path, *, energy: bool) -> dict[str, Any]:
    """Return what synthesis says of a format's core."""
    more = _activity(energy=energy)
    document = synthesized(configuration(name, technology), directory, *more)
    pe = next(m["area_um2"] for m in document["modules"] if m["name"] == "bench_pe")
    return {
        "format": name,
        "technology": technology,
        "bits_per_value": block_format(name).bits_per_value,
        "core_um2": document["area_um2"],
        "pe_um2": pe,
        "fmax_mhz": document["fmax_mhz"],
        "fj_per_product": _fj_per_product(document, energy=energy),
    }


def compared(rows: list[dict[str, Any]]) -> Table:
    """Return the table of all formats, relative to the first."""
    reference = next((row for row in rows if row["format"] == REFERENCE), rows[0])
    table = Table(title=f"at equal throughput, {rows[0]['technology']}")
    for heading in ("format", "bits", "core um2", "PE um2", "of mxfp8", "published",
                    "MHz", "fJ a product", "of mxfp8", "published"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "format" else "right")
    for row in rows:
        area, energy = PUBLISHED.get(row["format"], (None, None))
        spent, base = row["fj_per_product"], reference["fj_per_product"]
        table.add_row(
            row["format"],
            f"{row['bits_per_value']:g}",
            f"{row['core_um2']:.0f}",
            f"{row['pe_um2']:.0f}",
            f"{row['pe_um2'] / reference['pe_um2']:.2f}",
            "" if area is None else f"{area:.2f}",
            f"{row['fmax_mhz']:.0f}",
            "" if spent is None else f"{spent:.0f}",
            "" if spent is None or base is None else f"{spent / base:.2f}",
            "" if energy is None else f"{energy:.2f}",
        )
    return table


def weights_of(names: Sequence[str]) -> tuple[str, np.ndarray]:
    """Return the matrix whose error is measured: of a file, or a seeded heavy-tailed one.

    Raises
    ------
    InputError
        If a file cannot be used.
    """
    if not names:
        drawn = np.random.default_rng(0).standard_t(4, (4096, 256)) * 0.02
        return "Student's t with 4 degrees of freedom, seed 0, 4096 x 256", drawn
    path = Path(names[0])
    if path.suffix == ".gguf":
        return _of_gguf(path, names[1])
    try:
        matrix = np.load(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    return path.name, matrix.astype(np.float64)


@cache
def tensors_of(path: Path) -> dict[str, Any]:
    """Return the matrices of a model by name.

    Raises
    ------
    InputError
        If the file cannot be read, or the package that reads it is missing.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise InputError(f"{path}: reading it needs the package gguf (pip install gguf)") from None
    try:
        tensors = GGUFReader(path).tensors
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    return {tensor.name: tensor for tensor in tensors if len(tensor.shape) == 2}


def _of_gguf(path: Path, name: str) -> tuple[str, np.ndarray]:
    """Return a tensor of a model; its rows are columns of W."""
    tensors = tensors_of(path)
    if name not in tensors:
        raise InputError(f"{path}: name one of its matrices, not {name}: {', '.join(tensors)}")
    from gguf import quants

    tensor = tensors[name]
    values = quants.dequantize(tensor.data, tensor.tensor_type)
    return f"{path.name}: {name}", np.asarray(values, np.float64).T


LAYERS = "blk."
"""What the names of matrices of a model's layers begin with; embeddings do not."""

COLUMNS = 64
"""Columns of each of them that are quantised, evenly spaced."""


def errors_of_model(path: Path) -> list[dict[str, Any]]:
    """Return the errors of all matrices of a model's layers together, the least noise first.

    Of each matrix `COLUMNS` columns are quantised.  Signal and noise are summed over them; so each
    of these weights counts alike.
    """
    names = [name for name in tensors_of(path) if name.startswith(LAYERS)]
    if not names:
        raise InputError(f"{path}: none of its matrices is of a layer ({LAYERS}...)")
    total: dict[str, list[float]] = {}
    for name in names:
        weights = _of_gguf(path, name)[1]
        weights = weights[:, :: max(1, weights.shape[1] // COLUMNS)]
        for row in errors(weights):
            kept = total.setdefault(row["format"], [0.0, 0.0, 0.0, row["bits_per_value"]])
            signal = float((weights**2).sum())
            kept[0] += signal
            kept[1] += signal * row["relative_rms"] ** 2
            kept[2] = max(kept[2], row["max_abs"])
    rows = [
        {
            "format": name,
            "bits_per_value": bits,
            "qsnr_db": 10 * np.log10(signal / noise) if noise else np.inf,
            "relative_rms": (noise / signal) ** 0.5,
            "max_abs": largest,
        }
        for name, (signal, noise, largest, bits) in total.items()
    ]
    return sorted(rows, key=lambda row: -row["qsnr_db"])


def errors(weights: np.ndarray) -> list[dict[str, Any]]:
    """Return the error of a matrix in each format, the least noise first."""
    rows = []
    for name in dict.fromkeys(ERRORS):
        fmt = block_format(name)
        found = error_of(quantise_blocks(weights, fmt), weights)
        rows.append({"format": name, "bits_per_value": fmt.bits_per_value, **found})
    return sorted(rows, key=lambda row: -row["qsnr_db"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.formats",
        description="Formats at equal throughput by synthesis, and their errors.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line a format")
    parser.add_argument("--technology", default="nangate45", choices=CLOCK_MHZ)
    parser.add_argument("--only", action="append", choices=FORMATS, help="only this format")
    parser.add_argument("--energy", action="store_true", help="simulate netlists, too (an hour)")
    parser.add_argument("--serial", action="store_true", help="bit-serial PEs and others instead")
    parser.add_argument("--scalable", action="store_true", help="the PE of several formats instead")
    parser.add_argument("--error", nargs="*", metavar="FILE", help="errors of a matrix instead")
    options = parser.parse_args(arguments)
    if options.error is not None:
        return _print_errors(options.error, as_json=options.json)
    if options.serial:
        return _print_serial(options.technology, as_json=options.json)
    if options.scalable:
        return _print_scalable(options.technology, energy=options.energy, as_json=options.json)
    rows = []
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as directory:
        for name in options.only or FORMATS:
            row = measured(name, options.technology, Path(directory), energy=options.energy)
            rows.append(row)
            if options.json:
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
    if not options.json:
        Console(width=120).print(compared(rows))
    return 0


def _print_serial(technology: str, *, as_json: bool) -> int:
    headings = ("weights", "pe", "products", "cycles", "PE um2", "um2 a product a cycle", "MHz")
    table = Table(*headings, title=f"fp16 activations, {technology}")
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as directory:
        for row in serial(technology, Path(directory)):
            if as_json:
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
            table.add_row(
                row["weight"], row["pe"], str(row["products"]), str(row["cycles"]),
                f"{row['pe_um2']:.0f}", f"{row['um2_per_product_per_cycle']:.0f}",
                f"{row['fmax_mhz']:.0f}",
            )  # fmt: skip
    if not as_json:
        Console(width=100).print(table)
    return 0


def _print_scalable(technology: str, *, energy: bool, as_json: bool) -> int:
    headings = ("PE", "format", "products", "PE um2", "core um2", "MHz", "fJ a product")
    table = Table(*headings, title=f"one datapath for several formats, {technology}")
    apart = [0.0, 0.0]
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as directory:
        for row in scalable(technology, Path(directory), energy=energy):
            if as_json:
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
            if row["pe"] == "mac":
                apart = [apart[0] + row["pe_um2"], apart[1] + row["core_um2"]]
            spent = row["fj_per_product"]
            table.add_row(
                row["pe"], row["format"] or "", str(row["products"] or ""), f"{row['pe_um2']:.0f}",
                f"{row['core_um2']:.0f}", f"{row['fmax_mhz']:.0f}",
                "" if spent is None else f"{spent:.0f}",
            )  # fmt: skip
    table.add_row("the four together", "", "", f"{apart[0]:.0f}", f"{apart[1]:.0f}", "", "")
    if not as_json:
        Console(width=100).print(table)
    return 0


def _print_errors(names: Sequence[str], *, as_json: bool) -> int:
    try:
        if len(names) == 1 and names[0].endswith(".gguf"):
            title, rows = f"layers of {Path(names[0]).name}", errors_of_model(Path(names[0]))
        else:
            title, weights = weights_of(names)
            rows = errors(weights)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    table = Table("format", "bits", "QSNR dB", "relative error", "largest", title=title)
    for row in rows:
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
        table.add_row(
            row["format"], f"{row['bits_per_value']:.4g}", f"{row['qsnr_db']:.2f}",
            f"{row['relative_rms']:.4f}", f"{row['max_abs']:.3g}",
        )  # fmt: skip
    if not as_json:
        Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
