# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine in simulation: access, queue, interrupts, counters, ends of jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.build.files import LINT_WAIVERS
from flows.build.verilog import block_to_verilog
from flows.simulation.runner import Outcome, compile_verilog, run_module
from flows.simulation.verilator.verilator import lint
from hwgen.families.gemm_stream.params import GemmStreamConfig
from rtl_templates.axi.control import Control
from rtl_templates.gemm_stream.flow import CONSUMERS, EVENTS
from rtl_templates.gemm_stream.job import job_layout

TOP = "registers_control"
CASES = {
    "usual": ("access", "overlapped", "jobs", "full", "interrupts", "counters", "ends", "at_once",
              "resets"),
    "narrow": ("access", "full", "ends", "at_once"),
    "roomy": ("overlapped", "jobs", "full", "resets"),
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "narrow": {"queue": 2, "memory": {"address_width": 32}},
    "roomy": {
        "queue": 16,
        "memory": {"address_width": 64},
        "compute": {"family": "systolic", "array": {"cols": 256, "dataflow": "weight_stationary"}},
        "array": {"blocks": 16},
        "buffers": {"weight_kib": 1024, "output_kib": 1024, "column_kib": 1024},
    },
}
WAIVED = (*LINT_WAIVERS, "CASEOVERLAP", "SYMRSVDWORD")
"""Also choices by one bit of several, which exclude each other, and the name of the interrupt."""

COUNTERS_FROM = 0xFFFF_FFC0
"""What the counters are set to, so that a carry into their upper words is seen."""


def configuration(name: str) -> GemmStreamConfig:
    return GemmStreamConfig.model_validate({"name": name, **CONFIGS[name]})


def verilog(config: GemmStreamConfig) -> str:
    """Return the module, its counters not zero after reset."""
    block = Control(config, CONSUMERS, job_layout(config), EVENTS)
    text, count = re.subn(
        r"(\\?counter_\w+ <= 48'h)000000000000;",
        rf"\g<1>{COUNTERS_FROM:012x};",
        block_to_verilog(block, "registers"),
    )
    assert count == len(EVENTS) + 1, "the counters are reset in another way"
    return text


def run(config: GemmStreamConfig, text: str, cases: tuple[str, ...], work: Path) -> list[Outcome]:
    plan = {"config": config.resolved(), "cases": cases, "seed": 0, "counters_from": COUNTERS_FROM}
    built = compile_verilog(text, TOP)
    return run_module(TOP, built, "sim_tests.rtl.cocotb_control", plan, work, timeout=300)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.rotate(9)
def test_control(name: str, tmp_path: Path) -> None:
    """Verilator has nothing to say about it, and it does what it must."""
    config = configuration(name)
    text = verilog(config)
    source = tmp_path / "control.v"
    source.write_text(text)
    assert lint([source], TOP, WAIVED) == []
    outcomes = run(config, text, CASES[name], tmp_path)
    assert len(outcomes) == len(CASES[name])
    assert [f"{o.name}: {o.message}" for o in outcomes if not o.passed] == []


@dataclass(frozen=True)
class Fault:
    """A fault in the Verilog and the case that must notice it."""

    name: str
    pattern: str
    replacement: str
    case: str


FAULTS = [
    Fault("one_end", r"(assign finishes = \w+ \? )\w+", r"\1drain_job_ready", "at_once"),
]
MORE_FAULTS = [
    Fault("strobes", r"strobe <= bus_wstrb;", "strobe <= 4'hf;", "access"),
    Fault("kept", r"if \(\w+\) (reads_high <= )", r"\1", "counters"),
    Fault("alone", r"(assign alone = ).*;", r"\g<1>1'h1;", "jobs"),
    Fault("enable", r"(assign interrupt = ).*;", r"\1| pending;", "interrupts"),
    Fault("cleared", r"(assign clear_pending = go \? )\w+", r"\g<1>2'h3", "interrupts"),
    Fault(
        "word",
        r"word <= bus_wdata;",
        "word <= { bus_wdata[31:9], bus_wdata[7], bus_wdata[7:0] };",
        "access",
    ),
    Fault("flush", r"(assign flush = ).*;", r"\1stop;", "ends"),
]


@pytest.mark.parametrize(
    "fault",
    [*FAULTS, *(pytest.param(fault, marks=pytest.mark.long) for fault in MORE_FAULTS)],
    ids=lambda fault: fault.name,
)
def test_faults_are_noticed(fault: Fault, tmp_path: Path) -> None:
    config = configuration("usual")
    text, count = re.subn(fault.pattern, fault.replacement, verilog(config))
    assert count, f"{fault.pattern} does not occur"
    (outcome,) = run(config, text, (fault.case,), tmp_path)
    assert not outcome.passed
