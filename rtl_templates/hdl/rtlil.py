# SPDX-License-Identifier: Apache-2.0
"""Parts of RTLIL as Amaranth writes it, for passes over its text."""

from __future__ import annotations

import re

CELL = re.compile(
    r"(?P<attributes>(?:  attribute [^\n]*\n)*)"
    r"  cell (?P<type>\S+) (?P<name>\S+)\n(?P<body>(?:    [^\n]*\n)*)  end\n"
)
"""A cell or an instance; its body holds parameters and connections."""

CONNECTION = re.compile(r"    connect \\(\S+) ([^\n]*)\n")
"""A port of a cell, and the net that it is connected to."""

PARAMETER = re.compile(r"    parameter \\(\S+) ([^\n]*)\n")
"""A parameter of a cell, and its value."""

WIRE = re.compile(r"^  wire width (\d+)(?: (input|output) \d+)? +(?:signed )?(\S+)$", re.MULTILINE)
"""Width of a wire, its direction if it is a port, and its name."""
