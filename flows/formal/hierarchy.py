# SPDX-License-Identifier: Apache-2.0
"""Drivers of signals across an emitted hierarchy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from flows.formal.netlists import Netlist

Path = tuple[str, ...]
"""Names of instances from the top to a module."""


@dataclass(frozen=True)
class Origin:
    """Driver of a net.

    Parameters
    ----------
    cell : str
        Type of the cell: a module, or an operator or register of Yosys; empty for an input of the
        top and for a constant.
    path : tuple of str
        Instances from the top to the cell, the last is the cell's own name.
    port : str
        Output of the cell or input of the top; the value of a constant.
    bit : int
    """

    cell: str
    path: Path
    port: str
    bit: int


class Hierarchy:
    """Modules and their instances.

    Parameters
    ----------
    modules : mapping
        Netlists by name.
    top : str
    closed : collection of str
        Modules that are not looked into.
    """

    def __init__(
        self, modules: Mapping[str, Netlist], top: str, closed: Collection[str] = ()
    ) -> None:
        self.modules, self.top, self.closed = modules, top, frozenset(closed)
        self._drivers = cache(self._find_drivers)

    def module(self, path: Path) -> str:
        """Return the module of an instance."""
        name = self.top
        for instance in path:
            name = self.modules[name]["cells"][instance]["type"]
        return name

    def nets(self, path: Path, port: str) -> list[Any]:
        """Return the nets of a port of an instance, in the module around it."""
        if not path:
            bits: list[Any] = self.modules[self.top]["ports"][port]["bits"]
            return bits
        cell = self.modules[self.module(path[:-1])]["cells"][path[-1]]
        return list(cell["connections"].get(port, ()))

    def origins(self, path: Path, port: str) -> list[Origin]:
        """Return the driver of each bit of an output of the top, or of an input of an instance."""
        around = path[:-1]
        return [self.origin(around, net) for net in self.nets(path, port)]

    def origin(self, path: Path, net: Any) -> Origin:
        """Return the driver of a net of the module at a path."""
        while True:
            if isinstance(net, str):
                return Origin("", (), net, 0)
            inputs, outputs = self._drivers(self.module(path))
            if net in inputs:
                port, bit = inputs[net]
                if not path:
                    return Origin("", (), port, bit)
                net = self.nets(path, port)[bit]
                path = path[:-1]
                continue
            if net not in outputs:
                return Origin("", (), "undriven", 0)
            cell, port, bit = outputs[net]
            module = self.modules[self.module(path)]["cells"][cell]["type"]
            if module not in self.modules or module in self.closed:
                return Origin(module, (*path, cell), port, bit)
            net = self.modules[module]["ports"][port]["bits"][bit]
            path = (*path, cell)

    def _find_drivers(
        self, module: str
    ) -> tuple[dict[Any, tuple[str, int]], dict[Any, tuple[str, str, int]]]:
        netlist = self.modules[module]
        inputs = {
            net: (name, bit)
            for name, port in netlist["ports"].items()
            if port["direction"] == "input"
            for bit, net in enumerate(port["bits"])
        }
        outputs = {
            net: (name, port, bit)
            for name, cell in netlist["cells"].items()
            for port, nets in cell["connections"].items()
            if self._drives(cell, port)
            for bit, net in enumerate(nets)
        }
        return inputs, outputs

    def _drives(self, cell: Mapping[str, Any], port: str) -> bool:
        if cell["type"] in self.modules:
            direction = self.modules[cell["type"]]["ports"][port]["direction"]
        else:
            direction = cell["port_directions"][port]
        return bool(direction == "output")

    def instances(self, module: str) -> list[Path]:
        """Return the paths of all instances of a module."""
        paths: list[Path] = []

        def visit(name: str, path: Path) -> None:
            for instance, cell in self.modules[name]["cells"].items():
                if cell["type"] == module:
                    paths.append((*path, instance))
                if cell["type"] in self.modules:
                    visit(cell["type"], (*path, instance))

        visit(self.top, ())
        return paths
