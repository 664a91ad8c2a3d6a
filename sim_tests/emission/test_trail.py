# SPDX-License-Identifier: Apache-2.0
"""Path of parameters through ``hwgen build``: functions take values, or the core."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.build.load import parse_config
from hwgen.core.registry import core_of
from sim_tests.support.paths import ROOT
from sim_tests.support.trail import OBJECTS, PARAMETERS, counts, record

MOST_FILES, MOST_RETURNS = 20, 25


@pytest.mark.parametrize("name", ["lut_core", "systolic"])
def test_parameters_do_not_travel_far(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "sim_tests.support.trail", "build"]
    command += [f"--config=configs/{name}.yaml", f"--output={tmp_path / name}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    trails = re.findall(r"^(.*): (\d+) files, (\d+) returns$", done.stdout, re.MULTILINE)
    assert [title for title, _, _ in trails] == ["parameters", "parameters, core, design"]
    (files, returns), (all_files, all_returns) = ([int(n) for n in trail[1:]] for trail in trails)
    assert 5 < files <= MOST_FILES, done.stdout
    assert returns <= MOST_RETURNS, done.stdout
    assert all_files <= 1.5 * MOST_FILES, done.stdout
    assert all_returns <= 1.5 * MOST_RETURNS, done.stdout


def test_every_argument_is_looked_at() -> None:
    config = parse_config("name: x\nfamily: systolic\n")
    steps = record(lambda: core_of(params=config))
    assert counts(steps, PARAMETERS) == (2, 0)
    assert [step.function for step in steps] == ["core_of", "__init__"]
    assert counts(steps, OBJECTS) == (2, 0)
