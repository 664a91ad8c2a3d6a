# SPDX-License-Identifier: Apache-2.0
"""Sweep files with parts exchanged for others: each runs or is refused with a reason."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cost_model.sweep.document import read_sweep
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.journal import Journal
from cost_model.sweep.output.write import write_output
from cost_model.sweep.probe import probe
from flows.tools.executors import LocalProcesses
from hwgen.errors import HwgenError
from sim_tests.sweep.sweep_costs import evaluate
from sim_tests.sweep.test_sweep import LUT, MIXED

KEYS = (
    "top", "keep", "sample", "configs", "targets", "array.rows", "pipeline", "families", "weight",
    "log", "step", "minimize", "target.clock_mhz", "pipeline.reduce",
)  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 3, -0.5, 2**70, float("inf"), float("nan"), "", "x", "auto", "a b", "family",
    "array.tables", "area_mm2", "area_mm2 <= 1", "tops < area_mm2", "activation", "1 / 0",
    "sqrt(-1)", "log2(0) > 1", "array.group_size - 1", "family == 'systolic'", "max_k ** 99",
    "array.group_size == 2 and activation == 'int4'", "tops ** 0.5 - 3",
    [], [[]], [None], [1, 1], [1, 2], [True, False], ["int4", 3], ["auto", 1],
    {}, {"a": 1}, {"from": 1}, {"from": 1, "to": 4}, {"from": 0, "to": 5},
    {"from": 1, "to": 9, "step": 0.5}, {"from": 2, "to": 32, "step": 2**70},
    {"from": 1, "to": 1e30, "step": 1}, {"from": 1, "to": 10**30}, {"from": 1, "to": 64, "log": 3},
    {"from": 1, "to": 1e9, "log": 1.0000001},
]  # fmt: skip


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below the root."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items if isinstance(data, (dict, list)) else ():
        yield (*path, key)
        yield from paths(value, (*path, key)) if isinstance(value, (dict, list)) else ()


def mutate(data: Any, rng: random.Random) -> None:
    """Exchange, remove or add one value."""
    *parents, last = rng.choice(list(paths(data)))
    for key in parents:
        data = data[key]
    action = rng.random()
    if action < 0.15:
        del data[last]
    elif action < 0.35 and isinstance(data, dict):
        data[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
    else:
        data[last] = copy.deepcopy(rng.choice(VALUES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.rotate(6)
def test_a_sweep_runs_or_is_refused(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    file = tmp_path / "sweep.yaml"
    ran, refused = 0, []
    for number in range(150):
        data = yaml.safe_load(rng.choice((LUT, MIXED)))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            mutate(data, rng)
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        try:
            sweep = read_sweep(file, "1")
            if sweep.plan.sample is not None or sweep.plan.space.size > 100_000:
                continue
            probed = probe(sweep, evaluate)
            with Journal(tmp_path / f"journal_{number}", probed.fingerprint) as journal:
                outcome = run_sweep(sweep, probed, evaluate, LocalProcesses(1), journal)
            (tmp_path / f"out_{number}").mkdir()
            write_output(tmp_path / f"out_{number}", outcome, evaluate, probed)
            ran += 1
        except HwgenError as error:
            refused.append(str(error))
    assert ran > 5
    assert len(refused) > 50
    assert all(refused)
