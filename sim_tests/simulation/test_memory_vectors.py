# SPDX-License-Identifier: Apache-2.0
"""Exported vectors of engines that work on memory, and their testbench."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.simulation.vectors.export import JobVectors
from flows.simulation.vectors.memory_export import export_memory
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.params import GemmStreamConfig
from sim_tests.contract.test_contract import SMALL
from sim_tests.simulation.test_vectors import icarus, jobs_of, write
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import mutated

ENGINES = {name: config for name, config in SMALL.items() if config.buses}
ENGINE = GemmStreamConfig.model_validate(
    {
        "name": "engine",
        "compute": {
            "family": "systolic",
            "max_k": 64,
            "array": {
                "rows": 2, "cols": 2, "accumulator_depth": 16, "dataflow": "weight_stationary",
            },
        },
        "buffers": {
            "activation_kib": 1, "weight_kib": 1, "output_kib": 1, "column_kib": 1,
        },
    }
)  # fmt: skip


def engine_jobs(core: Any) -> list[JobVectors]:
    """Return jobs of each operation of the hardware inside an engine; more than a queue holds."""
    params: Any = core.params
    unit = core_of(params.job_unit) if isinstance(core, ListCore) else core
    inner = unit if unit.multiplies else core_of(unit.params.compute)
    jobs = jobs_of(inner)
    return jobs * (1 + 4 // len(jobs))


@pytest.mark.parametrize("config", ENGINES.values(), ids=ENGINES)
def test_every_engine_passes_in_icarus(config: Any, tmp_path: Path) -> None:
    design = design_of(config)
    write(export_memory(design, engine_jobs(design.core), 1), tmp_path)
    assert icarus(tmp_path).splitlines()[-1] == "PASS"
    slow = icarus(tmp_path, "+stall=40", "+seed=3", "+latency=20").splitlines()
    assert slow[-1] == "PASS"


@pytest.fixture(scope="module")
def exported() -> dict[str, str]:
    design = design_of(ENGINE)
    return export_memory(
        design, [JobVectors(design.core.gemm(*s)) for s in ((4, 6, 5), (1, 9, 3))], 0
    )


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "message"),
    [
        ("engine.v", r"\.mem__wlast\(m_axi_mem_wlast\)", ".mem__wlast()",
         r"wlast is z at beat \d+ of a burst of \d+"),
        ("engine.v", r"\.mem__awlen\(m_axi_mem_awlen\)", ".mem__awlen(m_axi_mem_awlen[7:1])",
         r"wlast is \w at beat|first difference"),
        ("engine.v", r"assign m_axi_mem_arburst = [^;]*;", "assign m_axi_mem_arburst = 2'h0;",
         r"burst at \w+: type 00"),
        ("engine.v", r"\.mem__rready\(m_axi_mem_rready\)", ".mem__rready()",
         r"a valid or ready of the memory port is unknown"),
        ("engine.v", r"\.mem__wstrb\(m_axi_mem_wstrb\)", ".mem__wstrb()",
         r"first difference in memory at address"),
        ("expected.hex", r"\A(\w)", lambda m: f"{int(m[1], 16) ^ 1:x}",
         r"first difference in memory at address 8000000000\n  expected \w+\n  got      \w+"),
        ("host.hex", r"^3(0040\w{8})(\w{8})$", r"3\g<1>00000003",
         r"register \w+ is 00000002, expected 00000003"),
    ],
    ids=["last", "length", "type of bursts", "never ready", "strobes", "expected", "state"],
)  # fmt: skip
def test_a_difference_of_an_engine_is_noticed(
    file: str, pattern: str, replacement: Any, message: str, exported: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    pattern = f"(?m){pattern}"
    write({**exported, file: mutated(exported[file], pattern, replacement)}, tmp_path)
    printed = icarus(tmp_path)
    assert re.search(message, printed), printed
    assert printed.splitlines()[-1] == "FAIL"


@pytest.mark.parametrize(("error", "state"), [("read_error", 3), ("write_error", 4)])
def test_an_error_of_the_memory_ends_the_job(
    error: str, state: int, exported: dict[str, str], tmp_path: Path
) -> None:
    write(exported, tmp_path)
    printed = icarus(tmp_path, f"+{error}=0")
    assert re.search(rf"register \w+ is 0000000{state}, expected 00000002", printed), printed
    assert printed.splitlines()[-1] == "FAIL"


def test_files_of_an_engine_are_what_the_manifest_says(exported: dict[str, str]) -> None:
    manifest = json.loads(exported["vectors.json"])
    memory, host = manifest["memory"], manifest["host"]
    for name in (memory["before"], memory["after"]):
        lines = exported[name].splitlines()
        assert len(lines) * memory["word_bytes"] == memory["bytes"]
        assert {len(line) for line in lines} == {2 * memory["word_bytes"]}
    lines = exported[host["file"]].splitlines()
    assert len(lines) == host["actions"]
    assert {len(line) for line in lines} == {21}
    assert {line[0] for line in lines} <= set(host["meaning"])
