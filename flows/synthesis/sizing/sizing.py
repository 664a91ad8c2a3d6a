# SPDX-License-Identifier: Apache-2.0
"""Buffers and sizes for the cells of a mapped netlist.

ABC maps one module at a time, knows nothing of what its outputs drive, and buffers nets with many
sinks by chains.  `size_cells` looks at the whole design, every instance of every module: it makes
trees of buffers instead (`flows.synthesis.sizing.buffer_trees`) and chooses the sizes of cells
(`flows.synthesis.sizing.cell_sizing`).  What the netlist computes, and where its modules begin and
end, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flows.synthesis.liberty import Library
from flows.synthesis.macros import pins_of
from flows.synthesis.sizing.buffer_trees import TreeBuilder, collapse
from flows.synthesis.sizing.cell_sizing import Sizer
from flows.synthesis.sizing.cell_timing import Edge, Table, TimedCell, timed_cells
from flows.synthesis.sizing.netlist_timing import (
    CellTables,
    Constraints,
    Netlist,
    TimingGraph,
)
from hwgen.technologies.model import Macro, Memories, StandardCells

MACRO_SLEW = 0.02
"""Slew of what comes out of a macro, in ns."""


@dataclass(frozen=True)
class Sized:
    """Result of `size_cells`.

    Parameters
    ----------
    removed, inserted : int
        Buffers.
    path_ns : float
        The longest path as it expects it.
    """

    removed: int
    inserted: int
    path_ns: float


def size_cells(
    netlist: Netlist,
    top: str,
    library: Library,
    tech: StandardCells,
    constraints: Constraints,
    macros: Sequence[Macro] = (),
    memories: Memories | None = None,
) -> Sized | None:
    """Buffer the nets of a mapped netlist anew and choose the sizes of its cells.

    Parameters
    ----------
    netlist : dict
        What ``write_json`` of Yosys writes; changed in place.
    top : str
    library : Library
    tech : StandardCells
    constraints : Constraints
    macros : sequence of Macro
    memories : Memories, optional
        What the technology says of them.

    Returns
    -------
    Sized or None
        None if the library has no delays that depend on the load; the netlist is as it was then.
    """
    modules, tables = _tables(netlist, library, tech, macros, memories)
    if tables is None:
        return None
    removed = sum(collapse(module, tables.cells) for module in modules.values())
    inserted = TreeBuilder(modules, top, tables, tech, constraints).build()
    sizer = Sizer(TimingGraph(modules, top, tables, tech, constraints))
    before = sizer.reduce(sizer.graph.time())
    times = sizer.reduce(sizer.enlarge(), max(before.worst, 0.0))
    sizer.write()
    return Sized(removed, inserted, constraints.period - times.worst)


def resize_cells(
    netlist: Netlist,
    top: str,
    library: Library,
    tech: StandardCells,
    constraints: Constraints,
    wire_ff: Mapping[int, float],
    macros: Sequence[Macro] = (),
    memories: Memories | None = None,
) -> int:
    """Choose the sizes of cells of a flat netlist again, with wires; return how many changed.

    Parameters
    ----------
    netlist : dict
        As for `size_cells`; of one module.
    top, library, tech, constraints, macros, memories
        As for `size_cells`.
    wire_ff : mapping
        Load of the wire of each net in fF, by its bit.
    """
    modules, tables = _tables(netlist, library, tech, macros, memories)
    if tables is None:
        return 0
    sizer = Sizer(TimingGraph(modules, top, tables, tech, constraints, wire_ff))
    times = sizer.enlarge()
    sizer.reduce(times, max(times.worst, 0.0))
    return sizer.write()


def _tables(
    netlist: Netlist,
    library: Library,
    tech: StandardCells,
    macros: Sequence[Macro],
    memories: Memories | None,
) -> tuple[dict[str, Netlist], CellTables | None]:
    """Return the modules of a netlist and the tables of its cells.

    There are no tables if the library has no delays that depend on the load.
    """
    boxes = {macro.name: timed_macro(macro, memories) for macro in macros if memories}
    modules = {
        name: module
        for name, module in netlist["modules"].items()
        if name not in library.cells and name not in boxes
    }
    names = {cell["type"] for module in modules.values() for cell in module["cells"].values()}
    cells = {**timed_cells(library, {*names, tech.driver, tech.buffer.cell}), **boxes}
    varies = depends_on_load(cells[tech.buffer.cell]) and depends_on_load(cells[tech.driver])
    return modules, CellTables(cells) if varies else None


def depends_on_load(cell: TimedCell) -> bool:
    """Return whether the delays of a cell depend on its load."""
    return any(len(table.loads) > 1 for table in cell.edges.values())


def timed_macro(macro: Macro, memories: Memories) -> TimedCell:
    """Return a macro as a cell: constant times from the clock and before it."""
    pins = dict(pins_of(macro, memories))
    clock = next(pin for pin, role in pins.items() if role == "clock")
    results = [pin for pin, role in pins.items() if role == "result"]
    inputs = [pin for pin, role in pins.items() if role not in ("clock", "result")]
    table = Table(
        np.zeros(1), np.zeros(1), np.full((1, 1), macro.clk_to_q_ns), np.full((1, 1), MACRO_SLEW)
    )
    edges: Mapping[Edge, Table] = {
        Edge(clock, pin, not memories.falling, rises): table
        for pin in results
        for rises in (False, True)
    }
    setups = {
        (pin, rises): (np.zeros(1), np.full(1, memories.setup_ns))
        for pin in inputs
        for rises in (False, True)
    }
    loads = {clock: memories.clock_ff, **dict.fromkeys(inputs, memories.input_ff)}
    return TimedCell(
        macro.name, macro.area_um2, loads, dict.fromkeys(results, ""), edges=edges, setups=setups,
        state=macro.name,
    )  # fmt: skip
