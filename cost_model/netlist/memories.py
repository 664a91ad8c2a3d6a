# SPDX-License-Identifier: Apache-2.0
"""The memories of a design: modules of their own, how often they are there, and what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.netlist.model import ONE
from cost_model.netlist.netlist import Netlist
from hwgen.core.memories import Ram, holder, ram_of


@dataclass(frozen=True)
class MemoryUse:
    """A module that is a memory.

    Parameters
    ----------
    module : str
    count : int
        How often it is there.
    holds : mapping
        Names of its instances without numbers (`hwgen.core.memories.HOLDS`): how many there are.
    stable : bool
        Whether any of them does not read in every cycle, so that its data must stay.
    """

    module: str
    count: int
    holds: Mapping[str, int]
    stable: bool

    @property
    def ram(self) -> Ram:
        """Its shape."""
        result = ram_of(self.module)
        assert result is not None  # `memories_of` takes no others
        return result


def memories_of(design: Netlist) -> list[MemoryUse]:
    """Return the memories of a design that are modules of their own, the largest first."""
    holds: dict[str, Counter[str]] = {}
    stable: set[str] = set()
    for name, count in design.counts.items():
        for instance in design.modules[name].instances:
            if ram_of(instance.module) is None or not design.modules[instance.module].memories:
                continue
            holds.setdefault(instance.module, Counter())[holder(instance.name)] += count
            enable = instance.connections.get("r_en", ())
            if set(enable) != {ONE}:
                stable.add(instance.module)
    result = [
        MemoryUse(name, design.counts[name], dict(of), name in stable) for name, of in holds.items()
    ]
    return sorted(result, key=lambda use: (-use.ram.capacity * use.count, use.module))
