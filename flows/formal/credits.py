# SPDX-License-Identifier: Apache-2.0
"""Buffers into which a block pushes without a look at their ready: it reserves entries before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Module

from flows.formal.checker import Checker, Port


class CreditChecker(Checker):
    """Requires that a buffer is ready whenever a beat is pushed into it.

    Parameters
    ----------
    ports : mapping
        Ports of the block around the buffers.
    instances : sequence of str
        The buffers.
    """

    def __init__(self, ports: Mapping[str, Port], instances: Sequence[str]) -> None:
        self.instances = instances
        probes: dict[str, tuple[str, int]] = {}
        for name in instances:
            probes |= {f"{name}_{end}": (f"{name}.{end}", 1) for end in ("i_valid", "i_ready")}
        super().__init__(ports, probes)

    def check(self, m: Module) -> None:
        """State that no buffer overflows."""
        for name in self.instances:
            valid, ready = self.probed[f"{name}_i_valid"], self.probed[f"{name}_i_ready"]
            self.require(
                f"{name} never overflows", ~valid | ready,
                "a beat is pushed only into an entry that was reserved for it",
            )  # fmt: skip
            self.cover(f"{name} is full", ~ready, "the buffer fills up")
        if len(self.instances) > 1:
            pushes = Cat(self.probed[f"{name}_i_valid"] for name in self.instances)
            self.cover("all are pushed at once", pushes.all(), "in one cycle")


def credit_buffers(modules: Mapping[str, Any], buffers: Collection[str]) -> dict[str, list[str]]:
    """Return the modules with buffers whose ready drives nothing, and these instances.

    Parameters
    ----------
    modules : mapping
        Netlists of all modules.
    buffers : collection of str
        Modules that are buffers.
    """
    result = {}
    for name, module in modules.items():
        used = {
            net
            for cell in module["cells"].values()
            for port, nets in cell["connections"].items()
            if _is_input(modules, cell, port)
            for net in nets
        }
        used |= {
            net for port in module["ports"].values() if port["direction"] == "output"
            for net in port["bits"]
        }  # fmt: skip
        instances = [
            instance
            for instance, cell in module["cells"].items()
            if cell["type"] in buffers and not used & {*cell["connections"].get("i_ready", ())}
        ]
        if instances:
            result[name] = sorted(instances)
    return result


def _is_input(modules: Mapping[str, Any], cell: Mapping[str, Any], port: str) -> bool:
    if cell["type"] in modules:
        return bool(modules[cell["type"]]["ports"][port]["direction"] == "input")
    return bool(cell["port_directions"][port] == "input")
