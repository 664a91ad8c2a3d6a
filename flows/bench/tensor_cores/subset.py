# SPDX-License-Identifier: Apache-2.0
"""A compact subset of measured results, for tests.

``python -m flows.bench.tensor_cores.subset SAMPLES.npz RESULTS.json OUTPUT.npz``

Of each instruction: single steps whose results tell the rule from others, among them those with
special operands; chains of four steps from +0, small matrices; and the digest of a larger product.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.bench.common import parser, run
from flows.bench.tensor_cores.changed_rules import CHANGES, changed_model
from flows.bench.tensor_cores.operations import OPERATIONS, Instruction, by_operation, golden
from flows.bench.tensor_cores.vectors import Measured
from hwgen.formats import floating

EACH, ROWS, COLUMNS = 6, 8, 8
"""Results of a reason to take them, and size of the matrices of chains."""

Choice = NDArray[np.bool_]


class Steps(NamedTuple):
    """Single results: a row, a column, C and D each."""

    a: NDArray[np.uint8]
    b: NDArray[np.uint8]
    c: NDArray[np.uint32]
    d: NDArray[np.uint32]


def reasons(instruction: Instruction, step: Any, models: Sequence[ModuleType]) -> Iterator[Choice]:
    """Yield masks of the results of a step of a tile that are worth having."""
    a, b, c, d = (step[key] for key in "abcd")
    if instruction.is_integer:
        signed = c.view(np.int32).astype(np.int64)
        wraps = np.asarray(signed + golden(instruction, a, b).view(np.int32) != d.view(np.int32))
        yield wraps
        yield ~wraps
        return
    for model in models:
        yield golden(instruction, a, b, c, model=model) != d
    magnitude = d & 0x7FFFFFFF
    finite = (c & 0x7FFFFFFF) < 0x7F800000
    formats = floating(instruction.activation), floating(instruction.weight)
    x, y = (
        fmt.to_float64(np.ascontiguousarray(lines).view(f"<u{fmt.width // 8}"))
        for fmt, lines in zip(formats, (a, b), strict=True)
    )
    none: Choice = magnitude > 0x7F800000
    rows, columns = (np.asarray(np.isnan(part).any(axis=1)) for part in (x, y))
    numbers: Choice = ~rows[:, np.newaxis] & ~columns
    rows, columns = (np.asarray(np.isinf(part).any(axis=1)) for part in (x, y))
    infinite: Choice = rows[:, np.newaxis] | columns
    yield none & numbers & finite  # infinities times zeros, or of both signs
    yield none & ~numbers & finite
    yield none & numbers & ~finite
    yield (magnitude == 0x7F800000) & infinite
    yield (magnitude == 0x7F800000) & ~infinite & finite  # overflow
    yield (magnitude > 0) & (magnitude < 0x800000)
    yield magnitude == 0
    yield (c == 0x80000000) & ~none
    yield numbers & ~infinite & finite


def chosen_steps(instruction: Instruction, samples: NDArray[Any], rng: Any) -> Steps:
    """Return the single steps of an instruction."""
    flat = samples.reshape(-1)
    models = [changed_model(name) for name in CHANGES]
    by_step = (reasons(instruction, step, models) for step in flat)
    places: set[tuple[int, ...]] = set()
    for masks in zip(*by_step, strict=True):
        where = np.argwhere(np.stack(masks))
        for place in where[rng.permutation(len(where))[:EACH]]:
            places.add(tuple(map(int, place)))
    ordered = sorted(places)
    return Steps(
        np.stack([flat[i]["a"][row] for i, row, _ in ordered]),
        np.stack([flat[i]["b"][col] for i, _, col in ordered]),
        np.array([flat[i]["c"][row, col] for i, row, col in ordered], np.uint32),
        np.array([flat[i]["d"][row, col] for i, row, col in ordered], np.uint32),
    )


def chosen_chains(samples: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return rows, columns and results of chains that begin with +0."""
    chains = [chain for chain in samples if not chain[0]["c"][:ROWS, :COLUMNS].any()][:8]
    a, b = (
        np.stack([np.concatenate(list(chain[side][:, :size]), axis=1) for chain in chains])
        for side, size in (("a", ROWS), ("b", COLUMNS))
    )
    return a, b, np.stack([chain[-1]["d"][:ROWS, :COLUMNS] for chain in chains])


def integer_chains(instruction: Instruction, samples: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the same of integers, whose samples begin with large numbers: less these."""
    chain = samples[3]
    a, b = (np.concatenate(list(chain[side][:, :8]), axis=1) for side in "ab")
    return a[None], b[None], (chain[-1]["d"][:8, :8] - chain[0]["c"][:8, :8])[None]


def save_subset(samples: Path, results: Path, output: Path) -> None:
    """Choose and save."""
    document = json.loads(results.read_text(encoding="utf-8"))
    arrays: dict[str, NDArray[Any]] = {}
    rng = np.random.default_rng(0)
    with np.load(samples) as file:
        for name in OPERATIONS:
            instruction, taken = by_operation()[name], file[name]
            for key, array in chosen_steps(instruction, taken, rng)._asdict().items():
                arrays[f"{name}.step.{key}"] = array
            chains = (
                integer_chains(instruction, taken)
                if instruction.is_integer
                else chosen_chains(taken)
            )
            for key, array in zip("abd", chains, strict=True):
                arrays[f"{name}.chain.{key}"] = array
    arrays["source"] = np.array(
        f"{document['gpu']}, driver {document['driver']}, CUDA {document['cuda']}"
    )
    digests = {
        row["operation"]: row["product_digest"]
        for row in document["instructions"]
        if "product_digest" in row
    }
    arrays["digests"] = np.array(json.dumps(digests))
    np.savez_compressed(output, **arrays)  # type: ignore[arg-type]


def subset_vectors(path: Path) -> Iterator[Measured]:
    """Yield the results of a subset: single steps as products of one row and one column."""
    with np.load(path) as file:
        for name in OPERATIONS:
            instruction = by_operation()[name]
            for a, b, c, d in zip(*(file[f"{name}.step.{key}"] for key in "abcd"), strict=True):
                yield Measured(instruction, a[None], b[None], c[None, None], d[None, None])
            for a, b, d in zip(*(file[f"{name}.chain.{key}"] for key in "abd"), strict=True):
                yield Measured(instruction, a, b, None, d)


def digests(path: Path) -> dict[str, str]:
    """Return the digests of the products of seeds, by operation."""
    with np.load(path) as file:
        text = str(file["digests"])
    return dict(json.loads(text))


def main(arguments: Sequence[str] | None = None) -> None:
    """Choose a subset."""
    options = parser("tensor_cores.subset", __doc__)
    for name in ("samples", "results", "output"):
        options.add_argument(name, type=Path)
    chosen = options.parse_args(arguments)
    save_subset(chosen.samples, chosen.results, chosen.output)


if __name__ == "__main__":
    run(main)
