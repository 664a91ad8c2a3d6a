# SPDX-License-Identifier: Apache-2.0
"""Delays of the cells of a netlist in ps, for a simulation with glitches.

They are those of the Liberty tables, with the load of each cell and the slew that the driver of
its input has with its own load; wires have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import numpy as np

from flows.power.gate_tables import Delays
from flows.power.gates import Gate, Gates
from flows.power.power import net_loads
from flows.synthesis.liberty import Library
from flows.synthesis.sizing.cell_timing import Edge, Table, timed_cells
from hwgen.technologies.model import StandardCells

_Tables = Mapping[tuple[str, str, str, bool], list[Table]]


def cell_delays(gates: Gates, library: Library, tech: StandardCells) -> Delays:
    """Return a function of a gate, an input, an output and whether it rises: the delay in ps."""
    names = {gate.cell for gate in gates.gates} & library.cells.keys()
    tables = _tables({name: cell.edges for name, cell in timed_cells(library, names).items()})
    loads = net_loads(gates, library, tech)
    usual = _usual_slew(tables)
    slews: dict[str, float] = {}

    @cache
    def slew_of(cell: str, pins: tuple[str, ...], output: str, load: float) -> float:
        transitions = [
            table.at(usual, load)[1]
            for pin in pins
            for rises in (True, False)
            for table in tables.get((cell, pin, output, rises), ())
        ]
        return float(np.mean(transitions)) if transitions else usual

    for gate in gates.gates:
        for output, net in gate.outputs.items():
            slews[net] = slew_of(gate.cell, tuple(gate.inputs), output, round(loads[net], 1))

    @cache
    def of_cell(cell: str, source: str, output: str, rises: bool, slew: float, load: float) -> int:
        choices = tables.get((cell, source, output, rises))
        if not choices:
            return 1
        return max(1, round(1000 * float(np.mean([t.at(slew, load)[0] for t in choices]))))

    def delay(gate: Gate, source: str, output: str, rises: bool) -> int:
        slew, load = slews.get(gate.inputs[source], usual), loads[gate.outputs[output]]
        return of_cell(gate.cell, source, output, rises, round(slew, 3), round(load, 1))

    return delay


def input_delay_ps(gates: Gates, library: Library, delays: Delays) -> int:
    """Return when inputs change after the edge: as late as the outputs of registers, on average."""
    clock = set(gates.inputs["aclk"])
    times = [
        delays(gate, pin, output, rises)
        for gate in gates.gates
        if gate.cell in library.cells and library.cells[gate.cell].sequential
        for pin, net in gate.inputs.items()
        if net in clock
        for output in gate.outputs
        for rises in (True, False)
    ]
    return round(float(np.mean(times))) if times else 0


def _tables(cells: Mapping[str, Mapping[Edge, Table]]) -> _Tables:
    result: dict[tuple[str, str, str, bool], list[Table]] = defaultdict(list)
    for name, edges in cells.items():
        for edge, table in edges.items():
            result[name, edge.source, edge.output, edge.output_rises].append(table)
    return result


def _usual_slew(tables: _Tables) -> float:
    """Return the slew in the middle of the tables."""
    slews = [table.slews[len(table.slews) // 2] for each in tables.values() for table in each]
    return float(np.median(slews)) if slews else 0.0
