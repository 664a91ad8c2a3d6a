# SPDX-License-Identifier: Apache-2.0
"""Operations from memory to memory: which bytes of which array go through which port of a core.

The plan of a core may say so itself (`MemoryLayout`); of any other one the beats lie in memory,
those of a port one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hwgen.core.operation import StreamPlan, lengths_of
from hwgen.errors import InputError
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Arrays, Job, Plan, Sizes
    from hwgen.core.port import Beats, StreamPort

    Bytes = NDArray[np.uint8]


SIZE_BITS = 24
"""Bits of the bytes of a row, of the rows of a block, and of the blocks of an access."""


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
        """Return the address of each row, in order; repeated rows more than once."""
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
    def sizes(self) -> Sizes:
        """The sizes of the job."""

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The jobs of the core, in order."""

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the arrays that jobs write."""

    def arrays(self, operands: Arrays) -> Mapping[str, Bytes]:
        """Return the arrays that jobs read, as they lie in memory."""

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results by name from the arrays that were written."""


@runtime_checkable
class MemoryLayout(Protocol):
    """A plan that says how its operands and results lie in memory."""

    def memory(self) -> MemoryPlan:
        """Return the job from memory to memory."""


@dataclass(frozen=True)
class LinearPlan:
    """The beats of a job in memory, those of each port one after the other; one job.

    Parameters
    ----------
    job : Job
    plan : StreamPlan
    ports : sequence of StreamPort
        Of the core.
    """

    job: Job
    plan: StreamPlan
    ports: Sequence[StreamPort]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the job."""
        return self.job.sizes

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The job."""
        chunks = {name: list(beats) for name, beats in self.plan.pack(self._zeros()).items()}
        arrays = {name: _joined(beats) for name, beats in chunks.items()}
        commands = {p.name: arrays[p.name].tobytes() for p in self.ports if p.per_job}
        for port in self.ports:
            if port.per_job and len(commands[port.name]) != port.beat_bytes:
                raise InputError(
                    f"port {port.name} takes more than one beat for this operation: the schedule of"
                    " the family must say how it goes from memory to memory"
                )
        reads = {
            port.name: Access(port.name, *_rows(port, chunks[port.name]))
            for port in self.ports
            if port.direction == "in" and not port.per_job and arrays[port.name].size
        }
        out = self.ports[-1]
        size = self.plan.output_beats * out.beat_bytes
        return [CoreJob(commands, reads, Access(out.name, size))]

    def _zeros(self) -> Arrays:
        """Return operands of zeros: shapes alone decide how many beats there are."""
        return {
            tensor.name: np.broadcast_to(
                np.zeros((), tensor.format.dtype), lengths_of(tensor, self.sizes)
            )
            for tensor in self.job.operation.operands
        }

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the beats of results."""
        out = self.ports[-1]
        return {out.name: self.plan.output_beats * out.beat_bytes}

    def arrays(self, operands: Arrays) -> dict[str, Bytes]:
        """Return the beats of each input port."""
        return {name: _joined(list(beats)) for name, beats in self.plan.pack(operands).items()}

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results from the beats."""
        out = self.ports[-1]
        return self.plan.unpack(images[out.name].reshape(-1, out.beat_bytes))


def _joined(chunks: Sequence[tuple[Beats, bool]]) -> Bytes:
    """Return the bytes of beats."""
    return np.concatenate([*(beats.reshape(-1) for beats, _ in chunks), np.zeros(0, np.uint8)])


def _rows(port: StreamPort, chunks: Sequence[tuple[Beats, bool]]) -> tuple[int, int, int]:
    """Return bytes of a row, rows and stride; rows end where ``tlast`` is set."""
    if not port.last:
        return sum(beats.size for beats, _ in chunks), 1, 0
    lengths, length = [], 0
    for beats, last in chunks:
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


def memory_plan(job: Job, plan: Plan, ports: Sequence[StreamPort]) -> MemoryPlan:
    """Return the plan of a job from memory to memory, by its plan on a stream core."""
    if isinstance(plan, MemoryLayout):
        return plan.memory()
    assert isinstance(plan, StreamPlan)
    return LinearPlan(job, plan, ports)


_HALF = 4  # bits of half a byte


def image(fmt: Any, values: NDArray[Any]) -> Bytes:
    """Return the bytes of numbers in C order.

    Lanes have 8, 16 or 32 bits; or 4, two of which share a byte, the first its lower half.
    """
    if fmt.lane_width == _HALF:
        low, high = fmt.encode(values).astype(np.uint8).reshape(-1, 2).T
        return np.ascontiguousarray(low | high << _HALF)
    encoded = np.ascontiguousarray(fmt.encode(values).astype(f"<u{fmt.lane_width // 8}"))
    return encoded.reshape(-1).view(np.uint8)


def numbers(fmt: Any, data: Bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return numbers from the bytes that `image` makes."""
    if fmt.lane_width == _HALF:
        halves = np.stack([data & 15, data >> _HALF], axis=-1)
        return np.asarray(fmt.decode(halves).reshape(shape).astype(fmt.dtype))
    encoded = np.ascontiguousarray(data).view(f"<u{fmt.lane_width // 8}")
    result: NDArray[Any] = fmt.decode(encoded).reshape(shape).astype(fmt.dtype)
    return result
