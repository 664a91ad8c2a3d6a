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

from flows.build.files import LINT_WAIVERS, ports
from flows.build.verilog import block_to_verilog, to_verilog
from flows.simulation.runner import compile_verilog, run_module
from flows.simulation.verilator.verilator import lint
from hwgen.core.bus import BusPort
from hwgen.core.params.protection import Protection
from rtl_templates.axi.bus import axi4, fixed_fields
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.shell import AxiShell, beat_layout, bus_members
from sim_tests.rtl.axi_probe import AxiProbe
from sim_tests.support.emitted import module_text
from sim_tests.support.mutations import Mutation

CASES = (
    "read_single_beats", "read_long_aligned", "read_long_unaligned", "read_random", "read_errors",
    "read_stop", "read_reset", "read_ram", "write_single_beats", "write_long_rows", "write_random",
    "write_errors", "write_stop", "write_reset", "write_ram",
)  # fmt: skip
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
    top = module_text(to_verilog(Skeleton(), "skeleton"), "skeleton")
    pattern = r"^  (input|output) (?:\[(\d+):0\] )?(\w+);"
    result = {
        name: (way[:-3], int(high or 0) + 1) for way, high, name in re.findall(pattern, top, re.M)
    }
    params = SimpleNamespace(protect=Protection())
    core: Any = SimpleNamespace(ports=(), buses=(MEMORY, CONTROL, INTERRUPT), params=params)
    listed = {port["name"]: (port["direction"], port["width"]) for port in ports(core)}
    stream_ports = {name for name in result if name.startswith("s_axis_beats_")}
    assert len(stream_ports) == 4
    assert {name: port for name, port in result.items() if name not in stream_ports} == listed
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
        (lambda: BurstWriter(64, 32, 0, 4, 16), "max_burst must be .*, not 0"),
        (lambda: Scatter(64, 4, 2), "lane_bytes must be 1, 4 or 8, not 2"),
        (lambda: Scatter(64, 0, 4), "lanes must be at least 1, not 0"),
        (lambda: Gather(64, 2, 9, 3), "a word of 3 x 2 bytes must hold at least a beat, 8 bytes"),
    ],
)
def test_parameters_that_make_no_sense(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# data width, address width, longest burst, in flight; read: element bytes, bits kept, lanes;
# written: lanes, bytes of a lane
SHAPES = [
    (32, 32, 16, 4, 1, 8, 4, 4, 4),
    (64, 40, 256, 3, 2, 16, 5, 5, 8),
    (128, 32, 1, 8, 1, 7, 21, 3, 4),
    (512, 64, 16, 4, 1, 8, 64, 32, 4),
]
MORE_SHAPES = [
    (32, 64, 1, 8, 1, 4, 12, 1, 8),
    (64, 64, 16, 1, 1, 8, 8, 8, 4),
    (128, 64, 16, 2, 4, 18, 4, 8, 8),
    (512, 64, 256, 3, 8, 64, 9, 9, 8),
    (128, 64, 2, 5, 2, 9, 9, 16, 4),
    (1024, 48, 4, 3, 4, 32, 32, 5, 4),
]


def probe(shape: tuple[int, ...]) -> AxiProbe:
    data, address, burst, flying, element, width, lanes, out_lanes, lane_bytes = shape
    return AxiProbe(
        BurstReader(data, address, burst, flying, 16),
        Gather(data, element, width, lanes),
        Scatter(data, out_lanes, lane_bytes),
        BurstWriter(data, address, burst, flying, 16),
    )


def plan(shape: tuple[int, ...], cases: tuple[str, ...], seed: int = 0) -> dict[str, Any]:
    names = ("data_width", "address_width", "max_burst", "outstanding", "element_bytes", "width",
             "lanes", "out_lanes", "lane_bytes")  # fmt: skip
    return {**dict(zip(names, shape, strict=True)), "cases": cases, "seed": seed}


def failures(
    shape: tuple[int, ...], work: Path, *, text: str = "", cases: tuple[str, ...] = CASES
) -> list[str]:
    top = "mutant_probe" if text else "axi_probe"
    built = compile_verilog(text or block_to_verilog(probe(shape), "axi"), top)
    outcomes = run_module(
        top, built, "sim_tests.rtl.cocotb_axi", plan(shape, cases), work, timeout=600
    )
    assert len(outcomes) == len(cases)
    return [f"{o.name}: {o.message}" for o in outcomes if not o.passed]


def named(shape: tuple[int, ...]) -> str:
    return "-".join(map(str, shape))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=named)
