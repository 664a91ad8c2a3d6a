# SPDX-License-Identifier: Apache-2.0
"""Decoders compiled to a command list, read from files and run by the golden interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.lists.commands import BYTES
from hwgen.core.lists.golden import Interpreter, Outcome
from hwgen.core.lists.units import units_of
from hwgen.errors import CheckFailed, InputError
from hwgen.models.compile.compiled_files import DOCUMENT, LIST_FILE, CompiledDecoder
from hwgen.models.compile.decoder_list import REGISTERS, TOKENS, register_values
from hwgen.models.compile.golden_jobs import Bytes

if TYPE_CHECKING:
    from hwgen.models.compile.list_builder import ListEngine


class CompiledList(CompiledDecoder):
    """A network compiled to a list, on disk.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    config : ListEngine
    document : dict
        See `ListCompilation.document`.
    data : bytes
        The list.
    address : int
        Where it is in memory.

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    config: ListEngine

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.address = int(document["list"]["address"])
        self.sizes[LIST_FILE] = int(document["list"]["descriptors"]) * BYTES

    def _check(self) -> None:
        super()._check()
        self.data = (self.path / LIST_FILE).read_bytes()
        tokens, data = self.arrays.get(TOKENS), self.arrays.get("list")
        if tokens is None or tokens.bytes < 4 * (self.context + 1):
            raise InputError(f"{self.path / DOCUMENT}: has no room for {self.context} tokens")
        if data is None or (data.address, data.bytes) != (self.address, len(self.data)):
            raise InputError(f"{self.path / DOCUMENT}: the list is not where it should be")

    def registers(self, position: int, prompt: int, count: int) -> list[int]:
        """Return the registers of a list that takes `prompt` tokens and appends `count`.

        Parameters
        ----------
        position : int
            Tokens that were taken before.
        prompt : int
            Tokens that are there.
        count : int
            Most tokens to append.
        """
        return register_values(self.config, self.end, position, prompt, count)


class ListProgram:
    """Execution of a compiled network.

    Parameters
    ----------
    compiled : CompiledList

    Attributes
    ----------
    memory : Bytes
    outcome : Outcome
        How the last list ended.
    """

    def __init__(self, compiled: CompiledList) -> None:
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
            See `CompiledList.registers`.

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


def generate(program: ListProgram, prompt: list[int], count: int) -> Iterator[int]:
    """Yield the tokens that follow a prompt, a run of the list for each."""
    program.compiled.check_tokens(prompt, count)
    program.start(prompt)
    position, length = 0, len(prompt)
    for _ in range(count):
        (token,) = program.run(position, length, 1)
        yield token
        if token == program.compiled.end:
            return
        position, length = length, length + 1
