# SPDX-License-Identifier: Apache-2.0
"""Units of an engine as command lists see them, by the golden models of their families.

A family offers ``execute(config, held, memory)`` in its golden model: it does the job that the
registers of the job window describe, held by name, and raises `ValueError` if it is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hwgen.core.lists.golden import MemoryFault
from hwgen.core.protocols import JobCore
from hwgen.core.registry import core_of
from hwgen.errors import HwgenError

if TYPE_CHECKING:
    from hwgen.core.lists.golden import Memory


@dataclass
class GoldenUnit:
    """A unit; see `hwgen.core.lists.golden.Unit`.

    Parameters
    ----------
    config : FamilyConfig
        Of a family that takes jobs.
    memory : Memory
    register_values : dict of int
        Contents of the job window by register.
    """

    config: Any
    memory: Memory
    register_values: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._registers = {
            register.offset: register for register in self.config.job_interface.window
        }
        self.register_values = {
            register.name: 0 for register in self._registers.values()
        } | self.register_values

    def put(self, offset: int, word: int) -> bool:
        """Write a register of the job window; say whether there is one."""
        register = self._registers.get(offset)
        if register is None:
            return False
        self.register_values[register.name] = word & ((1 << register.bits) - 1)
        return True

    def submit(self) -> bool:
        """Do the job in the window; say whether it succeeded."""
        core = core_of(self.config)
        assert isinstance(core, JobCore)
        try:
            core.execute(self.register_values, self.memory)
        except (ValueError, HwgenError, MemoryFault):
            return False
        return True


def units_of(config: Any, memory: Memory) -> list[GoldenUnit]:
    """Return the units of an engine, in the order of their numbers."""
    units: Mapping[str, Any] = config.units
    return [GoldenUnit(unit, memory) for unit in units.values()]
