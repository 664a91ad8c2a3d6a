# SPDX-License-Identifier: Apache-2.0
"""Compiled networks on a board: their image goes into the memory, their list is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flows.board.jobs import run_list
from flows.board.simulation import SimulatedBoard
from flows.simulation.bus.list_host import ListHost
from hwgen.board import BoardError, EngineBoard
from hwgen.errors import InputError
from hwgen.models.compile.decoder_list import PROMPT, TOKENS
from hwgen.models.compile.list_program import CompiledList

BLOCK_BYTES = 1 << 16
"""Bytes of a block of an image that is written."""

START_UP_S = 1.0
"""Seconds after which a memory that has not started never will."""


def load_image(
    board: EngineBoard,
    compiled: CompiledList,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the initial memory of a compiled network to a board, its list included.

    Parameters
    ----------
    board : EngineBoard
    compiled : CompiledList
    on_progress : callable, optional
        Gets the bytes that are written, and all, after each block.

    Raises
    ------
    BoardError
        If the board does not answer.
    """
    data = _contents(compiled)
    for at in range(0, len(data), BLOCK_BYTES):
        board.write_memory(compiled.base + at, data[at : at + BLOCK_BYTES])
        if on_progress is not None:
            on_progress(min(at + BLOCK_BYTES, len(data)), len(data))


def _contents(compiled: CompiledList) -> bytes:
    """Return the initial memory with the list."""
    data, at = compiled.contents(), compiled.address - compiled.base
    data[at : at + len(compiled.data)] = compiled.data
    return bytes(data)


def preload_image(board: EngineBoard, compiled: CompiledList) -> None:
    """Put the initial memory of a compiled network into a simulated SDRAM without its pins.

    `load_image` does the same at the pins, where a megabyte takes millions of cycles.

    Raises
    ------
    InputError
        If the board is a real one, or its SDRAM is too small.
    BoardError
        If the memory does not start, or the board does not answer.
    """
    port = board.transport
    if not isinstance(port, SimulatedBoard):
        raise InputError(
            "a board keeps no image: only the memory of a simulated board can be preloaded;"
            " write the image of the network to the board (`load_image`)"
        )
    begin = board.now()
    while not board.state()[0]:
        if board.now() - begin > START_UP_S:
            raise BoardError(f"the memory has not started after {START_UP_S:g} s")
    port.preload(compiled.base, _contents(compiled))


def generate(
    board: EngineBoard,
    compiled: CompiledList,
    prompt: Sequence[int],
    count: int,
    *,
    patience: float = 60.0,
    on_tokens: Callable[[list[int]], None] | None = None,
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
        Seconds without another token after which it fails.
    on_tokens : callable, optional
        Gets the next tokens as soon as they are in the memory.

    Returns
    -------
    list of int
        The tokens that follow the prompt.

    Raises
    ------
    BoardError
        If the list does not go on in time; the board is then reset.
    CheckFailed
        If the list ends otherwise than it should.
    """
    compiled.check_tokens(list(prompt), count)
    address, first = compiled.arrays[TOKENS].address, len(prompt)
    board.write_memory(address, np.asarray(prompt, "<u4").tobytes())
    result: list[int] = []

    def fetch(end: int) -> bool:
        at = first + len(result)
        if end <= at:
            return False
        raw = board.read_memory(address + 4 * at, 4 * (end - at))
        tokens = [int(token) for token in np.frombuffer(raw, "<u4")]
        result.extend(tokens)
        if on_tokens is not None:
            on_tokens(tokens)
        return True

    def poll(host: ListHost) -> bool:
        return fetch(host.read(f"R{PROMPT}_LOW"))

    outcome = run_list(
        board, compiled.config, compiled.data, compiled.registers(0, first, count),
        compiled.address, patience, poll, loaded=True,
    )  # fmt: skip
    fetch(outcome.registers[PROMPT])
    return result
