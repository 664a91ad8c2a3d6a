# SPDX-License-Identifier: Apache-2.0
"""The estimate of a build: of every accumulator, and never in the way of the hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.build import build
from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.cli.estimate import _limited
from sim_tests.support.designs import estimate_of

CORES = ("systolic", "cube", "adder_tree", "broadcast_2d", "ternary_lut")


# Keys of a ternary-LUT core are signed, and so are their sums.
PAIRS = [
    (family, accumulator)
    for family in CORES
    for accumulator in ("int2", "int3", "uint2", "int5")
    if family != "ternary_lut" or accumulator != "uint2"
]


@pytest.mark.parametrize(("family", "accumulator"), PAIRS)
def test_accumulators_of_few_bits_have_an_estimate(family: str, accumulator: str) -> None:
    text = f"name: few\nfamily: {family}\naccumulator: {accumulator}\n"
    if accumulator.startswith("u"):
        text += "activation: uint4\nweight: uint4\n"
    config = parse_config(text + "post: {outputs: [int8], columns: false}\n")
    assert estimate_of(config)["metrics"]["fmax_mhz"] > 0


def test_no_failure_of_an_estimate_stops_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(build, "estimate", broken)
    source = tmp_path / "tiny.yaml"
    source.write_text("name: tiny\nfamily: systolic\narray: {rows: 1, cols: 1}\n")
    output = tmp_path / "out"
    assert main(["build", "--config", str(source), "--output", str(output)]) == 0
    result = json.loads((output / "tiny.json").read_text())["estimate"]
    assert result["notes"] == ["no estimate: ZeroDivisionError: no such luck"]
    assert set(result["metrics"].values()) == {None}
    assert "warning: no estimate: ZeroDivisionError: no such luck" in capsys.readouterr().err
    assert (output / "tiny.v").stat().st_size > 0


def test_a_build_warns_of_a_missed_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "tiny.yaml"
    text = "name: tiny\nfamily: systolic\narray: {rows: 1, cols: 1}\npipeline: {pe: 0}\n"
    for clock, warned in ((1500, True), (100, False)):
        source.write_text(text + f"target: {{clock_mhz: {clock}}}\n")
        command = ["build", "--config", str(source), "--output", str(tmp_path / "out")]
        assert main(command) == 0
        said = capsys.readouterr().err
        assert ("warning: the clock of 1500 MHz is not reached; Fmax is " in said) == warned
        assert said.count("\n") == warned


def test_a_path_that_returns_to_its_register_is_a_loop() -> None:
    path = {"start": "core.total", "end": "core.total", "ns": 1.5, "stages": []}
    assert "from core.total to itself (a loop), 1.5 ns" in _limited(path)
    assert "from core.total to core.next, 1.5 ns" in _limited({**path, "end": "core.next"})


@pytest.mark.parametrize(
    "workloads",
    [[(1, 4, 4)], {"layer": 4}, {"layer": (1, 4, 4)}, {"layer": ["abc"]}, {1: [(1, 4, 4)]},
     {"layer": [(1, 4, True)]}],
)  # fmt: skip
def test_workloads_of_a_wrong_type_are_refused(workloads: Any) -> None:
    config = parse_config("name: tiny\nfamily: systolic\narray: {rows: 1, cols: 1}\n")
    with pytest.raises(TypeError, match=r"\(1, 64, 64\)"):
        estimate_of(config, workloads=workloads)
    result = estimate_of(config, workloads={"layer": [(1, 4, 4)]})
    assert result["metrics"]["cycles(layer)"] > 0
