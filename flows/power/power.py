# SPDX-License-Identifier: Apache-2.0
"""Power of a netlist whose nets switch as they did in a simulation.

Activities are counted once a cycle, when everything has settled: a net that changes twice within a
cycle before it settles (a glitch) is not seen, so combinational power is a lower bound.  For each
change the capacitances of the inputs behind a net are charged, and the cell takes what its
Liberty file says (`flows.power.internal_power`).  Wires have no load; the clock comes without a
tree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.power.cell_power import cell_powers, voltage
from flows.power.gates import Gates
from flows.power.internal_power import arcs_of, internal_fj
from flows.synthesis.liberty import Library
from hwgen.errors import CheckFailed
from hwgen.technologies.model import StandardCells

CELLS = ("sequential", "combinational")
"""Groups of cells; the clock's net is a third one."""

_NET = re.compile(r"\((n\d+) ([^\n]*)\)$", re.MULTILINE)
_CHANGES = re.compile(r"\(TC (\d+)\)")


@dataclass(frozen=True)
class Activity:
    """Switching activity of the nets of a netlist.

    Parameters
    ----------
    cycles : int
    toggles : mapping
        Net: its changes.
    """

    cycles: int
    toggles: Mapping[str, int]

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
        ``sequential``, ``combinational`` and ``clock``: see `Group`.
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


def read_saif(path: Path) -> Activity:
    """Read the switching of the nets of `flows.power.gates` by Verilator, a unit of time a cycle.

    It counts a net that is 1 at first as one change too many.

    Raises
    ------
    CheckFailed
        If it has none.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    duration = re.search(r"\(DURATION (\d+)\)", text)
    changes = {net: _CHANGES.search(text_of_net) for net, text_of_net in _NET.findall(text)}
    toggles = {net: int(match[1]) for net, match in changes.items() if match}
    if duration is None or not toggles or not int(duration[1]):
        raise CheckFailed(
            f"{path.name}: no activity of nets in it; the simulation wrote too little"
        )
    return Activity(int(duration[1]), toggles)


NOTE = (
    "activities counted once a cycle, without glitches; wires without load, a clock without a tree;"
    " what drives the inputs is not included"
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
) -> PowerResult:
    """Return the power of a netlist with the activity of a workload.

    Parameters
    ----------
    gates : Gates
    activity : Activity
        Of its nets; see `read_saif`.
    library, tech : Library, StandardCells
    clock : str
        The clock port.
    clock_mhz : float
    workload : str
        For the result: what the design did.
    macs : int
        Multiply-accumulates of the workload.
    """
    (clock_net,) = gates.inputs[clock]
    rates = {net: count / activity.cycles for net, count in activity.toggles.items()}
    rates[clock_net] = 2.0
    loads = _loads(gates, library, tech)
    powers = cell_powers(library)
    arcs = {name: arcs_of(library, powers[name].text) for name in {g.cell for g in gates.gates}}
    internal, switching, leakage = (dict.fromkeys(CELLS, 0.0) for _ in range(3))
    # Half of C V^2 is lost in a rise and half in a fall, in fJ; fJ MHz are nW.
    charge = voltage(library) ** 2 / 2
    for gate in gates.gates:
        group = "sequential" if library.cells[gate.cell].sequential else "combinational"
        leakage[group] += powers[gate.cell].leakage_nw
        pins = {**gate.inputs, **gate.outputs}
        changes = {pin: rates.get(net, 0.0) for pin, net in pins.items()}
        for pin, net in gate.outputs.items():
            switching[group] += charge * loads[net] * changes[pin]
        for pin, net in pins.items():
            arc = arcs[gate.cell].get(pin)
            if arc and changes[pin]:
                load = loads[net] if pin in gate.outputs else 0.0
                internal[group] += internal_fj(arc, load, changes) * changes[pin]
    has_arcs = any(arc for pins in arcs.values() for arc in pins.values())
    groups = {
        name: Group(
            internal[name] * clock_mhz * 1e-6 if has_arcs else None,
            switching[name] * clock_mhz * 1e-6,
            leakage[name] * 1e-6,
        )
        for name in CELLS
    }
    clocking = charge * loads[clock_net] * rates[clock_net]
    groups["clock"] = Group(None, clocking * clock_mhz * 1e-6, None)
    return PowerResult(
        workload, activity.cycles, macs, clock_mhz, voltage(library), groups, activity.mean,
        NOTE if has_arcs else f"without the energy inside cells, which the library lacks; {NOTE}",
    )  # fmt: skip


def _loads(gates: Gates, library: Library, tech: StandardCells) -> Mapping[str, float]:
    """Return the capacitance behind each net in fF."""
    loads: dict[str, float] = defaultdict(float)
    for gate in gates.gates:
        for pin, net in gate.inputs.items():
            loads[net] += library.cells[gate.cell].inputs.get(pin, 0.0)
    for nets in gates.outputs.values():
        for net in nets:
            loads[net] += tech.load_ff
    return loads
