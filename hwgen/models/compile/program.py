# SPDX-License-Identifier: Apache-2.0
"""Compiled networks by the golden interpreter of their list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hwgen.core.lists.commands import BYTES
from hwgen.core.lists.golden import Interpreter, MemoryFault, Outcome
from hwgen.core.lists.units import units_of
from hwgen.errors import CheckFailed
from hwgen.models.compile.compiled import Compiled
from hwgen.models.compile.lowered_operations import REGISTERS, TOKENS


class Bytes:
    """The memory of a compiled network.

    Parameters
    ----------
    base : int
        Address of the first byte.
    data : bytearray
    """

    def __init__(self, base: int, data: bytearray) -> None:
        self.base, self.data = base, data

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""
        start = self._inside(address, count)
        return bytes(memoryview(self.data)[start : start + count])

    def write(self, address: int, data: bytes) -> None:
        """Replace bytes."""
        start = self._inside(address, len(data))
        self.data[start : start + len(data)] = data

    def _inside(self, address: int, count: int) -> int:
        start = address - self.base
        if start < 0 or start + count > len(self.data):
            raise MemoryFault(hex(address))
        return start


class Program:
    """A compiled network at work.

    Parameters
    ----------
    compiled : Compiled

    Attributes
    ----------
    memory : Bytes
    outcome : Outcome
        How the last list ended.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.memory = Bytes(compiled.base, compiled.contents())
        self.memory.write(compiled.address, compiled.data)
        self.outcome = Outcome("idle", 0, 0, 0, [])

    def start(self, prompt: list[int]) -> None:
        """Put a prompt into memory."""
        address = self.compiled.arrays[TOKENS].address
        self.memory.write(address, np.array(prompt, "<u4").tobytes())

    def run(self, position: int, prompt: int, count: int) -> list[int]:
        """Run the list and return what it appends.

        Parameters
        ----------
        position, prompt, count : int
            See `Compiled.registers`.

        Raises
        ------
        CheckFailed
            If the list does not end as it should.
        """
        compiled = self.compiled
        config = compiled.config
        interpreter = Interpreter(
            self.memory, units_of(config, self.memory), config.register_width, config.lists.calls,
            compiled.registers(position, prompt, count),
        )  # fmt: skip
        outcome = interpreter.run(compiled.address, len(compiled.data) // BYTES)
        self.outcome = outcome
        if outcome.state != "done":
            unit = list(config.units)[outcome.unit]
            raise CheckFailed(
                f"the list ended with {outcome.state} at descriptor {outcome.index} ({unit})"
            )
        return self.tokens(prompt, outcome.registers[REGISTERS["POSITION"][0]] + 1)

    def tokens(self, first: int, end: int) -> list[int]:
        """Return tokens in memory."""
        address = self.compiled.arrays[TOKENS].address
        data = self.memory.read(address + 4 * first, 4 * (end - first))
        return [int(token) for token in np.frombuffer(data, "<u4")]


def generate(program: Program, prompt: list[int], count: int) -> Iterator[int]:
    """Yield the tokens that follow a prompt, a run of the list for each."""
    program.compiled.check_tokens(prompt, count)
    program.start(prompt)
    position, there = 0, len(prompt)
    for _ in range(count):
        (token,) = program.run(position, there, 1)
        yield token
        if token == program.compiled.end:
            return
        position, there = there, there + 1
