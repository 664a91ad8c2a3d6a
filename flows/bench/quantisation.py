# SPDX-License-Identifier: Apache-2.0
"""How near a decoder stays to itself by weight format: one calibration, the same texts for all.

``python -m flows.bench.quantisation FILE --calibration TEXT ... --judge TEXT ...``: each row is
what `hwgen model quantise` says with the options of that row, printed as a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
    "kept as the file has them": ("--weights", "kept"),
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


def table(texts: Sequence[str], rows: Sequence[tuple[str, float, Sequence[str]]]) -> str:
    """Return rows of a format, its bits and a cell for each text, as Markdown."""
    lines = [
        f"| weights | bits a weight | {' | '.join(texts)} |",
        "| --- " * (2 + len(texts)) + "|",
    ]
    lines += [f"| {name} | {bits:.2f} | {' | '.join(cells)} |" for name, bits, cells in rows]
    return "\n".join(lines)


def cell(judgement: dict[str, Any]) -> str:
    """Return how often the same token is the most likely, and the divergence in nats."""
    divergence = judgement["kl"]
    shown = f"{divergence:.2f}" if divergence >= 1 else f"{divergence:.4f}"
    return f"{100 * judgement['top1']:.1f} %, {shown}"


def _hwgen(*arguments: str) -> Any:
    """Run a command of hwgen and return its document."""
    command = [sys.executable, "-m", "hwgen", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    from hwgen.models.files.store import Model

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="file of a model, as `hwgen model import` reads it")
    parser.add_argument("--calibration", action="append", required=True, metavar="TEXT")
    parser.add_argument("--judge", action="append", required=True, metavar="TEXT")
    parser.add_argument("--positions", type=int, default=1024, help="most tokens of a text judged")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    given = parser.parse_args(arguments)
    common = ["--positions", str(given.positions)]
    for option in ("calibration", "judge"):
        common += [part for path in getattr(given, option) for part in (f"--{option}", path)]
    rows: list[tuple[str, float, Sequence[str]]] = []
    positions: list[int] = []
    with tempfile.TemporaryDirectory(prefix="hwgen-quantisation-") as room:
        imported, made = f"{room}/model", f"{room}/quantised"
        _hwgen("model", "import", given.model, "--output", imported)
        for name in given.rows:
            found = _hwgen("model", "quantise", imported, "--output", made, "--force", *common,
                           *ROWS[name])["judgements"]  # fmt: skip
            positions = [found[path]["positions"] for path in given.judge]
            cells = [cell(found[path]) for path in given.judge]
            rows.append((name, weight_bits(Model(Path(made)).description), cells))
            click.echo(f"{name}: {'; '.join(cells)}", err=True)
    texts = [f"`{path}`, {n:,}" for path, n in zip(given.judge, positions, strict=True)]
    click.echo(table(texts, rows))


if __name__ == "__main__":
    main()
