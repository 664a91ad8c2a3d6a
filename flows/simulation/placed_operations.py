# SPDX-License-Identifier: Apache-2.0
"""Operations in the memory of an engine: where arrays are put, and what must stand there after.

Nothing here knows how the engine is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flows.simulation.bench_jobs import first_error
from flows.simulation.placed_products import LARGEST_ADDRESS
from hwgen.core.operation import Operation
from hwgen.core.registry import core_of
from hwgen.core.schedule.memory import Access, MemoryPlan
from hwgen.families.stream_engine.golden import execute
from hwgen.families.stream_engine.jobs import TAIL, RowRegion, StreamJob
from hwgen.families.stream_engine.params import StreamEngineConfig
from hwgen.families.stream_engine.registers import ENTRY_BYTES

ALIGNMENT = 64
"""Regions of memory begin at multiples of it, unless places are drawn."""


@dataclass(frozen=True)
class PlacedJob:
    """A job of the core with its operands.

    Parameters
    ----------
    job : StreamJob
    sources : tuple of (RowRegion, bytes)
        Rows that are read, and what stands there, row by row.
    results : tuple of (RowRegion, Access)
        Rows that are written, and where they belong in the arrays of results.
    """

    job: StreamJob
    sources: tuple[tuple[RowRegion, tuple[bytes, ...]], ...]
    results: tuple[tuple[RowRegion, Access], ...]

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is to be put into memory: address and bytes."""
        for place, rows in self.sources:
            yield from zip((address for address, _ in place.spans()), rows, strict=True)
            if place.table:
                yield place.table, place.entries(self.job.config.memory_bytes)

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents."""
        return self.job.writes()

    def perform(self, memory: Any) -> None:
        """Do what the job does, by the golden model."""
        execute(self.job.config, self.job.register_values(), memory)

    def spoiled(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Return the same of a job whose numbers do not agree: beats are missing, or left over."""
        names = [name for name in self.job.regions if name != TAIL]
        name = names[int(rng.integers(len(names) - 1))]  # of an operand
        place = self.job.regions[name]
        more = RowRegion(place.address, place.row_bytes, place.rows * place.blocks + 99)
        less = {key: each for key, each in self.job.regions.items() if key != name}
        other = {**less, name: more} if rng.random() < 0.5 else less
        return replace(self.job, regions=other).writes()

    def written(self) -> list[tuple[int, int]]:
        """Return the regions that the job writes: address and bytes."""
        return self.job.written()

    def read(self) -> list[tuple[int, int]]:
        """Return the regions that the job reads."""
        result = [span for place, _ in self.sources for span in place.spans()]
        tables = [place for place, _ in self.sources if place.table]
        return result + [(place.table, ENTRY_BYTES * place.blocks) for place in tables]


@dataclass(frozen=True)
class PlacedOperation:
    """An operation with its jobs.

    Parameters
    ----------
    title : str
    plan : MemoryPlan
    jobs : tuple of PlacedJob
    expected : mapping of ndarray
        Results by name.
    """

    title: str
    plan: MemoryPlan
    jobs: tuple[PlacedJob, ...]
    expected: Mapping[str, np.ndarray]

    def read_results(self, read: Callable[[int, int], Any]) -> dict[str, np.ndarray]:
        """Return the results from memory; `read` takes an address and a length."""
        arrays = {name: np.zeros(size, np.uint8) for name, size in self.plan.result_bytes.items()}
        for job in self.jobs:
            for place, access in job.results:
                pairs = zip(place.addresses(), access.addresses(), strict=True)
                for address, at in pairs:
                    row = np.frombuffer(bytes(read(address, place.row_bytes)), np.uint8)
                    arrays[access.array][at : at + place.row_bytes] = row
        return self.plan.unpack(arrays)

    def check(self, read: Callable[[int, int], Any]) -> None:
        """Raise AssertionError unless all results are as expected."""
        if error := first_error(self.read_results(read), self.expected):
            raise AssertionError(f"{self.title}: first wrong {error.text}; {error.count}")


