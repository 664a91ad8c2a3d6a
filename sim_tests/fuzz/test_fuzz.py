# SPDX-License-Identifier: Apache-2.0
"""A part of the campaigns of coverage-guided fuzzing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.parametrize("reader", ["npy", "yaml", "gguf", "safetensors", "onnx", "tflite"])
def test_files_are_read_or_refused(reader: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "sim_tests.fuzz", reader, "--files", "1500"]
    environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
