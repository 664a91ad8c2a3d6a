# SPDX-License-Identifier: Apache-2.0
"""Agreement of a quantised decoder with itself by weight format, calibrated once for all texts.

``python -m flows.bench.quantisation FILE --calibration TEXT ... --evaluate TEXT ...``: each row is
the output of `hwgen model quantise` with its options, printed as a table in Markdown.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from flows.bench.common import Document, hwgen, markdown, parser, run
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Description

ROWS: dict[str, tuple[str, ...]] = {
    "int8, blocks of 8 turned by hardware": ("--hadamard", "8"),
    "int8, blocks of 16 turned by hardware": ("--hadamard", "16"),
    "int8": (),
    "int8, not compensated": ("--no-compensate",),
    "int8, smoothed only": ("--no-rotate", "--no-compensate"),
    "int8, nothing of it": ("--no-rotate", "--no-compensate", "--no-smooth"),
    "int4 in groups of 32": ("--weights", "int4", "--group", "32"),
    "int4 in groups of 64": ("--weights", "int4", "--group", "64"),
    "int4, one scale a row": ("--weights", "int4"),
    "kept as the file has them": ("--weights", "original"),
    "ternary in groups of 32, turned and compensated": (
        "--weights", "ternary", "--group", "32", "--rotate", "--compensate",
    ),
}  # fmt: skip
"""Options of `hwgen model quantise` by row."""


def weight_bits(description: Description) -> float:
    """Return the mean bits of a weight of products, scales and offsets counted as 16 bits each."""
    names = {
        node.inputs["weights"] for node in description.nodes if node.operation == "gemm"
    } & description.tensors.keys()
    tensors = [description.tensors[name] for name in names]
    weights = sum(tensor.shape[0] * tensor.shape[1] for tensor in tensors)
    return sum(tensor.stored_bits for tensor in tensors) / weights


def cell(evaluation: Document) -> str:
    """Format the share of equal most likely tokens, and the divergence in nats."""
    divergence = evaluation["kl"]
    shown = f"{divergence:.2f}" if divergence >= 1 else f"{divergence:.4f}"
    return f"{100 * evaluation['top1']:.1f} %, {shown}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("quantisation", __doc__)
    options.add_argument("model", help="file of a model, as `hwgen model import` reads it")
    options.add_argument("--calibration", action="append", required=True, metavar="TEXT")
    options.add_argument("--evaluate", action="append", required=True, metavar="TEXT")
    options.add_argument("--positions", default="1024", help="most tokens of a text")
    options.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    chosen = options.parse_args(arguments)
    common = ["--positions", chosen.positions]
    for option, paths in (("--calibration", chosen.calibration), ("--evaluate", chosen.evaluate)):
        common += [part for path in paths for part in (option, path)]
    rows: list[tuple[str, ...]] = []
    headings = ["weights", "bits a weight"]
    with tempfile.TemporaryDirectory(prefix="hwgen-quantisation-") as directory:
        imported, quantised = Path(directory) / "model", Path(directory) / "quantised"
        hwgen("model", "import", chosen.model, "--output", imported)
        for name in chosen.rows:
            evaluations = hwgen("model", "quantise", imported, "--output", quantised, "--force",
                               *common, *ROWS[name])["evaluations"]  # fmt: skip
            texts = [f"`{path}`, {evaluations[path]['positions']:,}" for path in chosen.evaluate]
            headings[2:] = texts
            bits = weight_bits(Model(quantised).description)
            rows.append(
                (name, f"{bits:.2f}", *(cell(evaluations[path]) for path in chosen.evaluate))
            )
            sys.stderr.write(f"{'; '.join(rows[-1])}\n")
    click.echo(markdown(headings, rows), nl=False)


if __name__ == "__main__":
    run(main)
