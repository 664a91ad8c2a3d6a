# SPDX-License-Identifier: Apache-2.0
"""A small job of a whole engine goes on, and broken engines stand still or never end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.bench.mutation import design_of
from flows.build.design import Design
from flows.formal.block_proof import Result
from flows.formal.deadlock import FEW_BEATS, GOES_ON, prove_deadlock_freedom, small_job
from flows.formal.modules import DesignText
from hwgen.core.registry import family
from sim_tests.formal.test_engine_proofs import design
from sim_tests.support.proofs import changed_everywhere


def _searched(built: Design, text: str, work: Path, seconds: int) -> dict[str, Result]:
    part = DesignText(built.name, text).part("")
    properties, covers = prove_deadlock_freedom(part, small_job(built.core), work, seconds)
    return {each.name: each for each in (*properties, *covers)}


@pytest.mark.rotate(32)
@pytest.mark.parametrize("name", ["gemm_stream", "stream_engine"])
def test_a_job_ends(name: str, tmp_path: Path) -> None:
    built = design_of(name)
    results = _searched(built, built.verilog, tmp_path, 5)
    assert results["job ends"].status == "proven"
    for bound in (GOES_ON, FEW_BEATS):
        assert results[bound].status in ("proven", "unknown")
        assert "no violation" in results[bound].detail or results[bound].status == "proven"


@pytest.mark.rotate(32)
@pytest.mark.parametrize(
    ("pattern", "change", "bound"),
    [
        (r"assign (\w+) = (\w+) - b_valid;", r"assign \1 = \2;", GOES_ON),
        (r"assign o_last = remaining <= \w+;", r"assign o_last = 1'h0;", FEW_BEATS),
    ],
    ids=["answers that are not counted", "requests without an end"],
)
def test_a_broken_engine_is_refuted(
    pattern: str, change: str, bound: str, tmp_path: Path
) -> None:  # fmt: skip
    built = design()
    text = changed_everywhere(built.verilog, pattern, change)
    result = _searched(built, text, tmp_path, 5)[bound]
    assert result.status == "refuted"
    assert result.trace


def test_a_core_without_memory_has_no_job() -> None:
    config: dict[str, Any] = {"name": "dut", "family": "systolic"}
    core = Design.of(family("systolic").params_class.model_validate(config)).core
    with pytest.raises(ValueError, match="no memory port"):
        small_job(core)
