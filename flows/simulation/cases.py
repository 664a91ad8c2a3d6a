# SPDX-License-Identifier: Apache-2.0
"""Cases of a core's regression, over jobs, values, stalls, resets and interruptions.

A case is plain data made from the core and a seed, so that it can be repeated alone.  Cases are
made from the operations, their sizes and the formats of their operands: a new family gets all of
them.  What stalls are the stream ports of a core, or the channels of its memory port.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from flows.simulation.operands import PATTERNS, TIES, WIDE
from flows.simulation.post_cases import settings_of
from hwgen.core.core import Core
from hwgen.core.operation import GEMM, Operation
from hwgen.core.port import POST
from hwgen.core.protocols import ListCore, OperandSource, RoundingCore
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.core import GemmStreamCore

PROBABILITIES = (0.0, 0.3, 0.9)
"""Of idle cycles of stream ports."""

CHANNELS = ("ar", "r", "aw", "w", "b")
CHANNEL_PROBABILITIES = (0.0, 0.3, 0.85)
"""Of idle cycles of the channels of a memory port."""

Event = Literal["", "reset", "abort", "read_error", "write_error", "mismatch"]
"""What breaks off jobs; ``mismatch``, where the numbers of one do not agree, is of some engines."""

Idle = tuple[tuple[str, float], ...]
"""Probability, for each port or channel, that a cycle is idle or not ready."""

_SEQUENCE = {True: 20, False: 12}
"""Jobs of the longest cases, of cores that multiply and of others."""

_LONGEST = 256
"""Length K of the longest products; sums reach their highest bits if ``max_k`` is not larger."""

_LENGTHS = (37, 85, 149, 219)
"""Other lengths of long products: sums of equal terms, whose bits and carries differ."""

_MANY = 130
"""Rows and columns of the longest products: more than small memories of rows have."""

_WAITING = 40
"""Rows, or tiles of columns, of products whose results wait: partial sums of many addresses."""

_ROWS = 24
"""Rows of jobs whose operands are far apart."""

_TIE_JOBS = 4
"""Jobs of an operation whose results are near ties."""

_LARGEST_OF_ROWS = 20_000
"""Arithmetic operations of such a job, unless fewer rows have as many."""

_RARE = 0.97
"""Probability of a cycle without settings, where results are to wait for them."""

_LARGEST_IN_MEMORY = 6000
"""Arithmetic operations of a job of an engine whose core has a regression of larger ones."""


@dataclass(frozen=True)
class JobSpec:
    """A job of a case.

    Parameters
    ----------
    operation : str
    sizes : tuple of (str, int)
    pattern : str
        Of the values, of `PATTERNS`.
    post : int, optional
        Which of `settings_of` it has.
    format : int, optional
        Which of the formats of an engine its operands have.
    least_traffic : bool
        Of its plan on an engine that multiplies.
    """

    operation: str
    sizes: tuple[tuple[str, int], ...]
    pattern: str = "random"
    post: int | None = None
    format: int | None = None
    least_traffic: bool = False


@dataclass(frozen=True)
class Case:
    """One test: jobs that follow each other without a pause or a reset.

    Parameters
    ----------
    name : str
        Identifies the case: ``shapes_3``, ``stalls_7``, ...
    jobs : tuple of JobSpec
    idle : Idle
    resets : tuple of int
        Of a stream core: cycles after which a run of the same jobs is cut off by a reset, before
        the run that counts.
    patient : bool
        Of a stream core: whether results are accepted only after they were offered.
    odd : bool
        In memory: whether addresses and strides are unaligned.
    scattered : bool
        In memory: whether rows lie anywhere in the address space, which folds onto a memory.
    latency : int
        Cycles of the memory.
    event : Event
        In memory: what breaks off a first run of the same jobs, before the run that counts.
    at : int
        Cycles after the submission at which it happens.
    lists : int
        Random command lists that run instead of jobs.
    """

    name: str
    jobs: tuple[JobSpec, ...] = ()
    idle: Idle = ()
    resets: tuple[int, ...] = ()
    patient: bool = False
    odd: bool = False
    scattered: bool = False
    latency: int = 1
    event: Event = ""
    at: int = 0
    lists: int = 0

    @property
    def full_rate(self) -> bool:
        """Whether nothing stalls, so that the cycle model must be exact."""
        return not self.patient and not any(probability for _, probability in self.idle)


def cases(core: Core[Any], seed: int) -> list[Case]:
    """Return the regression of a core, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(core.name.encode())])
    if isinstance(core, ListCore):
        return _list_cases(rng)
    return _memory_cases(core, rng) if core.buses else _stream_cases(core, rng)


