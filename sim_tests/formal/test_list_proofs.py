# SPDX-License-Identifier: Apache-2.0
"""Proofs of the blocks that execute command lists, and broken blocks that they refute."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flows.build.design import Design
from flows.formal.block_proof import ports_of, prove_contract
from flows.formal.checker import ANY
from flows.formal.prove import Task, tasks_of
from flows.formal.prover import compile_checker, solve, write_flat, write_modules
from hwgen.core.registry import family
from sim_tests.formal.test_engine_proofs import CONFIG
from sim_tests.support.proofs import changed_everywhere, property_names, result_of

SEQUENCER, SHARE, AHEAD = "sequencer", "share", "share, ahead"
MEMORY = "list_memory"
UNIT = {key: CONFIG[key] for key in ("family", "queue", "compute", "buffers")}
UNREGISTERED: Any = CONFIG["memory"]
LISTS = {
    "name": "dut",
    "family": "transformer",
    "units": {"x": UNIT, "y": UNIT},
    "lists": {"registers": 8, "calls": 2, "cache_lines": 2},
    "memory": CONFIG["memory"],
}


@cache
def tasks() -> dict[str, Task]:
    config = family("transformer").params_class.model_validate(LISTS)
    names = (SEQUENCER, SHARE, MEMORY)
    return {
        name: task
        for task in tasks_of(Design.of(config))
        for name in names
        if task.part.name.startswith(name)
    }


@pytest.mark.parametrize("name", [SEQUENCER, SHARE, MEMORY])
@pytest.mark.rotate(6)
def test_a_block_of_lists_is_proven(name: str, tmp_path: Path) -> None:
    task = tasks()[name]
    cut = task.contract.cut(write_modules(task.part, tmp_path))
    flat = write_flat(task.part, tmp_path, cut=cut)
    circuit = compile_checker(task.contract.make(ports_of(flat)), flat, tmp_path)
    answer = solve(circuit, ANY, tmp_path, 30)
    assert (answer.status, answer.engine) == ("proven", "induction"), answer


@cache
def ahead() -> Task:
    memory: dict[str, Any] = {**UNREGISTERED, "registered": True}
    config = family("transformer").params_class.model_validate({**LISTS, "memory": memory})
    return next(t for t in tasks_of(Design.of(config)) if t.part.name.startswith(SHARE))


def test_a_port_that_chooses_ahead_is_proven(tmp_path: Path) -> None:
    flat = write_flat(ahead().part, tmp_path)
    circuit = compile_checker(ahead().contract.make(ports_of(flat)), flat, tmp_path)
    answer = solve(circuit, ANY, tmp_path, 30)
    assert (answer.status, answer.engine) == ("proven", "induction"), answer


@pytest.mark.rotate(16)
@pytest.mark.parametrize("name", [SEQUENCER, SHARE, MEMORY])
def test_covers_are_reached(name: str, tmp_path: Path) -> None:
    proof = prove_contract(tasks()[name].part, tasks()[name].contract, tmp_path, 60)
    assert proof.status == "proven", [r for r in proof.properties if r.status != "proven"]


BROKEN = [
    # The block, a regular expression of its Verilog, what it becomes, and a violated property.
    (SEQUENCER, r"(assign operand_is_wrong = ).*;", r"\1 1'h0;", "writes of unit"),
    (SEQUENCER, r"(assign here_0 = ).*;", r"\1 1'h1;", "one access at a time"),
    (SEQUENCER, r"(assign memory_size = .*)\{ descriptor\[25:24\],", r"\1{ {2{failures[0]}},",
     "access stable"),
    (SEQUENCER, r"pc >= list_length", "1'h0", "fetches of the list"),
    (SEQUENCER, r"(assign memory_load = )", r"\1 (sequence_state == 5'h4) | ", "withdrawn"),
    (SEQUENCER, r"(assign memory_store = )", r"\1 memory_load | ", "one access"),
    (SEQUENCER, r"put_value\[31:0\], put_value\[31:0\]", "put_value[31:0], put_value[31:0] | 32'h1",
     "access aligned"),
    (SEQUENCER, r"(assign list_ended = ).*;", r"\1 1'h0;", "end reported"),
    (SEQUENCER, r"(assign list_ended = )", r"\1 list_start | ", "only running lists end"),
    (SEQUENCER, r"(else if \(\w+\) code <= )\w+;", r"\1 4'h0;", "state of the end"),
    (SEQUENCER, r"else if \(\w+\) list_index <= \w+;", "else list_index <= list_length;",
     "result stays"),
    (SEQUENCER, r"(else if \(\w+\) list_running <= )\w+;", r"\1 1'h0;", "start"),
    (SEQUENCER, r"(if \(rst\) list_running <= )1'h0", r"\1 1'h1", "reset"),
    (SEQUENCER, r"(assign is_idle = ).*;", r"\1 1'h1;", "done"),
    (SEQUENCER, r"list_steps == list_limit", "1'h0", "limit"),
    (SEQUENCER, r"list_steps \+ 1'h1", "list_steps + 2'h2", "steps count"),
    (SEQUENCER, r"(else abort_asked <= )\w+;", r"\1 1'h0;", "abort"),
    (SEQUENCER, r"(assign memory_fetch = )", r"\1 1'h1 | ", "fetches"),
    (SEQUENCER, r"(else if \(\w+\) aw_request <= )i_write;", r"\1 1'h0;", "goes on"),
    (SEQUENCER, r"(assign prepared = ).*;", r"\1 1'h0;", "few answers"),
    (MEMORY, r"= base \+ ", "= base - ", "fetches"),
    (MEMORY, r"(assign read_address = .*), access_address", r"\1, access_address | 32'h1", "loads"),
    (MEMORY, r"(assign read_request = )", r"\1 1'h1 | ", "reads of accesses"),
    (MEMORY, r"(else if \(\w+\) write_request <= )\w+;", r"\1 1'h1;", "writes of stores"),
    (MEMORY, r"(assign strobe = )", r"\1 4'hf | ", "bytes of stores"),
    (MEMORY, r"(assign stored = ).*;", r"\1 1'h1;", "stores are complete"),
    (SHARE, r"(assign M1_ar_ready = )", r"\1 M0_ar_ready & M1_ar_valid | ", "one AR at a time"),
    (SHARE, r"(assign M1_aw_ready = )", r"\1 M0_aw_ready & M1_aw_valid | ", "one AW at a time"),
    (SHARE, r"(else if \(ar_granted\) ar_last <= )ar_chosen", r"\1 2'h0", "AR in rounds"),
    (SHARE, r"(else if \(aw_granted\) aw_last <= )aw_chosen", r"\1 2'h0", "AW in rounds"),
    (SHARE, r"(assign M0_r_valid = )", r"\1 mem_r_valid | ", "R to one manager"),
    (SHARE, r"(assign M0_b_valid = ).*;", r"\1 1'h0;", "B to one manager"),
    (SHARE, r"(assign ar_granted = )", r"\1 ~M2_ar_valid & ", "reads go on"),
    (SHARE, r"(assign w_space = )", r"\1 ~mem_w_valid & ", "writes go on"),
    (SHARE, r"(assign mem_r_ready = )", r"\1 ~M1_aw_valid & ", "answers go on"),
    (AHEAD, r"(assign ar_granted = )", r"\1 ~M2_ar_valid & ", "reads go on"),
    (AHEAD, r"(assign ar_left = )", r"\1 ~{ 2'h0, M0_ar_valid } & ", "AR in rounds"),
]  # fmt: skip


@pytest.mark.rotate(64)
@pytest.mark.parametrize(("name", "pattern", "change", "broken"), BROKEN)
def test_a_broken_block_of_lists_is_refuted(
    name: str, pattern: str, change: str, broken: str, tmp_path: Path
) -> None:
    task = ahead() if name == AHEAD else tasks()[name]
    text = changed_everywhere(task.part.text, pattern, change)
    wanted = broken.replace("of unit", "of unit 0")
    result = result_of(task.part.name, text, task.contract, wanted, tmp_path, 240)
    if task.contract.cut_datapath:  # a violation with free inputs does not count as refuted
        assert "violated in cycle" in result.detail, result
    else:
        assert result.status == "refuted", result
        assert result.trace


@pytest.mark.parametrize("name", [SEQUENCER, SHARE, MEMORY])
def test_every_property_of_lists_is_refuted_by_a_change(name: str, tmp_path: Path) -> None:
    task = tasks()[name]
    names = property_names(task.part, task.contract, tmp_path)
    properties = {re.sub(r" \d+$", "", each) for each in names}
    assert properties == {broken for block, _, _, broken in BROKEN if block == name}
