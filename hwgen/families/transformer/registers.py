# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine that executes command lists, described once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hwgen.core.lists.commands import BYTES, STATE_TEXTS, STATES
from hwgen.core.post import Field
from hwgen.core.register_map import Register

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

MAGIC = 0x6877434C
"""Contents of ID: ``hwCL``."""

LAYOUT = 1
"""Contents of LAYOUT; it changes with the meaning of registers and descriptors."""

FIRST_REGISTER = 0x100
"""Address of what would be the lower half of register 0."""

_STATUS = (
    Field("busy", 0, 1, False, "A list runs."),
    Field(
        "state",
        8,
        4,
        False,
        "; ".join(f"{code} {name}: {STATE_TEXTS[name]}" for code, name in enumerate(STATES)) + ".",
    ),
)

_ENDED = (Field("ended", 0, 1, False, "A list has ended in any way."),)


class ListSettings(Protocol):
    """Parameters of the execution of lists."""

    @property
    def registers(self) -> int:
        """Registers of lists."""


class ListUnits(Protocol):
    """Units that execute lists, and the port that they share."""

    @property
    def memory(self) -> Memory:
        """The port to the memory."""

    @property
    def units(self) -> Mapping[str, Any]:
        """Units by name."""

    @property
    def lists(self) -> ListSettings:
        """Parameters of the execution of lists."""


def list_registers(config: ListUnits) -> tuple[Register, ...]:
    """Return the registers in the order of their addresses."""
    high = max(0, config.memory.address_width - 32)
    registers = [
        Register("ID", 0x00, "ro", f"{MAGIC:#x}: an engine of hwgen that executes lists."),
        Register("LAYOUT", 0x04, "ro", f"{LAYOUT}: version of this map and of descriptors."),
        Register("STATUS", 0x08, "ro", "What has become of the list.", _STATUS),
        Register("START", 0x0C, "wo", "Any write begins the list; an error while one runs."),
        Register("ABORT", 0x10, "wo", "Any write ends the list and all unfinished jobs."),
        Register("INTERRUPT_ENABLE", 0x14, "rw", "Whether INTERRUPT raises the line.", _ENDED, 1),
        Register("INTERRUPT", 0x18, "w1c", "What has happened.", _ENDED, 1),
        Register("UNITS", 0x1C, "ro", f"Units: {', '.join(config.units)}."),
        Register("LIST_ADDRESS_LOW", 0x20, "rw", "Address of the list, a multiple of 64."),
        Register("LIST_ADDRESS_HIGH", 0x24, "rw", "Upper bits of it.", bits=high),
        Register("LIST_LENGTH", 0x28, "rw", "Descriptors of the list.", bits=24),
        Register("STEP_LIMIT", 0x2C, "rw", "Descriptors executed at most; 0: any number."),
        Register("INDEX", 0x30, "ro", "The descriptor at which the last list ended."),
        Register("UNIT", 0x34, "ro", "The unit that refused or failed."),
        Register("STEPS", 0x38, "ro", "Descriptors that were executed."),
        Register("CYCLES_LOW", 0x40, "ro", "Cycles of the list so far."),
        Register("CYCLES_HIGH", 0x44, "ro", "Upper bits, as they were when CYCLES_LOW was read.",
                 bits=16),
    ]  # fmt: skip
    for i in range(1, config.lists.registers):
        at = FIRST_REGISTER + 8 * i
        registers += [
            Register(f"R{i}_LOW", at, "rw", f"Register {i} of lists; kept between lists."),
            Register(f"R{i}_HIGH", at + 4, "rw", "Upper bits of it.", bits=high),
        ]
    return tuple(registers)


def start_writes(
    config: ListUnits,
    address: int,
    data: bytes,
    *,
    registers: Sequence[int] = (),
    limit: int = 0,
) -> list[tuple[int, int]]:
    """Return the writes that start a list in memory: offset and contents of each register.

    Parameters
    ----------
    config : ListUnits
    address : int
        Of the list.
    data : bytes
        The list.
    registers : sequence of int, optional
        Contents of the lists' registers, register 0 included.
    limit : int
        Descriptors that are executed at most; 0: any number.
    """
    wide = {"LIST_ADDRESS": address}
    wide |= {f"R{number}": value for number, value in enumerate(registers) if number}
    contents = {f"{name}_LOW": value & 0xFFFFFFFF for name, value in wide.items()}
    contents |= {f"{name}_HIGH": value >> 32 for name, value in wide.items()}
    contents |= {"LIST_LENGTH": len(data) // BYTES, "STEP_LIMIT": limit}
    contents |= {"INTERRUPT_ENABLE": 1, "START": 1}
    at = {register.name: register.offset for register in list_registers(config)}
    return [(at[name], value) for name, value in contents.items()]
