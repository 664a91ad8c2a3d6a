# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed in an empty environment, builds, estimates and lists what is shipped."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from sim_tests.support.commands import commands_in
from sim_tests.support.paths import ROOT

CONFIG = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"


@pytest.mark.long
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    run = commands_in(tmp_path, timeout_s=1200)
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", "wheels", ROOT)
    (wheel,) = (tmp_path / "wheels").glob("hwgen-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.startswith(("sim_tests/", "configs/", "docs/"))]
    templates = (ROOT / "hwgen" / "reports" / "plugin").glob("*.template")
    assert {f"hwgen/reports/plugin/{path.name}" for path in templates} <= set(names)
    run(sys.executable, "-m", "venv", "empty")
    binaries = tmp_path / "empty" / "bin"
    run(binaries / "python", "-m", "pip", "install", "--quiet", wheel)
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    hwgen = binaries / "hwgen"
    assert "systolic" in run(hwgen, "families")
    assert "nangate45" in run(hwgen, "technologies")
    assert "gpt2_decode" in run(hwgen, "workloads")
    assert "cycles" in run(hwgen, "estimate", "-c", "tiny.yaml", "--gemm", "8,8,8")
    run(hwgen, "build", "-c", "tiny.yaml", "-o", "out")
    assert "module tiny" in (tmp_path / "out" / "tiny.v").read_text()
    run(hwgen, "report", "-c", "tiny.yaml", "-o", "tiny.html")
    run(hwgen, "init", "--plugin", "mine")
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--no-deps", "./mine-family")
    assert "mine" in run(hwgen, "families")
    run(hwgen, "init", "mine", "-o", "mine.yaml")
    run(hwgen, "build", "-c", "mine.yaml", "-o", "mine")
