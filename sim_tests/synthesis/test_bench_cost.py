# SPDX-License-Identifier: Apache-2.0
"""Tables and pictures of estimates compared with synthesis."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cost_model.estimate.technology import Technology, technology
from flows.bench import cost_points, cost_tables
from flows.bench.cost_tables import Point
from flows.build.load import parse_config

TECH = "nangate45"


def point(family: str, area: float, error: float, *traits: str) -> Point:
    return Point(
        TECH,
        {"family": family, "array.rows": 3},
        1.0,
        {"area": area * (1 + error), "fmax": 800.0},
        {"area": area, "fmax": 1000.0},
        {"area": 0.05, "fmax": 0.1},
        (family, *traits),
        6.0,
    )


POINTS = [
    point("systolic", 1e-3, 0.02, "5..8 bits"),
    point("systolic", 5e-3, -0.04, "2..4 bits", cost_tables.NARROW),
    point("cube", 2e-2, 0.1, "5..8 bits"),
]


def test_errors_are_printed_with_their_sign_and_the_stated_bound() -> None:
    result = cost_tables.summarise(POINTS, "area")
    assert result is not None
    assert result.errors.bias == pytest.approx(0.08 / 3)
    assert result.errors.worst == pytest.approx(0.1)
    assert result.uncertainty == 0.05
    assert result.inside == pytest.approx(2 / 3)
    fmax = cost_tables.summarise(POINTS, "fmax")
    assert fmax is not None
    assert fmax.errors.bias == pytest.approx(-0.2)
    assert fmax.inside == 0.0


def test_tables_are_by_parts_of_the_domain() -> None:
    text = cost_tables.tables(
        POINTS, [s for m in ("area",) if (s := cost_tables.summarise(POINTS, m))], 7
    )
    assert "Seed 7." in text
    assert "| systolic | 3.0 %, -1.0 % (2) |" in text
    assert "| 5..8 bits | 6.0 %, +6.0 % (2) |" in text
    assert f"| {cost_tables.NARROW} | 4.0 %, -4.0 % (1) |" in text
    assert "| nangate45 | area | +10.0 % | cube, array.rows 3 |" in text
    assert "Minutes that the syntheses took: nangate45 0." in text


def test_a_picture_has_a_panel_for_each_metric(tmp_path: Path) -> None:
    cost_tables.draw_picture(POINTS, tmp_path / "accuracy.svg")
    root = ElementTree.parse(tmp_path / "accuracy.svg").getroot()
    groups = [each.get("id", "") for each in root.iter()]
    assert sum(name.startswith("axes_") for name in groups) == len(cost_tables.UNITS)


def test_parts_of_the_domain_of_a_design() -> None:
    text = """
name: core
family: adder_tree
activation: int9
weight: uint2
accumulator: int10
array: {rows: 64, cols: 1, depth: 2}
post: {outputs: [fp32]}
"""
    result = cost_tables.traits(parse_config(text, "core.yaml"), macros=True)
    assert result == (
        "adder_tree", "9..12 bits", cost_tables.MIXED, cost_tables.BEYOND, cost_tables.NARROW,
        cost_tables.POST, cost_tables.MACROS,
    )  # fmt: skip


def test_formats_with_scales_for_blocks_are_recognised_by_name() -> None:
    text = "name: core\nfamily: adder_tree\nactivation: int5_g32\nweight: mxfp4\n"
    result = cost_tables.traits(parse_config(text, "core.yaml"), macros=False)
    named = {f"{cost_tables.OF_BLOCKS}int5_g32", f"{cost_tables.OF_BLOCKS}mxfp4"}
    assert {cost_tables.BLOCKS, *named} <= set(result)
    points = [point("adder_tree", 1e-3, 0.02, *result[1:])]
    assert "| blocks: mxfp4 | 2.0 %, +2.0 % (1) |" in "\n".join(cost_tables.parts(points, ["area"]))


def test_what_was_measured_becomes_the_uncertainty_of_the_next_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[Technology] = []
    monkeypatch.setattr(cost_points, "write", lambda path, tech: written.append(tech))
    before = technology(TECH)
    within = before.structure["uncertainty_of_logic"]["area"]
    # Each design has a share of logic of one half, and errors of 0.01, 0.02, up to 0.4.
    points = [
        replace(point("cube", 1e-3, n / 100), stated={"area": within / 2}) for n in range(1, 41)
    ]
    cost_points.save(points, 7)
    result = written[0]
    # The 37th of forty: nine of ten of the next stay within.
    assert result.structure["uncertainty_of_logic"]["area"] == pytest.approx(2 * 0.37)
    assert result.timing["uncertainty"] == pytest.approx(0.2)
    assert result.structure["provenance"]["held_out"] == {"seed": 7, "designs": 40}
    assert result.structure["costs"] == before.structure["costs"]
    cost_points.save(points[:10], 8)  # too few to know
    assert written[1].timing == before.timing