# -- sizes -------------------------------------------------------------------------------------


def lengths(size: int, limit: int) -> list[int]:
    """Return the lengths to try along an axis of natural size `size`, at most `limit`."""
    borders = {1, 7, size - 1, size, size + 1, 3 * size + 1}
    return sorted({min(max(1, length), limit) for length in borders})


def pairwise(axes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return tuples in which every pair of values of any two of three axes occurs.

    The third index is the sum of the first two modulo the longest axis: a Latin square.  So is a
    fourth, which adds the second twice; pairs with it occur if the longest axis is odd.
    """
    period = max(len(axis) for axis in axes)
    chosen = []
    for i, j in itertools.product(range(period), repeat=2):
        indices = [i, j, *((i + k * j) % period for k in range(1, len(axes) - 1))]
        chosen.append(tuple(axis[x % len(axis)] for axis, x in zip(axes, indices, strict=True)))
    return list(dict.fromkeys(chosen))


def _axes(operation: Operation) -> list[list[int]]:
    """Return the lengths to try of each size: around the natural one, and legal multiples."""
    return [
        sorted(
            {
                min(-(-n // size.multiple), size.most // size.multiple) * size.multiple
                for n in lengths(size.natural, size.most)
            }
        )
        for size in operation.sizes
    ]


def shapes(operation: Operation) -> list[tuple[tuple[str, int], ...]]:
    """Return sizes to try."""
    axes = _axes(operation)
    names = [size.name for size in operation.sizes]
    padded = [*axes, *([[0]] * (3 - len(axes)))]  # `pairwise` needs three
    return list(
        dict.fromkeys(
            tuple(zip(names, chosen[: len(names)], strict=True)) for chosen in pairwise(padded)
        )
    )


def _largest(operation: Operation) -> tuple[tuple[str, int], ...]:
    names = [size.name for size in operation.sizes]
    return tuple(zip(names, (axis[-1] for axis in _axes(operation)), strict=True))


def _longest(operation: Operation, post: int | None = None) -> Case:
    """Return products that are long along one axis, those along K of extreme values.

    Long rows and columns are of three passes along K, so that partial sums wait for all of them.
    """
    specs = []
    for axis, length, patterns in (
        ("K", _LONGEST, ("lowest", "highest", "opposite", "random")),
        *(("K", length, ("highest", "opposite")) for length in _LENGTHS),
        ("M", _MANY, ("random",)),
        ("N", _MANY, ("random",)),
    ):
        wanted = operation.natural_sizes
        if axis != "K":
            wanted["K"] = 2 * wanted["K"] + 1
        wanted[axis] = length
        sizes = [
            (size.name, min(-(-wanted[size.name] // size.multiple), size.most // size.multiple)
             * size.multiple)
            for size in operation.sizes
        ]  # fmt: skip
        specs += [JobSpec(operation.name, tuple(sizes), pattern, post) for pattern in patterns]
    return Case("longest", tuple(specs))


def _patterns(operation: Operation) -> tuple[str, ...]:
    """Return the patterns of values that make sense for the operands."""
    has_specials = any(tensor.format.specials for tensor in operation.operands)
    return PATTERNS if has_specials else PATTERNS[:-1]


# -- stream cores ------------------------------------------------------------------------------


def _stream_cases(core: Core[Any], rng: np.random.Generator) -> list[Case]:
    ports = [port.name for port in core.ports]
    every = [
        JobSpec(operation.name, sizes)
        for operation in core.operations
        for sizes in shapes(operation)
    ]

    def draw(count: int) -> tuple[JobSpec, ...]:
        return tuple(every[i] for i in rng.integers(len(every), size=count))

    planned = [case for operation in core.operations for case in _operation_cases(operation)]
    if not isinstance(core, OperandSource):  # whose operands are of its own distribution
        planned += [Case(f"{each.name}_wide", _wide(each)) for each in core.operations
                    if each.name != GEMM]  # fmt: skip
    if isinstance(core, RoundingCore):
        planned += [Case(f"{each.name}_ties", _ties(each)) for each in core.operations]
    for i, probabilities in enumerate(pairwise([PROBABILITIES] * max(3, len(ports)))):
        planned.append(Case(f"stalls_{i}", draw(3), tuple(zip(ports, probabilities, strict=False))))
    for i in range(4):
        jobs = draw(3)
        resets = tuple(int(cycle) for cycle in rng.integers(1, _reset_range(core), size=3))
        idle = tuple((port, PROBABILITIES[i % 2]) for port in ports)
        planned.append(Case(f"reset_{i}", jobs, idle, resets))
    count = _SEQUENCE[core.params.multiplies]
    for name, probability in (("full_rate", 0.0), ("stalled", 0.3)):
        idle = tuple((port, probability) for port in ports)
        planned.append(Case(f"back_to_back_{name}", draw(count), idle))
    planned.append(Case("ready_after_valid", draw(3), patient=True))
    for operation in core.operations:
        planned += _stalled_cases(core, operation)
    return planned if core.params.post_features is None else _with_posts(core, planned)


def _operation_cases(operation: Operation) -> list[Case]:
    """Return the cases of one operation.

    Each shape of a product begins after a reset; those of other operations, of which a core has
    many, follow each other.
    """
    name, largest = operation.name, _largest(operation)
    tried = [JobSpec(name, sizes, PATTERNS[i % 2 * 6]) for i, sizes in enumerate(shapes(operation))]
    values = [JobSpec(name, largest, pattern) for pattern in _patterns(operation)]
    if name == GEMM:
        return [
            *(Case(f"shapes_{i}", (spec,)) for i, spec in enumerate(tried)),
            *(
                Case(f"values_{spec.pattern}", (spec, JobSpec(name, largest)))
                for spec in values
            ),
            _longest(operation),
        ]  # fmt: skip
    return [Case(f"{name}_shapes", tuple(tried)), Case(f"{name}_values", tuple(values))]


def _ties(operation: Operation) -> tuple[JobSpec, ...]:
    """Return jobs of many rows whose results are near ties."""
    return (JobSpec(operation.name, _many_rows(operation), TIES),) * _TIE_JOBS


def _wide(operation: Operation) -> tuple[JobSpec, ...]:
    """Return jobs of many rows whose operands are far apart, and one of random operands."""
    sizes = _many_rows(operation)
    return (*[JobSpec(operation.name, sizes, WIDE)] * 3, JobSpec(operation.name, sizes))


def _many_rows(operation: Operation) -> tuple[tuple[str, int], ...]:
    """Return the largest sizes with up to `_ROWS` rows, as long as the job stays small."""
    (first, usual), *others = _largest(operation)
    rows = max(usual, min(_ROWS, operation.sizes[0].most))
    while rows > usual and operation.work({first: rows, **dict(others)}) > _LARGEST_OF_ROWS:
        rows -= 1
    return ((first, rows), *others)


def _long_axis(operation: Operation, axis: str) -> tuple[tuple[str, int], ...]:
    """Return sizes of a product of several passes that is long along one axis."""
    sizes = []
    for size in operation.sizes:
        wanted = 2 * size.natural + 1 if size.name == "K" else size.natural
        if size.name == axis:
            wanted = _WAITING * (size.natural if axis == "N" else 1)
        counts = -(-wanted // size.multiple), size.most // size.multiple
        sizes.append((size.name, min(counts) * size.multiple))
    return tuple(sizes)


def _stalled_cases(core: Core[Any], operation: Operation) -> list[Case]:
    """Return jobs of the largest sizes whose results wait, alone and with operands that wait."""
    name, (*inputs, output) = operation.name, (port.name for port in core.ports)
    special = any(tensor.format.specials for tensor in operation.operands)
    jobs = tuple(
        JobSpec(name, _largest(operation), pattern)
        for pattern in ("random", *(["special"] if special else []))
    )
    if name == GEMM:
        jobs += tuple(JobSpec(name, _long_axis(operation, axis)) for axis in "MN")
    return [
        Case(f"{name}_waits_{i}", jobs, (*((port, others) for port in inputs), (output, 0.6)))
        for i, others in enumerate((0.0, 0.3))
    ]


def _reset_range(core: Core[Any]) -> int:
    """Return the cycles within which resets cut off jobs."""
    if core.params.multiplies:
        return 6 + sum(core.params.natural_sizes)
    return 6 + 2 * core.params.latency


def _with_posts(core: Core[Any], planned: list[Case]) -> list[Case]:
    """Give the jobs of all cases settings, in turn, and add a case for each of the settings."""
    count = len(settings_of(core.params))
    (operation,) = core.operations
    largest, smallest = _largest(operation), shapes(operation)[0]
    turns = [
        replace(
            case,
            jobs=tuple(replace(job, post=(i + k) % count) for k, job in enumerate(case.jobs)),
        )
        for i, case in enumerate(planned)
    ]
    rarely = tuple((port.name, _RARE) for port in core.ports if port.name == POST)
    return [
        *turns,
        *(
            Case(
                f"post_{i}",
                tuple(JobSpec(operation.name, each, post=i) for each in (largest, smallest)),
            )
            for i in range(count)
        ),
        Case(
            "late_settings",
            tuple(JobSpec(operation.name, smallest, post=i % count) for i in range(8)),
            rarely,
        ),
    ]


# -- memory engines ----------------------------------------------------------------------------


def _memory_cases(core: Core[Any], rng: np.random.Generator) -> list[Case]:
    multiplies = isinstance(core, GemmStreamCore)
    posts = len(settings_of(core.params)) if multiplies else 0
    every = [
        JobSpec(operation.name, sizes)
        for operation in core.operations
        for sizes in _memory_shapes(operation)
    ]

    def draw(count: int, *, least_traffic: bool = False) -> tuple[JobSpec, ...]:
        jobs = [every[i] for i in rng.integers(len(every), size=count)]
        if not posts:
            return tuple(jobs)
        chosen = [int(i) for i in rng.integers(posts, size=count)]
        return tuple(
            replace(job, post=post, least_traffic=least_traffic)
            for job, post in zip(jobs, chosen, strict=True)
        )

    planned = _product_cases(core, posts) if multiplies else _placed_cases(core, rng)
    for i in range(8):
        idle = tuple((channel, float(rng.choice(CHANNEL_PROBABILITIES))) for channel in CHANNELS)
        latency = int(rng.choice((1, 2, 17, 60)))
        jobs = draw(3, least_traffic=bool(i % 2))
        planned.append(Case(f"stalls_{i}", jobs, idle, odd=True, latency=latency))
    events: tuple[Event, ...] = ("reset", "abort", "read_error", "write_error")
    for i in range(8):
        event, idle = events[i % 4], tuple((channel, 0.3 * (i // 4)) for channel in CHANNELS)
        jobs, latency = draw(3), int(rng.choice((1, 9)))
        odd, at = bool(i & 4) or not multiplies, int(rng.integers(1, 200))
        planned.append(
            Case(
                f"{event}_{i // 4}", jobs, idle, odd=odd, latency=latency, event=event, at=at
            )
        )  # fmt: skip
    if "mismatch" in core.params.job_interface.states:
        planned += [Case(f"mismatch_{i}", draw(2), odd=True, event="mismatch") for i in range(2)]
    if multiplies:
        planned += _block_cases(core, posts)
    planned.append(Case("queue", draw(12), odd=not multiplies))
    return planned + (_format_cases(core, rng, posts) if multiplies else [])


def _memory_shapes(operation: Operation) -> list[tuple[tuple[str, int], ...]]:
    """Return sizes to try in memory; of operations whose core has a regression, small ones."""
    tried = shapes(operation)
    if operation.name == GEMM:
        return tried
    return [s for s in tried if operation.work(dict(s)) <= _LARGEST_IN_MEMORY] or tried[:1]


def _product_cases(core: Core[Any], posts: int) -> list[Case]:
    """Return cases of shapes, values and post-processing of an engine that multiplies."""
    (operation,) = core.operations
    tried, largest = shapes(operation), _largest(operation)
    patterns = PATTERNS if core.params.in_blocks else PATTERNS[:-1]  # integers have no specials
    return [
        *(
            Case(f"shapes_{i}", (JobSpec(GEMM, sizes, post=i % posts),), odd=bool(i % 2))
            for i, sizes in enumerate(tried)
        ),
        *(
            Case(
                f"values_{pattern}",
                (JobSpec(GEMM, largest, pattern, i % posts), JobSpec(GEMM, largest, post=0)),
            )
            for i, pattern in enumerate(patterns)
        ),
        *(
            Case(
                f"post_{i}",
                (JobSpec(GEMM, largest, post=i), JobSpec(GEMM, tried[0], post=i)),
                odd=True,
            )
            for i in range(posts)
        ),
        _longest(operation, 0),
        Case(
            "scattered",
            tuple(JobSpec(GEMM, sizes, post=i % posts) for i, sizes in enumerate(tried[-3:])),
            odd=True,
            scattered=True,
        ),
    ]


def _placed_cases(core: Core[Any], rng: np.random.Generator) -> list[Case]:
    """Return cases of shapes and values of an engine around a stream core."""
    planned: list[Case] = []
    rounds = isinstance(core_of(core.params.compute), RoundingCore)
    for operation in core.operations:
        small = _memory_shapes(operation)
        chosen = tuple(JobSpec(operation.name, small[i]) for i in rng.permutation(len(small))[:5])
        planned.append(Case(f"{operation.name}_shapes", chosen, odd=bool(len(planned) % 2)))
        pattern = PATTERNS[int(rng.integers(len(PATTERNS) - 1))]
        values = JobSpec(operation.name, small[-1], pattern)
        planned.append(Case(f"{operation.name}_{pattern}", (values,), odd=True))
        wide = _wide(operation)
        works = sum(operation.work(dict(spec.sizes)) for spec in wide)
        if works <= _LARGEST_IN_MEMORY * len(wide):
            planned.append(Case(f"{operation.name}_wide", wide))
            if rounds:
                planned.append(Case(f"{operation.name}_ties", _ties(operation)))
        planned.append(Case(f"{operation.name}_scattered", chosen[:3], odd=True, scattered=True))
    return planned


def _block_cases(core: Core[Any], posts: int) -> list[Case]:
    """Return jobs of several blocks along every axis, some of them in the operands' buffers."""
    m, k, n = core.params.natural_sizes
    planned = []
    for i, (rows, depth, columns) in enumerate(
        ((10 * m + 1, 9 * k + 2, 11 * n + 1), (12 * m, k, 12 * n), (5 * m, 15 * k, 12 * n))
    ):
        sizes = (("M", rows), ("K", min(depth, core.params.max_k)), ("N", columns))
        spec = JobSpec(GEMM, sizes, post=i % posts, least_traffic=i == 2)
        planned.append(Case(f"blocks_{i}", (spec,), odd=i == 0))
    return planned


def _format_cases(core: Core[Any], rng: np.random.Generator, posts: int) -> list[Case]:
    """Return cases in which jobs of each format follow one another, where there are several."""
    formats = core.params.formats
    count = len(formats)
    if count == 1:
        return []
    jobs, planned = 3 * count, []
    most = min(each.max_k for each in formats)
    for i, probability in enumerate((0.0, 0.3)):
        order = [int(number) for number in rng.permutation([*range(count)] * 3)]
        limits = (4 * core.params.m_lanes, most + 1, 20)
        sizes = rng.integers(1, limits, size=(jobs, 3)).tolist()
        patterns = [PATTERNS[int(each)] for each in rng.integers(len(PATTERNS), size=jobs)]
        which = [int(post) for post in rng.integers(posts, size=jobs)]
        specs = tuple(
            JobSpec(GEMM, tuple(zip("MKN", size, strict=True)), pattern, post, number)
            for size, pattern, post, number in zip(sizes, patterns, which, order, strict=True)
        )
        idle = tuple((channel, probability) for channel in CHANNELS)
        planned.append(Case(f"formats_{i}", specs, idle, odd=bool(i), latency=1 + 8 * i))
    return planned


# -- command lists -----------------------------------------------------------------------------


def _list_cases(rng: np.random.Generator) -> list[Case]:
    planned = [Case(f"lists_{i}", lists=6, latency=int(rng.choice((1, 2, 5)))) for i in range(4)]
    for i in range(6):
        idle = tuple((channel, float(rng.choice(CHANNEL_PROBABILITIES))) for channel in CHANNELS)
        latency = int(rng.choice((1, 2, 17, 60)))
        planned.append(Case(f"stalls_{i}", idle=idle, latency=latency, lists=4))
    events: tuple[Event, ...] = ("reset", "abort", "read_error")
    for i in range(9):
        event = events[i % 3]
        idle = tuple((channel, 0.3 * (i // 3 % 2)) for channel in CHANNELS)
        at = int(rng.integers(1, 1200))
        latency = int(rng.choice((1, 9)))
        planned.append(
            Case(f"{event}_{i // 3}", idle=idle, latency=latency, event=event, at=at, lists=2)
        )
    return planned
