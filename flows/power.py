# SPDX-License-Identifier: Apache-2.0
"""Power of a netlist whose nets switch as they did in a simulation.

Activities are counted once a cycle, when everything has settled: a net that changes twice within a
cycle before it settles (a glitch) is not seen, so combinational power is a lower bound.  OpenSTA
adds up what the Liberty files say of each cell.  Where it is missing, or stops, the energy of the
nets' capacitances is left, without that inside the cells.  Wires have no load; the clock is ideal,
its power that of the clock pins.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from flows import process
from flows.cell_power import CellPower, cell_powers, voltage
from flows.gates import MODULE, Gates
from flows.liberty import Library, Technology
from flows.toolchain import probe, version_text
from hwgen.errors import CheckFailed

Method = Literal["opensta", "capacitance"]
GROUPS = ("sequential", "combinational", "clock")

_NET = re.compile(r"\((n\d+) ([^\n]*)\)$", re.MULTILINE)
_FIGURE = re.compile(r"\((T0|T1|TC) (\d+)\)")
_POWER = r"\s+([\d.e+-]+)"
_REPORTED = re.compile(rf"^(Sequential|Combinational|Clock){_POWER * 3}", re.MULTILINE)


@dataclass(frozen=True)
class Activity:
    """How the nets of a netlist switched.

    Parameters
    ----------
    cycles : int
    toggles, high : mapping
        Net: its changes; cycles in which it was 1.
    """

    cycles: int
    toggles: Mapping[str, int]
    high: Mapping[str, int]

    @property
    def mean(self) -> float:
        """Changes of a net in a cycle, on average."""
        return sum(self.toggles.values()) / max(1, len(self.toggles)) / self.cycles


@dataclass(frozen=True)
class Group:
    """Power of a group of cells in mW; None where a method does not know it."""

    internal_mw: float | None
    switching_mw: float | None
    leakage_mw: float | None

    @property
    def total_mw(self) -> float:
        """What is known of it."""
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
    method : {"opensta", "capacitance"}
    note : str
        What the method leaves out, and why another was not taken.
    tools : mapping
        Versions.
    """

    workload: str
    cycles: int
    macs: int
    clock_mhz: float
    voltage_v: float
    groups: Mapping[str, Group]
    activity: float
    method: Method
    note: str
    tools: Mapping[str, str]

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
    """Return what Verilator wrote about the nets of `flows.gates`, a unit of time a cycle.

    It counts a net that is 1 at first as one change too many.

    Raises
    ------
    CheckFailed
        If it has none.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    duration = re.search(r"\(DURATION (\d+)\)", text)
    nets = {net: dict(_FIGURE.findall(figures)) for net, figures in _NET.findall(text)}
    if duration is None or not nets or not int(duration[1]):
        raise CheckFailed(
            f"{path.name}: no activity of nets in it; the simulation wrote too little"
        )
    return Activity(
        int(duration[1]),
        {net: int(figures["TC"]) for net, figures in nets.items()},
        {net: int(figures["T1"]) for net, figures in nets.items()},
    )


@dataclass(frozen=True)
class _Design:
    """What every method works on."""

    gates: Gates
    activity: Activity
    library: Library
    tech: Technology
    clock: str
    clock_mhz: float

    @property
    def clock_net(self) -> str:
        """The net of the clock."""
        return self.gates.inputs[self.clock][0]

    def switching_mw(self, capacitance_ff: float, rises: float) -> float:
        """Return what charging a capacitance so many times a cycle takes."""
        return capacitance_ff * voltage(self.library) ** 2 * rises * self.clock_mhz * 1e-6


def power_of(
    gates: Gates,
    activity: Activity,
    library: Library,
    tech: Technology,
    clock: str,
    clock_mhz: float,
    work: Path,
    *,
    workload: str,
    macs: int,
    timeout: float,
) -> PowerResult:
    """Return the power of a netlist with the activity of a workload.

    Parameters
    ----------
    gates : Gates
    activity : Activity
        Of its nets; see `read_saif`.
    library, tech : Library, Technology
    clock : str
        The clock port.
    clock_mhz : float
    work : Path
        Directory to work in.
    workload : str
        For the result: what the design did.
    macs : int
        Multiply-accumulates of the workload.
    timeout : float
        Seconds for OpenSTA.
    """
    cells = cell_powers(library)
    design = _Design(gates, activity, library, tech, clock, clock_mhz)
    groups = _capacitance(design, cells)
    status, tools = probe("opensta"), {}
    method: Method = "capacitance"
    note = "without the energy inside cells; " + _NOTE
    if status.found is None:
        note += f"; {status.line}"
    else:
        try:
            reported = _opensta(design, work, timeout)
        except CheckFailed as failure:
            note += f"; OpenSTA gave no power: {str(failure).splitlines()[-1]}"
        else:
            # The clock comes through a port, whose load is in no cell's power.
            groups = {"clock": groups["clock"], **reported}
            method, note = "opensta", _NOTE
            tools["opensta"] = version_text(status.found)
    return PowerResult(
        workload, activity.cycles, macs, clock_mhz, voltage(library),
        {name: groups[name] for name in GROUPS}, activity.mean, method, note, tools,
    )  # fmt: skip


_NOTE = (
    "activities counted once a cycle, without glitches; wires without load, ideal clock; what"
    " drives the inputs is not included"
)


def _capacitance(design: _Design, cells: Mapping[str, CellPower]) -> dict[str, Group]:
    """Return the energy of charging inputs of cells, by the group of what drives them."""
    activity, library = design.activity, design.library
    loads: dict[str, float] = defaultdict(float)
    for gate in design.gates.gates:
        for pin, net in gate.inputs.items():
            loads[net] += library.cells[gate.cell].inputs.get(pin, 0.0)
    for nets in design.gates.outputs.values():
        for net in nets:
            loads[net] += design.tech.load_ff
    switching = dict.fromkeys(GROUPS, 0.0)
    leakage = dict.fromkeys(GROUPS, 0.0)
    for gate in design.gates.gates:
        group = "sequential" if library.cells[gate.cell].sequential else "combinational"
        leakage[group] += cells[gate.cell].leakage_nw * 1e-6
        for net in gate.outputs.values():
            rises = activity.toggles.get(net, 0) / activity.cycles / 2
            switching[group] += design.switching_mw(loads[net], rises)
    switching["clock"] = design.switching_mw(loads[design.clock_net], 1.0)
    return {name: Group(None, switching[name], leakage[name]) for name in GROUPS[:2]} | {
        "clock": Group(None, switching["clock"], None)
    }


def _opensta(design: _Design, work: Path, timeout: float) -> dict[str, Group]:
    """Return what OpenSTA reports, with the activity of every pin given to it."""
    found = probe("opensta").found
    assert found is not None
    (work / "cells.lib").write_text(design.library.text, encoding="utf-8")
    (work / "gates.v").write_text(design.gates.netlist(), encoding="utf-8")
    (work / "activity.tcl").write_text("\n".join(_annotations(design)) + "\n", encoding="utf-8")
    script = f"""\
