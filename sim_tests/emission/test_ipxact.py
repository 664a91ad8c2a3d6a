# SPDX-License-Identifier: Apache-2.0
"""The IP-XACT description: order of elements, references that lead somewhere, ports that exist."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from flows.build import ipxact
from flows.build.build import Build
from flows.build.files import description, ports
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.ternary_lut.params import TernaryLutConfig
from sim_tests.support.designs import design_of

CONFIGS: list[Any] = [
    SystolicConfig.model_validate({"name": "array", "family": "systolic"}),
    SystolicConfig.model_validate({"name": "still", "array": {"dataflow": "weight_stationary"}}),
    TernaryLutConfig.model_validate({"name": "tables", "post": {"outputs": ["int8"]}}),
    GemmStreamConfig.model_validate({"name": "engine"}),
    GemmStreamConfig.model_validate(
        {"name": "narrow", "memory": {"address_width": 32, "data_width": 32}, "queue": 2}
    ),
]
ORDER = {
    "component": "vendor library name version busInterfaces addressSpaces memoryMaps model fileSets"
    " description",
    "busInterface": "name busType abstractionTypes master slave parameters",
    "abstractionType": "abstractionRef portMaps",
    "portMap": "logicalPort physicalPort",
    "addressSpace": "name range width addressUnitBits",
    "memoryMap": "name addressBlock addressUnitBits",
    "addressBlock": "name baseAddress range width usage register",
    "register": "name description addressOffset size volatile access field",
    "field": "name description bitOffset bitWidth access modifiedWriteValue",
    "model": "views instantiations ports",
    "view": "name envIdentifier componentInstantiationRef",
    "componentInstantiation": "name language moduleName fileSetRef",
    "port": "name wire",
    "wire": "direction vectors",
    "vector": "left right",
    "fileSet": "name file",
    "file": "name fileType",
    "parameter": "name value",
}
"""Children in the order in which the standard's schema wants them, of those that are used here."""
OPTIONAL = {
    "addressSpaces", "memoryMaps", "master", "slave", "parameters", "access", "modifiedWriteValue",
    "vectors",
}  # fmt: skip


def parsed(config: Any) -> ET.Element:
    return ET.fromstring(ipxact.component(core_of(config)))


def tag(element: ET.Element) -> str:
    space, _, name = element.tag.rpartition("}")
    assert space == "{" + ipxact.NAMESPACE
    return name


def texts(root: ET.Element, path: str) -> list[str]:
    return [str(element.text) for element in root.iterfind(path, {"": ipxact.NAMESPACE})]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_elements_are_those_of_the_standard_in_its_order(config: Any) -> None:
    root = parsed(config)
    assert tag(root) == "component"
    for element in root.iter():
        order = ORDER.get(tag(element))
        if order is None:
            continue
        known, result = order.split(), [tag(child) for child in element]
        assert [known.index(name) for name in result] == sorted(known.index(n) for n in result)
        assert set(known) - set(result) <= OPTIONAL, f"{tag(element)} has {result}"
    for element in root.iter():
        assert (
            len(element)
            or element.attrib
            or (element.text or "").strip()
            or tag(element) in ("master", "slave")
        ), f"{tag(element)} is empty"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.rotate(4)
def test_every_port_is_in_one_bus(config: Any) -> None:
    root = parsed(config)
    listed = [port["name"] for port in ports(core_of(config))]
    assert texts(root, "model/ports/port/name") == listed
    mapped = texts(root, ".//physicalPort/name")
    assert sorted(mapped) == sorted(listed)
    for port in description(core_of(config))["ports"]:
        path = f"model/ports/port[name='{port['name']}']/wire"
        assert texts(root, f"{path}/direction") == [port["direction"]]
        left = texts(root, f"{path}/vectors/vector/left")
        assert left == ([str(port["width"] - 1)] if port["width"] > 1 else [])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_references_lead_somewhere(config: Any) -> None:
    root, space = parsed(config), {"": ipxact.NAMESPACE}
    for reference, target in (
        ("memoryMapRef", "memoryMaps/memoryMap"),
        ("addressSpaceRef", "addressSpaces/addressSpace"),
    ):
        names = texts(root, f"{target}/name")
        result = [str(e.get(reference)) for e in root.iterfind(f".//{reference}", space)]
        assert sorted(result) == sorted(names)
    assert set(texts(root, ".//fileSetRef/localName")) <= set(texts(root, "fileSets/fileSet/name"))
    interfaces = texts(root, "busInterfaces/busInterface/name")
    clocked = texts(root, ".//parameter[name='ASSOCIATED_BUSIF']/value")[0].split(":")
    assert set(clocked) == {name for name in interfaces if "_ax" in name}
    assert len(set(interfaces)) == len(interfaces)


def test_buses_of_an_engine() -> None:
    root, space = parsed(CONFIGS[3]), {"": ipxact.NAMESPACE}
    kinds = {}
    for bus in root.iterfind("busInterfaces/busInterface", space):
        kind = bus.find("busType", space)
        assert kind is not None
        kinds[texts(bus, "name")[0]] = (
            f"{kind.get('vendor')}:{kind.get('library')}:{kind.get('name')}:{kind.get('version')}",
            bus.find("master", space) is not None,
        )
    assert kinds == {
        "s_axi_control": ("xilinx.com:interface:aximm:1.0", False),
        "m_axi_mem": ("xilinx.com:interface:aximm:1.0", True),
        "interrupt": ("xilinx.com:signal:interrupt:1.0", True),
        "aclk": ("xilinx.com:signal:clock:1.0", False),
        "aresetn": ("xilinx.com:signal:reset:1.0", False),
    }
    assert set(texts(root, ".//parameter[name='PROTOCOL']/value")) == {"AXI4", "AXI4LITE"}


def test_registers_of_an_engine() -> None:
    for config in CONFIGS[3:]:
        root = parsed(config)
        registers = [register for register in config.registers if register.bits]
        assert texts(root, ".//register/name") == [register.name for register in registers]
        offsets = [int(text.replace("'h", ""), 16) for text in texts(root, ".//addressOffset")]
        assert offsets == [register.offset for register in registers]
        widths = texts(root, ".//register[name='STATUS']/field/bitWidth")
        assert widths == [str(field.bits) for field in registers[2].fields]


def test_files_are_built() -> None:
    for config in (CONFIGS[0], CONFIGS[3]):
        assert set(texts(parsed(config), ".//file/name")) <= set(Build(design_of(config)).files)


def test_it_is_the_same_every_time_and_names_the_configuration() -> None:
    for config in CONFIGS:
        text = ipxact.component(core_of(config))
        assert text == ipxact.component(core_of(config))
        assert config.digest in text
