# SPDX-License-Identifier: Apache-2.0
"""Commands that tests run in a directory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path


def commands_in(folder: Path, timeout_s: float) -> Callable[..., str]:
    """Return a function that runs a command in a directory, which must succeed, for its output."""

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
