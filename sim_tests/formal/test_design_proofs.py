# SPDX-License-Identifier: Apache-2.0
"""Proofs of whole designs, and broken designs that they notice."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from flows.build.design import Design
from flows.formal.modules import TOP, DesignText
from flows.formal.prove import prove_design
from flows.formal.prover import write_modules
from flows.formal.shell import Streams
from hwgen.core.registry import family
from sim_tests.formal.test_engine_proofs import design as engine

BROKEN = [
    # A regular expression of the Verilog, what it becomes, and a property that is not proven then.
    (r"\.out__ready\(m_axis_out_tready\)", ".out__ready(1'h1)", "m_axis_out stable"),
    (r"\.act__valid\(s_axis_act_tvalid\)", ".act__valid(1'h1)", "s_axis_act accepted once"),
    (r"\.wgt__valid\(.*\)", ".wgt__valid(m_axis_out_tready)", "s_axis_wgt accepted once"),
    (r"(assign space = ).*;", r"\1 1'h1;", "out_buffer never overflows"),
]


@cache
def design() -> Design:
    config = {"name": "tiny", "family": "systolic", "array": {"rows": 2, "cols": 2}}
    return Design.of(family("systolic").params_class.model_validate(config))


def statuses(changed: Design) -> dict[str, str]:
    certificate = prove_design(changed, seconds=5)
    return {each.name: each.status for entry in certificate.entries for each in entry.results}


@pytest.mark.rotate(9)
@pytest.mark.parametrize(("pattern", "change", "name"), BROKEN)
def test_a_broken_design_is_not_proven(pattern: str, change: str, name: str) -> None:
    verilog, count = re.subn(pattern, change, design().verilog)
    assert count == 1, pattern
    assert statuses(design().with_verilog(verilog))[name] != "proven"


@pytest.mark.rotate(8)
@pytest.mark.parametrize(
    ("port", "change", "name"),
    [
        ("awburst", "2'h0", "AW INCR"),
        ("awsize", "3'h1", "AW INCR"),
        ("arburst", "2'h2", "AR INCR"),
        ("arsize", "{ 2'h1, m_axi_mem_arvalid }", "AR INCR"),
    ],
)
def test_a_wrong_type_or_size_of_bursts_is_refuted(
    port: str, change: str, name: str, tmp_path: Path
) -> None:
    verilog, count = re.subn(
        rf"(assign m_axi_mem_{port} = ).*;", rf"\1 {change};", engine().verilog
    )
    assert count == 1, port
    modules = write_modules(DesignText("dut", verilog).part(""), tmp_path)
    results = {each.name: each.status for each in Streams(modules, TOP, {}, {}).results()}
    other = "AR INCR" if name == "AW INCR" else "AW INCR"
    assert (results[name], results[other]) == ("refuted", "proven")
