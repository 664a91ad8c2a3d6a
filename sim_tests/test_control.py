# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine in simulation: access, queue, interrupts, counters, ends of jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flows.verilator import lint
from hwgen.build.files import LINT_WAIVERS
from hwgen.build.verilog import block_to_verilog
from hwgen.families.gemm_stream import GemmStreamConfig
from rtl_templates.axi.control import Control
from rtl_templates.gemm_stream.flow import CONSUMERS, EVENTS
from rtl_templates.gemm_stream.job import job_layout
from sim_tests.runner import Outcome, compile_verilog, run_module

TOP = "registers_control"
CASES = ("access", "overlapped", "jobs", "full", "interrupts", "counters", "ends", "at_once",
         "resets")  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "narrow": {"queue": 2, "memory": {"address_width": 32}},
    "roomy": {"queue": 16, "memory": {"address_width": 64}},
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
    return run_module(TOP, built, "sim_tests.cocotb_control", plan, work, timeout=300)


@pytest.mark.parametrize("name", CONFIGS)
def test_control(name: str, tmp_path: Path) -> None:
    """Verilator has nothing to say about it, and it does what it must."""
    config = configuration(name)
    text = verilog(config)
    source = tmp_path / "control.v"
    source.write_text(text)
    assert lint([source], TOP, WAIVED) == []
    outcomes = run(config, text, CASES, tmp_path)
    assert len(outcomes) == len(CASES)
    assert [f"{o.name}: {o.message}" for o in outcomes if not o.passed] == []
