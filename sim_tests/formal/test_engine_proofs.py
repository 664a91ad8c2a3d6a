# SPDX-License-Identifier: Apache-2.0
"""Proofs of the blocks of engines, and broken blocks that they refute."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flows.build.design import Design
from flows.formal.block_proof import LEMMA, ports_of, prove_contract
from flows.formal.prove import Task, tasks_of
from flows.formal.prover import write_modules
from hwgen.core.registry import family
from sim_tests.support.proofs import changed_everywhere, result_of

CONFIG = {
    "name": "dut",
    "family": "gemm_stream",
    "queue": 2,
    "compute": {"family": "systolic", "max_k": 256,
                "array": {"rows": 2, "cols": 2, "accumulator_depth": 64,
                          "dataflow": "weight_stationary"}},
    "buffers": {"activation_kib": 1, "weight_kib": 1, "output_kib": 1, "column_kib": 1},
    "memory": {"data_width": 32, "address_width": 32, "max_burst": 4, "outstanding": 2},
}  # fmt: skip


@cache
def design() -> Design:
    return Design.of(family("gemm_stream").params_class.model_validate(CONFIG))


@cache
def tasks() -> dict[str, Task]:
    """Return the tasks of the engine by the start of the module's name and the group."""
    names = ("burst_splitter", "burst_reader", "burst_writer", "control")
    return {
        f"{name} {task.contract.group}": task
        for task in tasks_of(design())
        for name in names
        if task.part.name.startswith(name)
    }


@pytest.mark.parametrize(
    "name",
    [
        "burst_splitter bursts",
        "burst_reader bursts",
        pytest.param("burst_writer bursts", marks=pytest.mark.rotate(24)),
        "control registers",
        "control jobs",
    ],
)
def test_a_block_of_an_engine_is_proven(name: str, tmp_path: Path) -> None:
    task = tasks()[name]
    proof = prove_contract(task.part, task.contract, tmp_path, 20)
    assert proof.status == "proven", [r for r in proof.properties if r.status != "proven"]


@pytest.mark.parametrize("group", ["registers", "jobs"])
@pytest.mark.parametrize("name", ["control", "unobserved_control"])
@pytest.mark.rotate(16)
def test_a_control_of_one_job_is_proven(name: str, group: str, tmp_path: Path) -> None:
    """Alone, and as that of a unit, of which nobody reads counters and the job window."""
    unit = {key: CONFIG[key] for key in ("family", "compute", "buffers")} | {"queue": 1}
    values: dict[str, Any] = {"name": "dut", "memory": CONFIG["memory"], **unit}
    if name == "unobserved_control":
        values = {"name": "dut", "family": "transformer", "memory": CONFIG["memory"],
                  "units": {"products": unit}}  # fmt: skip
    model = family(values["family"]).params_class
    (task,) = (
        task
        for task in tasks_of(Design.of(model.model_validate(values)))
        if re.search(rf"(^|_){name}$", task.part.name) and task.contract.group == group
        and (name != "control" or "list_control" not in task.part.name)
    )  # fmt: skip
    proof = prove_contract(task.part, task.contract, tmp_path, 60)
    assert proof.status == "proven", [r for r in proof.properties if r.status != "proven"]
    assert proof.covers


SPLITTER, READER, WRITER = (f"burst_{name} bursts" for name in ("splitter", "reader", "writer"))
REGISTERS, JOBS = "control registers", "control jobs"

