# SPDX-License-Identifier: Apache-2.0
"""AXI4: the ports of a top module, and the engines that read and write memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from flows.verilator import lint
from hwgen.build.files import LINT_WAIVERS, ports
from hwgen.build.verilog import block_to_verilog, to_verilog
from hwgen.buses import BusPort
from rtl_templates.axi.bus import axi4, fixed_fields
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import BurstReader
from rtl_templates.shell import AxiShell, beat_layout, bus_members
from sim_tests.axi_probe import TOP, AxiProbe
from sim_tests.runner import compile_verilog, run_module

READ_CASES = ("read_single_beats", "read_long_aligned", "read_long_unaligned", "read_random",
              "read_errors", "read_stop", "read_reset", "read_ram")  # fmt: skip

MEMORY = BusPort("axi4", "mem", 128, 40)
CONTROL = BusPort("axi_lite", "control", 32, 12)
INTERRUPT = BusPort("output", "interrupt")


class Skeleton(wiring.Component):
    """A core with a port of each kind and nothing in it."""

    def __init__(self) -> None:
        members = {"beats": In(stream.Signature(beat_layout(32, last=True)))}
        super().__init__(members | bus_members((MEMORY, CONTROL, INTERRUPT)))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        counter = Signal(8)
        m.d.sync += counter.eq(counter + self.control.wdata[0])
        m.d.comb += [*fixed_fields(self.mem, 128), self.interrupt.eq(counter[-1])]
        return m


def test_buses_of_the_top_module() -> None:
    """The Verilog's ports are those that the manifest lists."""
    text = to_verilog(Skeleton(), "skeleton")
    top = re.search(r"^module skeleton\(.*?^endmodule", text, re.S | re.M)
    assert top
    pattern = r"^  (input|output) (?:\[(\d+):0\] )?(\w+);"
    found = {name: (way[:-3], int(high or 0) + 1) for way, high, name in
             re.findall(pattern, top[0], re.M)}  # fmt: skip
    config = SimpleNamespace(ports=(), buses=(MEMORY, CONTROL, INTERRUPT))
    listed = {port["name"]: (port["direction"], port["width"]) for port in ports(config)}
    stream_ports = {name for name in found if name.startswith("s_axis_beats_")}
    assert len(stream_ports) == 4
    assert {name: port for name, port in found.items() if name not in stream_ports} == listed
    assert listed["m_axi_mem_awaddr"] == ("out", 40)
    assert listed["m_axi_mem_wstrb"] == ("out", 16)
    assert listed["m_axi_mem_rdata"] == ("in", 128)
    assert listed["s_axi_control_awaddr"] == ("in", 12)
    assert listed["s_axi_control_rdata"] == ("out", 32)
    assert listed["interrupt"] == ("out", 1)


@pytest.mark.parametrize(
    "member", [In(axi4(64, 32)), In(1), Out(2), Out(wiring.Signature({"x": Out(1)}))]
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_what_the_shell_does_not_know(member: Any) -> None:
    with pytest.raises(TypeError, match="member 'odd' of the core is neither a stream"):
        AxiShell(wiring.Component({"odd": member}))
    gc.collect()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: axi4(48, 32), r"data_width must be one of .*, not 48"),
        (lambda: BurstReader(64, 32, 12, 4, 16), "max_burst must be a power of two from 1 to 256"),
        (lambda: BurstReader(64, 32, 512, 4, 16), "max_burst must be .*, not 512"),
        (lambda: BurstReader(64, 32, 16, 0, 16), "outstanding must be at least 1, not 0"),
        (lambda: Gather(64, 1, 9, 8), r"width must be 1\.\.8, not 9"),
        (lambda: Gather(64, 2, 9, 3), "a word of 3 x 2 bytes must hold at least a beat, 8 bytes"),
    ],
)
def test_parameters_that_make_no_sense(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# data width, address width, longest burst, in flight; element bytes, bits kept, lanes
SHAPES = [
    (32, 32, 16, 4, 1, 8, 4),
    (32, 64, 1, 8, 1, 4, 12),
    (64, 40, 256, 3, 2, 16, 5),
    (64, 64, 16, 1, 1, 8, 8),
    (128, 64, 16, 2, 4, 18, 4),
    (128, 32, 1, 8, 1, 7, 21),
    (512, 64, 16, 4, 1, 8, 64),
    (512, 64, 256, 3, 8, 64, 9),
]


def probe(shape: tuple[int, ...]) -> AxiProbe:
    data, address, burst, flying, element, width, lanes = shape
    return AxiProbe(
        BurstReader(data, address, burst, flying, 16), Gather(data, element, width, lanes)
    )


def plan(shape: tuple[int, ...], cases: tuple[str, ...]) -> dict[str, Any]:
    names = ("data_width", "address_width", "max_burst", "outstanding", "element_bytes", "width",
             "lanes")  # fmt: skip
    return {**dict(zip(names, shape, strict=True)), "cases": cases, "seed": 0}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
def test_engines(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Verilator has nothing to say about the engines, and they do what they must."""
    text = block_to_verilog(probe(shape), "axi")
    source = tmp_path / "probe.v"
    source.write_text(text)
    assert lint([source], TOP, tuple(LINT_WAIVERS)) == []
    built = compile_verilog(text, TOP)
    outcomes = run_module(
        TOP, built, "sim_tests.cocotb_axi", plan(shape, READ_CASES), tmp_path, timeout=300
    )
    assert len(outcomes) == len(READ_CASES)
    assert [f"{o.name}: {o.message}" for o in outcomes if not o.passed] == []
