# SPDX-License-Identifier: Apache-2.0
"""Loading a bitstream into a board with openFPGALoader."""

from __future__ import annotations

from pathlib import Path

from flows.tools import process
from flows.tools.guard import scratch
from flows.tools.toolchain import require
from hwgen.board.model import BoardData

TOOL = "openFPGALoader"

TIMEOUT = 300.0
"""Seconds that loading may take."""


def load_board(board: BoardData, bitstream: Path, *, flash: bool = False) -> None:
    """Load a bitstream.

    Parameters
    ----------
    board : BoardData
    bitstream : Path
    flash : bool
        Whether it stays after the power is off.

    Raises
    ------
    ToolMissing
        If openFPGALoader is missing.
    CheckFailed
        If it fails, as where no board is plugged in.
    """
    tool = require(TOOL)
    arguments = ["-b", board.loader, *(["-f"] if flash else []), str(bitstream.resolve())]
    with scratch("hwgen-load-") as work:
        process.run(tool, arguments, work, "load.log", TIMEOUT)
