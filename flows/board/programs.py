# SPDX-License-Identifier: Apache-2.0
"""Compiled networks on a board: their image goes into the memory, their list is run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.board.jobs import Registers
from flows.simulation.bus.list_host import ListHost
from hwgen.board import BoardError, EngineBoard
from hwgen.errors import CheckFailed
from hwgen.models.compile.decoder_list import TOKENS
from hwgen.models.compile.list_program import CompiledList, ListProgram


def load_image(board: EngineBoard, compiled: CompiledList) -> None:
    """Write the initial memory of a compiled network to a board.

    Raises
    ------
    BoardError
        If the board does not answer.
    """
    program = ListProgram(compiled)
    program.start([1])
    board.write_memory(compiled.base, bytes(program.memory.data))


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
    host = ListHost(compiled.config, Registers(board))
    registers = compiled.registers(0, len(prompt), count)
    host.begin(compiled.data, registers, 0, compiled.address)
    begin = board.now()
    while host.read("STATUS") & 1:
        if board.now() - begin > patience:
            board.reset()
            raise BoardError(f"the list has not ended after {patience:g} s; the board was reset")
    outcome = host.outcome()
    if outcome.state != "done":
        raise CheckFailed(f"the list ended with {outcome.state} at {outcome.index}")
    raw = board.read_memory(tokens, 4 * (len(prompt) + count))
    return [int(token) for token in np.frombuffer(raw, "<u4")[len(prompt) :]]
