# SPDX-License-Identifier: Apache-2.0
"""Simulating a block with one stream in and one out (``i_*``, ``o_*``), fed from arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from amaranth.lib.wiring import In

from flows.build.verilog import block_to_verilog
from flows.simulation.runner import compile_verilog, run_module
from rtl_templates.hdl.hierarchy import Block

PREFIX = "block"
_HANDSHAKE = {"i_valid", "i_ready", "o_valid", "o_ready"}


class Streamed(NamedTuple):
    """Output of a block.

    Parameters
    ----------
    outputs : dict
        Bytes of every output, shape (results, bytes).
    report : dict
        ``kept``: results before the reset; ``first_in``, ``first_out``: cycles of the first
        handshake and the first result; ``cycles``, up to the last result.
    """

    outputs: dict[str, np.ndarray]
    report: dict[str, Any]


def stream_verilog(block: Block) -> str:
    """Return the Verilog of a block."""
    return block_to_verilog(block, PREFIX)


def run_stream(
    block: Block,
    inputs: Mapping[str, np.ndarray],
    work: Path,
    *,
    results: np.ndarray | None = None,
    idle: float = 0.0,
    stall: float = 0.0,
    reset_at: int | None = None,
    seed: int = 1,
    verilog: str | None = None,
) -> Streamed:
    """Send words through a block and return what comes out.

    Parameters
    ----------
    block : Block
        With ``i_valid``, ``i_ready``, ``o_valid`` and ``o_ready``; every other input belongs to
        the word on offer.
    inputs : mapping
        Bytes of every other input, shape (words, bytes).
    work : Path
    results : ndarray of int, shape (words,), optional
        How many results every word has, by default one.
    idle, stall : float
        Shares of cycles in which nothing new is offered, or no result taken.
    reset_at : int, optional
        Words after which the block is reset.
    seed : int
        Of stalls.
    verilog : str, optional
        Text to simulate instead of what the block emits (for mutations).
    """
    work.mkdir(parents=True, exist_ok=True)
    members = {name: member for name, member in block.ports.items() if name not in _HANDSHAKE}
    for name, values in inputs.items():
        assert values.shape[1] == -(-block.width(name) // 8), name
        np.save(work / f"{name}.npy", values)
    names = [name for name, member in members.items() if member.flow != In]
    assert set(inputs) == set(members) - set(names)
    plan: dict[str, Any] = {
        "inputs": {name: str((work / f"{name}.npy").resolve()) for name in inputs},
        "outputs": {name: str((work / f"{name}.bin").resolve()) for name in names},
        "bytes": {name: -(-block.width(name) // 8) for name in names},
        "results": None if results is None else results.tolist(),
        "report": str((work / "report.json").resolve()),
        "idle": idle,
        "stall": stall,
        "reset_at": reset_at,
        "seed": seed,
    }
    text = stream_verilog(block) if verilog is None else verilog
    top = f"{PREFIX}_{block.module_name}"
    (outcome,) = run_module(
        top, compile_verilog(text, top), "sim_tests.support.cocotb_stream_block", plan, work
    )
    assert outcome.passed, outcome.message
    outputs = {
        name: np.fromfile(plan["outputs"][name], np.uint8).reshape(-1, plan["bytes"][name])
        for name in names
    }
    return Streamed(outputs, json.loads((work / "report.json").read_text(encoding="utf-8")))