read_liberty cells.lib
read_verilog gates.v
link_design {MODULE}
set_cmd_units -time ns -capacitance fF -power W
create_clock -name clock -period {1000 / design.clock_mhz:.6g} [get_ports {design.clock_net}]
set_driving_cell -lib_cell {design.tech.driver} [all_inputs]
set_load {design.tech.load_ff} [all_outputs]
# In OpenSTA 2.0 the option for pins calls a procedure that is not there.
set broken [string match *get_pins_error* [info body ::sta::set_power_activity]]
proc active {{pin activity duty}} {{
  global broken
  if {{$broken}} {{
    ::sta::set_power_pin_activity [get_pins $pin] $activity $duty
  }} else {{
    set_power_activity -pins [get_pins $pin] -activity $activity -duty $duty
  }}
}}
source activity.tcl
report_power -digits 8
exit
"""
    (work / "power.tcl").write_text(script, encoding="utf-8")
    text = process.run(found, ["-exit", "power.tcl"], work, "power.log", timeout)
    groups = {
        name.lower(): Group(*(1e3 * float(value) for value in values))
        for name, *values in _REPORTED.findall(text)
    }
    if not {"sequential", "combinational"} <= set(groups):
        told = [line for line in text.splitlines() if "rror" in line][-3:]
        raise CheckFailed("\n".join(["opensta reported no power", *told]))
    return {name: groups[name] for name in GROUPS[:2]}


def _annotations(design: _Design) -> Iterator[str]:
    activity = design.activity
    for gate in design.gates.gates:
        for pin, net in {**gate.inputs, **gate.outputs}.items():
            if net in activity.toggles and net != design.clock_net:
                rate = activity.toggles[net] / activity.cycles
                duty = activity.high[net] / activity.cycles
                yield f"active {gate.name}/{pin} {rate:.6g} {min(duty, 1.0):.6g}"
