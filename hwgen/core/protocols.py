# SPDX-License-Identifier: Apache-2.0
"""Protocols of optional capabilities of cores; test with `isinstance`.

An engine finds out by these protocols what the cores inside it offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from hwgen.core.cycles.core_flow import CoreFlow
    from hwgen.core.cycles.unit_job import UnitJob
    from hwgen.core.lists.golden import Memory
    from hwgen.core.memories import Buffer, Use
    from hwgen.core.operation import Array, Arrays, Job, Operation, Sizes
    from hwgen.core.port import Beats, StreamPort
    from hwgen.formats import NumberFormat

    Size = tuple[int, int, int]
    """M, K and N of one product."""


@runtime_checkable
class TileCore(Protocol):
    """A core that can multiply inside a memory engine."""

    def core_flow(self) -> CoreFlow:
        """Return the flow of beats through a core that has been reset."""


@runtime_checkable
class CommandCore(Protocol):
    """A stream core whose jobs are described by a beat of a command port."""

    def command_cycles(self, words: Sequence[int]) -> int:
        """Return the cycles of the job of a command, by its words."""

    def respond(self, beats: Mapping[str, Beats]) -> Beats:
        """Return the result beats, shape (count, bytes), of a job's beats by input port."""


@runtime_checkable
class JobCore(Protocol):
    """An engine whose jobs are described by registers and wait in a queue."""

    def register_cycles(self, registers: Mapping[str, int]) -> UnitJob:
        """Return the cycles and traffic of a job, by the contents of its job window."""

    def execute(self, registers: Mapping[str, int], memory: Memory) -> None:
        """Compute the job that the contents of a job window describe, in a memory.

        Raises
        ------
        MemoryFault
            By the memory, if an access is outside it.
        ValueError
            If the registers contradict each other.
        """


@runtime_checkable
class BufferedCore(Protocol):
    """An engine that multiplies, with buffers whose accesses are counted."""

    def buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers, each as the memories of its RTL."""

    def memory_use(self, jobs: Sequence[Job]) -> Use:
        """Return the accesses of products to the buffers and to the memory port."""

    def weight_bytes(self, size: Size) -> int:
        """Return the bytes of the weights of a product in memory, each read once."""


@runtime_checkable
class ListCore(Protocol):
    """An engine that executes command lists."""

    def list_cycles(self, jobs: int = 1) -> int:
        """Return the cycles that a list of jobs takes beside the jobs; modelled."""


@runtime_checkable
class OperandSource(Protocol):
    """A core whose regression needs operands of its own distribution."""

    def draw_operands(
        self, operation: Operation, sizes: Sizes, pattern: str, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Return operands by name.

        Parameters
        ----------
        operation : Operation
        sizes : mapping of int
        pattern : str
            ``random``, ``sparse``, ``zero``, ``lowest``, ``highest``, ``opposite`` or
            ``alternating``.
        rng : numpy.random.Generator
        """


@runtime_checkable
class RoundingCore(Protocol):
    """A core that rounds its results once, at the end, and can compute them without that."""

    def unrounded(self, job: Job, operands: Arrays) -> tuple[Array, NumberFormat] | None:
        """Return results before they are rounded, and the format that they are rounded to.

        Parameters
        ----------
        job : Job
        operands : mapping of ndarray

        Returns
        -------
        (ndarray of float64, NumberFormat) or None
            The numbers of the main result; None if it is not rounded.
        """


@runtime_checkable
class WeightPacker(Protocol):
    """A plan that packs weights into an image, and reads them back."""

    def pack_weights(self, w: Array) -> Beats:
        """Return the image of W, shape (k, n)."""

    def unpack_weights(self, image: Beats) -> Array:
        """Return W, shape (k, n), from its image."""


@runtime_checkable
class BeatCounter(Protocol):
    """A plan that counts the beats of its ports without packing operands."""

    def input_beats(self, port: StreamPort) -> int:
        """Return the beats that the job takes from an input port."""

    @property
    def output_beats(self) -> int:
        """Beats of results."""


@runtime_checkable
class ResultPacker(Protocol):
    """A plan that packs results into the beats that its core sends.

    A plan whose results each have a lane to themselves does not need it.
    """

    def pack_results(self, results: Arrays) -> tuple[Beats, Beats]:
        """Return result beats and a mask of their specified bits, shape (output_beats, bytes)."""
