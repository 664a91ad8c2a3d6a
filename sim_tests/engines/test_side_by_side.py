# SPDX-License-Identifier: Apache-2.0
"""Two networks at once on an engine with several cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flows.bench import two_cores
from flows.build.design import Design
from flows.build.load import load_config
from flows.simulation import side_by_side
from flows.simulation.side_by_side import Network, run_side_by_side
from hwgen.errors import CheckFailed
from hwgen.workloads.network import Gemm
from sim_tests.support.paths import CONFIGS

LAYER = Network("layer", "ternary", [Gemm(3, 40, 24), Gemm(5, 24, 17)], ternary=True)
OTHER = Network("other", "int8", [Gemm(4, 33, 8), Gemm(1, 64, 32), Gemm(2, 5, 7)])


@pytest.fixture(scope="module")
def design() -> Design:
    return Design.of(load_config(CONFIGS / "transformer.yaml"))


@pytest.mark.slow
@pytest.mark.rotate(12)
def test_networks_run_at_once_and_results_are_golden(design: Design) -> None:
    both = run_side_by_side(design, [LAYER, OTHER], seed=2)
    alone = [run_side_by_side(design, [each], seed=2).cycles for each in (LAYER, OTHER)]
    shared = run_side_by_side(design, [replace(LAYER, unit="int8"), OTHER], seed=2)
    assert max(alone) < both.cycles < sum(alone)
    assert both.cycles < shared.cycles
    for done in (both, shared):
        assert done.timing.least <= done.cycles <= done.timing.most
        assert abs(done.timing.cycles / done.cycles - 1) < 0.1


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_a_wrong_result_of_a_network_is_noticed(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = side_by_side._place

    def spoiled(unit: Any, network: Network, *more: Any) -> Any:
        product, end = place(unit, network, *more)
        if network is OTHER:
            product = replace(product, w=product.w[::-1].copy())
        return product, end

    monkeypatch.setattr(side_by_side, "_place", spoiled)
    with pytest.raises(CheckFailed, match="product 0 of other"):
        run_side_by_side(design, [LAYER, OTHER])


def test_fronts_are_of_engines_with_as_many_cores() -> None:
    designs = [
        {"name": "a", "cores": 1, "area_mm2": 1.0, "cycles": 10},
        {"name": "b", "cores": 1, "area_mm2": 2.0, "cycles": 10},
        {"name": "c", "cores": 2, "area_mm2": 2.0, "cycles": 20},
    ]
    assert two_cores.front(designs) == ["a", "c"]
