# SPDX-License-Identifier: Apache-2.0
"""Proofs of the addresses of rows, and broken blocks that they refute."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from flows.build.verilog import block_to_verilog
from flows.formal.block_proof import prove_contract
from flows.formal.contract import Contract
from flows.formal.contracts import contracts_of
from flows.formal.modules import DesignText, Part
from flows.formal.prove import tasks_of
from rtl_templates.stream_engine.walk import RowWalk
from sim_tests.formal.test_engine_proofs import design
from sim_tests.support.proofs import changed_everywhere, property_names, result_of

WALKS = {"whole": RowWalk(20, 0), "pieces": RowWalk(20, 16), "pages": RowWalk(20, 16, 8)}
DRAIN = "drain"


@cache
def block(name: str) -> tuple[Part, Contract]:
    if name == DRAIN:
        task = next(each for each in tasks_of(design()) if each.part.name.endswith("_drain"))
        return task.part, task.contract
    walk = WALKS[name]
    text = DesignText("dut", block_to_verilog(walk, "dut"))
    return text.part(walk.module_name), contracts_of(walk)[0]


@pytest.mark.parametrize(
    "name",
    ["pieces", *(pytest.param(n, marks=pytest.mark.rotate(12)) for n in ("whole", "pages", DRAIN))],
)
def test_addresses_are_proven(name: str, tmp_path: Path) -> None:
    part, contract = block(name)
    proof = prove_contract(part, contract, tmp_path, 30)
    assert proof.status == "proven", [r for r in proof.properties if r.status != "proven"]


BROKEN = [
    # The block, a regular expression of its Verilog, what it becomes, and a violated property.
    ("pieces", r"row_address \+ region_stride", "row_address + region_step", "address of a piece"),
    ("pieces", r"block_address \+ region_step", "block_address", "address of a piece"),
    ("pieces", r"o_address \+ space", "o_address + bytes_left", "address of a piece"),
    ("pieces", r"(assign o_ends = ).*;", r"\1 1'h1;", "bytes of a piece"),
    ("pieces", r"rows_left == 1'h1", "rows_left == 2'h2", "last piece"),
    ("pieces", r"(assign _\d+_ = )~ o_last;", r"\1 1'h1;", "walk"),
    (DRAIN, r"row_address \+ ", "row_address - ", "address of a row"),
    (DRAIN, r"(row_bytes \} = .*) << ", r"\1 >> ", "bytes of a row"),
    (DRAIN, r"rows_left == 1'h1", "rows_left == 2'h2", "all rows"),
    (DRAIN, r"(assign row_valid = )", r"\1 1'h1 | ", "rows of jobs only"),
    (DRAIN, r"(assign block_read = .* \? )(\w+) :", r"\1(\2 & ~job_data[0]) :", "goes on"),
    (DRAIN, r"(assign job_ready = )", r"\1 job_valid | ", "end of a job"),
]  # fmt: skip


@pytest.mark.rotate(18)
@pytest.mark.parametrize(("name", "pattern", "change", "broken"), BROKEN)
def test_a_wrong_address_is_refuted(
    name: str, pattern: str, change: str, broken: str, tmp_path: Path
) -> None:
    part, contract = block(name)
    text = changed_everywhere(part.text, pattern, change)
    result = result_of(part.name, text, contract, broken, tmp_path, 60)
    assert result.status == "refuted", result


@pytest.mark.parametrize("name", ["pieces", DRAIN])
def test_every_property_of_addresses_is_refuted_by_a_change(name: str, tmp_path: Path) -> None:
    part, contract = block(name)
    properties = property_names(part, contract, tmp_path)
    assert properties == {broken for where, _, _, broken in BROKEN if where == name}
