# SPDX-License-Identifier: Apache-2.0
"""Simulating a plain block: many instances side by side, fed with vectors from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In

from flows.build.verilog import rtlil_to_verilog
from flows.simulation.runner import compile_verilog, run_module
from rtl_templates.hdl.hierarchy import Block, emit, place

TOP = "lanes"
"""Name of the module that holds the instances, and prefix of all others."""


class Lanes(Elaboratable):
    """Instances of a block side by side: each port is the ports of all, lane 0 lowest.

    A port ``run`` is one for all.
    """

    def __init__(self, block: Block, lanes: int) -> None:
        self.block, self.lanes = block, lanes
        self.domain = ClockDomain("sync", reset_less=True)
        self.ports = {"clk": (self.domain.clk, PortDirection.Input)}
        for name, member in block.ports.items():
            copies = 1 if name == "run" else lanes
            signal = Signal(block.width(name) * copies, name=name)
            direction = PortDirection.Input if member.flow == In else PortDirection.Output
            self.ports[name] = (signal, direction)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains += self.domain
        for lane in range(self.lanes):
            connections = {}
            for name in self.block.ports:
                width = self.block.width(name)
                start = 0 if name == "run" else lane * width
                connections[name] = self.ports[name][0][start : start + width]
            place(m, f"lane_{lane}", self.block, **connections)
        return m


def block_verilog(block: Block, lanes: int = 1) -> str:
    """Return the Verilog of `lanes` instances of a block, the module `TOP`."""
    top = Lanes(block, lanes)
    return rtlil_to_verilog(emit(top, TOP, top.ports))


def run_block(
    block: Block,
    inputs: Mapping[str, np.ndarray],
    work: Path,
    *,
    latency: int = 0,
    lanes: int = 16,
    verilog: str | None = None,
    stalls: int = 0,
) -> dict[str, np.ndarray]:
    """Simulate a block and return its outputs for every element of the inputs.

    Parameters
    ----------
    block : Block
    inputs : mapping
        Arrays of unsigned integers of equal length for every input but ``run``.
    work : Path
        Directory for plan, log and vectors.
    latency : int
        Cycles from an input to its output.
    lanes : int
        Instances, which take as many elements a cycle.
    verilog : str, optional
        Text to simulate instead of what the block emits with these `lanes` (for mutations).
    stalls : int
        If not 0, the seed by which ``run`` is low in about a third of the cycles; else it is high.
    """
    work.mkdir(parents=True, exist_ok=True)
    length = len(next(iter(inputs.values())))
    beats = -(-length // lanes)
    for name, values in inputs.items():
        padded = np.zeros(beats * lanes, values.dtype)
        padded[:length] = values
        assert padded.itemsize * 8 == block.width(name), "bits of the array are those of the port"
        np.save(work / f"{name}.npy", padded.reshape(beats, lanes))
    names = [name for name, member in block.ports.items() if member.flow != In]
    plan: dict[str, Any] = {
        "inputs": {name: str((work / f"{name}.npy").resolve()) for name in inputs},
        "outputs": {name: str((work / f"{name}.bin").resolve()) for name in names},
        "bytes": {name: block.width(name) * lanes // 8 for name in names},
        "latency": latency,
        "run": "run" in block.ports,
        "stalls": stalls,
    }
    text = block_verilog(block, lanes) if verilog is None else verilog
    (outcome,) = run_module(
        TOP, compile_verilog(text, TOP), "sim_tests.support.cocotb_block", plan, work
    )
    assert outcome.passed, outcome.message
    return {
        name: np.fromfile(plan["outputs"][name], f"u{block.width(name) // 8}")[:length]
        for name in names
    }
