# SPDX-License-Identifier: Apache-2.0
"""The host of an engine on a board: its memory, its registers, and jobs.

```python
from hwgen.board import connect_engine

with connect_engine("/dev/ttyUSB1", core) as board:  # or a simulated board
    board.write_memory(0, data)
    print(board.read_register("ID"))
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hwgen.board.link import Feed, Link, opened
from hwgen.board.memory_commands import WORD_BYTES, Command, Outcome, command_words
from hwgen.board.ports import BAUD, BoardError, Transport
from hwgen.errors import InputError
from hwgen.lazy import np

if TYPE_CHECKING:
    from hwgen.core.core import Core

WORDS = 1024
"""Words of a command for longer ranges."""


class MemoryJob(Protocol):
    """A job in the memory of an engine, as `flows.simulation.placement` makes it."""

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is to be put into memory: address and bytes."""

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents."""


class EngineBoard(Link):
    """A connected board with an engine on memory; see `connect_engine`.

    A reset leaves the contents of the memory undefined.
    """

    def __init__(
        self,
        transport: Transport,
        core: Core[Any],
        *,
        timeout: float,
        retries: int,
        patience: float = 2.0,
    ) -> None:
        super().__init__(transport, core, timeout=timeout, retries=retries)
        self._patience = patience
        self._registers = {each.name: each.offset for each in core.params.registers}

    # -- memory and registers --------------------------------------------------------------------

    def command(
        self,
        command: Command,
        address: int,
        count: int,
        data: bytes = b"",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> bytes:
        """Execute a command, and return what it reads.

        Parameters
        ----------
        command : Command
        address : int
            A multiple of 4.
        count : int
            Words.
        data : bytes
            The words that it writes.
        on_progress : callable, optional
            Gets the bytes that have come, and in all.

        Raises
        ------
        BoardError
            If an access is answered with an error, or the board does not answer.
        """
        head = np.array(command_words(command, address, count), "<u4").tobytes()
        beats = np.frombuffer(head + data, np.uint8).reshape(-1, WORD_BYTES)
        wanted = WORD_BYTES * (1 if data else count + 1)
        feed = Feed(iter([(beats, False)]), WORD_BYTES, marks=False)
        answer = self.transfer([feed], wanted, self._patience, on_progress)
        outcome = int.from_bytes(answer[-WORD_BYTES:], "little")
        if outcome != Outcome.OK:
            self.reset()
            known = [each.name for each in Outcome if each == outcome]
            reason = known[0].lower().replace("_", " ") if known else f"outcome {outcome}"
            what = command.name.lower().replace("_", " ")
            raise BoardError(f"{what} of {count} words at {address:#x}: {reason}")
        return answer[:-WORD_BYTES]

    def state(self) -> tuple[bool, bool]:
        """Return whether the memory has started, and the interrupt."""
        word = int.from_bytes(self.command(Command.STATE, 0, 1), "little")
        return bool(word & 1), bool(word & 2)

    def read_memory(self, address: int, size: int) -> bytes:
        """Return bytes of the memory at any address."""
        start = address // WORD_BYTES * WORD_BYTES
        count = -(-(address + size - start) // WORD_BYTES)
        parts = [
            self.command(Command.READ_MEMORY, start + WORD_BYTES * at, min(WORDS, count - at))
            for at in range(0, count, WORDS)
        ]
        return b"".join(parts)[address - start :][:size]

    def write_memory(self, address: int, data: bytes) -> None:
        """Write bytes at any address; words that they share with others are read before."""
        before = address % WORD_BYTES
        after = -(address + len(data)) % WORD_BYTES
        start = address - before
        if not data:
            return
        head = self.read_memory(start, before) if before else b""
        tail = self.read_memory(address + len(data), after) if after else b""
        whole, step = head + data + tail, WORD_BYTES * WORDS
        for at in range(0, len(whole), step):
            part = whole[at : at + step]
            self.command(Command.WRITE_MEMORY, start + at, len(part) // WORD_BYTES, part)

    def write_images(self, images: Iterable[tuple[int, bytes]]) -> None:
        """Write bytes at addresses; those that follow each other go in one command."""
        address, pending = 0, bytearray()
        for start, data in images:
            if pending and start != address + len(pending):
                self.write_memory(address, bytes(pending))
                pending.clear()
            if not pending:
                address = start
            pending += data
        self.write_memory(address, bytes(pending))

    def read_register(self, register: str | int) -> int:
        """Return a register, by name or offset."""
        data = self.command(Command.READ_REGISTERS, self._offset(register), 1)
        return int.from_bytes(data, "little")

    def write_register(self, register: str | int, value: int) -> None:
        """Write a register, by name or offset."""
        data = value.to_bytes(WORD_BYTES, "little")
        self.command(Command.WRITE_REGISTERS, self._offset(register), 1, data)

    def _offset(self, register: str | int) -> int:
        if isinstance(register, int):
            return register
        if register not in self._registers:
            names = ", ".join(self._registers)
            raise InputError(f"{self._core.name} has no register {register!r}; it has {names}")
        offset: int = self._registers[register]
        return offset

    # -- jobs ------------------------------------------------------------------------------------

    def run_jobs(self, jobs: Sequence[MemoryJob], *, patience: float = 10.0) -> None:
        """Do jobs one after the other, their operands first.

        Parameters
        ----------
        jobs : sequence of MemoryJob
        patience : float
            Seconds after which a job that has not ended fails.

        Raises
        ------
        BoardError
            If a job ends otherwise than done, or does not end.
        """
        for job in jobs:
            self.write_images(job.images())
        for job in jobs:
            self.run_writes(job.writes(), patience=patience)

    def run_writes(self, writes: Iterable[tuple[int, int]], *, patience: float = 10.0) -> None:
        """Do a job that is described by writes to the job window; see `run_jobs`."""
        core: Any = self._core
        number = self.read_register("SUBMITTED")
        for offset, value in writes:
            self.write_register(offset, value)
        self.write_register("SUBMIT", 1)
        begin = self.now()
        while (self.read_register("FINISHED") - number - 1) & 0xFFFFFFFF >= 1 << 31:
            if self.now() - begin > patience:
                self.reset()
                raise BoardError(f"the job has not ended after {patience:g} s; the board was reset")
        code = self.read_register(f"JOB_STATUS_{number % core.params.queue}")
        states: Sequence[str] = core.params.job_interface.states
        state = states[code] if code < len(states) else f"state {code}"
        if state != "done":
            raise BoardError(f"the job ended with {state}")


def connect_engine(
    where: str | Transport,
    core: Core[Any],
    *,
    baud: int = BAUD,
    timeout: float = 0.2,
    retries: int = 4,
) -> EngineBoard:
    """Connect to the board that an engine on memory is on.

    Parameters
    ----------
    where, baud, timeout, retries
        As those of `hwgen.board.connect`.
    core : Core
        Of the configuration that the bitstream was made of.

    Raises
    ------
    BoardError
        If nothing answers, or the core on the board is of another configuration.
    InputError
        If the core does not work on memory.
    ToolMissing
        If pyserial or spidev is missing.
    """
    if not core.buses:
        raise InputError(f"{core.name!r} has streams: `hwgen.board.connect` connects to it")
    return opened(EngineBoard, where, core, baud, timeout=timeout, retries=retries)
