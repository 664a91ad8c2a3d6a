# SPDX-License-Identifier: Apache-2.0
"""An engine in a SoC of LiteX: elaborated, simulated, and its driver compiled."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import wishbone
from migen import ClockDomain, Module

from flows.board.litex import litex_files
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.bus.job_host import JobHost
from flows.simulation.placed_products import place_product
from flows.simulation.registry import simulator
from hwgen.cli import main

ENGINE = """\
name: gs
family: gemm_stream
compute:
  family: systolic
  activation: int8
  weight: int8
  array: {{rows: 2, cols: 2, dataflow: weight_stationary}}
buffers: {{activation_kib: 1, weight_kib: 1, output_kib: 1}}
memory: {{data_width: {width}, address_width: {bits}}}
"""
RAM, RAM_BYTES, REGISTERS = 0x4000_0000, 0x4000, 0x9000_0000
HOST = {"adr": 30, "dat_w": 32, "dat_r": 32, "sel": 4, "we": 1, "cyc": 1, "stb": 1, "ack": 1,
        "err": 1, "interrupt": 1}  # fmt: skip


def design(width: int = 32, bits: int = 32) -> Design:
    return Design.of(parse_config(ENGINE.format(width=width, bits=bits)))


def written(engine: Design, folder: Path) -> ModuleType:
    """Write the files of an engine, and return its module."""
    for name, text in litex_files(engine).items():
        (folder / name).write_text(text)
    spec = importlib.util.spec_from_file_location("hwgen_engine", folder / "hwgen_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clocks(Module):
    """Clock and reset of a simulation, from pins."""

    def __init__(self, platform: Any) -> None:
        self.clock_domains.cd_sys = ClockDomain()
        self.comb += [
            self.cd_sys.clk.eq(platform.request("sys_clk")),
            self.cd_sys.rst.eq(platform.request("sys_rst")),
        ]


class Soc(SoCCore):
    """A SoC without a processor: memory, the engine, and pins from which a test reaches the bus."""

    def __init__(self, module: ModuleType, standard: str) -> None:
        pins = [Subsignal(name, Pins(width)) for name, width in HOST.items()]
        platform = SimPlatform(
            "SIM", [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("host", 0, *pins)]
        )
        super().__init__(
            platform, clk_freq=1_000_000, cpu_type=None, with_uart=False, with_timer=False,
            with_ctrl=False, bus_standard=standard, bus_timeout=None, ident="",
            ident_version=False, integrated_main_ram_size=RAM_BYTES,
        )  # fmt: skip
        self.submodules.crg = Clocks(platform)
        bus = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.bus.add_master("host", bus)
        self.engine = module.add_engine(self, origin=REGISTERS)
        host = platform.request("host")
        for name in ("adr", "dat_w", "we", "cyc", "stb"):
            self.comb += getattr(bus, name).eq(getattr(host, name))
        self.comb += [
            bus.sel.eq(15),
            host.dat_r.eq(bus.dat_r),
            host.ack.eq(bus.ack),
            host.err.eq(bus.err),
            host.interrupt.eq(self.engine.ev.irq),
        ]


class SocModel:
    """The part of a simulated engine's model that `JobHost` needs, by the bus of a SoC."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / "soc"))
        self._library.soc_reset()

    def at(self, address: int) -> int:
        """Return a word of the bus."""
        value = ctypes.c_uint32()
        assert self._library.soc_read(address, ctypes.byref(value)) == 0, hex(address)
        return value.value

    def put(self, address: int, value: int) -> None:
        """Write a word of the bus."""
        assert self._library.soc_write(address, value) == 0, hex(address)

    def read32(self, offset: int) -> int:
        return self.at(REGISTERS + offset)

    def write32(self, offset: int, value: int) -> None:
        self.put(REGISTERS + offset, value)

    def wait(self, limit: int) -> bool:
        for _ in range(limit // 16):
            if self.interrupt:
                return True
            self._library.soc_run(16)
        return False

    @property
    def interrupt(self) -> bool:
        return bool(self._library.soc_interrupt())

    def store(self, address: int, values: bytes) -> None:
        first = address - address % 4
        last = (address + len(values) + 3) // 4 * 4
        words = bytearray(b"".join(self.at(a).to_bytes(4, "little") for a in range(first, last, 4)))
        words[address - first : address - first + len(values)] = values
        for offset in range(0, len(words), 4):
            self.put(first + offset, int.from_bytes(words[offset : offset + 4], "little"))

    def load(self, address: int, count: int) -> np.ndarray:
        first = address - address % 4
        words = b"".join(
            self.at(a).to_bytes(4, "little") for a in range(first, address + count + 3, 4)
        )
        return np.frombuffer(words[address - first :][:count], np.uint8)


def simulated(engine: Design, standard: str, folder: Path) -> tuple[SocModel, Any]:
    """Return a simulated SoC with an engine, and its description."""
    soc = Soc(written(engine, folder), standard)
    soc.finalize()
    converted = soc.platform.get_verilog(soc, name="soc")
    text = re.sub(r"//.*", "", converted.main_source)  # which says when it was written
    sources = {"soc.v": f"{text}\n{engine.verilog}", **converted.data_files}
    sources["litex_soc.cpp"] = Path(__file__).with_name("litex_soc.cpp").read_text()
    return SocModel(simulator().compile_library("soc", sources, ["litex_soc.cpp"], cycles=1)), soc


@pytest.mark.parametrize(
    ("standard", "width", "bits"),
    [
        ("wishbone", 32, 32),
        pytest.param("axi", 64, 40, marks=pytest.mark.rotate(18)),
        pytest.param("axi-lite", 32, 32, marks=pytest.mark.rotate(18)),
    ],
)
def test_a_soc_multiplies(standard: str, width: int, bits: int, tmp_path: Path) -> None:
    engine = design(width, bits)
    core: Any = engine.core
    model, soc = simulated(engine, standard, tmp_path)
    assert soc.bus.regions["engine_control"].origin == REGISTERS
    host = JobHost(core.params, model)  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    enable = soc.csr.regions["engine"].origin
    for m, k, n in ((2, 3, 4), (5, 9, 3)):
        a, w = core.params.activation.random(rng, (m, k)), core.params.weight.random(rng, (k, n))
        expected = core.multiply(a, w)
        placed, end = place_product(core.params, a, w, expected=expected, base=RAM)
        assert end < RAM + RAM_BYTES
        host.put(placed)
        # Status, pending and enable of the event.
        model.put(enable + 8, 1)
        assert not model.interrupt
        job = host.submit(placed.job)
        assert host.wait(job, 200_000) == "done"
        assert np.array_equal(host.results(placed), expected)
        assert not model.interrupt


def test_the_interrupt_is_an_event_of_the_soc(tmp_path: Path) -> None:
    engine = design()
    core: Any = engine.core
    model, soc = simulated(engine, "wishbone", tmp_path)
    base = soc.csr.regions["engine"].origin
    host = JobHost(core.params, model)  # type: ignore[arg-type]
    a, w = np.ones((2, 2), np.int8), np.ones((2, 2), np.int8)
    placed, _ = place_product(core.params, a, w, expected=core.multiply(a, w), base=RAM)
    host.put(placed)
    host.submit(placed.job)
    assert not model.wait(2000)
    assert model.at(base) == model.at(base + 4) == 1
    model.put(base + 8, 1)
    assert model.interrupt
    host.write("INTERRUPT", 3)
    model.at(base)
    assert not model.interrupt


def test_the_driver_for_litex_is_c(tmp_path: Path) -> None:
    written(design(), tmp_path)
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "mem.h").write_text("#define ENGINE_CONTROL_BASE 0x90000000L\n")
    (tmp_path / "main.c").write_text(
        '#include "gs_litex.h"\n'
        "int main(void) { gs_device engine = gs_litex(); return gs_probe(&engine); }\n"
    )
    options = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "-o", "main"]
    subprocess.run([*options, "main.c", "gs_driver.c"], cwd=tmp_path, check=True)


def test_the_command_writes_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gs.yaml").write_text(ENGINE.format(width=32, bits=32))
    Path("stream.yaml").write_text("name: s\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    assert main(["board", "litex", "-c", "gs.yaml", "-o", "out"]) == 0
    assert set(litex_files(design())) <= {path.name for path in Path("out").iterdir()}
    assert "hwgen_engine.py" in capsys.readouterr().out
    assert main(["board", "litex", "-c", "stream.yaml", "-o", "other"]) == 2
    assert "'s' has no memory port and registers" in capsys.readouterr().err
    assert not Path("other").exists()


def test_the_module_has_the_engine_of_the_configuration(tmp_path: Path) -> None:
    engine = design(64, 40)
    module = written(engine, tmp_path)
    assert engine.name == module.MODULE
    assert engine.core.digest == module.DIGEST
    assert module.MEMORIES == {"mem": ("m_axi_mem", 64, 40)}
    assert "interrupt" in module.OUTPUTS
    assert "hwgen_engine" not in sys.modules
