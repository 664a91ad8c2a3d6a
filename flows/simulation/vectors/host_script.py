# SPDX-License-Identifier: Apache-2.0
"""Actions of a host at the registers of an engine, as lines that a testbench reads.

A line is an action, the address of a register, a mask and a value, in hexadecimal: 1, 4, 8 and 8
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hwgen.core.lists.commands import STATES as LIST_STATES
from hwgen.core.lists.commands import Program
from hwgen.families.transformer.registers import list_registers, start_writes

WRITE, POLL, REACH, EXPECT, REPORT = range(5)
ACTIONS = {
    WRITE: "write the value",
    POLL: "read until the bits of the mask equal the value",
    REACH: "read until the register, less the value, is not negative (modulo 2^32)",
    EXPECT: "read: the bits of the mask must equal the value",
    REPORT: "read and print: cycles",
}
"""Meaning of each action by its code."""

_ALL = 0xFFFFFFFF
LIST_BYTES = 64
"""Lists begin at multiples of it."""


@dataclass
class HostScript:
    """Actions of a host, in order.

    Parameters
    ----------
    actions : list of tuple of int
        Action, address of a register, mask and value.
    """

    actions: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, action: int, offset: int, value: int = 0, mask: int = _ALL) -> None:
        """Append an action."""
        self.actions.append((action, offset, mask, value & _ALL))

    @property
    def text(self) -> str:
        """The file."""
        return "".join(
            f"{action:x}{offset:04x}{mask:08x}{value:08x}\n"
            for action, offset, mask, value in self.actions
        )


def job_script(config: Any, jobs: Sequence[Any]) -> HostScript:
    """Return the actions that submit jobs to an engine with a queue, and wait for all of them.

    Parameters
    ----------
    config : FamilyConfig
        Of the engine.
    jobs : sequence of MemoryJob
        As many as the queue holds wait in it.
    """
    at = {register.name: register.offset for register in config.registers}
    done = config.job_interface.states.index("done")
    script, slots = HostScript(), config.queue
    script.add(WRITE, at["INTERRUPT_ENABLE"], 3)
    for number, job in enumerate(jobs):
        if number >= slots:
            script.add(REACH, at["FINISHED"], number - slots + 1)
            script.add(EXPECT, at[f"JOB_STATUS_{number % slots}"], done)
        for offset, value in job.writes():
            script.add(WRITE, offset, value)
        script.add(WRITE, at["SUBMIT"], 1)
    script.add(REACH, at["FINISHED"], len(jobs))
    for number in range(max(0, len(jobs) - slots), len(jobs)):
        script.add(EXPECT, at[f"JOB_STATUS_{number % slots}"], done)
    script.add(EXPECT, at["INTERRUPT"], 1, 3)
    script.add(REPORT, at["BUSY_LOW"])
    return script


def list_script(
    config: Any, jobs: Sequence[Any], address: int
) -> tuple[HostScript, list[tuple[int, bytes]]]:
    """Return the actions that run a command list for each job, and the lists with addresses.

    Parameters
    ----------
    config : FamilyConfig
        Of an engine that executes lists.
    jobs : sequence of MemoryJob
        Of its unit that multiplies.
    address : int
        Of the first list, a multiple of `LIST_BYTES`.
    """
    at = {register.name: register.offset for register in list_registers(config)}
    script, lists = HostScript(), []
    script.add(WRITE, at["INTERRUPT_ENABLE"], 1)
    for job in jobs:
        program = Program(list(config.units), config.lists.registers)
        program.job(config.job_unit_name, job.writes())
        program.halt()
        data = program.encode()
        lists.append((address, data))
        for offset, word in start_writes(config, address, data):
            script.add(WRITE, offset, word)
        script.add(POLL, at["INTERRUPT"], 1, 1)
        script.add(EXPECT, at["STATUS"], LIST_STATES.index("done") << 8, 15 << 8)
        script.add(WRITE, at["INTERRUPT"], 1)
        script.add(REPORT, at["CYCLES_LOW"])
        address += -(-len(data) // LIST_BYTES) * LIST_BYTES
    return script, lists
