# SPDX-License-Identifier: Apache-2.0
"""The structure read from the hardware: kinds, widths, nets, memories, instances, what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl._ir import PortDirection
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cost_model.netlist.document import document_of, module_of, packed, unpacked
from cost_model.netlist.model import ONE, TOP, ZERO
from cost_model.netlist.netlist import Netlist
from flows.build.design import Design
from flows.build.files import ports
from flows.build.load import load_config
from flows.build.netlist_cache import convert
from hwgen.core.registry import core_of
from rtl_templates.hdl.hierarchy import Block, emit, place
from sim_tests.support.paths import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def structured(
    m: Module, inputs: dict[str, Signal], outputs: dict[str, Signal], name: str = "design"
) -> Netlist:
    """Return the structure of a module."""
    return convert(rtlil_units(m, inputs, outputs, name), name).netlist


def rtlil_units(
    m: Module, inputs: dict[str, Signal], outputs: dict[str, Signal], name: str
) -> list[str]:
    """Return a module in RTLIL."""
    domain = m.domains.sync = ClockDomain("sync")
    ports = {"clk": (domain.clk, PortDirection.Input), "rst": (domain.rst, PortDirection.Input)}
    ports |= {name: (signal, PortDirection.Input) for name, signal in inputs.items()}
    ports |= {name: (signal, PortDirection.Output) for name, signal in outputs.items()}
    return list(emit(m, name, ports))


def test_an_adder_has_its_operands_and_signs() -> None:
    m = Module()
    a, b, y = Signal(signed(8)), Signal(5), Signal(signed(9))
    m.d.comb += y.eq(a + b)
    top = structured(m, {"a": a, "b": b}, {"y": y}).top
    [cell] = top.cells
    assert cell.operator == cell.type == "add"
    assert cell.pins["a"][:8] == top.port("a").bits
    # An operand without sign gets a zero, and both are then in two's complement.
    assert cell.pins["b"] == (*top.port("b").bits, ZERO)
    assert cell.signed == (True, True)
    assert cell.pins["y"][:9] == top.port("y").bits


def test_a_multiplexer_has_a_select() -> None:
    m = Module()
    s, a, b, y = Signal(), Signal(6), Signal(6), Signal(6)
    m.d.comb += y.eq(Mux(s, b, a))
    top = structured(m, {"s": s, "a": a, "b": b}, {"y": y}).top
    [cell] = top.cells
    assert cell.operator == "mux"
    for pin in ("a", "b", "s", "y"):
        assert cell.pins[pin] == top.port(pin).bits


@pytest.mark.parametrize(
    ("enabled", "resettable", "pins"),
    [
        (False, False, {"clk", "d", "q"}),
        (True, False, {"clk", "d", "q", "en"}),
        (False, True, {"clk", "d", "q", "srst"}),
        (True, True, {"clk", "d", "q", "en", "srst"}),
    ],
)
def test_a_register_has_enable_and_reset(enabled: bool, resettable: bool, pins: set[str]) -> None:
    m = Module()
    d, e, q = Signal(7), Signal(), Signal(7, reset_less=not resettable)
    if enabled:
        with m.If(e):
            m.d.sync += q.eq(d)
    else:
        m.d.sync += q.eq(d)
    top = structured(m, {"d": d, "e": e}, {"q": q}).top
    [cell] = top.cells
    assert cell.operator == "register"
    assert set(cell.pins) == pins
    assert cell.result == top.port("q").bits
    assert cell.pins["d"] == top.port("d").bits
    assert not cell.low
    assert {pin for pin, _ in cell.operands} == pins - {"clk", "q"}


def test_a_register_that_is_cleared_by_a_low_signal_says_so() -> None:
    m = Module()
    d, run, q = Signal(4), Signal(), Signal(4, reset_less=True)
    m.d.sync += q.eq(Mux(run, d, 0))
    [cell] = structured(m, {"d": d, "run": run}, {"q": q}).top.cells
    assert cell.operator == "register"
    assert cell.low == {"srst"}


def test_a_memory_has_its_size_and_ports() -> None:
    m = Module()
    m.submodules.memory = memory = Memory(shape=12, depth=40, init=[])
    write, read, other = memory.write_port(), memory.read_port(), memory.read_port(domain="comb")
    at, data, enable = Signal(6), Signal(12), Signal()
    m.d.comb += [write.addr.eq(at), write.data.eq(data), write.en.eq(enable)]
    m.d.comb += [read.addr.eq(at), read.en.eq(enable), other.addr.eq(at)]
    design = structured(
        m, {"at": at, "data": data, "enable": enable}, {"x": read.data, "y": other.data}
    )
    [result] = [memory for module in design.modules.values() for memory in module.memories]
    assert (result.width, result.depth) == (12, 40)
    [wrote] = result.writes
    assert [len(wrote.address), len(wrote.data), len(wrote.enable)] == [6, 12, 12]
    assert len(set(wrote.enable)) == 1
    assert sorted(port.clocked for port in result.reads) == [False, True]
    assert {len(port.data) for port in result.reads} == {12}


class Leaf(Block):
    a: Any
    y: Any

    def __init__(self, width: int) -> None:
        super().__init__(f"leaf_{width}", {"a": In(width), "y": Out(width)})

    def build(self, m: Module) -> None:
        m.d.comb += self.y.eq(~self.a)


class Pair(Block):
    a: Any
    y: Any

    keep_hierarchy = True

    def __init__(self, width: int) -> None:
        super().__init__(f"pair_{width}", {"a": In(width), "y": Out(width)})

    def build(self, m: Module) -> None:
        between = Signal(self.width("a"))
        place(m, "first", Leaf(len(between)), a=self.a, y=between)
        place(m, "second", Leaf(len(between)), a=between, y=self.y)


class Chain(Elaboratable):
    """Blocks from `a` to `y`, one after another; they can be placed only within `emit`."""

    def __init__(self, blocks: Sequence[Block], a: Signal, y: Signal) -> None:
        self.blocks = blocks
        between = [Signal(len(a), name=f"between_{index}") for index in range(len(blocks) - 1)]
        self.ends = [a, *between, y]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index, block in enumerate(self.blocks):
            place(m, f"block_{index}", block, a=self.ends[index], y=self.ends[index + 1])
        return m


def chain(blocks: Sequence[Block], name: str = "design") -> Netlist:
    m = Module()
    width = blocks[0].width("a")
    a, y = Signal(width), Signal(width)
    m.submodules.chain = Chain(blocks, a, y)
    return structured(m, {"a": a}, {"y": y}, name)


def test_instances_are_counted_through_the_hierarchy() -> None:
    design = chain([Pair(8)] * 3)
    assert design.counts["pair_8"] == 3
    assert design.counts["leaf_8"] == 6
    assert next(iter(design.counts)) == TOP
    assert design.modules["pair_8"].keep_hierarchy
    assert not design.modules["leaf_8"].keep_hierarchy
    [first, second] = design.modules["pair_8"].instances
    assert (first.name, first.module) == ("first", "leaf_8")
    assert first.connections["a"] == design.modules["pair_8"].port("a").bits
    assert first.connections["y"] == second.connections["a"]


def test_a_full_adder_is_recognised_by_its_name() -> None:
    class Adder(Leaf):
        def __init__(self) -> None:
            super().__init__(1)
            self.module_name = "full_adder"

    design = chain([Adder()])
    assert [name for name, module in design.modules.items() if module.is_full_adder] == [
        "full_adder"
    ]


def test_designs_of_other_names_share_their_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    first = chain([Pair(8)] * 2, "first")
    kept = set((tmp_path / "modules").iterdir())
    second = chain([Pair(8)] * 2, "a_second_one")
    assert set((tmp_path / "modules").iterdir()) == kept
    assert first == second


def test_a_damaged_entry_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    before = chain([Pair(8)])
    for path in (tmp_path / "modules").iterdir():
        path.write_text(path.read_text()[:-40])
    assert chain([Pair(8)]) == before


def test_bits_are_stored_as_runs() -> None:
    for bits in (
        (), (5,), (ZERO,), (3, 4, 5, 6), (7, 7, 7), (ZERO, ZERO, 9, 10, 10, 10, ONE), (4, 3, 2),
    ):  # fmt: skip
        assert unpacked(packed(bits)) == bits
    assert packed(tuple(range(20, 120))) == [20, 100]
    assert packed((*range(8), *[7] * 24)) == [0, 8, 7, -24]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.rotate(16)
def test_every_shipped_configuration_has_a_structure(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    config = load_config(path)
    emitted = Design.of(config)
    design, verilog = emitted.netlist, emitted.verilog
    assert verilog == Design.of(config).verilog  # the same with and without the netlist
    cached = Design.of(config)
    assert cached.netlist == design
    assert "rtlil" not in vars(cached)
    texts = verilog.split("\nmodule ")
    assert len(design.modules) == len(design.counts) == len(texts)
    for module in design.modules.values():
        assert module_of(document_of(module)) == module
    # Every instance is one of the Verilog, with all of its ports.
    for module in design.modules.values():
        for instance in module.instances:
            there = {port.name: port.width for port in design.modules[instance.module].ports}
            widths = {name: len(bits) for name, bits in instance.connections.items()}
            assert widths.items() <= there.items()
    names = [port["name"] for port in ports(core_of(config))]
    assert sorted(port.name for port in design.top.ports) == sorted(names)
