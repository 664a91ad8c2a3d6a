# SPDX-License-Identifier: Apache-2.0
"""Bitstreams of boards: made, refused, or failed with the clock and the path."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from flows.board import build
from flows.board.build import build_board, check_fit
from flows.synthesis.result import PnrResult, SeedResult
from flows.tools import toolchain
from hwgen.cli import main
from hwgen.errors import CheckFailed, ToolMissing
from sim_tests.board.simulated import TINY, tiny

LARGE = "name: eight\nfamily: systolic\narray: {rows: 8, cols: 8}\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY)
    Path("large.yaml").write_text(LARGE)
    return "tiny.yaml"


def routed(mhz: float | None) -> PnrResult:
    """Return a result of place and route that was not run."""
    seed = SeedResult(1, mhz, None if mhz is None else 1000 / mhz, "here", "there", None, 1.0)
    return PnrResult(
        name="tiny_board", target="ice40", device="up5k", package="sg48", speed_grade="",
        recipe="logic", io="pins", clock_target_mhz=12.0, fmax_min_mhz=mhz, fmax_median_mhz=mhz,
        fmax_max_mhz=mhz, seeds=(seed,), source_digest="",
        utilization={"LC": {"used": 1, "available": 2}}, frame_flip_flops=None, frame_luts=None,
        netlist_digest="", tools={}, wall_seconds=1.0,
        files={"seed1.log": b"", "seed1.report.json": b"", "seed1.routed": b""},
    )  # fmt: skip


def test_a_design_that_does_not_fit_is_refused_before_synthesis(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("synthesis began")

    monkeypatch.setattr(build, "place_and_route", refuse)
    arguments = ["board", "build", "--board", "icebreaker", "-c", "large.yaml", "-o", "out"]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "eight does not fit icebreaker: by estimate it needs" in said
    assert "of 5,280 LUTs" in said
    assert "It fits gatemate-evb, orangecrab-85f, ulx3s-85f" in said
    assert not Path("out").exists()


def test_the_estimate_of_a_board_needs_no_synthesis(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["board", "estimate", "--board", "icebreaker", "-c"]
    assert main([*line, config]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clock 12 MHz, Fmax " in said
    assert "ice40up5k: fits: yes" in said
    assert "ice40up5k reaches 0.33 to 0.58 of it" in said
    assert main([*line, "large.yaml", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["device"]["resources"]["luts"]["share"] > 1
    assert main([*line, config, "--clock", "auto"]) == 2


def test_the_estimate_has_the_bridge_in_it() -> None:
    design = tiny()
    resources = check_fit(design)["device"]["resources"]
    assert resources["luts"]["used"] > 800
    assert resources["brams"]["used"] + resources["flip_flops"]["used"] / 512 >= 1


def test_the_fastest_of_all_seeds_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = (11.0, 13.5, None, 12.5)

    def run(*arguments: object, seeds: int, **options: object) -> PnrResult:
        results = [routed(mhz).seeds[0] for mhz in reached[:seeds]]
        of_seeds = [replace(each, seed=number) for number, each in enumerate(results, 1)]
        return replace(routed(13.5), seeds=tuple(of_seeds), files={
            "seed2.log": b"second", "seed2.report.json": b"", "seed2.routed": b"",
        })  # fmt: skip

    monkeypatch.setattr(build, "place_and_route", run)
    monkeypatch.setattr(build, "bitstream", lambda result: b"bits of %d" % result.best.seed)
    built = build_board(tiny())
    assert built.files["tiny_board.bin"] == b"bits of 2"
    assert built.files["nextpnr.log"] == b"second"
    assert built.document["fmax_mhz"] == 13.5
    assert built.document["fmax_of_seeds_mhz"] == list(reached)
    assert built.document["seeds"] == 4
    assert built.document["estimated_fmax_mhz"] > 12


def test_a_missed_clock_is_an_error_with_the_path_and_nothing_is_written(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "place_and_route", lambda *_, **__: routed(5.0))
    arguments = ["board", "build", "--board", "icebreaker", "-c", config, "-o", "out", "--seeds"]
    assert main([*arguments, "2"]) == 1
    said = capsys.readouterr().err
    assert "reaches 5 MHz on icebreaker, not the 12 MHz of its clock" in said
    assert "leads from here to there" in said
    assert "--divide 4" in said
    assert not Path("out").exists()
    monkeypatch.setattr(build, "place_and_route", lambda *_, **__: routed(None))
    with pytest.raises(CheckFailed, match="reports no clock"):
        build_board(tiny(), seeds=1)


def test_an_output_that_cannot_be_is_refused_before_the_work(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    Path("file").write_text("in the way\n")
    monkeypatch.setattr(subprocess, "Popen", refuse)
    arguments = ["board", "build", "--board", "icebreaker", "-c", config, "-o", "file/below"]
    assert main(arguments) == 2
    assert "output" in capsys.readouterr().err


def test_a_packer_that_is_missing_is_noticed_before_synthesis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("synthesis began")

    monkeypatch.setattr(build, "place_and_route", refuse)
    monkeypatch.setenv("HWGEN_GOWIN_PACK", "/no/such/program")
    toolchain.forget()
    with pytest.raises(ToolMissing, match=r"gowin_pack is needed.*pip install 'hwgen\[gowin\]'"):
        build_board(tiny(name="tang-nano-9k", baud=1_000_000))
    toolchain.forget()


def test_loading_needs_a_program(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWGEN_OPENFPGALOADER", "/no/such/program")
    toolchain.forget()
    assert main(["board", "load", "--board", "icebreaker", config]) == 3
    assert "openFPGALoader is needed to load bitstreams" in capsys.readouterr().err
    toolchain.forget()


def test_loading_runs_the_program_with_the_board(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Path("loader").absolute()
    program.write_text('#!/bin/sh\necho openFPGALoader v1.1\ncase "$*" in *bad*) exit 1;; esac\n'
                       f'echo "$@" >> {program}.log\n')  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setenv("HWGEN_OPENFPGALOADER", str(program))
    toolchain.forget()
    assert main(["board", "load", "--board", "ulx3s-85f", config]) == 0
    assert f"-b ulx3s {Path(config).absolute()}" in Path("loader.log").read_text()
    Path("bad.bit").write_text("")
    assert main(["board", "load", "--board", "ulx3s-85f", "bad.bit", "--flash"]) == 1
    toolchain.forget()


def test_a_random_job_on_the_simulated_board(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["board", "test", "--board", "icebreaker", "-c", config, "--buffer", "64", "--json"]
    assert main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["results"] > 0
    assert main([*arguments, "--port", "/dev/no-such-port"]) == 1
    assert "cannot be opened" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("name", ["icebreaker", "ulx3s-85f"])
def test_a_bitstream_is_made_and_meets_the_clock(name: str, config: str) -> None:
    out = Path("out")
    assert main(["board", "build", "--board", name, "-c", config, "-o", str(out)]) == 0
    report = json.loads((out / "board.json").read_text())
    assert report["fmax_mhz"] >= report["clock_mhz"]
    assert (out / report["bitstream"]).stat().st_size == report["bitstream_bytes"] > 10_000
    assert "module tiny_board" in (out / "tiny_board.v").read_text()
