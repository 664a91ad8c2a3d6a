# SPDX-License-Identifier: Apache-2.0
"""The host of an engine that executes command lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from flows.simulation.command_lists import LIST
from hwgen.core.lists.commands import STATES
from hwgen.core.lists.golden import Outcome
from hwgen.families.transformer.registers import list_registers, start_writes


class Engine(Protocol):
    """Registers and memory of an engine, such as a simulated one."""

    def read32(self, offset: int, /) -> int:
        """Return a register."""

    def write32(self, offset: int, value: int, /) -> object:
        """Write a register."""

    def store(self, address: int, data: bytes, /) -> object:
        """Put bytes into memory."""


class ListHost:
    """The host of an engine, by its registers."""

    def __init__(self, config: Any, model: Engine) -> None:
        self.config, self.model = config, model
        self.at = {register.name: register.offset for register in list_registers(config)}

    def write(self, name: str, value: int) -> None:
        """Write a register."""
        self.model.write32(self.at[name], value)

    def read(self, name: str) -> int:
        """Read a register, or the pair of that name."""
        if name in self.at:
            return self.model.read32(self.at[name])
        low = self.model.read32(self.at[f"{name}_LOW"])
        return low | self.model.read32(self.at[f"{name}_HIGH"]) << 32

    def begin(self, data: bytes, registers: Sequence[int], limit: int, address: int = LIST) -> None:
        """Put a list into memory and start it."""
        self.model.store(address, data)
        self.start(data, registers, limit, address)

    def start(self, data: bytes, registers: Sequence[int], limit: int, address: int) -> None:
        """Start a list that is in memory; see `begin`."""
        writes = start_writes(self.config, address, data, registers=registers, limit=limit)
        for offset, word in writes:
            self.model.write32(offset, word)

    def outcome(self) -> Outcome:
        """Return the outcome of the list, and clear the interrupt."""
        state = STATES[self.read("STATUS") >> 8 & 15]
        result = Outcome(
            state, self.read("INDEX"), self.read("UNIT"), self.read("STEPS"),
            [0, *(self.read(f"R{i}") for i in range(1, self.config.lists.registers))],
        )  # fmt: skip
        self.write("INTERRUPT", 1)
        return result
