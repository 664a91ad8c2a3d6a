# SPDX-License-Identifier: Apache-2.0
"""FPGA boards: their data files, and the host's side of the serial link to a core on one."""

from hwgen.board.link import Board, BoardError, Transport, connect

__all__ = ["Board", "BoardError", "Transport", "connect"]
