# SPDX-License-Identifier: Apache-2.0
"""Texts that a decoder on a board continues: tokenizer on the host, tokens through the pins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.board.design import BoardDesign
from flows.board.jobs import SIMULATION, open_board
from flows.board.programs import generate, load_image, preload_image
from flows.board.simulation import SimulatedBoard
from hwgen.board import EngineBoard
from hwgen.core.core import Core
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.compiled_files import DOCUMENT
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList
from hwgen.models.files.store import TOKENIZER, Model, read_json
from hwgen.models.files.tokenizer_json import AnyTokenizer, tokenizer_of

Progress = Callable[[str, int, int], None]


def compiled_for(core: Core[Any], source: Path, directory: Path) -> CompiledList:
    """Return a decoder that is compiled for an engine.

    Parameters
    ----------
    core : Core
        The engine.
    source : Path
        A compiled decoder, or a quantised one.
    directory : Path
        Where a quantised one is compiled into.

    Raises
    ------
    InputError
        If the engine executes no lists, or the decoder is compiled for another one or cannot be.
    """
    if not isinstance(core, ListCore):
        raise InputError(
            f"{core.name!r} executes no command lists: a decoder needs an engine that does, such as"
            " configs/boards/decoder.yaml"
        )
    if not (source / DOCUMENT).exists():
        ListCompilation(Model(source), core.params, Settings()).write(directory)
        return CompiledList(directory)
    compiled = CompiledList(source)
    if core_of(compiled.config).digest != core.digest:
        raise InputError(
            f"{source} is compiled for an engine that differs from the configuration {core.name!r}:"
            " compile the model again"
        )
    return compiled


def encode(compiled: CompiledList, prompt: str) -> tuple[AnyTokenizer, list[int]]:
    """Return the tokenizer of a compiled decoder, and the tokens of a prompt."""
    path = compiled.path / TOKENIZER
    if not path.is_file():
        raise InputError(f"{compiled.document['name']} has no {TOKENIZER}; use --prompt-tokens")
    tokenizer = tokenizer_of(read_json(path))
    return tokenizer, tokenizer.encode(prompt)


@dataclass(frozen=True)
class Continued:
    """Tokens that a board has appended to a prompt.

    Parameters
    ----------
    tokens : list of int
    seconds : float
        Time of the board from the prompt to the last token, simulated where the board is.
    where : str
        The port.
    resent : int
        Requests that were sent again.
    """

    tokens: list[int]
    seconds: float
    where: str
    resent: int


def continue_on(
    design: BoardDesign,
    port: str | None,
    compiled: CompiledList,
    prompt: Sequence[int],
    count: int,
    on_progress: Progress,
) -> Continued:
    """Put a decoder into the memory of a board, and append tokens to a prompt.

    Parameters
    ----------
    design : BoardDesign
    port : str, optional
        Port of the board; default a simulated one, whose memory is preloaded.
    compiled : CompiledList
    prompt : sequence of int
    count : int
        Most tokens to append.
    on_progress : callable
        Gets what is being done, how much of it is done, and how much there is.

    Raises
    ------
    InputError
        If the decoder does not fit into the memory, or the tokens into its context.
    CheckFailed
        If the board does not answer (`BoardError`), the list fails, or the simulated memory is used
        against its data sheet.
    """
    compiled.check_tokens(list(prompt), count)
    if compiled.base + compiled.bytes > design.chip.size:
        raise InputError(
            f"{compiled.path} needs memory up to {compiled.base + compiled.bytes:#x}, and"
            f" {design.board.name} has {design.chip.size:#x} bytes: compile it with a shorter"
            " --context or a lower --base"
        )
    transport: Any = SimulatedBoard(design) if port is None else port
    with open_board(transport, design.design.core, baud=design.baud) as board:
        assert isinstance(board, EngineBoard)
        if port is None:
            preload_image(board, compiled)
        else:
            load_image(board, compiled, lambda done, of: on_progress("bytes", done, of))
        reached: list[int] = []

        def on_tokens(tokens: list[int]) -> None:
            reached.extend(tokens)
            on_progress("tokens", len(reached), count)

        begin = board.now()
        tokens = generate(board, compiled, prompt, count, on_tokens=on_tokens)
        seconds = board.now() - begin
        if port is None:
            transport.check_memory()
        return Continued(tokens, seconds, port or SIMULATION, board.resent)
