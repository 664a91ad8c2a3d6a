# SPDX-License-Identifier: Apache-2.0
"""Power of a netlist whose nets switch as they did in a simulation.

Changes are counted once a cycle, when everything has settled, or with delays, which shows glitches:
nets that change several times within a cycle before they settle.  For each
change the capacitances of the inputs behind a net are charged, and the cell takes what its
Liberty file says (`flows.power.internal_power`).  Wires have no load unless the cells were placed
(`flows.layout.wires`); the clock comes without a tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from flows.power.cell_power import cell_powers, voltage
from flows.power.gates import Gates
from flows.power.internal_power import CellEnergies, internal_fj
from flows.synthesis.liberty import Library
from flows.synthesis.macros import cells_of
from hwgen.technologies.model import Macro, StandardCells

CELLS = ("sequential", "combinational")
"""Groups of cells; the clock's net is a third one, and SRAM macros, if there are any, a fourth."""


@dataclass(frozen=True)
class Activity:
    """Switching activity of the nets of a netlist.

    Parameters
    ----------
    cycles : int
    toggles : mapping
        Net: its changes.
    accesses : mapping
        Name of an SRAM macro: its reads and writes.
    glitches : bool
        Whether changes within a cycle are counted.
    """

    cycles: int
    toggles: Mapping[str, int]
    accesses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    glitches: bool = False

    @property
    def mean(self) -> float:
        """Changes of a net in a cycle, on average."""
        return sum(self.toggles.values()) / max(1, len(self.toggles)) / self.cycles


@dataclass(frozen=True)
class Group:
    """Power of a group of cells in mW; None where it is not known."""

    internal_mw: float | None
    switching_mw: float | None
    leakage_mw: float | None

    @property
    def total_mw(self) -> float:
        """The sum of its parts."""
        return sum(x for x in (self.internal_mw, self.switching_mw, self.leakage_mw) if x)


