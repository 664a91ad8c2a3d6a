# SPDX-License-Identifier: Apache-2.0
"""The netlist of a design: its modules, how often each occurs, and what is used of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cost_model.netlist.model import TOP, Module
from cost_model.netlist.surroundings import Surroundings, instance_counts, without_unused


@dataclass(frozen=True)
class Netlist:
    """The modules of a design.

    Parameters
    ----------
    modules : mapping
        By name; `TOP` is the top module.
    key : str
        Equal in designs of equal modules, empty if it is not known.
    """

    modules: Mapping[str, Module] = field(repr=False)
    key: str = field(default="", compare=False)

    @property
    def top(self) -> Module:
        """The top module."""
        return self.modules[TOP]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of instances of each module in the whole design; parents before their children."""
        return instance_counts(self.modules)

    def roles(self, instance: str) -> tuple[str, ...]:
        """Return the roles of an instance and of those around it, from the top down.

        Parameters
        ----------
        instance : str
            Its hierarchical name, with dots between the levels.
        """
        roles, module = [], self.modules[TOP]
        for name in instance.split("."):
            inside = next((each for each in module.instances if each.name == name), None)
            if inside is None:  # a name that a mapper has made
                break
            if inside.role:
                roles.append(inside.role)
            module = self.modules[inside.module]
        return tuple(roles)

    @cached_property
    def surroundings(self) -> Surroundings:
        """Constants and used bits of each module, the same for every technology."""
        return Surroundings(self.modules)

    def pruned(self) -> Netlist:
        """Return the netlist without unused cells, instances, upper bits and register bits.

        The modules keep their ports.
        """
        return Netlist(without_unused(self.modules, self.surroundings), self.key)
