# SPDX-License-Identifier: Apache-2.0
"""How fast the hardware of a configuration is, for what is chosen by it.

Configurations know no hardware.  What does is a module of another room that is imported by its
name, `PROVIDER`, as the parts of a family are, when something is to be chosen.  Its function
``limit`` takes a configuration whose parameters are all given and returns a `Limit`, or None where
the delays of its technology are not known.  It is what estimates judge by, depends on nothing but
the configuration, and is quick when it is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

PROVIDER = "flows.build.timing"


@dataclass(frozen=True)
class Limit:
    """What limits the clock of a configuration.

    Parameters
    ----------
    period_ns : float
        The shortest clock period at which all paths are fast enough, in ns.
    start, end : str
        The signals that hold the ends of the slowest path, by their hierarchical names.
    instances : frozenset of str
        Hierarchical names of the instances that it leads through.
    roles : frozenset of str
        Roles of these instances, and of the ones around them
        (`rtl_templates.hdl.hierarchy.Block`).
    """

    period_ns: float
    start: str
    end: str
    instances: frozenset[str]
    roles: frozenset[str] = frozenset()

    @property
    def clock_mhz(self) -> float:
        """The highest clock, in MHz."""
        return 1000 / self.period_ns

    def allows(self, clock_mhz: float) -> bool:
        """Return whether a clock is slow enough."""
        return self.clock_mhz >= clock_mhz

    @property
    def text(self) -> str:
        """The limit in words, the clock rounded down so that it can be had."""
        clock = int(self.clock_mhz * 10) / 10
        return f"{clock:g}, by the path from {self.start} to {self.end}"


def limit_of(config: FamilyConfig) -> Limit | None:
    """Return what limits the clock of a configuration, None if that is not known."""
    found: Limit | None = import_module(PROVIDER).limit(config)
    return found
