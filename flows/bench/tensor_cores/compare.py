# SPDX-License-Identifier: Apache-2.0
"""Tensor cores of an H100 or H200 against the rules of `accumulator: hopper`, bit by bit.

``python -m flows.bench.tensor_cores.compare [--results N] [--output DIR] [--json]``

Each instruction computes chains of four steps on the GPU, with operands and accumulators of 64
distributions: any bit patterns, finite ones, near one, half subnormal, cancelling, very small,
very large, and numbers among NaNs and infinities; accumulators from +0, -0, any patterns and so on.
Each result is compared with the rule in integer arithmetic (`compare.cu`, written independently),
131,072 of most instructions also with hwgen's golden model.  Rules that are changed in one point
must differ.  DIR gets ``table.md``, ``results.json`` and ``samples.npz``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.common import Document, markdown, parser, run
from flows.bench.tensor_cores.gpu import COLUMNS, ROWS, Gpu
from flows.bench.tensor_cores.operations import (
    OPERATIONS,
    Instruction,
    golden,
    instructions,
    mutations,
)
from flows.bench.tensor_cores.vectors import digest_of, drawn_product
from hwgen.errors import CheckFailed

STEPS = 4
"""Steps of a chain."""

MUTATED_TILES = 1 << 14
"""Tiles with which a changed rule is compared."""

VERY_SMALL = 24
"""Seeds of which samples have tiles of very small numbers, too, which tell rules of bf16 apart."""

STATES = ("nan", "infinite", "zero", "subnormal")


def golden_differences(instruction: Instruction, samples: NDArray[Any]) -> int:
    """Count results of single steps that differ from the golden model."""
    return sum(
        int((golden(instruction, step["a"], step["b"], step["c"]) != step["d"]).sum())
        for step in samples.reshape(-1)
    )


def chain_differences(instruction: Instruction, samples: NDArray[Any]) -> int:
    """Count results of whole chains that differ from the golden model."""
    count = 0
    for chain in samples:
        a, b = (np.concatenate(list(chain[side]), axis=1) for side in "ab")
        count += int((golden(instruction, a, b, chain["c"][0]) != chain["d"][-1]).sum())
    return count


def compared(
    gpu: Gpu, instruction: Instruction, results: int, seed: int
) -> tuple[Document, NDArray[Any] | None]:
    """Compare an instruction; return its row, and samples for the golden model."""
    tiles = -(-results // (ROWS * COLUMNS * STEPS))
    rule = dict(instruction.rule)
    row = gpu.compare(instruction, tiles=tiles, steps=STEPS, seed=seed, **rule)
    row.pop("by_distribution")
    row |= {"activation": instruction.activation, "weight": instruction.weight}
    row["mutations"] = {
        name: gpu.compare(instruction, tiles=MUTATED_TILES, steps=1, seed=seed, show=0, **changed)[
            "differences"
        ]
        for name, changed in mutations(instruction)
    }
    samples = None
    if instruction.core:
        samples = gpu.samples(instruction, STEPS, seed + 1)
        row["golden_results"] = samples["d"].size
        row["golden_differences"] = golden_differences(instruction, samples)
        row["golden_chain_differences"] = chain_differences(instruction, samples)
        a, b = drawn_product(instruction)
        product = gpu.multiply(instruction, a, b)
        row["product_digest"] = digest_of(product)
        row["product_differences"] = int((golden(instruction, a, b) != product).sum())
    return row, samples


def tables(rows: Sequence[Document]) -> str:
    """Return the tables of results and of changed rules."""
    counts = [
        [
            f"{row['activation']} x {row['weight']}",
            row["title"],
            *(f"{row[key]:,}" for key in ("results", *STATES, "differences")),
            f"{row['golden_differences']:,}" if "golden_differences" in row else "-",
        ]
        for row in rows
    ]
    for cells, row in zip(counts, rows, strict=True):
        if "int" in row["activation"]:
            cells[3:7] = ["-"] * len(STATES)
    changed = [
        [
            f"{row['activation']} x {row['weight']}, {row['title']}",
            "; ".join(f"{name}: {count:,}" for name, count in row["mutations"].items()),
        ]
        for row in rows
    ]
    of = MUTATED_TILES * ROWS * COLUMNS
    return (
        markdown(
            ("operands", "instruction", "results", "NaN", "infinite", "zero", "subnormal",
             "differ from the rule", "of 131,072, from the golden model"),
            counts, 2,
        )
        + "\n"
        + markdown(("operands", f"differences of changed rules, of {of:,} results"), changed)
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare all instructions and print."""
    options = parser("tensor_cores.compare", __doc__)
    options.add_argument("--results", type=int, default=10**9, help="of each instruction")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--output", type=Path, metavar="DIR", help="directory for files")
    chosen = options.parse_args(arguments)
    rows: list[Document] = []
    saved: dict[str, NDArray[Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        gpu = Gpu.open(Path(directory))
        for instruction in instructions():
            row, samples = compared(gpu, instruction, chosen.results, chosen.seed)
            rows.append({**row, "title": instruction.title})
            if samples is not None and instruction.operation in OPERATIONS:
                saved[instruction.operation] = samples
            if instruction.activation == "bf16" and instruction.operation in saved:
                seeds = range(chosen.seed + 2, chosen.seed + 2 + VERY_SMALL)
                more = [gpu.samples(instruction, STEPS, seed)[5::8] for seed in seeds]
                saved[instruction.operation] = np.concatenate([saved[instruction.operation], *more])
    document = {"gpu": gpu.name, "driver": gpu.driver, "cuda": gpu.cuda, "instructions": rows}
    text = f"{gpu.name}, driver {gpu.driver}, CUDA {gpu.cuda}\n\n{tables(rows)}"
    if chosen.output is not None:
        chosen.output.mkdir(parents=True, exist_ok=True)
        (chosen.output / "table.md").write_text(text, encoding="utf-8")
        (chosen.output / "results.json").write_text(json.dumps(document, indent=1))
        np.savez_compressed(chosen.output / "samples.npz", **saved)  # type: ignore[arg-type]
    sys.stdout.write((json.dumps(document) if chosen.json else text) + "\n")
    keys = ("differences", "golden_differences", "golden_chain_differences", "product_differences")
    if differing := sum(row.get(key, 0) for row in rows for key in keys):
        raise CheckFailed(f"{differing:,} results differ")


if __name__ == "__main__":
    run(main)
