# SPDX-License-Identifier: Apache-2.0
"""Cycles that do not depend on operands, and designs in which they do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.build.design import Design
from flows.build.load import load_design
from flows.formal.block_proof import Result
from flows.formal.independence import (
    DEPENDENT,
    INDEPENDENT,
    Cones,
    control_outputs,
    operand_inputs,
    prove_independence,
)
from flows.formal.modules import TOP, DesignText
from flows.formal.prove import LIST_WORDS, prove_design
from flows.formal.prover import write_modules
from hwgen.core.registry import family
from sim_tests.formal.test_design_proofs import design
from sim_tests.formal.test_engine_proofs import design as engine

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

BROKEN = [
    # A regular expression of the Verilog, what it becomes, and where the times differ.
    (r"\.act__valid\(s_axis_act_tvalid\)",
     ".act__valid(s_axis_act_tvalid & s_axis_act_tdata[0])", "s_axis_wgt_tready"),
    (r"\.out__ready\(m_axis_out_tready\)",
     ".out__ready(m_axis_out_tready | m_axis_out_tdata[3])", "m_axis_out_tvalid"),
    (r"\.wgt__valid\(s_axis_wgt_tvalid\)",
     ".wgt__valid(s_axis_wgt_tvalid & s_axis_wgt_tdata != 0)", "s_axis_act_tready"),
]  # fmt: skip


def result(verilog: str, work: Path, *, depends: bool = False) -> Result:
    part = DesignText("tiny", verilog).part("")
    modules = write_modules(part, work)
    return prove_independence(
        part, modules, work, commands=[], stops={}, depends=depends, seconds=20
    )


def test_cycles_of_an_array_are_independent(tmp_path: Path) -> None:
    proof = result(design().verilog, tmp_path)
    assert (proof.name, proof.status) == (INDEPENDENT, "proven")


@pytest.mark.rotate(6)
@pytest.mark.parametrize(("pattern", "change", "output"), BROKEN)
def test_an_operand_that_decides_is_refuted(
    pattern: str, change: str, output: str, tmp_path: Path
) -> None:
    verilog, count = re.subn(pattern, change, design().verilog)
    assert count == 1, pattern
    proof = result(verilog, tmp_path)
    assert proof.status == "refuted", proof.detail
    last = proof.trace[-1]
    differing = {name for name in last if last[name] != last.get(f"other_{name}", last[name])}
    assert "two runs" in proof.detail
    assert differing & {output, "s_axis_act_tready", "s_axis_wgt_tready", "m_axis_out_tvalid"}


def test_a_missing_example_is_unknown(tmp_path: Path) -> None:
    proof = result(design().verilog, tmp_path, depends=True)
    assert (proof.name, proof.status) == (DEPENDENT, "unknown")


@pytest.mark.rotate(12)
def test_serial_elements_have_an_example() -> None:
    config = {"name": "tiny", "family": "broadcast_2d",
              "array": {"rows": 2, "cols": 2, "pe": "serial_digit"}}  # fmt: skip
    serial = Design.of(family("broadcast_2d").params_class.model_validate(config))
    results = prove_design(serial, seconds=20, use_cache=False).entries[-1].results
    (found,) = (each for each in results if each.group == "cycles")
    assert (found.name, found.status) == (DEPENDENT, "proven")
    assert found.trace


@pytest.mark.rotate(8)
@pytest.mark.parametrize(
    ("port", "bit"),
    [
        ("mem__rvalid", "m_axi_mem_rdata[7]"),
        ("mem__bvalid", "m_axi_mem_wdata[0]"),
    ],
)
def test_an_operand_at_the_memory_port_is_noticed(port: str, bit: str, tmp_path: Path) -> None:
    verilog = engine().verilog
    changed, count = re.subn(rf"(\.{port}\()(.*)\)", rf"\1\2 & {bit})", verilog)
    assert count == 1
    for text, hits in ((verilog, set()), (changed, {"m_axi_mem_rdata"})):
        modules = write_modules(DesignText("dut", text).part(""), tmp_path)
        ports = modules[TOP]["ports"]
        inputs = Cones(modules).follow(control_outputs(ports))
        operands = operand_inputs(ports, [])
        assert operands == ["m_axi_mem_rdata"]
        assert {each.port for each in inputs if each.port in operands} == hits


@pytest.mark.rotate(12)
def test_only_words_of_a_list_decide(tmp_path: Path) -> None:
    transformer = load_design(CONFIGS / "transformer.yaml")
    modules = write_modules(DesignText("transformer", transformer.verilog).part(""), tmp_path)
    (lists,) = (name for name in modules if name.startswith("list_memory"))
    outputs = control_outputs(modules[TOP]["ports"])
    all_words, of_lists = Cones(modules), Cones(modules, {lists: LIST_WORDS})
    decides = [each for each in all_words.follow(outputs) if each.port == "m_axi_mem_rdata"]
    assert decides
    assert all_words.route(decides[0]).startswith("m_axi_mem_rdata[")
    assert not any(each.port == "m_axi_mem_rdata" for each in of_lists.follow(outputs))
