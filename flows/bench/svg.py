# SPDX-License-Identifier: Apache-2.0
"""Drawings as files that are the same each time."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure


def save_svg(drawing: Figure, path: Path, name: str) -> None:
    """Write a drawing as SVG, without a date and with the same names of parts each time.

    Parameters
    ----------
    drawing : Figure
    path : Path
    name : str
        Of the drawing; names of parts are made from it.
    """
    with rc_context({"svg.hashsalt": name}):
        drawing.savefig(path, format="svg", metadata={"Date": None})
