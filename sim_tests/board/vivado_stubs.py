# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the commands of Vivado that the emitted scripts use, run by Python's Tcl.

It knows the pins and interfaces of the catalogue's parts, as their documentation has them, and of
the packaged IP from its description, and it refuses what Vivado would: an unknown pin, an interface
that is connected twice or to one of its own side, an address of a segment that there is not.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tkinter import Tcl
from typing import Any

SPIRIT = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"

# Pins: name and direction; interfaces: name, side, clock.
Pins = dict[str, str]
Interfaces = dict[str, str]

CATALOGUE: dict[str, tuple[Pins, Interfaces]] = {
    "processing_system7": (
        {"FCLK_CLK0": "O", "FCLK_RESET0_N": "O", "M_AXI_GP0_ACLK": "I", "S_AXI_HP0_ACLK": "I",
         "IRQ_F2P": "I"},
        {"M_AXI_GP0": "master", "S_AXI_HP0": "slave", "DDR": "free", "FIXED_IO": "free"},
    ),
    "zynq_ultra_ps_e": (
        {"pl_clk0": "O", "pl_resetn0": "O", "maxihpm0_fpd_aclk": "I", "saxihp0_fpd_aclk": "I",
         "pl_ps_irq0": "I"},
        {"M_AXI_HPM0_FPD": "master", "S_AXI_HP0_FPD": "slave"},
    ),
    "proc_sys_reset": (
        {"slowest_sync_clk": "I", "ext_reset_in": "I", "aux_reset_in": "i", "dcm_locked": "i",
         "mb_debug_sys_rst": "i", "mb_reset": "O", "bus_struct_reset": "O",
         "peripheral_reset": "O", "interconnect_aresetn": "O", "peripheral_aresetn": "O"},
        {},
    ),
    "clk_wiz": ({"clk_in1": "I", "clk_out1": "O", "locked": "O"}, {}),
    "microblaze": (
        {"Clk": "I", "Reset": "I"},
        {"M_AXI_DP": "master", "ILMB": "master", "DLMB": "master", "INTERRUPT": "slave",
         "DEBUG": "slave"},
    ),
    "mdm": ({"Debug_SYS_Rst": "O"}, {"MBDEBUG_0": "master"}),
    "lmb_v10": ({"LMB_Clk": "I", "SYS_Rst": "I"}, {"LMB_M": "slave", "LMB_Sl_0": "master"}),
    "lmb_bram_if_cntlr": (
        {"LMB_Clk": "I", "LMB_Rst": "I"}, {"SLMB": "slave", "BRAM_PORT": "master"},
    ),
    "blk_mem_gen": ({}, {"BRAM_PORTA": "slave", "BRAM_PORTB": "free slave"}),
    "axi_bram_ctrl": (
        {"s_axi_aclk": "I", "s_axi_aresetn": "I"}, {"S_AXI": "slave", "BRAM_PORTA": "master"},
    ),
    "axi_intc": (
        {"s_axi_aclk": "I", "s_axi_aresetn": "I", "intr": "I"},
        {"s_axi": "slave", "interrupt": "master"},
    ),
    "axi_uartlite": (
        {"s_axi_aclk": "I", "s_axi_aresetn": "I", "rx": "I", "tx": "O", "interrupt": "o"},
        {"S_AXI": "slave"},
    ),
    "smartconnect": ({"aclk": "I", "aresetn": "I"}, {}),
}  # fmt: skip
"""Pins and interfaces by part; a small letter, or "free", may stay unconnected."""

SEGMENTS = {"axi_bram_ctrl": "S_AXI/Mem0"}


class Refused(Exception):
    """A refusal, where Vivado would refuse as well."""


@dataclass
class Cell:
    """A cell of the block design."""

    part: str
    pins: Pins
    interfaces: Interfaces
    segments: set[str] = field(default_factory=set)
    properties: dict[str, str] = field(default_factory=dict)


