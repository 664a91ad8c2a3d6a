# SPDX-License-Identifier: Apache-2.0
"""Operations from memory to memory: which bytes of which array go through which port of a core.

A plan of a family (`hwgen.core.operation.Plan`) may say so by a method ``memory()``; of any other
one the beats themselves lie in memory, those of a port one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.port import Beats, StreamPort

    Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Access:
    """Rows of bytes of an array, block by block.

    Parameters
    ----------
    array : str
    row_bytes : int
    rows, blocks : int
        Rows of a block, and blocks.
    stride, step : int
        Bytes from one row to the next, and from one block to the next; 0: the same again.
    offset : int
        Byte at which the first row begins.
    """

    array: str
    row_bytes: int
    rows: int = 1
    stride: int = 0
    blocks: int = 1
    step: int = 0
    offset: int = 0

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return self.row_bytes * self.rows * self.blocks

    def addresses(self, base: int = 0) -> list[int]:
        """Return where each row begins, in order; repeated rows more than once."""
        start = base + self.offset
        return [
            start + block * self.step + row * self.stride
            for block in range(self.blocks)
            for row in range(self.rows)
        ]


@dataclass(frozen=True)
class CoreJob:
    """One job of a core.

    Parameters
    ----------
    commands : mapping of bytes
        The beat of each port that takes one a job.
    reads : mapping of Access
        What goes through each other input port that the job uses.
    result : Access
    tail : Access or None
        What follows the rows of results.
    """

    commands: Mapping[str, bytes]
    reads: Mapping[str, Access]
    result: Access
    tail: Access | None = None


class MemoryPlan(Protocol):
    """An operation from memory to memory."""

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The jobs of the core, in order."""

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the arrays that jobs write."""

    def arrays(self) -> Mapping[str, Bytes]:
        """Return the arrays that jobs read."""

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results by name from the arrays that were written."""


@dataclass(frozen=True)
class LinearPlan:
    """The beats of a plan, those of each port one behind the other; one job.

    Parameters
    ----------
    plan : hwgen.core.operation.Plan
    ports : sequence of StreamPort
        Of the core.
    """

    plan: Any
    ports: Sequence[StreamPort]

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The job."""
        arrays = self.arrays()
        commands = {p.name: arrays[p.name].tobytes() for p in self.ports if p.per_job}
        for port in self.ports:
            if port.per_job and len(commands[port.name]) != port.beat_bytes:
                raise InputError(
                    f"port {port.name} takes more than one beat for this operation: the schedule of"
                    " the family must say how it goes from memory to memory"
                )
        reads = {
            port.name: Access(port.name, *self._rows(port, arrays[port.name].size))
            for port in self.ports
            if port.direction == "in" and not port.per_job and arrays[port.name].size
        }
        out = self.ports[-1]
        size = self.plan.output_beats * out.beat_bytes
        return [CoreJob(commands, reads, Access(out.name, size))]

    def _rows(self, port: StreamPort, size: int) -> tuple[int, int, int]:
        """Return bytes of a row, rows and stride; rows end where ``tlast`` is set."""
        if not port.last:
            return size, 1, 0
        lengths, length = [], 0
        for beats, last in self.plan.stream(port, None):
            length += beats.size
            if last:
                lengths.append(length)
                length = 0
        if length or len(set(lengths)) != 1:
            raise InputError(
                f"port {port.name} has rows of several lengths for this operation: the schedule of"
                " the family must say how it goes from memory to memory"
            )
        return lengths[0], len(lengths), lengths[0]

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the beats of results."""
        out = self.ports[-1]
        return {out.name: self.plan.output_beats * out.beat_bytes}

    def arrays(self) -> dict[str, Bytes]:
        """Return the beats of each input port."""
        found = {}
        for port in self.ports:
            if port.direction == "in":
                parts = [beats.reshape(-1) for beats, _ in self.plan.stream(port, None)]
                found[port.name] = np.concatenate([*parts, np.zeros(0, np.uint8)])
        return found

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results from the beats."""
        out = self.ports[-1]
        beats: Beats = images[out.name].reshape(-1, out.beat_bytes)
        found: dict[str, NDArray[Any]] = self.plan.unpack(beats)
        return found


def memory_plan(plan: Any, ports: Sequence[StreamPort]) -> MemoryPlan:
    """Return how a plan goes from memory to memory."""
    if hasattr(plan, "memory"):
        found: MemoryPlan = plan.memory()
        return found
    return LinearPlan(plan, ports)


def image(fmt: Any, values: NDArray[Any]) -> Bytes:
    """Return the bytes of numbers, whose format has 8, 16 or 32 bits, in C order."""
    encoded = np.ascontiguousarray(fmt.encode(values).astype(f"<u{fmt.width // 8}"))
    return encoded.reshape(-1).view(np.uint8)


def numbers(fmt: Any, data: Bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return numbers from the bytes that `image` makes."""
    encoded = np.ascontiguousarray(data).view(f"<u{fmt.width // 8}")
    found: NDArray[Any] = fmt.decode(encoded).reshape(shape).astype(fmt.dtype)
    return found
