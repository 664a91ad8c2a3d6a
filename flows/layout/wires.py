# SPDX-License-Identifier: Apache-2.0
"""Wires of a mapped netlist: their length, their load, and the clock that is met with them.

A placer (`flows.layout.placement`) puts the cells into a square, and each wire is taken to be
somewhat longer than half the perimeter of the box around its pins.  Resistance and capacitance of a
micrometre are those of the technology's data file.  With them cells get other sizes, each by
itself, and OpenSTA times the netlist.  Long wires get no buffers, so that this is a pessimistic
view of a large design.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from flows.layout.placement import Nets, Placement, place
from flows.power.gates import Gates, read_netlist
from flows.synthesis import liberty, macros, timing
from flows.synthesis.liberty import Library
from flows.synthesis.result import SynthesisResult
from flows.synthesis.sizing.netlist_timing import Constraints, Netlist
from flows.synthesis.sizing.sizing import resize_cells
from flows.synthesis.standard_cells import INPUT_DELAY, TIMEOUT
from flows.synthesis.synth_cache import CLOCK
from flows.tools.guard import scratch
from hwgen.errors import InputError, ToolMissing
from hwgen.technologies import cell_library, technology, technology_names
from hwgen.technologies.model import Macro, StandardCells, Wires

ROUTED = 1.12
"""Length of a routed wire over half the perimeter: see ``docs/wires.md``."""

STEINER = 0.7124
"""Length of the shortest tree over n random points in an area A, over the root of n A."""

_DRIVER, _TRUNK = 1 / 3, 1 / 3
"""Shares of a wire's capacitance at its driver and at its middle; the rest is at the sinks."""


