# SPDX-License-Identifier: Apache-2.0
"""The block diagram of a design, between the ports of its core."""

from __future__ import annotations

from cost_model.netlist.outline import outline
from flows.build.design import Design
from hwgen.reports.diagram import Diagram


def block_diagram(design: Design) -> Diagram:
    """Return the main blocks of a design and the data between them.

    Raises
    ------
    HwgenError
        If the hardware cannot be emitted.
    """
    core = design.core
    inputs: dict[str, list[str]] = {}
    outputs: dict[str, list[str]] = {}
    for port in core.ports:
        side = inputs if port.direction == "in" else outputs
        side[port.prefix] = [f"{port.prefix}_tdata"]
    for bus in core.buses:
        if bus.protocol == "axi_lite":
            inputs[bus.prefix] = [f"{bus.prefix}_wdata"]
        elif bus.protocol == "axi4":
            inputs[f"{bus.prefix}, reads"] = [f"{bus.prefix}_rdata"]
            outputs[f"{bus.prefix}, writes"] = [f"{bus.prefix}_wdata"]
    return outline(design.netlist, f"{core.name}: blocks, and bits a cycle", inputs, outputs)