@pytest.mark.rotate(4)
def test_engines(shape: tuple[int, ...], tmp_path: Path) -> None:
    assert failures(shape, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("shape", MORE_SHAPES, ids=named)
def test_more_engines(shape: tuple[int, ...], tmp_path: Path) -> None:
    assert failures(shape, tmp_path) == []


@pytest.mark.parametrize("shape", SHAPES + MORE_SHAPES[-2:], ids=named)
def test_verilator_has_nothing_to_say(shape: tuple[int, ...], tmp_path: Path) -> None:
    source = tmp_path / "probe.v"
    source.write_text(block_to_verilog(probe(shape), "axi"))
    assert lint([source], "axi_probe", tuple(LINT_WAIVERS)) == []


def broken(
    name: str, module: str, pattern: str, replacement: str, *cases: str, quick: bool = False
) -> Any:
    mutation = Mutation(name, module, pattern, replacement, {}, cases)
    return pytest.param(mutation, id=name, marks=() if quick else pytest.mark.long)


MUTATIONS = [
    broken("word complete too late", r"gather_\w+", r"full = reach >=", "full = reach >",
           "read_random", quick=True),
    broken("spilled bytes lost", r"gather_\w+", r"if \(transfer\) spare",
           "if (transfer & ~full) spare",
           "read_random"),
    broken("rest of the word not zero", r"gather_\w+", r"stored = fresh \? \w+ : ",
           "stored = ",
           "read_random"),
    broken("burst over the boundary", r"burst_splitter_\w+", r"stretch \+ 1'h1",
           "stretch + 2'h2", "read_long_aligned"),
    broken("burst of nothing", r"burst_splitter_\w+", r"o_last = remaining <= ",
           "o_last = remaining < ", "read_random"),
    broken("too many bursts in flight", r"burst_reader_\w+", r"splitter_o_valid & queue_ready",
           "splitter_o_valid",
           "read_random", quick=True),
    broken("wrong bit of the response", r"burst_reader_\w+", r"r_resp\[1\]", "r_resp[0]",
           "read_errors"),
    broken("address withdrawn", r"burst_reader_\w+", r"= ar_valid & \w+", "= 1'h0", "read_random"),
    broken("stopped reader does not listen", r"burst_reader_\w+", r"r_ready = (\w+) \| stop",
           r"r_ready = \1", "read_stop"),
    broken("stopped reader still asks", r"burst_reader_\w+", r"= ~ stop", "= 1'h1", "read_stop"),
    broken("row's end lost", r"scatter_\w+", r"reach <= ", "reach < ", "write_random"),
    broken("bytes before the row written", r"scatter_\w+", r"\? 2'h0 : offset",
           "? 2'h0 : 2'h0", "write_random", quick=True),
    broken("row begins at the wrong byte", r"scatter_\w+", r"\? fill_reg : offset",
           "? fill_reg : 2'h0", "write_random"),
    broken("announced too early", r"burst_writer_\w+", r"unclaimed > splitter_o_length",
           "unclaimed >= splitter_o_length", "write_random", quick=True),
    broken("too many writes in flight", r"burst_writer_\w+", r"flying != 3'h4", "1'h1",
           "write_random"),
    broken("does not wait for responses", r"burst_writer_\w+", r"= splitter_o_valid \| \w+;",
           "= splitter_o_valid;", "write_random", "write_stop"),
    broken("end of burst lost", r"burst_writer_\w+", r"w_last = position ==",
           "w_last = position + 8'h01 ==", "write_long_rows"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutation_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    text = mutation.apply(block_to_verilog(probe(SHAPES[0]), "mutant"))
    assert failures(SHAPES[0], tmp_path, text=text, cases=mutation.cases)
