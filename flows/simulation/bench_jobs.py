# SPDX-License-Identifier: Apache-2.0
"""Jobs of a simulated core: the beats that go in, and what must come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flows.simulation.bus.wires import bits_of
from flows.simulation.post_cases import badly_extended
from hwgen.core.core import Core
from hwgen.core.operation import RECORDS, Job, StreamPlan
from hwgen.core.post import PostSettings
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
        results = self.plan.unpack(image)
        for name, expected in self.expected.items():
            wrong = differences(results[name], expected)
            if len(wrong):
                index = tuple(int(i) for i in wrong[0])
                return (
                    (
                        f"first wrong element {name}[{','.join(map(str, index))}], expected"
                        f" {expected[index]}, got {results[name][index]}"
                    ),
                    self.plan.locate(name, index),
                    f"{len(wrong)} of {expected.size} wrong",
                )
        if short := badly_extended(self.plan, image):
            return f"{short} results are not extended as their format says", 0, "numbers are right"
        return None


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
