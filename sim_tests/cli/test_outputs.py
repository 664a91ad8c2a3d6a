# SPDX-License-Identifier: Apache-2.0
"""Outputs of commands: refused before the work, and shared by several at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from hwgen.cli import cli, main
from hwgen.cli.support.outputs import MARKER, atomic_directory

CONFIG = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"

SWEEP = """name: tiny
family: systolic
parameters: {array: {rows: [2, 4]}}
objectives: {minimize: [area_mm2]}
"""

COMMANDS = {
    "build": ["--config", "tiny.yaml", "--output", "PLACE"],
    "calibrate": ["--target", "nangate45", "--output", "PLACE.json"],
    "faults": ["--config", "tiny.yaml", "--output", "PLACE"],
    "harden": ["--config", "tiny.yaml", "--silent", "0.01", "--output", "PLACE"],
    "init": ["systolic", "--output", "PLACE.yaml"],
    "pack": ["--config", "tiny.yaml", "--weights", "w.npy", "--output", "PLACE"],
    "pnr": ["--config", "tiny.yaml", "--target", "ecp5", "--output", "PLACE"],
    "pnr --bitstream": ["--config", "tiny.yaml", "--target", "ecp5", "--bitstream", "PLACE.bit"],
    "prove": ["--config", "tiny.yaml", "--output", "PLACE"],
    "report": ["--config", "tiny.yaml", "--output", "PLACE.md"],
    "run": ["--config", "tiny.yaml", "--activations", "a.npy", "--weights", "w.npy",
            "--output", "PLACE.npy"],
    "search": ["model", "--goal", "tokens_per_s>=1", "--target", "nangate45", "--output", "PLACE"],
    "sim": ["--config", "tiny.yaml", "--output", "PLACE"],
    "sweep": ["--config", "sweep.yaml", "--output", "PLACE"],
    "synth": ["--config", "tiny.yaml", "--output", "PLACE"],
    "unpack": ["--config", "tiny.yaml", "--input", "packed/w.json", "--output", "PLACE.npy"],
    "vectors": ["--config", "tiny.yaml", "--gemm", "2,2,2", "--output", "PLACE"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(CONFIG)
    Path("sweep.yaml").write_text(SWEEP)
    Path("file").write_text("in the way\n")
    np.save("a.npy", np.ones((2, 2), np.int8))
    np.save("w.npy", np.ones((2, 2), np.int8))
    return tmp_path


def options_of(name: str) -> set[str]:
    """Return the options of a command that name something that it writes."""
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    return {
        option
        for parameter in command.params
        if isinstance(parameter.type, click.Path) and not parameter.type.exists
        for option in parameter.opts
        if option in ("--output", "--bitstream")
    }


def test_every_output_of_every_command_is_tested() -> None:
    context = click.Context(cli)
    there = {name for name in cli.list_commands(context) if options_of(name)}
    assert there == {name.split()[0] for name in COMMANDS}


def test_an_output_has_one_name() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        for option in command.params:
            if option.name == "output":
                assert option.opts == ["-o", "--output"], name
            assert not {"--out", "--outdir", "--markdown", "--destination"} & set(option.opts)


@pytest.mark.parametrize("target", ["file/below", "/proc/nothing/can/be/made/here"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_that_cannot_be_is_refused_before_the_work(
    name: str,
    target: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if target.startswith("/proc") and not Path("/proc/self").exists():
        target = "file/below"  # as on macOS, where no directory refuses even root

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError(f"a process was started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = sorted(folder.rglob("*"))
    arguments = [option.replace("PLACE", target) for option in COMMANDS[name]]
    assert main([name.split()[0], *arguments]) == 2
    said = capsys.readouterr().err
    assert "output" in said or "does not exist; create the directory first" in said
    assert "internal error" not in said
    assert sorted(folder.rglob("*")) == before


BUILD = """
import sys, time
from pathlib import Path
from hwgen.cli.support.outputs import atomic_directory

with atomic_directory(Path("new/out")) as folder:
    Path(f"ready{sys.argv[1]}").touch()
    while len(list(Path().glob("ready*"))) < 4:
        time.sleep(0.01)
    for name in "abc":
        (folder / name).write_text(sys.argv[1])
"""


def test_several_write_into_one_new_directory(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(number)],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    out = tmp_path / "new" / "out"
    assert {path.name for path in out.iterdir()} == {"a", "b", "c", MARKER}
    assert len({(out / name).read_text() for name in "abc"}) == 1
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_what_somebody_else_puts_there_meanwhile_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupted() -> None:
        with atomic_directory(out) as folder:
            (folder / "x").write_text("new")
            out.mkdir()
            (out / "x").write_text("theirs")

    with pytest.raises(Exception, match="holds no earlier output of hwgen"):
        interrupted()
    assert (out / "x").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
