# SPDX-License-Identifier: Apache-2.0
"""Cycles of engines without simulation: what is passed at once equals what is followed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from hwgen.core.post import PostSettings
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream import core as gemm_core
from hwgen.families.gemm_stream.cycles.cores import Cores
from hwgen.families.gemm_stream.cycles.job import Engine, job_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.gemm_stream.schedule import Plan
from sim_tests.support.paths import CONFIGS

SMALL = "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"

ENGINES = {
    "systolic ws": "compute: {family: systolic, array: {rows: 4, cols: 4, dataflow:"
    " weight_stationary}}\nmemory: {data_width: 64, outstanding: 1}\n",
    "systolic os": "compute: {family: systolic, array: {rows: 5, cols: 3, dataflow:"
    " output_stationary, pe: carry_save}, pipeline: {final_adder: 1}}\narray: {cascade: 2}\n",
    "cube": "compute: {family: cube, array: {rows: 3, cols: 2, depth: 5}}\n"
    "memory: {max_burst: 2, outstanding: 2}\n",
    "adder tree": "compute: {family: adder_tree, array: {cols: 4, depth: 8}, pipeline: {pe: 1}}\n",
    "broadcast": "compute: {family: broadcast_2d, array: {rows: 4, cols: 4}}\n"
    "memory: {data_width: 32}\n",
    "ternary LUT": "compute: {family: ternary_lut, array: {group_size: 2, tables: 2, fetch_ports:"
    " 4, accumulator_depth: 8}}\n",
}


class Forgetful(dict[Any, Any]):
    """Keeps what it is given, and never says so."""

    def __contains__(self, key: object) -> bool:
        return False


def followed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the cycles of a plan, cycle by cycle."""
    engine = Engine(plan, Regions.aligned(plan), 1, 1)
    for part in (engine._reader, engine._cores, engine._results):
        monkeypatch.setattr(part, "_cached", Forgetful())
    with monkeypatch.context() as patch:
        patch.setattr(Cores, "_repeat", lambda self, now: now)
        return engine.run()


@pytest.mark.parametrize("name", ENGINES)
def test_what_repeats_is_passed_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = parse_config(f"name: e\nfamily: gemm_stream\n{ENGINES[name]}{SMALL}")
    rng = np.random.default_rng(len(name))
    for most in (8, 40, 90):
        m, k, n = (int(x) for x in rng.integers(1, most, 3))
        for record_bytes, result_bytes in ((0, 4), (16, 1)):
            plan = Plan(
                config, m, k, n, record_bytes=record_bytes, result_bytes=result_bytes,
                least_traffic=bool(rng.integers(2)),
            )  # fmt: skip
            assert job_cycles(plan) == followed(plan, monkeypatch), (m, k, n)


@pytest.mark.parametrize(
    ("size", "cycles"), [((16, 8, 64), 865), ((300, 8, 256), 58181), ((5, 300, 7), 628)]
)
def test_short_tiles_and_post_processing_count(size: tuple[int, int, int], cycles: int) -> None:
    """Cycles of simulations; a tile of one beat waits for the four that its results take."""
    config: Any = parse_config(f"name: e\nfamily: gemm_stream\n{ENGINES['adder tree']}")
    assert job_cycles(Plan(config, *size)) == cycles


@pytest.mark.parametrize(("output", "cycles"), [("raw", 7127), ("int8", 7126)])
def test_cycles_are_those_of_the_results_that_are_written(output: str, cycles: int) -> None:
    """Cycles of simulations; results of a byte take fewer beats than accumulators."""
    core = core_of(load_config(CONFIGS / "gemm_stream.yaml"))
    assert core.cycles([core.gemm(100, 64, 200, PostSettings(output))]).number == cycles


def test_most_cycles_of_a_large_product_are_passed_at_once() -> None:
    """The cores are followed for a small part of the cycles of a large product."""
    config: Any = parse_config("name: e\nfamily: gemm_stream\n")
    engine = Engine(plan := Plan(config, 512, 1024, 1024), Regions.aligned(plan), 1, 1)
    passed = 0
    cycle = engine._cores._cycle

    def counted(now: int) -> int:
        nonlocal passed
        passed += 1
        return cycle(now)

    engine._cores._cycle = counted  # type: ignore[method-assign]
    assert engine.run() > 10 * passed


def test_equal_engines_count_a_product_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of a model ask for the cycles of a product several times."""
    text = (CONFIGS / "gemm_stream.yaml").read_text(encoding="utf-8")
    calls = []

    def counted(plan: Plan) -> int:
        calls.append(plan)
        return job_cycles(plan)

    monkeypatch.setattr(gemm_core, "job_cycles", counted)
    totals = []
    for _ in range(2):
        engine = core_of(parse_config(text))
        gemm = engine.gemm(1, 777, 65)
        totals += [engine.cycles([gemm]), engine.cycles([gemm, gemm])]
    assert totals[:2] == totals[2:]
    assert len(calls) == 1