def place_operation(
    config: StreamEngineConfig,
    operation: Operation,
    operands: Mapping[str, np.ndarray],
    scalars: Mapping[str, float],
    *,
    rng: np.random.Generator | None = None,
    base: int = 0,
    title: str = "",
    golden: bool = True,
    pages: int = 0,
    scattered: bool = False,
) -> tuple[PlacedOperation, int]:
    """Put an operation into memory.

    Parameters
    ----------
    config : StreamEngineConfig
    operation, operands, scalars
    rng : numpy Generator, optional
        Draws odd addresses and strides; without it arrays lie as they are, aligned.
    base : int
        First address.
    title : str
    golden : bool
        Whether to compute what is expected.
    pages : int
        Without `rng`: how many each port has that may have pages, about; 0: rows follow each other.
    scattered : bool
        With `rng`: whether rows lie anywhere in the address space; they may overlap.

    Returns
    -------
    PlacedOperation, int
        And the first address behind everything.
    """
    core = core_of(config)
    work = core.job(operands, scalars, operation=operation.name)
    plan: MemoryPlan = core.schedule(work)  # type: ignore[assignment]
    arrays, at, bases = plan.arrays(operands), base, {}
    if rng is None:
        for name, size in [*((n, a.size) for n, a in arrays.items()), *plan.result_bytes.items()]:
            at = -(-at // ALIGNMENT) * ALIGNMENT
            bases[name] = at
            at += size
    jobs = []
    for job in plan.jobs:
        accesses = dict(job.reads)
        accesses[config.results[0].name] = job.result
        if job.tail is not None:
            accesses[TAIL] = job.tail
        places = {}
        results_in = 1  # blocks of results, and of what follows them
        for name, access in accesses.items():
            if rng is not None:
                blocks = _blocks(access, rng)
                if name not in job.reads:
                    results_in = blocks if name != TAIL else results_in
                    blocks = results_in
            paged = name in config.paged
            if rng is None and not (paged and pages):
                places[name] = RowRegion.of(access, bases[access.array])
            elif rng is None:
                beat, start = _beat(config, name), -(-at // ALIGNMENT) * ALIGNMENT
                whole = access.size
                size = beat * -(-whole // (beat * pages))
                order = range(-(-whole // size))[::-1]
                places[name], at = _pages(config, access, start, size, 0, order, 0)
            elif scattered:
                places[name] = _scattered(config, access, blocks, rng)
            elif paged and rng.random() < 0.8:
                places[name], at = _drawn_pages(config, name, access, at, rng)
            else:
                places[name], at = _drawn(access, at, blocks, rng)
        sources = tuple(
            (places[name], _cut(places[name], _rows(access, arrays[access.array])))
            for name, access in job.reads.items()
        )
        results = tuple((p, accesses[n]) for n, p in places.items() if n not in job.reads)
        jobs.append(PlacedJob(StreamJob(config, job.commands, places), sources, results))
    expected = {}
    if golden:
        expected = core.golden(work, operands)
    return PlacedOperation(title or operation.name, plan, tuple(jobs), expected), at


def _rows(access: Access, array: np.ndarray) -> tuple[bytes, ...]:
    return tuple(array[at : at + access.row_bytes].tobytes() for at in access.addresses())


def _cut(region: RowRegion, rows: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each row, or of each page."""
    if not region.table:
        return rows
    whole, result = b"".join(rows), []
    for _, size in region.spans():
        result.append(whole[:size])
        whole = whole[size:]
    return tuple(result)


def _beat(config: StreamEngineConfig, name: str) -> int:
    return next(port.beat_bytes for port in config.tables if port.name == name)


def _drawn_pages(
    config: StreamEngineConfig, name: str, access: Access, at: int, rng: np.random.Generator
) -> tuple[RowRegion, int]:
    """Return pages in any order for rows of whole beats, and the first address behind them."""
    beat = _beat(config, name)
    size = access.size
    page = beat * int(rng.integers(1, 1 + max(1, size // beat)))
    skip = beat * int(rng.integers(page // beat))
    order = [int(place) for place in rng.permutation(-(-(skip + size) // page))]
    base, gap = at + int(rng.integers(0, 70)), int(rng.integers(9))
    return _pages(config, access, base, page, skip, order, gap)


def _pages(
    config: StreamEngineConfig, access: Access, base: int, page: int, skip: int,
    order: Sequence[int], gap: int,
) -> tuple[RowRegion, int]:  # fmt: skip
    """Return pages of so many bytes and their table behind them, and the first address behind."""
    size, unit = access.size, config.memory_bytes
    count, distance = len(order), -(-page // unit) * unit  # from a page to the next one, at least
    table = ENTRY_BYTES * (-(-(base + count * distance) // ENTRY_BYTES) + gap)
    last = skip + size - (count - 1) * page
    places = [place * distance for place in order]
    place = RowRegion.paged(base, page, places, table, skip=skip, last=last)
    return place, table + ENTRY_BYTES * count


def _blocks(access: Access, rng: np.random.Generator) -> int:
    """Return into how many blocks rows go."""
    if access.blocks > 1:
        return access.blocks
    fits = [blocks for blocks in range(1, access.rows + 1) if access.rows % blocks == 0]
    return fits[int(rng.integers(len(fits)))]


def _scattered(
    config: StreamEngineConfig, access: Access, blocks: int, rng: np.random.Generator
) -> RowRegion:
    """Return a place for rows that are as far from each other as the address space allows."""
    half = 1 << min(32, config.memory.address_width) - 2
    rows, least = access.rows * access.blocks // blocks, access.row_bytes
    again = not access.stride and access.rows > 1
    repeats = not access.step if access.blocks > 1 else again
    stride, step = (
        0 if same else int(rng.integers(least, max(least + 1, half // (count + 1))))
        for same, count in ((again, rows), (repeats, blocks))
    )
    space = (1 << min(LARGEST_ADDRESS, config.memory.address_width)) - 2 * half
    return RowRegion(int(rng.integers(space)), access.row_bytes, rows, stride, blocks, step)


def _drawn(access: Access, at: int, blocks: int, rng: np.random.Generator) -> tuple[RowRegion, int]:
    """Return an odd place for rows, and the first address behind it."""
    slack, gap, space = (int(x) for x in rng.integers(0, 70, 3))
    at += slack
    rows = access.rows * access.blocks // blocks
    again = not access.stride and access.rows > 1
    stride = 0 if again else access.row_bytes + gap
    end = (rows - 1) * stride + access.row_bytes
    repeats = not access.step if access.blocks > 1 else again
    step = 0 if repeats else end + space
    place = RowRegion(at, access.row_bytes, rows, stride, blocks, step)
    return place, at + (blocks - 1) * step + end + 1
