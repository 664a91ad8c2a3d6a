# SPDX-License-Identifier: Apache-2.0
"""An engine as packaged IP of Vivado: IP-XACT of IEEE 1685-2009 with the vendor's extensions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from typing import Any

from flows.board.vivado.boards import FAMILIES
from flows.build.files import ports
from flows.build.ipxact_elements import Elements, document
from hwgen.core.bus import REGISTER_WIDTH, BusPort
from hwgen.core.core import Core
from hwgen.core.register_map import Register

NAMESPACE = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
VENDOR_NAMESPACE = "http://www.xilinx.com"

VERSION = "1.0"
"""Version of the packaged IP: the digest in its name tells configurations apart."""

REVISION = 1

_BUSES = {
    "axi4": ("interface", "aximm"),
    "axi_lite": ("interface", "aximm"),
    "clock": ("signal", "clock"),
    "reset": ("signal", "reset"),
    "interrupt": ("signal", "interrupt"),
}
_ELEMENTS = Elements("spirit")
_add, _leaves = _ELEMENTS.add, _ELEMENTS.leaves
_BLOCK = "control"
"""Name of the addresses of the registers."""


def identifier(core: Core[Any]) -> str:
    """Return vendor, library, name and version of the packaged IP."""
    return f"hwgen:{core.family_name()}:{core.name}:{VERSION}"


def component(core: Core[Any]) -> str:
    """Return the description: buses, addresses, registers, files, and what Vivado asks for.

    Parameters
    ----------
    core : Core
        An engine with AXI4 and AXI4-Lite ports.
    """
    root = ET.Element(
        "spirit:component",
        {"xmlns:spirit": NAMESPACE, "xmlns:xilinx": VENDOR_NAMESPACE},
    )
    vendor, library, name, version = identifier(core).split(":")
    _leaves(root, vendor=vendor, library=library, name=name, version=version)
    _interfaces(root, core)
    spaces = _add(root, "addressSpaces")
    for bus in core.buses:
        if bus.protocol == "axi4":
            space = _add(spaces, "addressSpace")
            _leaves(space, name=bus.prefix, range=1 << bus.address_width, width=bus.data_width)
    control = next(bus for bus in core.buses if bus.protocol == "axi_lite")
    _memory_map(root, control, core.registers)
    _model(root, core)
    _files(root, core)
    _leaves(root, description=core.summary)
    parameter = _add(_add(root, "parameters"), "parameter")
    _leaves(parameter, name="Component_Name")
    _add(
        parameter, "value", **{"spirit:resolve": "user", "spirit:id": "PARAM_VALUE.Component_Name"}
    ).text = f"{name}_v1_0"
    _extensions(root, core)
    return document(root, core)


# -- buses ----------------------------------------------------------------------------------------


def _interfaces(root: ET.Element, core: Core[Any]) -> None:
    interfaces = _add(root, "busInterfaces")
    names = []
    for bus in core.buses:
        if bus.protocol == "output":
            mapped = {"INTERRUPT": bus.name}
            if bus.name == "interrupt":
                _interface(interfaces, bus.name, "interrupt", mapped, "master",
                           SENSITIVITY="LEVEL_HIGH")  # fmt: skip
            continue
        mapped = {name.upper(): f"{bus.prefix}_{name}" for name, _, _ in bus.signals}
        master = bus.protocol == "axi4"
        interface = _interface(
            interfaces, bus.prefix, bus.protocol, mapped, "master" if master else "slave",
            PROTOCOL="AXI4" if master else "AXI4LITE",
        )  # fmt: skip
        mode = interface.find("spirit:master" if master else "spirit:slave")
        assert mode is not None
        if master:
            _add(mode, "addressSpaceRef", **{"spirit:addressSpaceRef": bus.prefix})
        else:
            _add(mode, "memoryMapRef", **{"spirit:memoryMapRef": bus.prefix})
        names.append(bus.prefix)
    # No FREQ_HZ: it would have to be the frequency of every design.
    _interface(interfaces, "aclk", "clock", {"CLK": "aclk"}, "slave",
               ASSOCIATED_BUSIF=":".join(names), ASSOCIATED_RESET="aresetn")  # fmt: skip
    _interface(interfaces, "aresetn", "reset", {"RST": "aresetn"}, "slave", POLARITY="ACTIVE_LOW")


def _interface(
    parent: ET.Element, name: str, protocol: str, signals: dict[str, str], mode: str,
    **parameters: object,
) -> ET.Element:  # fmt: skip
    """Add a bus interface and return it; the standard fixes the order of its elements."""
    library, definition = _BUSES[protocol]
    bus = _add(parent, "busInterface")
    _leaves(bus, name=name)
    reference = {"spirit:vendor": "xilinx.com", "spirit:library": library, "spirit:version": "1.0"}
    _add(bus, "busType", **reference, **{"spirit:name": definition})
    _add(bus, "abstractionType", **reference, **{"spirit:name": f"{definition}_rtl"})
    _add(bus, mode)
    maps = _add(bus, "portMaps")
    for logical, physical in signals.items():
        port_map = _add(maps, "portMap")
        _leaves(_add(port_map, "logicalPort"), name=logical)
        _leaves(_add(port_map, "physicalPort"), name=physical)
    added = _add(bus, "parameters")
    for key, value in parameters.items():
        parameter = _add(added, "parameter")
        _leaves(parameter, name=key)
        label = f"BUSIFPARAM_VALUE.{name.upper()}.{key}"
        _add(parameter, "value", **{"spirit:id": label}).text = str(value)
    return bus


def _memory_map(root: ET.Element, bus: BusPort, registers: Iterable[Register]) -> None:
    memory_map = _add(_add(root, "memoryMaps"), "memoryMap")
    _leaves(memory_map, name=bus.prefix)
    block = _add(memory_map, "addressBlock")
    _leaves(block, name=_BLOCK, baseAddress=0, range=1 << bus.address_width,
            width=REGISTER_WIDTH, usage="register")  # fmt: skip
    parameters = _add(block, "parameters")
    for name, value in (("OFFSET_BASE_PARAM", "C_BASEADDR"), ("OFFSET_HIGH_PARAM", "C_HIGHADDR")):
        parameter = _add(parameters, "parameter")
        _leaves(parameter, name=name)
        _add(parameter, "value").text = value
    _ELEMENTS.registers(block, registers, "{:#x}".format)


# -- the module -----------------------------------------------------------------------------------


def _model(root: ET.Element, core: Core[Any]) -> None:
    model = _add(root, "model")
    views = _add(model, "views")
    for use in ("synthesis", "simulation"):
        view = _add(views, "view")
        environment = f"verilogSource:vivado.xilinx.com:{use}"
        _leaves(view, name=f"xilinx_verilog{use}", envIdentifier=environment,
                language="verilog", modelName=core.name)  # fmt: skip
        _leaves(_add(view, "fileSetRef"), localName="rtl")
    elements = _add(model, "ports")
    for port in ports(core):
        element = _add(elements, "port")
        _leaves(element, name=port["name"])
        wire = _add(element, "wire")
        _leaves(wire, direction=port["direction"])
        if port["width"] > 1:
            _leaves(_add(wire, "vector"), left=port["width"] - 1, right=0)


def _files(root: ET.Element, core: Core[Any]) -> None:
    sets: Sequence[tuple[str, str, str]] = (("rtl", f"{core.name}.v", "verilogSource"),)
    file_sets = _add(root, "fileSets")
    for purpose, file, language in sets:
        file_set = _add(file_sets, "fileSet")
        _leaves(file_set, name=purpose)
        _leaves(_add(file_set, "file"), name=file, fileType=language)


def _extensions(root: ET.Element, core: Core[Any]) -> None:
    """Add what Vivado shows and asks: families, category, name, revision."""
    extensions = _add(_add(root, "vendorExtensions"), "xilinx:coreExtensions")
    families = _add(extensions, "xilinx:supportedFamilies")
    for family in FAMILIES:
        _add(families, "xilinx:family", **{"xilinx:lifeCycle": "Production"}).text = family
    _add(_add(extensions, "xilinx:taxonomies"), "xilinx:taxonomy").text = "/UserIP"
    for tag, value in (
        ("displayName", f"{core.name} ({core.family_name()})"),
        ("definitionSource", "package_project"),
        ("vendorDisplayName", "hwgen"),
        ("coreRevision", str(REVISION)),
    ):
        _add(extensions, f"xilinx:{tag}").text = value
