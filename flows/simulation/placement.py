# SPDX-License-Identifier: Apache-2.0
"""A job in the memory of an engine: descriptors, operands, and what must stand there after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flows.simulation.bench_jobs import BenchJob
from flows.simulation.placed_operations import place_operation
from flows.simulation.placed_products import place_product
from hwgen.core.core import Core
from hwgen.core.operation import RECORDS
from hwgen.core.post.records import Columns
from hwgen.core.registry import core_of
from hwgen.families.stream_engine.core import StreamEngineCore

ReadMemory = Callable[[int, int], Any]
"""Takes an address and a number of bytes, and returns the bytes."""


class MemoryJob(Protocol):
    """A job of an engine with its operands."""

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is to be put into memory: address and bytes."""

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents."""

    def perform(self, memory: Any) -> None:
        """Do what the job does, by the golden model: write its results into memory."""

    def spoiled(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Return the same of a job whose numbers do not agree, if the engine notices that."""

    def read(self) -> list[tuple[int, int]]:
        """Return the regions that it reads: address and bytes."""

    def written(self) -> list[tuple[int, int]]:
        """Return the regions that it writes: address and bytes."""


@dataclass(frozen=True)
class PlacedJob:
    """A job in memory.

    Parameters
    ----------
    bench : BenchJob
        The job, its operands and its golden results.
    jobs : sequence of MemoryJob
        What the engine does for it.
    results : callable
        Takes what reads memory, and returns the results by name.
    end : int
        The first address behind it.
    """

    bench: BenchJob
    jobs: Sequence[MemoryJob]
    results: Callable[[ReadMemory], dict[str, np.ndarray]]
    end: int


def source_core(core: Core[Any]) -> Core[Any]:
    """Return the core that defines the operations: that inside an engine around a stream core."""
    return core_of(core.params.compute) if isinstance(core, StreamEngineCore) else core


def place_job(
    core: Core[Any],
    bench: BenchJob,
    *,
    rng: np.random.Generator | None = None,
    base: int = 0,
    align: int = 64,
    least_traffic: bool = False,
    pages: int = 0,
    scattered: bool = False,
) -> PlacedJob:
    """Put a job into memory.

    Parameters
    ----------
    core : Core
        An engine that takes jobs.
    bench : BenchJob
    rng : numpy Generator, optional
        Draws odd addresses and strides; without it they are aligned.
    base : int
        First address.
    align : int
        Without `rng`: what the regions of a product begin at multiples of.
    least_traffic : bool
        Of the plan of a product.
    pages : int
        Without `rng`: about how many pages each port has that may have pages; 0: rows follow each
        other.
    scattered : bool
        With `rng`: whether rows lie anywhere in the address space; they may overlap.
    """
    job, operands = bench.job, bench.operands
    if isinstance(core, StreamEngineCore):
        operation, end = place_operation(
            core.params, job.operation, operands, job.scalars,
            rng=rng, base=base, title=bench.title, golden=False, pages=pages,
            scattered=scattered,
        )  # fmt: skip
        return PlacedJob(bench, operation.jobs, operation.read_results, end)
    columns = Columns.decode(operands[RECORDS]) if RECORDS in operands else None
    product, end = place_product(
        core.params, operands["activations"], operands["weights"], job.post, columns,
        expected=bench.expected.get("result"), rng=rng, base=base, align=align,
        least_traffic=least_traffic, scattered=scattered,
    )  # fmt: skip
    return PlacedJob(bench, [product], lambda read: {"result": product.results(read)}, end)
