# SPDX-License-Identifier: Apache-2.0
"""The benchmarks as programs: ``--help`` tells how to use them, and does nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import flows.bench

FOLDER = Path(flows.bench.__file__).parent

PROGRAMS = sorted(
    path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_only_tells(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError(f"a process was started: {arguments}")

    module = import_module(f"flows.bench.{name}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage:")
    assert "--help" in text
    assert not list(tmp_path.iterdir())


def test_help_of_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.bench.sweep", "--help"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("usage: python -m flows.bench.sweep")


def test_there_is_a_target_for_each_of_them() -> None:
    targets = (FOLDER.parents[1] / "Makefile").read_text()
    missing = [
        name
        for name in PROGRAMS
        if f"bench-{name.replace('_', '-')}:" not in targets
        and f"-m flows.bench.{name} " not in targets  # under another name, such as `prove`
    ]
    assert not missing