@dataclass(frozen=True)
class WireResult:
    """Wires of a design, and what they change.

    Parameters
    ----------
    utilisation : float
        Share of the core that cells fill.
    area_um2 : float
        Of all cells, with the sizes that wires need.
    resized : int
        Cells whose sizes changed.
    core_area_um2 : float
        Area of the core, without pads and a ring of supplies.
    half_perimeter_mm, wire_mm : float
        Sum over all nets but the clock's; the second as routed.
    clock_wire_mm : float
        Of a tree to all registers, without buffers.
    capacitance_pf : float
        Of all wires, the clock's included.
    critical_path_ns, fmax_mhz : float or None
        With wires; None without OpenSTA.
    path_start, path_end : str or None
    note : str
        What is to be known about these figures.
    net_ff : mapping
        Capacitance of the wire of each net of `flows.power.gates.Gates`; not part of the document.
    """

    utilisation: float
    area_um2: float
    resized: int
    core_area_um2: float
    half_perimeter_mm: float
    wire_mm: float
    clock_wire_mm: float
    capacitance_pf: float
    critical_path_ns: float | None
    fmax_mhz: float | None
    path_start: str | None
    path_end: str | None
    note: str
    net_ff: Mapping[str, float] = field(repr=False)

    def document(self) -> dict[str, Any]:
        """Return everything but the nets as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "net_ff"}


def check_target(target: str) -> Wires:
    """Return the wires of a technology.

    Raises
    ------
    InputError
        If nothing is known of them.
    ToolMissing
        If SciPy is not installed.
    """
    tech = technology(target)
    if tech.kind != "standard_cells":
        names = ", ".join(technology_names("standard_cells"))
        raise InputError(f"--wires: cells are placed of {names}, not of {target}; see `hwgen pnr`")
    if tech.wires is None:
        raise InputError(
            f"--wires: the data file of {target} says nothing of wires: give it `wires:` with"
            " ff_per_um and ohm_per_um"
        )
    if find_spec("scipy") is None:
        raise ToolMissing("--wires places cells with SciPy; pip install 'hwgen[wires]'")
    return tech.wires


def add_wires(result: SynthesisResult, *, liberty_files: Sequence[str | Path] = ()) -> WireResult:
    """Place the cells of a netlist, and time it with wires.

    Parameters
    ----------
    result : SynthesisResult
        For standard cells, with its files.
    liberty_files : sequence of path
        As for the synthesis.

    Raises
    ------
    InputError
        If nothing is known of the wires of the target.
    ToolMissing
        If there is no Yosys or no SciPy.
    CheckFailed
        If a tool fails.
    """
    wires = check_target(result.target)
    tech = cell_library(result.target)
    library = liberty.load(result.target, liberty_files)
    boxes = result.files.get("macros.v", b"").decode() if result.macros else ""
    with scratch("hwgen-wires-") as work:
        gates = read_netlist(
            result.files["netlist.v"].decode(), result.name, library, work, TIMEOUT, boxes
        )
        areas = _areas(gates, library, tech)
        layout = _Layout(gates, areas, wires)
        resized = layout.resize(
            json.loads((work / "netlist.json").read_text(encoding="utf-8")),
            partial(
                resize_cells, top=result.name, library=library, tech=tech,
                constraints=Constraints(CLOCK, 1e3 / result.clock_target_mhz, INPUT_DELAY),
                macros=_macros(gates, tech), memories=tech.memories,
            ),
            {name: cell.area for name, cell in library.cells.items()} | areas,
        )  # fmt: skip
        libraries = ["cells.lib"]
        for name in result.files:
            if name.endswith(".lib") and result.macros:
                (work / name).write_bytes(result.files[name])
                libraries.append(name)
        (work / "netlist.v").write_text(layout.verilog(), encoding="utf-8")
        (work / "wires.spef").write_text(layout.spef(), encoding="utf-8")
        (clock,) = gates.inputs[CLOCK]
        path, note = timing.analyse(
            work, result.name, tech, clock, 1e3 / result.clock_target_mhz, INPUT_DELAY,
            timeout=TIMEOUT, libraries=libraries, parasitics="wires.spef",
        )  # fmt: skip
    notes = [
        f"cells placed, not routed: wires are {ROUTED:g} times half the perimeter around pins",
        f"{resized:,} cells of other sizes than without wires, no buffers for long ones",
        "a clock without buffers",
    ]
    if note:
        notes.append(note)
    if result.macros:
        notes.append("macros placed as cells of their size")
    return WireResult(
        wires.utilisation,
        layout.area_um2,
        resized,
        layout.placement.edge**2,
        float(layout.lengths.sum()) / 1e3,
        ROUTED * float(layout.lengths.sum()) / 1e3,
        layout.clock_um / 1e3,
        sum(layout.net_ff.values()) / 1e3,
        path.path_ns if path else None,
        1e3 / path.path_ns if path else None,
        gates.names.get(path.start, path.start) if path else None,
        gates.names.get(path.end, path.end) if path else None,
        "; ".join(notes),
        layout.net_ff,
    )


def _areas(gates: Gates, library: Library, tech: StandardCells) -> dict[str, float]:
    """Return the area of each type of cell in um2, macros included."""
    kinds = {gate.cell for gate in gates.gates}
    areas = {name: library.cells[name].area for name in kinds if name in library.cells}
    if tech.memories and (named := _macros(gates, tech)):
        areas |= {n: cell.area for n, cell in macros.cells_of(named, tech.memories).items()}
    return areas


def _macros(gates: Gates, tech: StandardCells) -> list[Macro]:
    kinds = {gate.cell for gate in gates.gates}
    return [macro for macro in tech.memories.macros if macro.name in kinds] if tech.memories else []


class _Layout:
    """Cells of a netlist where they were placed."""

    def __init__(self, gates: Gates, areas: Mapping[str, float], wires: Wires) -> None:
        self.gates, self._wires = gates, wires
        inputs = [net for nets in gates.inputs.values() for net in nets]
        outputs = [net for nets in gates.outputs.values() for net in nets]
        pins: dict[str, list[int]] = defaultdict(list)
        for index, gate in enumerate(gates.gates):
            for net in (*gate.outputs.values(), *gate.inputs.values()):
                pins[net].append(index)
        (clock,) = gates.inputs[CLOCK]
        registers = len(pins[clock])
        for index, net in enumerate((*inputs, *outputs), len(gates.gates)):
            pins[net].append(index)
        self.nets = [
            net
            for net, of_net in pins.items()
            if net != clock and net.startswith("n") and len(of_net) > 1
        ]
        sizes = np.array([areas[gate.cell] for gate in gates.gates])
        edge = float(np.sqrt(sizes.sum() / wires.utilisation))
        counts = [len(pins[net]) for net in self.nets]
        self._joined = Nets(
            np.array([pin for net in self.nets for pin in pins[net]], dtype=np.int64),
            np.repeat(np.arange(len(self.nets)), counts),
        )
        self._clock, self._registers = clock, registers
        self._measure(place(sizes, self._joined, len(inputs), len(outputs), edge))
        self.area_um2 = float(sizes.sum())
        first = len(gates.gates)
        self._inputs = {net: first + index for index, net in enumerate(inputs)}
        last = first + len(inputs)
        self._outputs = {
            net: last + index for index, net in enumerate(outputs) if net not in self._inputs
        }

    def _measure(self, placement: Placement) -> None:
        """Take the lengths and loads of wires from where cells are."""
        self.placement = placement
        self.lengths = self._joined.lengths(placement.x, placement.y)
        self.clock_um = STEINER * float(np.sqrt(self._registers * placement.edge**2))
        self.net_ff: dict[str, float] = {
            net: ROUTED * length * self._wires.ff_per_um
            for net, length in zip(self.nets, self.lengths.tolist(), strict=True)
        }
        self.net_ff[self._clock] = self.clock_um * self._wires.ff_per_um

    def resize(
        self, netlist: Netlist, resize: Callable[..., int], areas: Mapping[str, float]
    ) -> int:
        """Give cells the sizes that wires need; return how many changed.

        Parameters
        ----------
        netlist : dict
            The netlist of `gates` as Yosys writes it; changed in place.
        resize : callable
            Takes the netlist and ``wire_ff``, the load of each net by its bit.
        areas : mapping
            Area of each type of cell in um2.
        """
        loads = {int(net[1:]): load for net, load in self.net_ff.items()}
        changed = resize(netlist, wire_ff=loads)
        cells = netlist["modules"][self.gates.top]["cells"].values()
        gates = tuple(
            replace(gate, cell=cell["type"])
            for gate, cell in zip(self.gates.gates, cells, strict=True)
        )
        self.gates = replace(self.gates, gates=gates)
        self.area_um2 = sum(areas[gate.cell] for gate in gates)
        # Cells stay where they are, in a square that is as full as before.
        edge = float(np.sqrt(self.area_um2 / self._wires.utilisation))
        scale, old = edge / self.placement.edge, self.placement
        self._measure(replace(old, x=scale * old.x, y=scale * old.y, edge=edge))
        return changed

    def verilog(self) -> str:
        """Return the netlist with the names of `Gates`; ports are called like their nets."""
        ports = [*self._inputs, *(net for net in self._outputs if net.startswith("n"))]
        lines = [f"module {self.gates.top} ({', '.join(ports)});"]
        lines += [f"  input {net};" for net in self._inputs]
        lines += [f"  output {net};" for net in ports[len(self._inputs) :]]
        for gate in self.gates.gates:
            pins = ", ".join(
                f".{pin}({net})" for pin, net in {**gate.inputs, **gate.outputs}.items()
            )
            lines.append(f"  {gate.cell} {gate.name} ({pins});")
        return "\n".join([*lines, "endmodule", ""])

    def spef(self) -> str:
        """Return the parasitics of all nets but the clock's, in SPEF."""
        head = [
            '*SPEF "IEEE 1481-1998"', f'*DESIGN "{self.gates.top}"', '*DATE ""', '*VENDOR "hwgen"',
            '*PROGRAM "hwgen"', '*VERSION "1"', '*DESIGN_FLOW ""', "*DIVIDER /", "*DELIMITER :",
            "*BUS_DELIMITER [ ]", "*T_UNIT 1 NS", "*C_UNIT 1 FF", "*R_UNIT 1 OHM",
            "*L_UNIT 1 HENRY",
        ]  # fmt: skip
        return "\n".join([*head, *self._parasitics(), ""])

    def _parasitics(self) -> Iterator[str]:
        drivers: dict[str, tuple[str, int]] = {
            net: (net, place) for net, place in self._inputs.items()
        }
        sinks: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for index, gate in enumerate(self.gates.gates):
            for pin, net in gate.outputs.items():
                drivers[net] = (f"{gate.name}:{pin}", index)
            for pin, net in gate.inputs.items():
                sinks[net].append((f"{gate.name}:{pin}", index))
        for net, place_of in self._outputs.items():
            sinks[net].append((net, place_of))
        x, y = self.placement.x, self.placement.y
        per_um = ROUTED * self._wires.ohm_per_um
        for net in self.nets:
            if net not in drivers or not sinks[net]:
                continue
            name, at = drivers[net]
            ends = np.array([end for _, end in sinks[net]])
            middle = float(np.median(x[ends])), float(np.median(y[ends]))
            trunk = per_um * (abs(x[at] - middle[0]) + abs(y[at] - middle[1]))
            branches = per_um * (np.abs(x[ends] - middle[0]) + np.abs(y[ends] - middle[1]))
            load = self.net_ff[net]
            yield f"*D_NET {net} {load:.5g}"
            yield "*CONN"
            yield f"{'*P' if name == net else '*I'} {name} {'I' if name == net else 'O'}"
            for sink, _ in sinks[net]:
                yield f"{'*P' if sink == net else '*I'} {sink} {'O' if sink == net else 'I'}"
            yield "*CAP"
            yield f"1 {name} {_DRIVER * load:.5g}"
            yield f"2 {net}:1 {_TRUNK * load:.5g}"
            rest = (1 - _DRIVER - _TRUNK) * load / len(ends)
            for number, (sink, _) in enumerate(sinks[net], 3):
                yield f"{number} {sink} {rest:.5g}"
            yield "*RES"
            yield f"1 {name} {net}:1 {max(trunk, 1e-3):.5g}"
            for number, ((sink, _), ohm) in enumerate(
                zip(sinks[net], branches.tolist(), strict=True), 2
            ):
                yield f"{number} {net}:1 {sink} {max(ohm, 1e-3):.5g}"
            yield "*END"
