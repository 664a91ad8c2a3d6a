# SPDX-License-Identifier: Apache-2.0
"""Static timing analysis of a flat standard-cell netlist with OpenSTA."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.tools import process
from flows.tools.toolchain import probe
from hwgen.errors import CheckFailed
from hwgen.technologies.model import StandardCells


@dataclass(frozen=True)
class Timing:
    """The worst path.

    Parameters
    ----------
    path_ns : float
        Shortest clock period that all paths meet, in ns: setup times included, and what inputs
        and outputs need outside.
    start, end : str
        Register or port where the worst path begins and ends.
    """

    path_ns: float
    start: str
    end: str


def analyse(
    work: Path,
    top: str,
    tech: StandardCells,
    clock: str,
    period_ns: float,
    outside: float,
    *,
    timeout: float,
    libraries: Sequence[str] = ("cells.lib",),
    parasitics: str | None = None,
) -> tuple[Timing | None, str]:
    """Time ``netlist.v`` with ``cells.lib``, both in `work`.

    Wires have no delay unless their parasitics are given; the clock is ideal.

    Parameters
    ----------
    work : Path
        Directory that has the files, and receives the script, the log and ``worst.txt``.
    top, clock : str
        Top module and its clock port.
    tech : StandardCells
    period_ns : float
        Clock period to analyse.
    outside : float
        Part of the period that inputs and outputs need outside.
    timeout : float
        Seconds.
    libraries : sequence of str
        Files of the cells, in `work`.
    parasitics : str, optional
        Resistances and capacitances of wires, a file in SPEF in `work`.

    Returns
    -------
    timing : Timing or None
        None if OpenSTA is not there.
    note : str
        Why it is None.
    """
    status = probe("opensta")
    if status.installation is None:
        return None, f"not timed: {status.line}"
    delay = period_ns * outside
    read = "\n".join(f"read_liberty {name}" for name in libraries)
    wires = f"read_spef {parasitics}\n" if parasitics else ""
    script = f"""\
{read}
read_verilog netlist.v
link_design {top}
{wires}set_cmd_units -time ns -capacitance fF
create_clock -name clock -period {period_ns:.6g} [get_ports {clock}]
set_input_delay {delay:.6g} -clock clock [all_inputs]
set_output_delay {delay:.6g} -clock clock [all_outputs]
set_driving_cell -lib_cell {tech.driver} [all_inputs]
set_load {tech.load_ff} [all_outputs]
report_checks -path_delay max -fields {{slew cap fanout}} -digits 4
exit
"""
    (work / "time.tcl").write_text(script, encoding="utf-8")
    text = process.run(status.installation, ["-exit", "time.tcl"], work, "time.log", timeout)
    slack = re.search(r"(-?[\d.]+)\s+slack \(", text)
    start = re.search(r"^Startpoint: (\S+)", text, re.MULTILINE)
    end = re.search(r"^Endpoint: (\S+)", text, re.MULTILINE)
    if not (slack and start and end):
        reported = [line for line in text.splitlines() if line.strip()][:10]
        raise CheckFailed("\n".join(["opensta found no path:", *reported]))
    netlist = (work / "netlist.v").read_text(encoding="utf-8")
    names = (_signal(netlist, index[1].replace("\\", "")) for index in (start, end))
    return Timing(period_ns - float(slack[1]), *names), ""


def _signal(netlist: str, instance: str) -> str:
    """Return the signal that a register holds; a port's name is its own."""
    cell = re.search(rf"^ *\w+ \\?{re.escape(instance)} \((.*?)\);", netlist, re.M | re.S)
    if cell is None:
        return instance
    nets = re.findall(r"\.Q\w*\((\S+?) ?\)", cell[1])
    for net in nets:
        # Where the register's output is inverted, an inverter has the signal.
        users = re.findall(rf"\(\s*\.\w+\({re.escape(net)}\),\s*\.\w+\((\S+?) ?\)\s*\);", netlist)
        for name in (net, *users):
            if not re.fullmatch(r"_\d+_", name):
                return str(name.removeprefix("\\"))
    return instance
