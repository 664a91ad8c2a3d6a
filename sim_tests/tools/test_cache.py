# SPDX-License-Identifier: Apache-2.0
"""Cache directory: one that cannot be written, or has damaged entries."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flows.simulation.programs import compiled
from flows.tools import cache, process, wasm
from flows.tools.cache import Directories
from flows.tools.toolchain import Installation
from hwgen.errors import CheckFailed, InputError
from sim_tests.support.caches import with_runtime
from sim_tests.support.paths import ROOT

CONFIG = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Let every test see the notes that are told once."""
    for function in (cache.note, cache._cache_directory, wasm._environment):
        function.cache_clear()
    yield
    for function in (cache.note, cache._cache_directory, wasm._environment):
        function.cache_clear()


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """Return a directory in which even root can make nothing."""
    if os.geteuid() == 0:
        return Path("/proc")
    path = tmp_path / "unwritable"
    path.mkdir(mode=0o500)
    return path


def test_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "mine"))
    assert cache.cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("HWGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_directory() == tmp_path / "xdg" / "hwgen"


@pytest.mark.parametrize("variable", ["HWGEN_CACHE_DIR", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("obstacle", ["unwritable", "a file in the way"])
def test_a_temporary_place_instead_of_one_that_cannot_be_written(
    variable: str,
    obstacle: str,
    unwritable: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HWGEN_CACHE_DIR", raising=False)
    (tmp_path / "file").touch()
    wanted = unwritable if obstacle == "unwritable" else tmp_path / "file" / "below"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv(variable, str(wanted))
    fallback = cache.cache_directory()
    assert fallback == tmp_path / f"hwgen-{os.getuid()}"
    assert stat.S_IMODE(fallback.stat().st_mode) == 0o700
    assert cache.cache_directory() == fallback
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"note: the cache {wanted}")
    assert said.endswith(f"{fallback} is used instead")


def test_no_place_at_all(unwritable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(unwritable))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(unwritable))
    with pytest.raises(InputError, match=r"can be written; set HWGEN_CACHE_DIR$"):
        cache.cache_directory()


def test_a_temporary_place_of_somebody_else_is_not_used(
    unwritable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / f"hwgen-{os.getuid()}").symlink_to("theirs")
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(unwritable))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(InputError, match="can be written"):
        cache.cache_directory()


def hwgen(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as its users do."""
    environment = {**os.environ, **variables}
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.run(
        [sys.executable, "-m", "hwgen", *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotate(10)
def test_build_and_run_without_a_home(unwritable: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    np.save(tmp_path / "a.npy", np.eye(2, dtype=np.int8))
    variables = {
        "HOME": str(unwritable),
        "XDG_CACHE_HOME": "",
        "HWGEN_CACHE_DIR": "",
        "TMPDIR": str(tmp_path),
    }
    with_runtime(tmp_path / f"hwgen-{os.getuid()}").chmod(0o700)
    built = hwgen("build", "--config", "tiny.yaml", cwd=tmp_path, **variables)
    assert built.returncode == 0, built.stderr
    assert "compiled tools are kept in" in built.stderr
    assert (tmp_path / "build" / "tiny" / "tiny.v").is_file()
    run = ("run", "--config", "tiny.yaml", "--activations", "a.npy", "--weights", "a.npy")
    done = hwgen(*run, "--output", "c.npy", "--check", cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert "is used instead" in done.stderr
    assert "preparing" not in done.stderr  # a second time, that is


# -- WebAssembly -------------------------------------------------------------------------------


SLOW = """
import sys, time, pathlib
kept = pathlib.Path(sys.argv[1])
if not kept.exists():
    time.sleep(3)
    kept.touch()
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Return a tool that compiles itself for three seconds when it is first used."""
    caches = tmp_path / "caches"
    kept = caches / "YoWASP" / "yowasp_slow" / "slow.wasm"
    kept.parent.mkdir(parents=True)
    argv = (sys.executable, "-c", SLOW, str(kept))
    tool = SimpleNamespace(package="yowasp-slow", version_arguments=())
    monkeypatch.setattr(wasm, "TOOLS", {"slow": tool})
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    monkeypatch.delenv("YOWASP_CACHE_DIR", raising=False)
    return Installation("slow", (1,), "Python package yowasp-slow", "wheel", argv)


def test_a_time_limit_does_not_count_the_preparation(
    slow: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process.run(slow, [], tmp_path, "log", 2)
    assert capsys.readouterr().err == (
        "note: preparing slow for this machine, once: about half a minute\n"
    )
    cache.note.cache_clear()
    process.run(slow, [], tmp_path, "log", 2)
    assert capsys.readouterr().err == ""


@pytest.mark.rotate(8)
def test_what_was_removed_is_prepared_again(
    slow: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wasm.prepare(slow)
    Path(slow.argv[-1]).unlink()
    cache.note.cache_clear()
    wasm.prepare(slow)
    assert capsys.readouterr().err.count("preparing") == 2
    assert Path(slow.argv[-1]).exists()


def test_tools_that_are_prepared_together_are_counted(
    slow: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wasm, "find", lambda name: slow)
    wasm.prepare_all()
    assert "preparing slow for this machine, once (1 of 1): about" in capsys.readouterr().err
    wasm.prepare_all()
    assert capsys.readouterr().err == ""


def test_the_environment_prepares_them() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installing = makefile[makefile.index("$(STAMP):") :].split("\n\n")[0]
    assert "-m flows.install" in installing  # which compiles them: sim_tests/tools/test_install.py


# -- what is kept ------------------------------------------------------------------------------


def make(work: Path) -> None:
    with (work / "count").open("a") as file:
        file.write("made\n")
    (work / "name").write_text("program")


def stored_program(calls: list[Path]) -> Path:
    def counted(work: Path) -> None:
        calls.append(work)
        make(work)

    return compiled("name", {"source": "text"}, ["identity"], counted, folder="kind")


@pytest.mark.parametrize("damage", ["truncated", "missing", "changed"])
def test_a_damaged_program_is_made_again(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    calls: list[Path] = []
    place = stored_program(calls)
    assert stored_program(calls) == place
    assert len(calls) == 1
    program = place / "name"
    match damage:
        case "truncated":
            program.write_text("prog")
        case "missing":
            program.unlink()
        case "changed":
            program.write_text("Program")
    assert stored_program(calls) == place
    assert program.read_text() == "program"
    assert "is damaged; it is rebuilt" in capsys.readouterr().err
    assert stored_program(calls) == place
    assert len(calls) == 2
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_entries_of_an_earlier_version_are_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    place = stored_program([])
    (place / "seal.json").unlink()
    assert stored_program([]) == place
    assert (place / "seal.json").exists()
    assert capsys.readouterr().err == ""


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))

    def fail(work: Path) -> None:
        (work / "half").touch()
        raise CheckFailed("no")

    with pytest.raises(CheckFailed):
        compiled("name", {}, [], fail, folder="kind")
    assert list((tmp_path / "kind").iterdir()) == []


def test_work_under_way_is_not_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    programs, folder = Directories("kind", most=2), tmp_path / "kind"
    old = time.time() - 1000
    (folder / ".new-dead").mkdir(parents=True)
    (folder / ".new-dead" / ".lock").touch()
    (folder / ".new-unlocked").mkdir()
    with programs.workspace() as work:
        for name in (work, folder / ".new-dead", folder / ".new-unlocked"):
            os.utime(name, (old, old))
        for number in range(4):
            with programs.workspace() as other:
                (other / "file").touch()
                os.utime(programs.add(other, f"entry{number}", ["file"]), (number, number))
        programs.prune()
        assert work.is_dir()
        names = {path.name for path in folder.iterdir()}
    # The locked workspace of a killed process goes at once, an unlocked one after a day.
    assert names == {work.name, ".new-unlocked", "entry2", "entry3"}


def test_pruning_accepts_files_that_vanish_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "kind").mkdir()
    (tmp_path / "kind" / "gone").symlink_to("nowhere")
    Directories("kind").prune()


@pytest.mark.slow
@pytest.mark.rotate(14)
def test_a_damaged_object_of_the_shared_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.simulation.verilator.verilator import QUICK, build_program

    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "top.v").write_text("module top(input a, output b); assign b = ~a; endmodule\n")
    program = '#include "Vtop.h"\nint main() { Vtop top; top.eval(); return top.b ? 0 : 1; }\n'

    def build(number: int) -> None:
        work = tmp_path / str(number)
        work.mkdir()
        (work / "main.cpp").write_text(program)
        path = build_program(
            [tmp_path / "top.v"],
            "top",
            work,
            ["main.cpp"],
            optimisation={**QUICK, "OPT_GLOBAL": "-O0"},  # sooner compiled
        )
        subprocess.run([path], check=True, timeout=60)

    build(0)
    kept = tmp_path / "cache" / "verilator"
    damaged = [next(kept.rglob(name)) for name in ("verilated.o", "*.gch")]
    sizes = [path.stat().st_size for path in damaged]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:1000])
    build(1)
    assert capsys.readouterr().err.count("is damaged") == 2
    # The same options give the same code, but for what the compiler notes about its surroundings.
    assert [round(path.stat().st_size, -4) for path in damaged] == [round(n, -4) for n in sizes]
    sealed = json.loads((damaged[0].parent / "seal.json").read_text())
    assert sealed["verilated.o"][0] == damaged[0].stat().st_size
    made = damaged[0].stat().st_ino
    build(2)
    assert damaged[0].stat().st_ino == made
