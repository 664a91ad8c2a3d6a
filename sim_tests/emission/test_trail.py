# SPDX-License-Identifier: Apache-2.0
"""Path of parameters through ``hwgen build``: functions take values, or the core."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.build.load import load_config, parse_config
from hwgen.core.registry import core_of
from sim_tests.support.paths import ROOT
from sim_tests.support.trail import OBJECTS, PARAMETERS, counts, record

MOST_RETURNS = 25
"""Returns to a file that parameters, or a core, have left."""

OBJECTS_MORE = 15
"""Files that get a core, a design or a build, but no parameters."""


@pytest.mark.parametrize(
    ("name", "most_files"),
    [("lut_core", 20), ("systolic", 20), ("stream_engine", 20), ("gemm_stream", 30)],
)
@pytest.mark.rotate(8)
def test_parameters_do_not_travel_far(
    name: str, most_files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that multiplies has the blocks of its own and those of the core inside.

    Numbers of registers are those that ``auto`` chooses: each core that is tried for them has a
    trail of its own.
    """
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))
    config = tmp_path / f"{name}.yaml"
    config.write_text(json.dumps(load_config(ROOT / f"configs/{name}.yaml").resolved()))
    command = [sys.executable, "-m", "sim_tests.support.trail", "build"]
    command += [f"--config={config}", f"--output={tmp_path / name}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    trails = re.findall(r"^(.*): (\d+) files, (\d+) returns$", done.stdout, re.MULTILINE)
    assert [title for title, _, _ in trails] == ["parameters", "parameters, core, design"]
    (files, returns), (all_files, all_returns) = ([int(n) for n in trail[1:]] for trail in trails)
    assert 5 < files <= most_files, done.stdout
    assert all_files <= most_files + OBJECTS_MORE, done.stdout
    assert returns <= all_returns <= MOST_RETURNS, done.stdout


def test_every_argument_is_looked_at() -> None:
    config = parse_config("name: x\nfamily: systolic\n")
    steps = record(lambda: core_of(params=config))
    assert counts(steps, PARAMETERS) == (2, 0)
    assert [step.function for step in steps] == ["core_of", "__init__"]
    assert counts(steps, OBJECTS) == (2, 0)
