# SPDX-License-Identifier: Apache-2.0
"""Jobs of a simulated core: the beats that go in, and what must come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flows.simulation.bus.wires import bits_of
from flows.simulation.cases import JobSpec
from flows.simulation.operands import TIES, draw_near_ties, draw_operands, draw_scalars
from flows.simulation.post_cases import badly_extended, columns_of, settings_of
from hwgen.core.core import Core
from hwgen.core.operation import RECORDS, Arrays, Job, StreamPlan
from hwgen.core.post import PostSettings
from hwgen.core.protocols import RoundingCore
from hwgen.core.schedule.stream import StreamProduct
from hwgen.formats import differences


@dataclass(frozen=True)
class BenchJob:
    """A job of a stream core: its operands, and the golden results.

    Parameters
    ----------
    core : Core
    job : Job
    operands : mapping of ndarray
    expected : mapping of ndarray
        Results by name.
    note : str
        Added to the title.
    """

    core: Core[Any]
    job: Job
    operands: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    note: str = ""

    @cached_property
    def plan(self) -> StreamPlan:
        """The beats of the job."""
        plan = self.core.schedule(self.job)
        assert isinstance(plan, StreamPlan)
        return plan

    @cached_property
    def beats(self) -> dict[str, list[tuple[str, int]]]:
        """Bits and ``tlast`` of the beats on each input port, for however many runs of the job."""
        packed = self.plan.pack(self.operands)
        return {name: list(beats_of(chunks)) for name, chunks in packed.items()}

    @property
    def title(self) -> str:
        """The job in words."""
        return f"{self.job.title}, {self.note}" if self.note else self.job.title

    def mismatch(self, image: np.ndarray) -> tuple[str, int, str] | None:
        """Return the first error, its result beat, and the number of errors; None without any."""
        if error := first_error(self.plan.unpack(image), self.expected):
            text = f"first wrong {self._tile(error)}{error.text}"
            return text, self.plan.locate(error.name, error.index), error.count
        if short := badly_extended(self.plan, image):
            return f"{short} results are not extended as their format says", 0, "numbers are right"
        return None

    def _tile(self, error: ResultError) -> str:
        """Return the tile of an element of a product in words."""
        if not isinstance(self.plan, StreamProduct):
            return ""
        m, n = error.index
        return f"tile {self.plan.locate_element(m, n)[1]}, "


@dataclass(frozen=True)
class ResultError:
    """The first element of results that differs from the golden model.

    Parameters
    ----------
    name : str
        Of the result.
    index : tuple of int
    expected, actual : object
        Its values.
    wrong, size : int
        How many elements are wrong, and how many there are.
    """

    name: str
    index: tuple[int, ...]
    expected: object
    actual: object
    wrong: int
    size: int

    @property
    def element(self) -> str:
        """The element in words."""
        return f"{self.name}[{','.join(map(str, self.index))}]"

    @property
    def text(self) -> str:
        """The error in words."""
        return f"element {self.element}, expected {self.expected}, got {self.actual}"

    @property
    def count(self) -> str:
        """The number of errors in words."""
        return f"{self.wrong} of {self.size} wrong"


def first_error(results: Arrays, expected: Arrays) -> ResultError | None:
    """Return the first element that differs in any bit, None if there is none."""
    for name, right in expected.items():
        wrong = differences(results[name], right)
        if len(wrong):
            index = tuple(int(i) for i in wrong[0])
            return ResultError(
                name, index, right[index], results[name][index], len(wrong), right.size
            )
    return None


def draw_job(core: Core[Any], spec: JobSpec, rng: np.random.Generator) -> BenchJob:
    """Return a job of a case with random operands."""
    operation = core.select_operation(spec.operation)
    sizes = dict(spec.sizes)
    if spec.pattern == TIES and isinstance(core, RoundingCore):
        operands, scalars = draw_near_ties(core, operation, sizes, rng)
    else:
        operands = draw_operands(core, operation, sizes, spec.pattern, rng)
        scalars = draw_scalars(operation, rng, spec.pattern)
    post = None
    if spec.post is not None:
        post = settings_of(core.params)[spec.post]
        columns = columns_of(post, sizes["N"], core.params, rng)
        if columns is not None:
            operands[RECORDS] = columns.encode()
    return make_job(core, operands, scalars, operation=spec.operation, post=post, note=spec.pattern)


def make_job(
    core: Core[Any],
    operands: Mapping[str, np.ndarray],
    scalars: Mapping[str, float] | None = None,
    *,
    operation: str | None = None,
    post: PostSettings | None = None,
    note: str = "",
) -> BenchJob:
    """Return a job with its golden results; records of columns are among the operands."""
    tensors = {name: array for name, array in operands.items() if name != RECORDS}
    job = core.job(tensors, scalars, operation=operation, post=post)
    return BenchJob(core, job, operands, core.golden(job, operands), note)


def beats_of(chunks: Iterator[tuple[np.ndarray, bool]]) -> Iterator[tuple[str, int]]:
    """Yield the bits and ``tlast`` of every beat of chunks, as a plan packs them."""
    for beats, last in chunks:
        *others, final = bits_of(beats.reshape(-1, beats.shape[-1]))
        yield from ((bits, 0) for bits in others)
        yield final, int(last)
