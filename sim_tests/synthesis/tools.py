# SPDX-License-Identifier: Apache-2.0
"""Installed tools and a small design for tests of synthesis."""

from __future__ import annotations

import pytest

from flows.synthesis import liberty
from flows.tools.toolchain import probe
from hwgen.errors import ToolMissing
from hwgen.technologies import cell_library

SYSTOLIC = """\
name: tiny
family: systolic
activation: int4
weight: int4
accumulator: int16
array: {rows: 2, cols: 2}
"""


def require_tools(*names: str, technology: str = "") -> None:
    """Skip the test unless the tools, and the Liberty files of a technology, are there."""
    try:
        if technology:
            liberty.liberty_files(cell_library(technology))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    for name in names:
        if probe(name).installation is None:
            pytest.skip(probe(name).line)
