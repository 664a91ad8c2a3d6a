# SPDX-License-Identifier: Apache-2.0
"""Compiled networks on a board: their image goes into the memory, their list is run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.board.jobs import run_list
from hwgen.board import EngineBoard
from hwgen.models.compile.decoder_list import REGISTERS, TOKENS
from hwgen.models.compile.list_program import CompiledList


def load_image(board: EngineBoard, compiled: CompiledList) -> None:
    """Write the initial memory of a compiled network to a board.

    Raises
    ------
    BoardError
        If the board does not answer.
    """
    board.write_memory(compiled.base, bytes(compiled.contents()))


def generate(
    board: EngineBoard,
    compiled: CompiledList,
    prompt: Sequence[int],
    count: int,
    *,
    patience: float = 60.0,
) -> list[int]:
    """Append tokens to a prompt on a board whose memory holds the network.

    Parameters
    ----------
    board : EngineBoard
    compiled : CompiledList
    prompt : sequence of int
    count : int
        Most tokens to append.
    patience : float
        Seconds after which a list that has not ended is an error.

    Returns
    -------
    list of int
        The tokens that follow the prompt.

    Raises
    ------
    BoardError
        If the list does not end in time; the board is then reset.
    CheckFailed
        If the list ends otherwise than it should.
    """
    compiled.check_tokens(list(prompt), count)
    tokens = compiled.arrays[TOKENS].address
    board.write_memory(tokens, np.asarray(prompt, "<u4").tobytes())
    registers = compiled.registers(0, len(prompt), count)
    outcome = run_list(
        board, compiled.config, compiled.data, registers, compiled.address, patience
    )  # fmt: skip
    end = outcome.registers[REGISTERS["POSITION"][0]] + 1
    raw = board.read_memory(tokens + 4 * len(prompt), 4 * (end - len(prompt)))
    return [int(token) for token in np.frombuffer(raw, "<u4")]
