# SPDX-License-Identifier: Apache-2.0
"""The shipped sweeps, and the tables that answer questions by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_model.sweep.document import read_sweep
from flows.bench import questions
from hwgen import __version__


@pytest.mark.parametrize("path", sorted(questions.SWEEPS.glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_sweeps_are_legal(path: Path) -> None:
    assert read_sweep(path, __version__).plan.space.size > 1000


@pytest.mark.slow
@pytest.mark.rotate(48)
def test_the_best_of_each_group_is_shown(tmp_path: Path) -> None:
    question = next(q for q in questions.QUESTIONS if q.sweep == "method_int")
    result = questions.points("method_int", tmp_path)
    assert all(questions.macs(point) in (256, 4096) for point in result)
    assert all(point["fmax_mhz"] >= 450 for point in result)
    _, *table = questions.answer(question, result)
    # Formats, sizes, methods, but for those of which none is fast enough.
    groups = {
        (point["activation"], questions.macs(point), point["array.method"]) for point in result
    }
    assert len(table) == len(groups)
    assert {activation for activation, _, _ in groups} == {"int4", "int8", "int12"}
    best = max(point["tops_per_mm2"] for point in result if point["activation"] == "int8")
    shown = [cells for cells in table if cells[0].startswith("int8")]
    assert max(float(cells[7]) for cells in shown) == pytest.approx(best, abs=0.01)
    assert sum(cells[-1] == "1.00" for cells in table) == 1


def test_what_is_said_of_processing_elements() -> None:
    point = {
        "family": "cube", "array.pe": "serial_group", "array.rows": 16, "array.cols": 8,
        "array.depth": 32, "array.encoding": "ent", "array.queue": 2, "pipeline.pe": 1,
        "target.activation_sigma": 20, "target.clock_mhz": 5000, "fmax_mhz": 1000.0,
        "tops": 0.5, "area_mm2": 0.1, "tops_per_mm2": 5.0, "tops_per_w": 4.0,
    }  # fmt: skip
    other = {**point, "target.activation_sigma": 10}
    plain = {**point, "family": "broadcast_2d", "array.pe": "mac", "array.depth": None}
    by_engine, by_sigma = (q for q in questions.QUESTIONS if q.sweep == "elements")
    rows = questions.answer(by_engine, [point, other, plain])[1:]
    assert [cells[:6] for cells in rows] == [
        ["broadcast_2d, mac", "16 x 8", "1", "", "", "250.0"],
        ["cube, serial_group", "16 x 8 x 32", "1", "ent", "2", "250.0"],
    ]
    rows = questions.answer(by_sigma, [point, other, plain])[1:]
    assert [cells[0] for cells in rows] == [
        "mac",
        "serial_group, sigma 10",
        "serial_group, sigma 20",
    ]


def test_proportions_are_rounded_to_powers_of_two() -> None:
    point = {"array.group_size": 2, "array.tables": 6, "array.fetch_ports": 88}
    assert questions.nearest_ratio(point) == 8.0
    assert questions.macs(point) == 1056
