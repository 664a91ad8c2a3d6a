# SPDX-License-Identifier: Apache-2.0
"""Number formats compared at equal throughput: area, clock and energy by synthesis, and accuracy.

``python -m flows.bench.formats [--technology T] [--energy] [--json]``
``python -m flows.bench.formats --serial|--scalable [--technology T] [--energy] [--json]``
``python -m flows.bench.formats --error [W.npy | MODEL.gguf [TENSOR]] [--json]``

Each format multiplies itself in a cube of 2 x 2 processing elements of 16 products a cycle, whose
terms are added in single precision; a block of 32 takes two cycles.  *PE* is the area of one; the
core has decoders, ports and registers around four of them.  Energies are of simulations of the
whole core's netlist.  ``--serial`` compares processing elements for fp16 activations,
``--scalable`` the processing element of several formats with one of the same throughput for each.

*Published* are the figures of a gate-count model (INT v.s. FP, arXiv 2510.25602, table 5), relative
to MXFP8.  It counts multipliers, alignment and a normaliser, without registers and decoders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from flows.bench.common import Document, Row, parser, report, run, synthesised
from hwgen.errors import InputError
from hwgen.families.spatial.params import CubeConfig
from hwgen.formats.block import error_of, quantise_blocks
from hwgen.formats.block.products import SCALABLE
from hwgen.formats.registry import block_format

REFERENCE = "mxfp8_e4m3"
FORMATS = (
    REFERENCE, "mxint8", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "nvint4", "int4_g32",
)  # fmt: skip
PUBLISHED = {
    "mxfp8_e4m3": (1.0, 1.0),
    "mxint8": (0.79, 0.63),
    "nvfp4": (0.54, 0.55),
    "nvint4": (0.38, 0.34),
}
"""Area and energy of the published model, relative to MXFP8."""

CLOCK_MHZ = {"nangate45": 200, "asap7": 700}
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

SPECS = {
    "core um2": ",.0f", "PE um2": ",.0f", "area of mxfp8": ".2f", "MHz": ".0f",
    "fJ a product": ",.0f", "energy of mxfp8": ".2f", "um2 a product a cycle": ",.0f",
    "QSNR dB": ".2f", "relative error": ".4f", "bits": ".4g",
}  # fmt: skip

LAYERS = "blk."
"""Beginning of the names of matrices of a model's layers."""

COLUMNS = 64
"""Columns of each of them that are quantised, evenly spaced."""

Floats = NDArray[np.float64]


def configuration(technology: str, activation: str, weight: str, **array: int | str) -> Document:
    """Return the parameters of a core."""
    return {
        "name": "bench", "family": "cube", "activation": activation, "weight": weight,
        "accumulator": "fp32", "max_k": 4096, "array": {"rows": 2, "cols": 2, **array},
        "pipeline": {"pe": 2},
        "target": {"technology": technology, "clock_mhz": CLOCK_MHZ[technology]},
    }  # fmt: skip


def synthesis_of(config: Document, *, energy: bool = False) -> dict[str, float | None]:
    """Return areas, clock and energy of a core."""
    document = synthesised(config, *(["--activity", "random:4,128,8"] if energy else []))
    pe = next(m["area_um2"] for m in document["modules"] if m["name"] == "bench_pe")
    spent = 2 * document["power"]["energy_per_operation_fj"] if energy else None
    return {
        "core um2": document["area_um2"],
        "PE um2": pe,
        "MHz": document["fmax_mhz"],
        "fJ a product": spent,
    }


def format_rows(technology: str, *, energy: bool) -> Iterator[Row]:
    """Yield the formats, relative to the first."""
    reference: dict[str, float | None] = {}
    for name in FORMATS:
        result = synthesis_of(configuration(technology, name, name, depth=DEPTH), energy=energy)
        reference = reference or result
        area, spent = PUBLISHED.get(name, (None, None))
        row: dict[str, str | float | None] = {"format": name}
        row |= {"bits": block_format(name).bits_per_value, **result}
        for quantity, label in (("PE um2", "area"), ("fJ a product", "energy")):
            value, base = result[quantity], reference[quantity]
            row[f"{label} of mxfp8"] = value / base if value and base else None
            row[f"{label}, published"] = area if label == "area" else spent
        yield row


def serial_rows(technology: str) -> Iterator[Row]:
    """Yield processing elements for fp16 activations."""
    for weight, pe, depth in SERIAL:
        values = configuration(technology, "fp16", weight, depth=depth, pe=pe)
        slots = CubeConfig.model_validate(values).slots
        result = synthesis_of(values)
        yield {
            "weights": weight,
            "PE": pe,
            "products": depth,
            "cycles": slots,
            "PE um2": result["PE um2"],
            "um2 a product a cycle": (result["PE um2"] or 0) * slots / depth,
            "MHz": result["MHz"],
        }