class Vivado:
    """The state that the commands change.

    Parameters
    ----------
    folder : Path
        With ``build.tcl``, ``board.xdc`` and ``ip``.
    board_parts : tuple of str
        Board files that are installed.
    slack : str
        Of the worst path, in ns.
    """

    def __init__(self, folder: Path, board_parts: tuple[str, ...] = (), slack: str = "0.5") -> None:
        self.folder, self.board_parts, self.slack = folder, board_parts, slack
        self.cells: dict[str, Cell] = {}
        self.ports: dict[str, str] = {}
        self.nets: list[set[str]] = []
        self.links: list[tuple[str, str]] = []
        self.addresses: dict[str, tuple[int, str]] = {}
        self.calls: list[str] = []
        self.constrained: dict[str, str] = {}
        self.tcl = Tcl()
        for name in [each for each in dir(self) if each.startswith("do_")]:
            self._define(name.removeprefix("do_"), getattr(self, name))
        self.tcl.eval(
            "rename file real_file; proc file {what args} {"
            " if {$what eq {copy}} {return}; real_file $what {*}$args }"
        )
        for name in _RECORDED:
            self.tcl.createcommand(name, self._recorder(name))

    def _define(self, name: str, function: Callable[..., Any]) -> None:
        """Define a command, whose exceptions are errors of Tcl with their text."""

        def call(*arguments: str) -> tuple[int, Any]:
            self.calls.append(" ".join([name, *arguments]))
            try:
                return 0, function(*arguments) or ""
            except Exception as error:
                return 1, f"{type(error).__name__}: {error}"

        self.tcl.createcommand(f"python_{name}", call)
        self.tcl.eval(
            f"proc {name} args {{ lassign [python_{name} {{*}}$args] failed result;"
            " if {$failed} { error $result }; return $result }"
        )

    def _recorder(self, name: str) -> Callable[..., str]:
        def call(*arguments: str) -> str:
            self.calls.append(" ".join([name, *arguments]))
            return f"{name}_result"

        return call

    def run(self, script: str = "build.tcl") -> None:
        """Run a script; its copies of files are not made."""
        self.tcl.eval(f"source {{{self.folder / script}}}")

    # -- the project -----------------------------------------------------------------------------

    def do_create_project(self, name: str, path: str, *options: str) -> None:
        assert options[0] == "-part"
        self.part = options[1]

    def do_get_board_parts(self, quiet: str, pattern: str) -> tuple[str, ...]:
        expression = re.escape(pattern).replace(r"\*", ".*")
        return tuple(each for each in self.board_parts if re.fullmatch(expression, each))

    def do_current_project(self) -> str:
        return "project"

    def do_set_property(self, *arguments: str) -> None:
        *settings, target = arguments
        if settings[0] == "-dict":
            settings = list(self.tcl.splitlist(settings[1]))
        pairs = dict(zip(settings[::2], settings[1::2], strict=True))
        if pairs.get("ip_repo_paths"):
            self._read_ip(Path(pairs["ip_repo_paths"]) / "component.xml")
        if target in self.cells:
            cell = self.cells[target]
            cell.properties |= pairs
            if cell.part == "smartconnect":
                cell.interfaces.clear()
                for letter, side in (("S", "slave"), ("M", "master")):
                    for number in range(int(cell.properties[f"CONFIG.NUM_{letter}I"])):
                        cell.interfaces[f"{letter}{number:02}_AXI"] = side
        elif "PACKAGE_PIN" in pairs:
            assert target in self.ports, f"constraints of {target}, which is no port"
            self.constrained[target] = pairs["PACKAGE_PIN"]
        elif target not in ("project", "current_fileset_result", "design", *self.ports):
            raise Refused(f"there is no {target}")

    def _read_ip(self, path: Path) -> None:
        root = ET.parse(path).getroot()
        names = [root.findtext(SPIRIT + each) for each in ("vendor", "library", "name", "version")]
        self.vlnv = ":".join(map(str, names))
        mapped, interfaces = set(), {}
        for bus in root.iter(f"{SPIRIT}busInterface"):
            name = str(bus.findtext(f"{SPIRIT}name"))
            definition = bus.find(f"{SPIRIT}busType")
            assert definition is not None
            if definition.get(f"{SPIRIT}name") != "aximm":
                continue
            interfaces[name] = "master" if bus.find(f"{SPIRIT}master") is not None else "slave"
            mapped |= {
                str(each.text) for each in bus.findall(f".//{SPIRIT}physicalPort/{SPIRIT}name")
            }
        pins = {
            str(port.findtext(f"{SPIRIT}name")): str(port.findtext(f".//{SPIRIT}direction"))[
                0
            ].upper()
            for port in root.iter(f"{SPIRIT}port")
        }
        pins = {
            name: side if name in ("aclk", "aresetn", "interrupt") else side.lower()
            for name, side in pins.items()
            if name not in mapped
        }
        segments = {
            f"{each.findtext(f'{SPIRIT}name')}/{each.findtext(f'{SPIRIT}addressBlock/{SPIRIT}name')}"
            for each in root.iter(f"{SPIRIT}memoryMap")
        }
        self._ip = Cell(self.vlnv, pins, interfaces, segments)

    # -- the block design ------------------------------------------------------------------------

    def do_create_bd_cell(self, *arguments: str) -> str:
        assert arguments[:3] == ("-type", "ip", "-vlnv"), arguments
        vlnv, name = arguments[3:]
        if name in self.cells:
            raise Refused(f"{name} exists")
        if vlnv == getattr(self, "vlnv", None):
            self.cells[name] = self._ip
            return name
        part = vlnv.removeprefix("xilinx.com:ip:")
        if part not in CATALOGUE:
            raise Refused(f"no IP is called {vlnv}")
        pins, interfaces = CATALOGUE[part]
        segments = {SEGMENTS[part]} if part in SEGMENTS else set()
        self.cells[name] = Cell(part, dict(pins), dict(interfaces), segments)
        return name

    def do_create_bd_port(self, *arguments: str) -> str:
        assert arguments[0] == "-dir"
        self.ports[arguments[-1]] = "O" if arguments[1] == "I" else "I"  # seen from inside
        return arguments[-1]

    def _lookup(self, path: str, table: str) -> str:
        cell, _, name = path.partition("/")
        if cell not in self.cells or name not in getattr(self.cells[cell], table):
            raise Refused(f"{path} is none of the {table}")
        return path

    def do_get_bd_cells(self, name: str) -> str:
        if name not in self.cells:
            raise Refused(f"no cell is called {name}")
        return name

    def do_get_bd_ports(self, name: str) -> str:
        if name not in self.ports:
            raise Refused(f"no port is called {name}")
        return name

    def do_get_ports(self, names: str) -> str:
        for name in self.tcl.splitlist(names):
            self.do_get_bd_ports(name)
        return names

    def do_get_bd_pins(self, path: str) -> str:
        return self._lookup(path, "pins")

    def do_get_bd_intf_pins(self, path: str) -> str:
        return self._lookup(path, "interfaces")

    def do_get_bd_addr_segs(self, path: str) -> str:
        return self._lookup(path, "segments")

    def do_connect_bd_net(self, *pins: str) -> None:
        joined = set(pins)
        for net in [net for net in self.nets if net & joined]:
            joined |= net
            self.nets.remove(net)
        self.nets.append(joined)

    def do_connect_bd_intf_net(self, first: str, second: str) -> None:
        sides = {self._side(first), self._side(second)}
        if sides != {"master", "slave"}:
            raise Refused(f"{first} and {second} are of one side")
        for one in (first, second):
            if any(one in link for link in self.links):
                raise Refused(f"{one} is connected already")
        self.links.append((first, second))

    def _side(self, path: str) -> str:
        cell, _, name = path.partition("/")
        return self.cells[cell].interfaces[name].removeprefix("free ")

    def do_assign_bd_address(self, *arguments: str) -> None:
        if arguments:
            assert arguments[0] == "-offset"
            assert arguments[2] == "-range"
            self.addresses[arguments[4]] = (int(arguments[1], 0), arguments[3])

    def do_validate_bd_design(self) -> None:
        """Refuse pins without a driver or with several, and interfaces without a partner."""
        for net in self.nets:
            drivers = [pin for pin in net if self._direction(pin) == "O"]
            if len(drivers) != 1:
                raise Refused(f"{sorted(net)} has {len(drivers)} drivers")
        connected = set().union(*self.nets)
        linked = {pin for link in self.links for pin in link}
        for name, cell in self.cells.items():
            for pin, side in cell.pins.items():
                if side == "I" and f"{name}/{pin}" not in connected:
                    raise Refused(f"{name}/{pin} is not connected")
            for interface, side in cell.interfaces.items():
                if not side.startswith("free") and f"{name}/{interface}" not in linked:
                    raise Refused(f"{name}/{interface} is not connected")

    def _direction(self, pin: str) -> str:
        if pin in self.ports:
            return self.ports[pin]
        cell, _, name = pin.partition("/")
        return self.cells[cell].pins[name].upper()

    # -- the runs --------------------------------------------------------------------------------

    def do_get_property(self, name: str, target: str) -> str:
        return {"PROGRESS": "100%", "SLACK": self.slack, "DIRECTORY": "runs/impl_1"}[name]

    def do_current_design(self) -> str:
        return "design"


_RECORDED = (
    "update_ip_catalog", "create_bd_design", "apply_bd_automation", "save_bd_design", "get_files",
    "make_wrapper", "add_files", "current_fileset", "update_compile_order", "launch_runs",
    "wait_on_run", "get_runs", "open_run", "report_timing_summary", "report_utilization",
    "get_timing_paths", "write_hw_platform", "set_false_path",
)  # fmt: skip
"""Commands of which it is enough that they were called."""
