# SPDX-License-Identifier: Apache-2.0
"""Cycles of systolic arrays beside those of SCALE-Sim: ``make bench-cycles``.

SCALE-Sim (Samajdar et al., "A Systematic Methodology for Characterizing Scalability of DNN
Accelerators using SCALE-Sim", ISPASS 2020) computes one tile after another, each with its fill and
drain.  Its counts without stalls are those of `tiled`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from flows.bench.common import Document, parser, run, write_sections
from flows.build.load import parse_config
from hwgen.core.registry import core_of

RESNET_50 = {
    "conv1": (12544, 147, 64),
    "conv2, 1x1": (3136, 64, 256),
    "conv2, 3x3": (3136, 576, 64),
    "conv3, 3x3": (784, 1152, 128),
    "conv4, 3x3": (196, 2304, 256),
    "conv5, 3x3": (49, 4608, 512),
    "fc": (1, 2048, 1000),
}
"""M, K and N of layers of ResNet-50 for an image of 224 x 224, as products of matrices."""

ARRAYS = (16, 128, 256)
"""Rows and columns; the last as the TPU of 2015."""

DATAFLOWS = ("output_stationary", "weight_stationary")


def tiled(dataflow: str, side: int, size: tuple[int, int, int]) -> int:
    """Return the cycles of a product on a square array, tile after tile, as SCALE-Sim counts."""
    m, k, n = size
    if dataflow == "output_stationary":
        return ceil(m / side) * ceil(n / side) * (k + 2 * side - 2) - 1
    return ceil(k / side) * ceil(n / side) * (m + 3 * side - 2) - 1


def rows() -> Iterator[Document]:
    """Yield the cycles of every layer alone, and of all in a list, on each array."""
    for side in ARRAYS:
        for dataflow in DATAFLOWS:
            core = core_of(parse_config(json.dumps({
                "name": "array", "family": "systolic",
                "array": {"rows": side, "cols": side, "dataflow": dataflow},
            })))  # fmt: skip
            where = {"array": f"{side} x {side}", "dataflow": dataflow.replace("_", " ")}
            for layer, size in RESNET_50.items():
                cycles = core.cycles([core.gemm(*size)]).number
                yield {
                    **where, "layer": layer, "size": size,
                    "tiled": tiled(dataflow, side, size), "hwgen": cycles,
                }  # fmt: skip
            yield {
                **where, "layer": "all, a list", "size": None,
                "tiled": sum(tiled(dataflow, side, size) for size in RESNET_50.values()),
                "hwgen": core.cycles([core.gemm(*size) for size in RESNET_50.values()]).number,
            }  # fmt: skip


def table(counts: Sequence[Document]) -> Iterator[str]:
    """Yield the lines of a table: a layer a row, an array and a dataflow a column."""
    columns = list(dict.fromkeys((row["array"], row["dataflow"]) for row in counts))
    heads = [f"{array}, {dataflow}" for array, dataflow in columns]
    yield f"| layer | M, K, N | {' | '.join(heads)} |"
    yield f"| --- | --- |{' --- |' * len(heads)}"
    for layer in dict.fromkeys(row["layer"] for row in counts):
        some = {(row["array"], row["dataflow"]): row for row in counts if row["layer"] == layer}
        size = next(iter(some.values()))["size"]
        cells = [
            f"{row['tiled']:,} → {row['hwgen']:,} ({row['hwgen'] / row['tiled']:.2f})"
            for row in map(some.__getitem__, columns)
        ]
        yield f"| {layer} | {', '.join(map(str, size)) if size else ''} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and print or write the table."""
    options = parser("cycles", __doc__)
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    counts = list(rows())
    text = json.dumps(counts, indent=2) if chosen.json else "\n".join(table(counts))
    if chosen.write:
        write_sections(chosen.write, {"cycles of arrays": "\n".join(table(counts))})
        return
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    run(main)
