# SPDX-License-Identifier: Apache-2.0
"""Buffers into which a block pushes without a look at their ready: it reserves entries before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module

from flows.formal.checker import Checker, Port


class CreditChecker(Checker):
    """Requires that a buffer is ready whenever a beat is pushed into it.

    Parameters
    ----------
    ports : mapping
        Ports of the block around the buffers.
    netlist : mapping
        The flat block.
    instances : sequence of str
        The buffers.
    without : collection of str
        Names of lemmas to leave out.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        netlist: Mapping[str, Any],
        instances: Sequence[str],
        without: Collection[str] = (),
    ) -> None:
        self.instances = instances
        probes: dict[str, tuple[str, int]] = {}
        self.reservations: dict[str, tuple[str, str, list[str]]] = {}
        for name in instances:
            probes |= {f"{name}_{end}": (f"{name}.{end}", 1) for end in ("i_valid", "i_ready")}
            level, stages, counters = reservations(netlist, name)
            for number, counter in enumerate(counters):
                lemma = f"lemma {counter} reserves {name}"
                if lemma in without:
                    continue
                bits = len(netlist["netnames"][counter]["bits"])
                probes[f"{name}_counter_{number}"] = (counter, bits)
                probes[f"{name}_level"] = (level, len(netlist["netnames"][level]["bits"]))
                moving = [f"{name}_stage_{each}" for each in range(len(stages))]
                probes |= {stage: (net, 1) for stage, net in zip(moving, stages, strict=True)}
                self.reservations[lemma] = (f"{name}_counter_{number}", f"{name}_level", moving)
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
        for lemma, (counter, level, stages) in self.reservations.items():
            moving = sum((self.probed[stage] for stage in stages), start=Const(0, 1))
            self.require(
                lemma, self.probed[counter] == self.probed[level] + moving,
                "reserved entries are stored, or on their way",
            )  # fmt: skip
        if len(self.instances) > 1:
            pushes = Cat(self.probed[f"{name}_i_valid"] for name in self.instances)
            self.cover("all are pushed at once", pushes.all(), "in one cycle")


def reservations(netlist: Mapping[str, Any], instance: str) -> tuple[str, list[str], list[str]]:
    """Find what may count the reserved entries of a FIFO.

    Returns
    -------
    level : str
        Register with the number of stored entries.
    stages : list of str
        Registers of a bit through which a push goes before it arrives, each ``NET[BIT]``.
    counters : list of str
        Registers that may count both, empty if there are none.
    """
    level, names = f"{instance}.level", netlist["netnames"]
    if level not in names:
        return level, [], []
    drivers = {
        net: (cell, bit)
        for cell in netlist["cells"].values()
        for port, nets in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit, net in enumerate(nets)
    }
    public = {
        net: f"{name}[{bit}]" if len(wire["bits"]) > 1 else name
        for name, wire in names.items()
        if not wire["hide_name"]
        for bit, net in enumerate(wire["bits"])
    }
    stages = []
    net = names[f"{instance}.i_valid"]["bits"][0]
    while (register := _delayed(drivers, net)) is not None and net in public:
        stages.append(public[net])
        net = register
    width = len(names[level]["bits"])
    counters = [
        name
        for name, wire in names.items()
        if len(wire["bits"]) == width
        and name != level
        and not wire["hide_name"]
        and all(net in drivers and drivers[net][0]["type"] == "$dff" for net in wire["bits"])
    ]
    return level, stages, counters if stages else []


def _delayed(drivers: Mapping[Any, tuple[Mapping[str, Any], int]], net: Any) -> Any:
    """Return the net of which a register, perhaps with a reset to 0, is the delayed value."""
    if net not in drivers or drivers[net][0]["type"] != "$dff":
        return None
    cell, bit = drivers[net]
    before = cell["connections"]["D"][bit]
    if before in drivers and drivers[before][0]["type"] == "$mux":
        mux, at = drivers[before]
        if mux["connections"]["B"][at] != "0":
            return None
        before = mux["connections"]["A"][at]
    return before


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
