# SPDX-License-Identifier: Apache-2.0
"""Configurations that are proposed for a board: they fit it, and a larger one does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.board import proposal
from flows.board.proposal import MOST_LUTS, natural_family, propose
from flows.build.load import parse_config
from hwgen.board.registry import board, boards
from hwgen.cli import main
from hwgen.errors import InputError


def estimates(monkeypatch: pytest.MonkeyPatch, luts: list[int], fmax_mhz: float | None) -> None:
    """Let estimates be of so many look-up tables, one after the other, of 5,280."""
    left = list(luts)

    def estimate(design: Any) -> dict[str, Any]:
        used = left.pop(0)
        row = {"used": used, "available": 5280, "share": used / 5280}
        device = {"resources": {"luts": row}, "fits": used <= 5280}
        certainty = {"fmax_mhz": {"within": 0.2}}
        return {"device": device, "metrics": {"fmax_mhz": fmax_mhz}, "certainty": certainty}

    monkeypatch.setattr(proposal, "estimate_board", estimate)


def test_the_largest_size_that_leaves_space_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    estimates(monkeypatch, [900, 2000, 4000, 5000], 60.0)
    chosen = propose(board("icebreaker"), "systolic", "mine")
    assert chosen.size == {"array.rows": 4, "array.cols": 4}
    assert 5000 > MOST_LUTS * 5280 > 4000
    config: Any = parse_config(chosen.text)
    assert (config.name, config.array.rows, config.array.cols) == ("mine", 4, 4)
    assert (config.target.technology, config.target.device) == ("ice40", "ice40up5k")
    # This device reaches a third of the estimate, and its PLL makes multiples of 62.5 kHz.
    assert 15 < config.target.clock_mhz == chosen.clock_mhz <= 0.33 * 60


def test_a_clock_without_an_estimate_is_that_of_the_oscillator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimates(monkeypatch, [900, 6000], None)
    assert propose(board("tang-nano-9k"), "cube").clock_mhz == 27


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    estimates(monkeypatch, [4900], 60.0)
    with pytest.raises(InputError, match=r"no systolic fits icebreaker: the smallest needs 4,900"):
        propose(board("icebreaker"), "systolic")
    with pytest.raises(InputError, match="no sizes of vector are known; families that"):
        propose(board("icebreaker"), "vector")
    with pytest.raises(InputError, match="boards with one are ulx3s-85f"):
        propose(board("icebreaker"), "gemm_stream")


def test_boards_with_a_memory_get_an_engine() -> None:
    assert {name for name in boards() if natural_family(board(name)) != "systolic"} == {"ulx3s-85f"}


@pytest.mark.rotate(6)
@pytest.mark.parametrize("family", ["ternary_lut", "adder_tree", "broadcast_2d", "cube"])
def test_a_proposal_is_a_file_that_is_estimated_to_fit(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    assert main(["init", family, "--board", "icebreaker", "-o", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert path.read_text() == document["text"]
    line = ["board", "estimate", "--board", "icebreaker", "-c", str(path), "--json"]
    assert main(line) == 0
    luts = json.loads(capsys.readouterr().out)["device"]["resources"]["luts"]
    assert luts["used"] == pytest.approx(document["luts"], rel=0.01)  # the digest is another one
    assert document["luts"] <= MOST_LUTS * luts["available"]


@pytest.mark.rotate(12)
def test_an_engine_is_proposed_for_a_board_with_a_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    assert main(["init", "--board", "ulx3s-85f", "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"next: hwgen board build --board ulx3s-85f --config {path} --clock" in said
    config: Any = parse_config(path.read_text())
    assert config.family == "gemm_stream"
    assert config.memory.data_width == 32