BROKEN = [
    # The block, a regular expression of its Verilog, what it becomes, and a violated property.
    (SPLITTER, r"(assign o_last = remaining) <= ", r"\1 < ", "burst end"),
    (SPLITTER, r"(assign o_length\[1:0\] = o_last \? remaining\[1:0\]) : _\d+_", r"\1 : 2'h3",
     "O within 4 KiB"),
    (SPLITTER, r"= stretch \+ 1'h1", "= stretch + 2'h2", "burst address"),
    (SPLITTER, r"(o_final } = o_last \? .*) : 3'h7", r"\1 : 3'h2", "valid bytes"),
    (SPLITTER, r"if \(rst\) o_valid", "if (1'h0) o_valid", "reset"),
    (SPLITTER, r"(assign i_ready = )", r"\1 i_valid | ", "O stable"),
    (SPLITTER, r"(assign o_length\[7:2\] = )6'h00", r"\1 6'h01", "O length"),
    (SPLITTER, r"(assign o_address = .*)2'h0", r"\1 2'h1", "O aligned"),
    (SPLITTER, r"(assign _\d+_ = i_valid) & _\d+_;", r"\1;", "request in progress"),
    (READER, r"(assign busy = ).*;", r"\1 o_valid;", "busy"),
    (READER, r"(assign _\d+_ = splitter_o_valid) & queue_ready", r"\1", "outstanding"),
    (READER, r"(assign _\d+_ = splitter_o_valid) & queue_ready", r"\1 & 1'h0", "goes on"),
    (READER, r"(assign r_ready = .*) \| stop", r"\1", "answers accepted"),
    (READER, r"(assign r_ready = ).*;", r"\1 1'h1;", "beats passed on"),
    (READER, r"(else error <= )\w+;", r"\1 1'h0;", "error"),
    (READER, r"(else ar_valid <= )\w+;", r"\1 splitter_o_valid;", "no burst after stop"),
    (READER, r"(else ar_valid <= )(\w+);", r"\1 \2 & ~ar_valid;", "AR stable"),
    (READER, r"(if \(rst\) ar_valid <= )1'h0", r"\1 1'h1", "reset"),
    (READER, r"(ar_len <= )splitter_o_length", r"\1 8'h04", "AR length"),
    (READER, r"(ar_addr <= splitter_o_address)", r"\1 | 1'h1", "AR aligned"),
    (READER, r"(ar_len <= )splitter_o_length", r"\1 8'h03", "AR within 4 KiB"),
    (WRITER, r"(aw_len <= )splitter_o_length", r"\1 8'h03", "AW within 4 KiB"),
    (WRITER, r"(aw_len <= )splitter_o_length", r"\1 8'h04", "AW length"),
    (WRITER, r"(aw_addr <= splitter_o_address)", r"\1 | 1'h1", "AW aligned"),
    (WRITER, r"flying != 2'h2", "1'h1", "outstanding"),
    (WRITER, r"(assign w_last = ).*;", r"\1 1'h1;", "WLAST"),
    (WRITER, r"(assign issue = .*) & _\d+_;", r"\1;", "no burst after stop"),
    (WRITER, r"(else aw_valid <= )\w+;", r"\1 issue;", "AW stable"),
    (WRITER, r"(assign w_valid = beat_valid) & issued_valid", r"\1", "beats of bursts only"),
    (WRITER, r"(assign busy = ).*;", r"\1 splitter_o_valid;", "busy"),
    (WRITER, r"(assign b_ready = )1'h1", r"\1 b_valid", "answers accepted"),
    (WRITER, r"(else error <= )\w+;", r"\1 1'h0;", "error"),
    (WRITER, r"(assign beat_pop = )", r"\1 w_valid | ", "W stable"),
    (WRITER, r"(if \(rst\) aw_valid <= )1'h0", r"\1 1'h1", "reset"),
    (REGISTERS, r"(assign bus_arready = ).*;", r"\1 1'h1;", "R stable"),
    (REGISTERS, r"(assign bus_arready = ).*;", r"\1 ~bus_rvalid;", "AR accepted"),
    (REGISTERS, r"(assign bus_awready = ).*;", r"\1 1'h1;", "one write at a time"),
    (REGISTERS, r"(assign go = _\d+_) & _\d+_;", r"\1;", "B stable"),
    (REGISTERS, r"= has_address & has_data;", "= has_address;", "B after AW and W"),
    (REGISTERS, r"(assign go = )(.*);", r"\1 (\2) & bus_bready;", "B in time"),
    (REGISTERS, r"(else if \(go\) bus_bresp <= )\w+;", r"\1 2'h0;", "B response"),
    (REGISTERS, r"(else if \(\w+\) bus_rresp <= )\w+;", r"\1 2'h0;", "R response"),
    (REGISTERS, r"if \(rst\) bus_bvalid", "if (1'h0) bus_bvalid", "reset"),
    (REGISTERS, r"if \(rst\) bus_rvalid", "if (1'h0) bus_rvalid", "R after AR"),
    (REGISTERS, r"(else if \(\w+\) bus_rdata <= )(\w+);", r"\1 \2 ^ 32'd4;", "read back"),
    (JOBS, r"(assign alone = ).*;", r"\1 1'h1;", "alone"),
    (JOBS, r"= load_pointer \+ 1'h1", "= load_pointer + 2'h2", "load has a job"),
    (JOBS, r"(else if \(jobs_w_en\) submitted <= )\w+\[31:0\]", r"\1 submitted", "counted"),
    (JOBS, r"(assign finishes = )", r"\1 drain_job_ready | ", "status unfinished"),
    (JOBS, r"(else pending <= )\w+;", r"\1 2'h0;", "ends reported"),
    (JOBS, r"unfinished_jobs == 2'h2", "1'h0", "no overflow"),
    (JOBS, r"(assign stop = ).*;", r"\1 1'h0;", "fault stops"),
    (JOBS, r"(else if \(_\d+_\) life_state <= )",
     r"else if (life_state == 2'h1) life_state <= 2'h2; \1", "stop waits"),
    (JOBS, r"(assign flush = ).*;", r"\1 1'h0;", "stop ends"),
    (JOBS, r"(assign stop = ).*;", r"\1 1'h1;", "errors end jobs"),
    (JOBS, r"\.r0_addr\(.*\)", ".r0_addr(1'h0)", "load job"),
    (JOBS, r"= ending & _\d+_;", "= 1'h0;", "status ended"),
    (JOBS, r"(assign act_job_valid = )", r"\1 1'h1 | ", "act has a job"),
]  # fmt: skip


@pytest.mark.rotate(24)
@pytest.mark.parametrize(("name", "pattern", "change", "broken"), BROKEN)
def test_a_broken_block_is_refuted(
    name: str, pattern: str, change: str, broken: str, tmp_path: Path
) -> None:
    task = tasks()[name]
    start = task.part.text.index(f"module {task.part.name}(")
    end = task.part.text.index("endmodule", start)
    module = changed_everywhere(task.part.text[start:end], pattern, change)
    text = task.part.text[:start] + module + task.part.text[end:]
    result = result_of(task.part.name, text, task.contract, broken, tmp_path, 20)
    assert result.status == "refuted", result
    assert result.trace


@pytest.mark.parametrize("name", sorted({name for name, *_ in BROKEN}))
def test_every_property_is_refuted_by_a_change(name: str, tmp_path: Path) -> None:
    task = tasks()[name]
    ports = ports_of(write_modules(task.part, tmp_path)[task.part.name])
    checker = task.contract.make(ports)
    checker.rtlil()
    consumers = r"^(load|act|wgt|collect|drain) (?=job|has a job)"
    properties = {
        re.sub(consumers, "consumer ", each.name)
        for each in checker.properties
        if not each.name.startswith(LEMMA)
    }
    refuted = {
        re.sub(consumers, "consumer ", broken)
        for block, _, _, broken in BROKEN
        if block.split()[0] == name.split()[0]  # rules that both checkers of a block have
    }
    assert properties - refuted == set()
