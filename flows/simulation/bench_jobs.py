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
from hwgen.core.operation import Plan
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import Family
from hwgen.core.schedule.stream import pack_inputs, stream_input
from hwgen.formats import differences


@dataclass(frozen=True)
class Job:
    """One product: its operands, and what the core must answer."""

    schedule: Any
    a: np.ndarray
    w: np.ndarray
    expected: np.ndarray

    @cached_property
    def beats(self) -> dict[str, list[tuple[str, int]]]:
        """Bits and ``tlast`` of the beats on each input port, for however many runs of the job."""
        blocks = pack_inputs(self.schedule, self.a, self.w)
        return {
            port.name: list(beats_of(stream_input(self.schedule, port, blocks[port.name])))
            for port in self.schedule.config.ports
            if port.direction == "in"
        }

    @property
    def title(self) -> str:
        """What the job is, in words."""
        return f"{self.schedule.m}x{self.schedule.k}x{self.schedule.n}"

    def mismatch(self, image: np.ndarray) -> tuple[str, int, str] | None:
        """Return what is wrong first, in which result beat, and how much; None if nothing is."""
        got = self.schedule.unpack_outputs(image)
        wrong = differences(got, self.expected)
        if len(wrong):
            m, n = (int(i) for i in wrong[0])
            beat, tile = self.schedule.locate(m, n)
            return (
                (
                    f"first wrong tile {tile}, element C[{m},{n}], expected {self.expected[m, n]},"
                    f" got {got[m, n]}"
                ),
                beat,
                f"{len(wrong)} of {got.size} wrong",
            )
        if short := badly_extended(self.schedule, image):
            return f"{short} results are not extended as their format says", 0, "numbers are right"
        return None


@dataclass(frozen=True)
class OperationJob:
    """A job that is no product of matrices, with its golden results; see `Job`."""

    config: FamilyConfig
    title: str
    schedule: Plan
    expected: Mapping[str, np.ndarray]

    @cached_property
    def beats(self) -> dict[str, list[tuple[str, int]]]:
        """Bits and ``tlast`` of the beats on each input port."""
        return {
            port.name: list(beats_of(self.schedule.stream(port)))
            for port in self.config.ports
            if port.direction == "in"
        }

    def mismatch(self, image: np.ndarray) -> tuple[str, int, str] | None:
        """Return what is wrong first, in which result beat, and how much; None if nothing is."""
        results = self.schedule.unpack(image)
        for name, expected in self.expected.items():
            wrong = differences(results[name], expected)
            if len(wrong):
                index = tuple(int(i) for i in wrong[0])
                return (
                    (
                        f"first wrong element {name}[{','.join(map(str, index))}], expected"
                        f" {expected[index]}, got {results[name][index]}"
                    ),
                    self.schedule.locate(name, index),
                    f"{len(wrong)} of {expected.size} wrong",
                )
        return None


def make_job(
    family: Family, config: FamilyConfig, a: np.ndarray, w: np.ndarray, post: tuple[Any, ...] = ()
) -> Job:
    """Return the job ``a . w`` with its golden result; `post` is of settings and columns."""
    sizes = a.shape[0], a.shape[1], w.shape[1]
    plan = family.part("schedule").schedule(config, *sizes, *post)
    return Job(plan, a, w, family.part("golden").golden(config, a, w, *post))


def beats_of(chunks: Iterator[tuple[np.ndarray, bool]]) -> Iterator[tuple[str, int]]:
    """Yield the bits and ``tlast`` of every beat of chunks, as `stream_input` gives them."""
    for beats, last in chunks:
        *others, final = bits_of(beats.reshape(-1, beats.shape[-1]))
        yield from ((bits, 0) for bits in others)
        yield final, int(last)
