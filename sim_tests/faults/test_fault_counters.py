# SPDX-License-Identifier: Apache-2.0
"""Counters of faults in an engine that is protected: one more for each flip of a register."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.bus.job_host import JobHost, open_engine
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import place
from hwgen.core.register_map import FAULT_COUNTERS
from hwgen.families.gemm_stream.params import GemmStreamConfig
from sim_tests.engines.test_every_position import ENGINE, PATIENCE

FLIP = 2
"""Written to INTERRUPT: what flips a bit of a register in the changed Verilog."""


def design_of(protection: str) -> Design:
    return Design.of(parse_config(f"{ENGINE}protect: {{{protection}}}\n"))


def flip_a_register(control: str) -> str:
    """Return the control module in which a register of the job window takes a wrong bit."""
    return re.sub(r"(job_k <= )(\w+);", r"\1\2 ^ (clear_pending == 2);", control, count=1)


def flip_a_voter(control: str) -> str:
    """Return the control module in which one of three registers takes a wrong bit."""
    copies = re.compile(r"(dut_register_24 \w+ \(\s*\.clk\(clk\),\s*\.d\()(\w+)\)")
    return copies.sub(r"\1\2 ^ (clear_pending == 2))", control, count=1)


def changed(design: Design, change: Callable[[str], str]) -> Design:
    """Return the design with a change of the module with its registers."""
    head, start, rest = design.verilog.partition("module dut_control(")
    control, end, tail = rest.partition("endmodule")
    assert change(control) != control
    return design.with_verilog(f"{head}{start}{change(control)}{end}{tail}")


def run_job(host: JobHost) -> None:
    """Run a job whose results are right."""
    config = host.config
    assert isinstance(config, GemmStreamConfig)
    rng = np.random.default_rng(1)
    (placed,), _ = place(config, [draw_matrices(config, (5, 9, 6), "random", rng)], rng=rng)
    host.put(placed)
    assert host.wait(host.submit(placed.job), PATIENCE) == "done"
    assert (host.results(placed) == placed.expected).all()


def test_registers_of_an_engine_that_is_protected() -> None:
    plain, protected = design_of("registers: none").core, design_of("registers: parity").core
    names = {register.name for register in protected.registers}
    added = names - {register.name for register in plain.registers}
    assert added == {f"{name}_{half}" for name in FAULT_COUNTERS for half in ("LOW", "HIGH")}
    offsets = [register.offset for register in protected.registers]
    assert len(set(offsets)) == len(offsets)


def test_ports_stay() -> None:
    """Events that are counted are no ports of the design."""
    for protection in ("registers: parity", "registers: tmr", "datapath: dup"):
        top = design_of(protection).verilog.partition("module dut(")[2].partition("endmodule")[0]
        assert "output fault_detected;" in top
        assert not re.search(r"input (\[.*\] )?fault_", top)


@pytest.mark.slow
@pytest.mark.rotate(10)
@pytest.mark.parametrize(
    ("protection", "change", "counted"),
    [
        ("registers: parity", flip_a_register, (1, 0)),
        ("control: parity, registers: tmr", flip_a_voter, (0, 1)),
        ("registers: tmr", flip_a_voter, (0, 1)),
    ],
)
@pytest.mark.rotate(12)
def test_a_flip_is_counted_once(
    protection: str, change: Callable[[str], str], counted: tuple[int, int]
) -> None:
    """Jobs without faults count nothing, and each flip raises one counter by 1."""
    host = open_engine(changed(design_of(protection), change), read_latency=2, write_latency=3)
    with host.model:
        run_job(host)
        assert [host.counter(name) for name in FAULT_COUNTERS] == [0, 0]
        for flips in range(1, 4):
            host.write("INTERRUPT", FLIP)
            host.model.run(4)  # it is counted three cycles later
            assert [host.counter(name) for name in FAULT_COUNTERS] == [
                flips * each for each in counted
            ]
        run_job(host)
        host.model.reset(2)
        assert [host.counter(name) for name in FAULT_COUNTERS] == [0, 0]
