# SPDX-License-Identifier: Apache-2.0
"""Proofs of stream buffers, and broken buffers that they refute."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from flows.build.verilog import block_to_verilog
from flows.formal.block_proof import BlockProof, prove_contract
from flows.formal.contracts import contracts_of
from flows.formal.modules import DesignText
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.stream.stream import (
    StreamBuffer,
    StreamFifo,
    StreamSkid,
    StreamSlice,
    StreamStore,
)

BLOCKS: dict[str, Block] = {
    "buffer": StreamBuffer(33),
    "slice": StreamSlice(33),
    "skid": StreamSkid(33),
    "fifo": StreamFifo(8, 5),
    "store": StreamStore(8, 6),
}


@cache
def verilog(name: str) -> str:
    return block_to_verilog(BLOCKS[name], "dut")


def prove(name: str, text: str, work: Path, seconds: int = 20) -> BlockProof:
    block = BLOCKS[name]
    (contract,) = contracts_of(block)
    part = DesignText("dut", text).part(block.module_name)
    return prove_contract(part, contract, work, seconds)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_buffer_is_proven(name: str, tmp_path: Path) -> None:
    proof = prove(name, verilog(name), tmp_path)
    assert proof.status == "proven", [r for r in proof.properties if r.status != "proven"]
    assert proof.covers


BROKEN = [
    # The change of the Verilog, and a property that it violates.
    ("fifo", "level != 3'h5", "level != 3'h6", "no overflow"),
    ("fifo", "level != 3'h5", "level != 3'h4", "accepts"),
    ("fifo", "if (rst) level <= 3'h0;", "if (rst) level <= 3'h1;", "reset"),
    ("fifo", "assign o_valid = | level;", "assign o_valid = level[0];", "stable"),
    ("fifo", "assign o_valid = | level;", "assign o_valid = | level[1:0];", "nothing lost"),
    ("fifo", "assign o_valid = | level;", "assign o_valid = 1'h1;", "nothing created"),
    ("fifo", "consume == 3'h4", "consume == 3'h3", "order"),
    ("skid", r"o_data = full ? \$signal  : i_data", "o_data = i_data", "order"),
    ("skid", "if (!full)", "if (1'h1)", "order"),
    (
        "skid",
        r"o_data = full ? \$signal  : i_data",
        r"o_data = \$signal ",
        "order of passing beats",
    ),
]

SEARCHED = [
    # The change, a property that a search in the netlist decides, and its status.
    ("assign o_valid = | level;", "assign o_valid = | level | o_ready;",
     "no path o_ready -> o_valid, o_data", "refuted"),
    ("assign i_ready = level != 3'h5;", "assign i_ready = level != 3'h5 | o_ready;",
     "no path o_ready -> i_ready", "refuted"),
    ("assign o_valid = | level;", "assign o_valid = | level | i_valid;",
     "no path i_valid -> o_valid, i_ready", "refuted"),
    (".w_data(i_data)", ".w_data(i_data ^ 8'h01)", "data independence of i_data", None),
    (".w_data(i_data)", ".w_data({ i_data[3:0], i_data[7:4] })",
     "data independence of i_data", None),
    (".w_en(entries_w_en)", ".w_en(entries_w_en & i_data[0])",
     "data independence of i_data", None),
]  # fmt: skip


@pytest.mark.rotate(6)
@pytest.mark.parametrize(("text", "change", "name", "status"), SEARCHED)
def test_a_search_in_the_netlist_notices(
    text: str, change: str, name: str, status: str | None, tmp_path: Path
) -> None:
    original = verilog("fifo")
    assert original.count(text) == 1, original
    proof = prove("fifo", original.replace(text, change), tmp_path, 1)
    assert {each.name: each.status for each in proof.properties}.get(name) == status


@pytest.mark.rotate(12)
@pytest.mark.parametrize(("name", "text", "change", "broken"), BROKEN)
def test_a_broken_buffer_is_refuted(
    name: str, text: str, change: str, broken: str, tmp_path: Path
) -> None:
    original = verilog(name)
    assert original.count(text) == 1, original
    proof = prove(name, original.replace(text, change), tmp_path)
    statuses = {result.name: result.status for result in proof.properties}
    assert statuses[broken] == "refuted", statuses
    trace = next(result.trace for result in proof.properties if result.name == broken)
    assert trace
    assert {"i_valid", "o_ready", "o_data"} <= trace[0].keys()
