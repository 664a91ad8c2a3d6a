# SPDX-License-Identifier: Apache-2.0
"""Searches for cores that multiply the products of a workload."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows.build.load import load_config
from flows.search.cores import search_cores, sweep_document
from flows.search.goals import parse_goals
from flows.tools.executors import LocalProcesses
from hwgen.core.params.target import Target
from hwgen.errors import CheckFailed, InputError
from hwgen.workloads import Gemm, network_of

WORKLOAD = [{"m": 4, "k": 64, "n": 32}]
NETWORK = network_of([Gemm(4, 64, 32)])


def document(*goals: str, limits: tuple[str, ...] = ()) -> dict[str, Any]:
    conditions = parse_goals(goals, limits)
    result = sweep_document(WORKLOAD, NETWORK, conditions, Target(), None, 2)
    few = {"parameters": {"array": {"rows": [2, 4], "cols": "array.rows"}}}
    return {**result, "families": {"systolic": few}}


def run(file: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    @contextmanager
    def staging() -> Any:
        (tmp_path / "out").mkdir()
        yield tmp_path / "out"

    journal = tmp_path / "journal"
    return search_cores(file, 2, LocalProcesses(1), journal, staging, lambda *_: None)


def test_the_smallest_core_that_is_fast_enough_is_the_first(tmp_path: Path) -> None:
    summary = run(document("ms_per_token<=1"), tmp_path)
    assert summary["cores"][0] == "1/core.yaml"
    first: Any = load_config(tmp_path / "out" / "1" / "core.yaml")
    assert first.array.rows == 2
    assert (tmp_path / "out" / "report.html").is_file()


def test_cores_that_miss_a_goal_are_counted(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="latency_ms"):
        run(document("ms_per_token<=1e-9"), tmp_path)


def test_goals_become_conditions_of_a_sweep() -> None:
    file = document("tokens_per_s>=20", limits=("area_mm2=2",))
    assert file["specs"] == ["1000 * 1 / latency_ms(work) >= 20.0", "area_mm2 <= 2.0"]
    assert file["objectives"] == {"minimize": ["area_mm2", "latency_ms(work)"]}
    assert document(limits=("area_mm2=2",))["objectives"]["minimize"][0] == "latency_ms(work)"
    with pytest.raises(InputError, match="--memory"):
        document("j_per_token<=1")
