# SPDX-License-Identifier: Apache-2.0
"""The package that ``hwgen init --plugin`` writes passes the contract of families."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hwgen.cli import main
from hwgen.reports.plugin_package import plugin_files
from sim_tests.docs.installed_page import Installed
from sim_tests.support.commands import commands_in
from sim_tests.support.paths import ROOT


def contract(files: dict[str, str], directory: Path, *options: str) -> tuple[int, str]:
    """Return the status and the output of a package's contract test."""
    installed = Installed.of_files(files, directory)
    test = installed.site / "tests" / "test_contract.py"
    options = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", *options)
    done = installed.module("pytest", *options, test)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_a_new_family_passes_the_contract(tmp_path: Path) -> None:
    status, said = contract(plugin_files("my_dot"), tmp_path)
    assert status == 0, said
    assert "10 passed" in said


BROKEN = {
    "sum": ("rtl", "Mux(begins, 0, total) + products", "total + products", "regression-two_lanes"),
    "path": (
        "rtl",
        'place(m, "out_buffer", StreamBuffer(result.width), i=results, o=out)',
        "m.d.comb += [out.payload.eq(answer), out.valid.eq(fire & last), ready.eq(out.ready)]",
        "verilog-two_lanes",
    ),
    "cycles": ("core", "beats + self.params.latency", "beats + 1", "regression-two_lanes"),
    "together": ("core", "sum(plan.output_beats", "len(plans) * sum(plan.output_beats",
                 "jobs_together-two_lanes"),
    "packing": ("schedule", "[:, : self.k].T", "[:, : self.k].T + 1", "packing-two_lanes"),
    "resolved": (
        "params",
        "    @property\n    def macs_per_cycle",
        """    def resolved(self):
        return {**super().resolved(), "array": {}}

    @property
    def macs_per_cycle""",
        "resolved-two_lanes",
    ),
}  # fmt: skip
"""Module, passage, what replaces it, and the check that must fail."""


@pytest.mark.slow
@pytest.mark.rotate(6)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_family_fails_the_contract(name: str, tmp_path: Path) -> None:
    module, old, new, check = BROKEN[name]
    files = plugin_files("dot")
    path = f"dot_family/{module}.py"
    assert files[path].count(old) == 1
    files[path] = files[path].replace(old, new)
    status, said = contract(files, tmp_path, "-k", check.replace("-", " and "))
    assert status == 1, said
    assert f"test_contract[{check}]" in said
    assert "hwgen.errors.CheckFailed" in said


def test_files_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--plugin", "my_dot", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["family"], said["directory"]) == ("my_dot", "my_dot-family")
    files = plugin_files("my_dot")
    assert said["files"] == sorted(files)
    written = {
        str(path.relative_to("my_dot-family")): path.read_text()
        for path in Path("my_dot-family").rglob("*")
        if path.is_file()
    }
    assert written == files
    assert not [text for text in files.values() if "@name@" in text or "@Name@" in text]
    assert main(["init", "--plugin", "my_dot"]) == 2
    assert "my_dot-family exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plugin", "a-b"], "must be a Python identifier"),
        (["--plugin", "2d"], "must be a Python identifier"),
        (["--plugin", "class"], "must be a Python identifier"),
        (["--plugin", ""], "must be a Python identifier"),
        (["--plugin", "systolic"], "a family 'systolic' is installed"),
        (["--plugin", "addertree"], "a family 'adder_tree' is installed"),
        (["--plugin", "x", "--output", "there"], "there exists"),
        (["--plugin", "x", "--output", "file/below"], "cannot be written into"),
        (["systolic", "--plugin", "x"], "--plugin goes without FAMILY"),
        (["--plugin", "x", "--force"], "--plugin goes without FAMILY"),
    ],
)
def test_what_cannot_be_written_is_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("file").touch()
    assert main(["init", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "there"]


@pytest.mark.long
def test_pip_installs_a_new_family(tmp_path: Path) -> None:
    """In a new environment, which sees the packages of this one, with hwgen from the checkout."""
    run = commands_in(tmp_path, timeout_s=900)
    run(sys.executable, "-m", "venv", "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    shared = [path for path in sys.path if path.endswith("-packages")]
    Path(packages, "shared.pth").write_text("\n".join([str(ROOT), *shared]) + "\n")
    run(python, "-m", "hwgen", "init", "--plugin", "my_dot")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "./my_dot-family")
    run(python, "-m", "hwgen", "init", "my_dot", "--output", "core.yaml")
    run(python, "-m", "hwgen", "build", "--config", "core.yaml", "--output", "out")
    assert "module my_dot_core" in (tmp_path / "out" / "my_dot_core.v").read_text()
    assert "10 passed" in run(python, "-m", "pytest", "-q", "my_dot-family")
