# SPDX-License-Identifier: Apache-2.0
"""Independence of cycles from data: no bit of an operand decides what happens when.

The cone of an output is all that it depends on, now or in any later cycle.  If the cones of all
outputs that are not data hold no bit of an operand, two runs with the same handshakes and any
operands have the same handshakes in every cycle.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from amaranth.hdl import Module

from flows.formal.block_proof import Result, ports_of, trace_of
from flows.formal.checker import BROKEN, Checker
from flows.formal.hierarchy import Hierarchy, Origin
from flows.formal.modules import TOP, Part
from flows.formal.netlists import sources_of_bit
from flows.formal.prover import Status, compile_checker, reach, write_flat
from hwgen.core.params.protection import FAULT_OUTPUT

GROUP = "cycles"
INDEPENDENT, DEPENDENT = "independent of operands", "dependent on operands"
"""Names of the properties; the second is that of hardware that leaves out zeros."""

_ABOUT = {
    INDEPENDENT: "no valid, ready, last, address, register or interrupt depends on an operand, in"
    " any cycle",
    DEPENDENT: "the hardware leaves out zeros, as its page says: an example of two runs that differ"
    " in time only because of their operands",
}
_TWIN = "other_"
_STEPS = 6


def operand_inputs(ports: Mapping[str, Any], commands: Collection[str]) -> list[str]:
    """Return the inputs of a design that carry operands.

    Parameters
    ----------
    ports : mapping
        Ports of the netlist.
    commands : collection of str
        Prefixes of ports whose beats say what is to be done.
    """
    return [
        name
        for name, port in ports.items()
        if port["direction"] == "input" and _is_data(name) and not name.startswith((*commands,))
    ]


def _is_data(name: str) -> bool:
    return name.endswith(("tdata", "_rdata", "_wdata")) and not name.startswith("s_axi_")


def control_outputs(ports: Mapping[str, Any]) -> list[str]:
    """Return the outputs of a design that are not data.

    That of protection is none of them: checks of registers with data depend on it.
    """
    return [
        name
        for name, port in ports.items()
        if port["direction"] == "output" and not _is_data(name) and name != FAULT_OUTPUT
    ]


class Cones:
    """Dependences in the netlist of a design.

    Parameters
    ----------
    modules : mapping
        Netlists by name.
    commands : mapping of str to collection of str
        Outputs of modules that are commands, not operands: the search ends there.
    """

    def __init__(
        self, modules: Mapping[str, Any], commands: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self.commands = dict(commands or {})
        self.hierarchy = Hierarchy(modules, TOP, self.commands)
        self.users: dict[Origin, Origin | None] = {}

    def follow(self, outputs: Sequence[str]) -> list[Origin]:
        """Add the cones of outputs, and return the inputs of the design in all cones."""
        pending: list[Origin] = []

        def add(origin: Origin, user: Origin | None) -> None:
            if origin not in self.users:
                self.users[origin] = user
                pending.append(origin)

        for name in outputs:
            for origin in self.hierarchy.origins((), name):
                add(origin, None)
        while pending:
            user = pending.pop()
            for origin in self._sources(user):
                add(origin, user)
        return [each for each in self.users if not each.cell and each.path == ()]

    def _sources(self, origin: Origin) -> Iterator[Origin]:
        """Yield what a bit depends on in the same cycle or in the one before."""
        hierarchy = self.hierarchy
        if not origin.cell:
            return
        if origin.cell in self.commands:
            if origin.port not in self.commands[origin.cell]:
                port = hierarchy.modules[origin.cell]["ports"][origin.port]
                yield hierarchy.origin(origin.path, port["bits"][origin.bit])
            return
        around = origin.path[:-1]
        cell = hierarchy.modules[hierarchy.module(around)]["cells"][origin.path[-1]]
        for net in sources_of_bit(cell, origin.port, origin.bit):
            yield hierarchy.origin(around, net)

    def route(self, origin: Origin) -> str:
        """Return the blocks through which an input reaches an output."""
        route, each = [f"{origin.port}[{origin.bit}]"], self.users[origin]
        while each is not None:
            block = ".".join(each.path[:-1])
            if block not in (route[-1], ""):
                route.append(block)
            each = self.users[each]
        left = [*route[:_STEPS], "..."] if len(route) > _STEPS else route
        return " -> ".join(left)


def prove_independence(
    part: Part,
    modules: Mapping[str, Any],
    work: Path,
    *,
    commands: Collection[str],
    stops: Mapping[str, Collection[str]],
    depends: bool,
    seconds: int,
) -> Result:
    """Prove that cycles do not depend on operands, or find two runs that differ.

    Parameters
    ----------
    part : Part
        The design.
    modules : mapping
        Its netlists.
    work : Path
        Directory for the files of Yosys and ABC.
    commands : collection of str
        Prefixes of ports whose beats are commands.
    stops : mapping of str to collection of str
        Outputs of modules that are commands.
    depends : bool
        Whether the hardware is meant to leave out zeros; then an example is wanted.
    seconds : int
        Limit of the search of an example.

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.formal.prover.write_flat`.
    """
    start = time.monotonic()
    ports = modules[TOP]["ports"]
    operands, outputs = operand_inputs(ports, commands), control_outputs(ports)
    name = DEPENDENT if depends else INDEPENDENT
    if not depends:
        cones = Cones(modules, stops)
        hits = [each for each in cones.follow(outputs) if each.port in operands]
        if not hits:
            detail = f"{len(cones.users)} bits decide what happens when, none of an operand"
            taken = round(time.monotonic() - start, 2)
            return Result(GROUP, name, _ABOUT[name], "proven", "netlist search", detail, taken)
        route = cones.route(hits[0])
        if stops:  # two runs would have to have the same commands
            taken = round(time.monotonic() - start, 2)
            return Result(GROUP, name, _ABOUT[name], "unknown", "netlist search", route, taken)
    handshakes = [each for each in outputs if each.endswith(("valid", "ready", "interrupt"))]
    netlist = twin(write_flat(part, work), operands, handshakes)
    checker = TwinChecker(ports_of(netlist), handshakes)
    circuit = compile_checker(checker, netlist, work, zero=True)
    answer = reach(circuit, BROKEN, work, seconds)
    taken = round(time.monotonic() - start, 2)
    if answer.status != "refuted":
        detail = "no two runs that differ were found"
        detail = detail if depends else f"{detail}; operands may decide: {route}"
        return Result(GROUP, name, _ABOUT[name], "unknown", answer.engine, detail, taken)
    trace = trace_of(checker, circuit, answer)
    differs = [each for each in handshakes if trace[-1][each] != trace[-1][f"{_TWIN}{each}"]]
    detail = f"{', '.join(differs)} of two runs differs in cycle {len(trace) - 1}"
    status: Status = "proven" if depends else "refuted"
    return Result(GROUP, name, _ABOUT[name], status, answer.engine, detail, taken, trace)


def twin(netlist: Mapping[str, Any], operands: Sequence[str], outputs: Sequence[str]) -> Any:
    """Return a flat netlist with a second copy of itself.

    Both have the same inputs except operands; the ports of the second begin with ``other_``.
    Outputs that are not named are left out.
    """
    ports = netlist["ports"]
    shared = {
        net
        for name, port in ports.items()
        if port["direction"] == "input" and name not in operands
        for net in port["bits"]
    }
    nets = [
        n for c in netlist["cells"].values() for bits in c["connections"].values() for n in bits
    ]
    nets += [net for port in ports.values() for net in port["bits"]]
    offset = 1 + max(net for net in nets if isinstance(net, int))

    def moved(bits: Sequence[Any]) -> list[Any]:
        return [net if isinstance(net, str) or net in shared else net + offset for net in bits]

    result_ports = {
        name: port
        for name, port in ports.items()
        if port["direction"] == "input" or name in outputs
    }
    result_ports |= {
        f"{_TWIN}{name}": {**port, "bits": moved(port["bits"])}
        for name, port in ports.items()
        if name in operands or name in outputs
    }
    cells = dict(netlist["cells"])
    for name, cell in netlist["cells"].items():
        connections = {port: moved(bits) for port, bits in cell["connections"].items()}
        parameters = dict(cell["parameters"])
        if "MEMID" in parameters:
            parameters["MEMID"] = f"{parameters['MEMID']}_{_TWIN}"
        cells[f"{_TWIN}{name}"] = {**cell, "connections": connections, "parameters": parameters}
    return {**netlist, "ports": result_ports, "cells": cells, "netnames": {}}


class TwinChecker(Checker):
    """Compares the outputs of two copies of a design.

    Parameters
    ----------
    ports : mapping
        Of both copies.
    outputs : sequence of str
        What is compared.
    """

    def __init__(self, ports: Mapping[str, Any], outputs: Sequence[str]) -> None:
        self.outputs = outputs
        super().__init__(ports)

    def check(self, m: Module) -> None:
        """Require that all outputs are equal."""
        same = [self[name] == self[f"{_TWIN}{name}"] for name in self.outputs]
        total = same[0]
        for each in same[1:]:
            total = total & each
        self.require(INDEPENDENT, total, _ABOUT[INDEPENDENT])
