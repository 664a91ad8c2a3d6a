# SPDX-License-Identifier: Apache-2.0
"""FPGA boards: their data files, and the host's side of the serial link to a core on one."""

from hwgen.board.engine import EngineBoard, connect_engine
from hwgen.board.link import Board, connect
from hwgen.board.ports import BoardError, Transport

__all__ = ["Board", "BoardError", "EngineBoard", "Transport", "connect", "connect_engine"]
