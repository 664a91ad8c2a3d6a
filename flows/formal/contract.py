# SPDX-License-Identifier: Apache-2.0
"""Contracts of blocks: checkers, and combinational paths that they must not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.formal.checker import Checker
from flows.formal.modules import TOP


@dataclass(frozen=True)
class ForbiddenPath:
    """A combinational path that a block must not have.

    Parameters
    ----------
    source : str
        An input.
    sinks : tuple of str
        Outputs.
    about : str
        What its absence means.
    """

    source: str
    sinks: tuple[str, ...]
    about: str

    @property
    def name(self) -> str:
        """Name of the property."""
        return f"no path {self.source} -> {', '.join(self.sinks)}"


@dataclass(frozen=True)
class Contract:
    """Properties of a block.

    Parameters
    ----------
    group : str
        Group of properties, as certificates list them: a key of `GROUPS`.
    make : callable
        Returns the checker for the ports of the block, and, with `needs_netlist`, for the flat
        ``netlist`` and ``without`` lemmas of some names.
    payloads : tuple of (str, str)
        Inputs and outputs of payloads that the block only moves; the proof is of one bit of each.
    memory : tuple of str
        A memory whose words only leave at outputs, and these; the proof is of one bit of them.
        Empty if there is none.
    paths : tuple of ForbiddenPath
    cut_datapath : bool
        Whether modules without a reset, which are datapaths, are replaced by free inputs.  What is
        violated then is unknown, not refuted: modules that are left out may prevent it.
    needs_netlist : bool
    first_cycles : int
        Cycles in which a violation is searched before a proof; what is deep needs more.
    """

    group: str
    make: Callable[..., Checker]
    payloads: tuple[tuple[str, str], ...] = ()
    paths: tuple[ForbiddenPath, ...] = ()
    cut_datapath: bool = False
    needs_netlist: bool = False
    memory: tuple[str, ...] = ()
    first_cycles: int = 10

    def cut(self, modules: Mapping[str, Any]) -> list[str]:
        """Return the modules that are replaced by free inputs."""
        if not self.cut_datapath:
            return []
        return [
            name
            for name, module in modules.items()
            if name != TOP and not {"rst", "aresetn"} & module["ports"].keys()
        ]


GROUPS = {
    "buffers": "stream FIFOs, register slices and skid buffers",
    "streams": "AXI4-Stream ports of the design",
    "registers": "AXI4-Lite registers",
    "jobs": "job queue",
    "lists": "sequencer of command lists",
    "bursts": "AXI4 memory port",
    "addresses": "addresses of rows of operands and results",
    "credits": "credits of buffers",
    "cycles": "independence of cycles from operands",
    "datapaths": "datapaths and their arithmetic definitions",
    "deadlock": "a small job of a whole engine goes on",
}
"""Groups of properties."""

OPTIONAL = ("datapaths", "deadlock")
"""Groups that are searched only where that is asked for."""
