# SPDX-License-Identifier: Apache-2.0
"""An accelerator as IP-XACT (IEEE 1685-2014), with the names that AXI has in Vivado."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

from flows.build.files import ports
from flows.build.ipxact_elements import Elements, document
from hwgen import __version__
from hwgen.core.bus import REGISTER_WIDTH, BusPort
from hwgen.core.core import Core
from hwgen.core.register_map import Register

FILE = "component.xml"
"""Name of the file: tools look for it under this one."""

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"

_BUSES = {
    "stream": ("interface", "axis"),
    "axi4": ("interface", "aximm"),
    "axi_lite": ("interface", "aximm"),
    "clock": ("signal", "clock"),
    "reset": ("signal", "reset"),
    "interrupt": ("signal", "interrupt"),
}
"""Library and name of the definition of each kind of bus, all of vendor xilinx.com."""

_ELEMENTS = Elements("ipxact")
_add, _leaves = _ELEMENTS.add, _ELEMENTS.leaves
_REGISTERS, _MEMORY = "registers", "memory"


def component(core: Core[Any]) -> str:
    """Return the description: ports, bus interfaces, registers, files.

    Parameters
    ----------
    core : Core
        Its ``ports`` become AXI4-Stream interfaces, its ``buses`` AXI4 and AXI4-Lite ones.
    """
    root = ET.Element(
        "ipxact:component",
        {
            "xmlns:ipxact": NAMESPACE,
            "xmlns:xsi": _INSTANCE,
            "xsi:schemaLocation": f"{NAMESPACE} {NAMESPACE}/index.xsd",
        },
    )
    _leaves(root, vendor="hwgen", library=core.family_name(), name=core.name, version=__version__)
    _interfaces(root, core)
    for bus in core.buses:
        if bus.protocol == "axi4":
            _address_space(root, bus)
    if core.registers:
        for bus in core.buses:
            if bus.protocol == "axi_lite":
                _memory_map(root, bus, core.registers)
    _model(root, core)
    _files(root, core)
    _leaves(root, description=core.summary)
    return document(root, core)


# -- buses ----------------------------------------------------------------------------------------


def _interfaces(root: ET.Element, core: Core[Any]) -> None:
    interfaces = _add(root, "busInterfaces")
    names = []
    for port in core.ports:
        suffixes = ["tdata", *(["tlast"] if port.last else []), "tvalid", "tready"]
        interface = _interface(interfaces, port.prefix, "stream", _upper(port.prefix, suffixes))
        _add(interface, "slave" if port.direction == "in" else "master")
        names.append(port.prefix)
    for bus in core.buses:
        if bus.protocol == "output":
            interface = _interface(interfaces, bus.name, "interrupt", {"INTERRUPT": bus.name})
            _add(interface, "master")
            _parameters(interface, SENSITIVITY="LEVEL_HIGH")
            continue
        signals = _upper(bus.prefix, [name for name, _, _ in bus.signals])
        interface = _interface(interfaces, bus.prefix, bus.protocol, signals)
        if bus.protocol == "axi4":
            _add(_add(interface, "master"), "addressSpaceRef", addressSpaceRef=_MEMORY)
        else:
            _add(_add(interface, "slave"), "memoryMapRef", memoryMapRef=_REGISTERS)
        _parameters(interface, PROTOCOL="AXI4" if bus.protocol == "axi4" else "AXI4LITE")
        names.append(bus.prefix)
    clock = _interface(interfaces, "aclk", "clock", {"CLK": "aclk"})
    _add(clock, "slave")
    hertz = round(core.params.target.clock_mhz * 1e6)
    _parameters(clock, ASSOCIATED_BUSIF=":".join(names), ASSOCIATED_RESET="aresetn", FREQ_HZ=hertz)
    reset = _interface(interfaces, "aresetn", "reset", {"RST": "aresetn"})
    _add(reset, "slave")
    _parameters(reset, POLARITY="ACTIVE_LOW")


def _upper(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Return the names of a bus' signals in its definition, and those of the ports."""
    return {name.upper(): f"{prefix}_{name}" for name in names}


def _interface(parent: ET.Element, name: str, protocol: str, signals: dict[str, str]) -> ET.Element:
    """Add a bus interface without its mode and return it."""
    library, definition = _BUSES[protocol]
    bus = _add(parent, "busInterface")
    _leaves(bus, name=name)
    reference = {"vendor": "xilinx.com", "library": library, "version": "1.0"}
    _add(bus, "busType", **reference, name=definition)
    abstraction = _add(_add(bus, "abstractionTypes"), "abstractionType")
    _add(abstraction, "abstractionRef", **reference, name=f"{definition}_rtl")
    maps = _add(abstraction, "portMaps")
    for logical, physical in signals.items():
        port_map = _add(maps, "portMap")
        _leaves(_add(port_map, "logicalPort"), name=logical)
        _leaves(_add(port_map, "physicalPort"), name=physical)
    return bus


def _parameters(parent: ET.Element, **values: object) -> None:
    parameters = _add(parent, "parameters")
    for name, value in values.items():
        _leaves(_add(parameters, "parameter"), name=name, value=value)


# -- addresses ------------------------------------------------------------------------------------


def _address_space(root: ET.Element, bus: BusPort) -> None:
    space = _add(_add(root, "addressSpaces"), "addressSpace")
    _leaves(
        space, name=_MEMORY, range=1 << bus.address_width, width=bus.data_width, addressUnitBits=8
    )


def _memory_map(root: ET.Element, bus: BusPort, registers: Iterable[Register]) -> None:
    memory_map = _add(_add(root, "memoryMaps"), "memoryMap")
    _leaves(memory_map, name=_REGISTERS)
    block = _add(memory_map, "addressBlock")
    _leaves(
        block,
        name="control",
        baseAddress=0,
        range=1 << bus.address_width,
        width=REGISTER_WIDTH,
        usage="register",
    )
    _ELEMENTS.registers(block, registers, lambda at: f"'h{at:x}")
    _leaves(memory_map, addressUnitBits=8)


# -- the module -----------------------------------------------------------------------------------


def _model(root: ET.Element, core: Core[Any]) -> None:
    model = _add(root, "model")
    views = _add(model, "views")
    for use in ("synthesis", "simulation"):
        view = _add(views, "view")
        _leaves(
            view,
            name=use,
            envIdentifier=f":vivado.xilinx.com:{use}",
            componentInstantiationRef="verilog",
        )
    instance = _add(_add(model, "instantiations"), "componentInstantiation")
    _leaves(instance, name="verilog", language="Verilog", moduleName=core.name)
    _leaves(_add(instance, "fileSetRef"), localName="rtl")
    elements = _add(model, "ports")
    for port in ports(core):
        element = _add(elements, "port")
        _leaves(element, name=port["name"])
        wire = _add(element, "wire")
        _leaves(wire, direction=port["direction"])
        if port["width"] > 1:
            vector = _add(_add(wire, "vectors"), "vector")
            _leaves(vector, left=port["width"] - 1, right=0)


def _files(root: ET.Element, core: Core[Any]) -> None:
    name = core.name
    driver = [f"{name}_driver.c", f"{name}_driver.h"] if core.buses else []
    file_sets = _add(root, "fileSets")
    for purpose, kind, files in (
        ("rtl", "verilogSource", [f"{name}.v"]),
        ("software", "cSource", [f"{name}_regs.h", *driver]),
    ):
        file_set = _add(file_sets, "fileSet")
        _leaves(file_set, name=purpose)
        for file in files:
            _leaves(_add(file_set, "file"), name=file, fileType=kind)
