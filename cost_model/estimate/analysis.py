# SPDX-License-Identifier: Apache-2.0
"""Analysis of a netlist for estimates: its components, and the path that limits its clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from cost_model.estimate.technology import Technology
from cost_model.netlist.costs import Part, parts_of
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.memories import MemoryUse, memories_of
from cost_model.netlist.netlist import Netlist
from cost_model.netlist.units import unit_counts
from cost_model.timing.compiled import MacroSteps
from cost_model.timing.graph import Path
from cost_model.timing.limit import limiting_path


class Analysis:
    """Components and limiting paths of a design, computed on demand.

    Parameters
    ----------
    load : callable
        Returns the design; called once at most, and not before anything is to be found.
    """

    def __init__(self, load: Callable[[], Netlist]) -> None:
        self._load = load

    @cached_property
    def design(self) -> Netlist:
        """The structure."""
        return self._load()

    def parts(self, macros: Collection[str] = (), fabric: Fabric | None = None) -> list[Part]:
        """Return the modules that consist of anything; see `cost_model.netlist.costs`."""
        return parts_of(self.design, macros, fabric)

    def memories(self) -> list[MemoryUse]:
        """Return the memories; see `cost_model.netlist.memories`."""
        return memories_of(self.design)

    def units(self) -> dict[str, dict[str, int]]:
        """Return the modules inside each unit of an engine; see `cost_model.netlist.units`."""
        return unit_counts(self.design)

    def limiting_path(
        self, tech: Technology, clock_mhz: float, macros: Mapping[str, MacroSteps] | None = None
    ) -> Path | None:
        """Return the path that limits the clock; see `cost_model.timing.limit`."""
        return limiting_path(self.design, tech, clock_mhz, macros)
