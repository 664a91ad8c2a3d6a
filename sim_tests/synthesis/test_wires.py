# SPDX-License-Identifier: Apache-2.0
"""Cells that are placed, and what wires between them change."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_design
from flows.layout import wires
from flows.layout.placement import Nets, place, spread_evenly
from flows.power.netlist_power import measure_power, workload
from flows.synthesis.result import SynthesisResult
from flows.synthesis.synth import synthesize
from hwgen.cli import main
from hwgen.errors import InputError, ToolMissing
from hwgen.technologies import cell_library
from sim_tests.synthesis.test_power import TINY
from sim_tests.synthesis.tools import require_tools

TARGET = "nangate45"


def joined(*nets: tuple[int, ...]) -> Nets:
    """Return nets by their pins."""
    return Nets(
        np.array([pin for net in nets for pin in net]),
        np.repeat(np.arange(len(nets)), [len(net) for net in nets]),
    )


def test_length_is_half_the_perimeter_around_all_pins() -> None:
    nets = joined((0, 1), (0, 1, 2))
    lengths = nets.lengths(np.array([0.0, 3.0, 1.0]), np.array([0.0, 4.0, 6.0]))
    assert lengths.tolist() == [7.0, 9.0]


def test_cells_fill_the_square_evenly() -> None:
    rng = np.random.default_rng(3)
    areas = rng.uniform(0.5, 4.0, 500)
    at = spread_evenly(rng.normal(5.0, 0.1, (500, 2)), areas, 10.0)
    assert at.min() > 0
    assert at.max() < 10
    quarter = (at[:, 0] < 5) & (at[:, 1] < 5)
    assert abs(areas[quarter].sum() / areas.sum() - 0.25) < 0.02
    assert len(np.unique(at.round(6), axis=0)) == 500


def test_spreading_preserves_the_order_of_cells() -> None:
    at = np.stack([np.linspace(4.9, 5.1, 4), np.full(4, 5.0)], axis=1)
    assert spread_evenly(at, np.ones(4), 4.0)[:, 0].tolist() == [1.0, 1.0, 3.0, 3.0]


def test_placement_of_few_cells_is_near_the_best() -> None:
    """All orders of six cells are compared."""
    nets = joined((6, 0), *((i, i + 1) for i in range(5)), (5, 7), (0, 2, 5))
    placed = place(np.ones(6), nets, 1, 1, 3.0)
    grid = np.array([(x, y) for x in (0.5, 1.5, 2.5) for y in (0.75, 2.25)])
    ports = np.stack([placed.x[6:], placed.y[6:]], axis=1)
    lengths = []
    for order in permutations(range(6)):
        at = np.concatenate([grid[list(order)], ports])
        lengths.append(float(nets.lengths(at[:, 0], at[:, 1]).sum()))
    length = float(nets.lengths(placed.x, placed.y).sum())
    assert length <= np.quantile(lengths, 0.1)
    assert length >= 0.7 * min(lengths)


def test_placement_is_far_shorter_than_a_random_one() -> None:
    side = 24  # a mesh: each cell is joined to its right and its lower neighbour
    cell = np.arange(side * side).reshape(side, side)
    pairs = [*zip(cell[:, :-1].ravel(), cell[:, 1:].ravel(), strict=True),
             *zip(cell[:-1].ravel(), cell[1:].ravel(), strict=True)]  # fmt: skip
    ports = [(side * side + i, i * side) for i in range(side)]
    nets = joined(*[(int(a), int(b)) for a, b in pairs], *ports)
    placed = place(np.ones(side * side), nets, side, 0, float(side))
    length = float(nets.lengths(placed.x, placed.y).sum())
    assert length < 3.0 * len(pairs)  # the mesh itself is 1.0, a random order 16
    assert placed.rounds > 1


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SynthesisResult]:
    """Return a small core and its netlist."""
    require_tools("yosys", "opensta", technology=TARGET)
    path = tmp_path_factory.mktemp("wires") / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return path, synthesize(load_design(path), TARGET, clock_mhz=300)


def with_wires(
    result: SynthesisResult, patch: pytest.MonkeyPatch, **changed: float
) -> wires.WireResult:
    """Return the wires of a netlist by other figures of the technology."""
    tech = cell_library(TARGET)
    assert tech.wires is not None
    other = tech.model_copy(update={"wires": tech.wires.model_copy(update=changed)})
    patch.setattr(wires, "technology", lambda name: other)
    return wires.add_wires(result)


@pytest.mark.rotate(3)
def test_wires_without_load_change_nothing(
    mapped: tuple[Path, SynthesisResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = mapped
    placed = with_wires(result, monkeypatch, ff_per_um=1e-9, ohm_per_um=1e-9)
    assert placed.critical_path_ns == pytest.approx(result.critical_path_ns, rel=1e-3)
    assert placed.path_end == result.path_end


@pytest.mark.rotate(3)
def test_clock_is_slower_the_more_wires_hold(
    mapped: tuple[Path, SynthesisResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = mapped
    paths = []
    for factor in (1, 10, 100):
        placed = with_wires(result, monkeypatch, ff_per_um=0.1 * factor)
        assert placed.capacitance_pf == pytest.approx(
            0.1 * factor * (placed.wire_mm + placed.clock_wire_mm), rel=1e-6
        )
        paths.append(placed.critical_path_ns or 0.0)
    assert (result.critical_path_ns or 0.0) < paths[0] < paths[1] < paths[2]
    resistive = with_wires(result, monkeypatch, ohm_per_um=3000.0)
    assert (resistive.critical_path_ns or 0.0) > paths[0]


def test_core_holds_its_cells(mapped: tuple[Path, SynthesisResult]) -> None:
    _, result = mapped
    placed = wires.add_wires(result)
    assert placed.core_area_um2 * placed.utilisation == pytest.approx(placed.area_um2)
    assert placed.area_um2 >= 0.98 * (result.area_um2 or 0.0)
    assert placed.wire_mm == pytest.approx(wires.ROUTED * placed.half_perimeter_mm)
    assert placed.document() == wires.add_wires(result).document()
    assert "net_ff" not in placed.document()


@pytest.mark.rotate(3)
def test_power_includes_wires(mapped: tuple[Path, SynthesisResult]) -> None:
    path, result = mapped
    design = load_design(path)
    work = workload(design.params, "random:4,8,2")
    placed = wires.add_wires(result)
    free = replace(placed, net_ff={}, fmax_mhz=placed.fmax_mhz)
    bare, loaded = (
        measure_power(design.params, result, work, wires=each) for each in (free, placed)
    )
    assert loaded.clock_mhz == bare.clock_mhz
    for group in ("sequential", "combinational", "clock"):
        assert (loaded.groups[group].switching_mw or 0) > (bare.groups[group].switching_mw or 0)
    assert "wires of placed cells" in loaded.note
    assert "wires without load" in bare.note


@pytest.mark.rotate(3)
def test_command_reports_both_clocks(
    mapped: tuple[Path, SynthesisResult], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = mapped
    arguments = ["synth", "--config", str(path), "--target", TARGET, "--clock-mhz", "300"]
    assert main([*arguments, "--wires", "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["wires"]["fmax_mhz"] < document["fmax_mhz"]
    assert main([*arguments, "--wires"]) == 0
    text = capsys.readouterr().out
    assert "MHz with wires" in text
    assert "not routed" in text
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wires"] is None


def test_targets_without_wires_are_refused(
    mapped: tuple[Path, SynthesisResult],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, _ = mapped
    assert main(["synth", "--config", str(path), "--target", "ecp5", "--wires"]) == 2
    assert "--wires" in capsys.readouterr().err
    bare = cell_library(TARGET).model_copy(update={"wires": None})
    monkeypatch.setattr(wires, "technology", lambda name: bare)
    with pytest.raises(InputError, match="ff_per_um"):
        wires.check_target(TARGET)
    monkeypatch.undo()
    monkeypatch.setattr(wires, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"hwgen\[wires\]"):
        wires.check_target(TARGET)