@dataclass(frozen=True)
class PowerResult:
    """Power of a design at work.

    Parameters
    ----------
    workload : str
        What it did.
    cycles, macs : int
        Cycles from the first input beat to the last result beat; multiply-accumulates in them.
    clock_mhz, voltage_v : float
    groups : mapping
        ``sequential``, ``combinational``, ``clock`` and, of designs with SRAM macros,
        ``memories``: see `Group`.
    activity : float
        Changes of a net in a cycle, on average, the clock left out.
    note : str
        What is left out.
    """

    workload: str
    cycles: int
    macs: int
    clock_mhz: float
    voltage_v: float
    groups: Mapping[str, Group]
    activity: float
    note: str

    @property
    def total_mw(self) -> float:
        """Of all groups."""
        return sum(group.total_mw for group in self.groups.values())

    @property
    def leakage_mw(self) -> float:
        """Of all groups."""
        return sum(group.leakage_mw or 0.0 for group in self.groups.values())

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values, with the energies that follow from it."""
        cycle_pj = self.total_mw / self.clock_mhz * 1e3
        groups = {
            name: {**asdict(group), "total_mw": group.total_mw}
            for name, group in self.groups.items()
        }
        return {
            **asdict(self),
            "groups": groups,
            "leakage_mw": self.leakage_mw,
            "total_mw": self.total_mw,
            "energy_per_cycle_pj": cycle_pj,
            "energy_per_operation_fj": cycle_pj * 1e3 * self.cycles / (2 * self.macs),
            "energy_of_workload_nj": cycle_pj * 1e-3 * self.cycles,
        }


WITHOUT_GLITCHES = "changes counted once a cycle, without glitches"
WITH_GLITCHES = "changes counted with the delays of cells, glitches included"
NOTE = "wires without load, a clock without a tree; what drives the inputs is not included"
NOTE_WITH_WIRES = (
    "wires of placed cells, a clock without buffers; what drives the inputs is not included"
)


def power_of(
    gates: Gates,
    activity: Activity,
    library: Library,
    tech: StandardCells,
    clock: str,
    clock_mhz: float,
    *,
    workload: str,
    macs: int,
    energies: CellEnergies | None = None,
    wire_ff: Mapping[str, float] | None = None,
) -> PowerResult:
    """Return the power of a netlist with the activity of a workload.

    Parameters
    ----------
    gates : Gates
    activity : Activity
        Of its nets.
    library, tech : Library, StandardCells
    clock : str
        The clock port.
    clock_mhz : float
    workload : str
        For the result: what the design did.
    macs : int
        Multiply-accumulates of the workload.
    energies : CellEnergies, optional
        Those of the library; saves time if several activities have the same.
    wire_ff : mapping, optional
        Capacitance of the wire of each net in fF; default none.
    """
    (clock_net,) = gates.inputs[clock]
    rates = {net: count / activity.cycles for net, count in activity.toggles.items()}
    rates[clock_net] = 2.0
    macros = {macro.name: macro for macro in tech.memories.macros} if tech.memories else {}
    loads = net_loads(gates, library, tech, wire_ff)
    powers = cell_powers(library)
    cells = [gate for gate in gates.gates if gate.cell not in macros]
    energies = energies or CellEnergies(library)
    has_energies = False
    internal, switching, leakage = (dict.fromkeys(CELLS, 0.0) for _ in range(3))
    # Half of C V^2 is lost in a rise and half in a fall, in fJ; fJ MHz are nW.
    charge = voltage(library) ** 2 / 2
    for gate in cells:
        group = "sequential" if library.cells[gate.cell].sequential else "combinational"
        leakage[group] += powers[gate.cell].leakage_nw
        pins = {**gate.inputs, **gate.outputs}
        changes = {pin: rates.get(net, 0.0) for pin, net in pins.items()}
        for pin, net in gate.outputs.items():
            switching[group] += charge * loads[net] * changes[pin]
        for pin, net in pins.items():
            causes = energies.causes(gate.cell, pin, loads[net] if pin in gate.outputs else 0.0)
            if causes:
                has_energies = True
                internal[group] += internal_fj(causes, changes) * changes[pin]
    groups = {
        name: Group(
            internal[name] * clock_mhz * 1e-6 if has_energies else None,
            switching[name] * clock_mhz * 1e-6,
            leakage[name] * 1e-6,
        )
        for name in CELLS
    }
    clocking = charge * loads[clock_net] * rates[clock_net]
    groups["clock"] = Group(None, clocking * clock_mhz * 1e-6, None)
    notes = [WITH_GLITCHES if activity.glitches else WITHOUT_GLITCHES]
    notes.append(NOTE_WITH_WIRES if wire_ff else NOTE)
    if not has_energies:
        notes.insert(0, "without the energy inside cells, which the library lacks")
    instances = [gate for gate in gates.gates if gate.cell in macros]
    if instances:
        # What they drive is theirs.
        driven = sum(charge * loads[net] * rates.get(net, 0.0)
                     for gate in instances for net in gate.outputs.values())  # fmt: skip
        each = [(macros[gate.cell], *activity.accesses[gate.name]) for gate in instances]
        groups["memories"] = _memories(each, activity.cycles, clock_mhz, driven)
        if groups["memories"].internal_mw is None:
            notes.insert(0, "without the energy of SRAM macros, which is not known")
    return PowerResult(
        workload, activity.cycles, macs, clock_mhz, voltage(library), groups, activity.mean,
        "; ".join(notes),
    )  # fmt: skip


def _memories(
    macros: list[tuple[Macro, int, int]], cycles: int, clock_mhz: float, driven_fj: float
) -> Group:
    """Return the power of macros, each with its reads and writes, and of what they drive."""
    energy, leakage = 0.0, 0.0
    known = True
    for macro, reads, writes in macros:
        known &= macro.read_pj is not None and macro.write_pj is not None
        energy += reads * (macro.read_pj or 0.0) + writes * (macro.write_pj or 0.0)
        leakage += macro.leakage_nw or 0.0
    return Group(
        energy * 1e3 / cycles * clock_mhz * 1e-6 if known else None,
        driven_fj * clock_mhz * 1e-6,
        leakage * 1e-6,
    )


def net_loads(
    gates: Gates,
    library: Library,
    tech: StandardCells,
    wire_ff: Mapping[str, float] | None = None,
) -> Mapping[str, float]:
    """Return the capacitance behind each net in fF, with that of its wire if it is given."""
    memories = tech.memories
    macros = {}
    if memories:
        boxes = {gate.cell for gate in gates.gates} & {macro.name for macro in memories.macros}
        macros = cells_of([m for m in memories.macros if m.name in boxes], memories)
    loads: dict[str, float] = defaultdict(float, wire_ff or {})
    for gate in gates.gates:
        cell = macros.get(gate.cell) or library.cells[gate.cell]
        for pin, net in gate.inputs.items():
            loads[net] += cell.inputs.get(pin.partition("[")[0], 0.0)
    for nets in gates.outputs.values():
        for net in nets:
            loads[net] += tech.load_ff
    return loads