def scalable_rows(technology: str, *, energy: bool) -> Iterator[Row]:
    """Yield the processing element of several formats, one for each, and the sum of those."""
    total = {"PE um2": 0.0, "core um2": 0.0}
    for pe in ("scalable", "mac"):
        for name, count in SCALABLE.items():
            shared = pe == "scalable"
            depth = LANES if shared else LANES * count
            result = synthesis_of(
                configuration(technology, name, name, depth=depth, pe=pe), energy=energy
            )
            yield {"PE": pe, "format": name, "products": LANES * count, **result}
            for key in total if not shared else ():
                total[key] += result[key] or 0
    yield {"PE": "the four together", "format": None, "products": None, **total, "MHz": None,
           "fJ a product": None}  # fmt: skip


def tensors_of(path: Path) -> dict[str, gguf.ReaderTensor]:
    """Return the matrices of a model by name.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    try:
        tensors = gguf.GGUFReader(path).tensors
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    return {tensor.name: tensor for tensor in tensors if len(tensor.shape) == 2}


def matrices(names: Sequence[str]) -> tuple[str, Iterator[Floats]]:
    """Return a title and the matrices that are quantised: of a file, or a seeded heavy-tailed one.

    Raises
    ------
    InputError
        If a file cannot be used.
    """
    if not names:
        drawn = np.random.default_rng(0).standard_t(4, (4096, 256)) * 0.02
        return "Student's t with 4 degrees of freedom, seed 0, 4096 x 256", iter([drawn])
    path = Path(names[0])
    if path.suffix != ".gguf":
        try:
            return path.name, iter([np.load(path).astype(np.float64)])
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {error}") from None
    tensors = tensors_of(path)
    chosen = names[1:2] or [name for name in tensors if name.startswith(LAYERS)]
    if not chosen or chosen[0] not in tensors:
        raise InputError(f"{path}: name one of its matrices: {', '.join(tensors)}")

    def read(name: str) -> Floats:
        values = gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)
        weights = np.asarray(values, np.float64).T  # its rows are columns of W
        return weights if names[1:] else weights[:, :: max(1, weights.shape[1] // COLUMNS)]

    return f"{path.name}: {', '.join(names[1:]) or 'layers'}", map(read, chosen)


def error_rows(weights: Iterator[Floats]) -> list[Row]:
    """Return the error of matrices together in each format, the least noise first.

    Signal and noise are summed; so each weight counts alike.
    """
    sums = {name: [0.0, 0.0, 0.0] for name in ERRORS}
    for matrix in weights:
        signal = float((matrix**2).sum())
        for name, each in sums.items():
            result = error_of(quantise_blocks(matrix, block_format(name)), matrix)
            each[0] += signal
            each[1] += signal * result["relative_rms"] ** 2
            each[2] = max(each[2], result["max_abs"])
    rows: list[Row] = [
        {
            "format": name,
            "bits": block_format(name).bits_per_value,
            "QSNR dB": float(10 * np.log10(signal / noise)) if noise else np.inf,
            "relative error": (noise / signal) ** 0.5,
            "largest": largest,
        }
        for name, (signal, noise, largest) in sums.items()
    ]
    return sorted(rows, key=lambda row: float(row["relative error"] or 0))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("formats", __doc__)
    options.add_argument("--technology", default="nangate45", choices=CLOCK_MHZ)
    options.add_argument("--energy", action="store_true", help="simulate netlists, too (an hour)")
    options.add_argument("--serial", action="store_true", help="bit-serial PEs and others instead")
    options.add_argument("--scalable", action="store_true", help="PE of several formats instead")
    options.add_argument("--error", nargs="*", metavar="FILE", help="errors of a matrix instead")
    chosen = options.parse_args(arguments)
    technology, energy = chosen.technology, chosen.energy
    rows: Iterator[Row]
    if chosen.error is not None:
        title, weights = matrices(chosen.error)
        rows = iter(error_rows(weights))
    elif chosen.serial:
        title, rows = f"fp16 activations, {technology}", serial_rows(technology)
    elif chosen.scalable:
        title = f"one datapath for several formats, {technology}"
        rows = scalable_rows(technology, energy=energy)
    else:
        title, rows = f"at equal throughput, {technology}", format_rows(technology, energy=energy)
    report(title, rows, SPECS, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
