# SPDX-License-Identifier: Apache-2.0
"""Jobs on a board, of cores with streams and of engines on memory, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flows.board.simulation import SimulatedBoard
from flows.board.surroundings import Surroundings
from flows.simulation.bus.list_host import ListHost
from flows.simulation.operands import draw_operands, draw_scalars
from flows.simulation.run import check_list, check_results, list_of, placed_on
from hwgen.board import Board, BoardError, EngineBoard, Transport, connect, connect_engine
from hwgen.board.ports import BAUD
from hwgen.core.core import Core
from hwgen.core.lists.golden import Outcome
from hwgen.core.operation import Array, Arrays, Job
from hwgen.core.protocols import ListCore

SIMULATION = "simulation"
"""Name of the port of a simulated board."""

PATIENCE_S = 10.0
"""Seconds after which a job of an engine that has not ended fails."""


def open_board(
    where: str | Transport, core: Core[Any], *, baud: int = BAUD, **options: Any
) -> Board | EngineBoard:
    """Connect to a board with a core; see `hwgen.board.connect` and `connect_engine`."""
    opened: Callable[..., Board | EngineBoard] = connect_engine if core.buses else connect
    return opened(where, core, baud=baud, **options)


def run_on(
    board: Board | EngineBoard,
    core: Core[Any],
    job: Job,
    operands: Arrays,
    *,
    patience: float = PATIENCE_S,
) -> dict[str, Array]:
    """Compute a job on a board; operands of an engine are put into its memory.

    Parameters
    ----------
    board : Board or EngineBoard
    core : Core
        That of the board.
    job : Job
    operands : mapping of ndarray
        By name.
    patience : float
        Seconds without progress after which it fails.

    Raises
    ------
    InputError
        If operands do not fit the job.
    CheckFailed
        If the job fails, or the board stops to answer (`BoardError`).
    """
    if isinstance(board, Board):
        return board.run(job, operands, patience=patience)
    placed = placed_on(core, job, operands)
    if isinstance(core, ListCore):
        for part in placed.jobs:
            board.write_images(part.images())
        address, data = list_of(core.params, placed)
        run_list(board, core.params, data, (), address, patience)
    else:
        board.run_jobs(placed.jobs, patience=patience)
    return placed.results(board.read_memory)


def run_list(
    board: EngineBoard,
    config: Any,
    data: bytes,
    registers: Sequence[int],
    address: int,
    patience: float,
    on_poll: Callable[[ListHost], bool] | None = None,
    *,
    loaded: bool = False,
) -> Outcome:
    """Put a command list into the memory of a board, run it, and return how it ended.

    Parameters
    ----------
    board : EngineBoard
    config : FamilyConfig
        That of the engine.
    data : bytes
        The list.
    registers : sequence of int
        Contents of the lists' registers.
    address : int
        Address of the list.
    patience : float
        Seconds without progress after which it fails.
    on_poll : callable, optional
        Called again and again while the list runs; returns whether there was progress.
    loaded : bool
        Whether the list is in the memory already.

    Raises
    ------
    BoardError
        If it has neither ended nor made progress for `patience` seconds; the board is then reset.
    CheckFailed
        If it ends otherwise than it should.
    """
    host = ListHost(config, _Registers(board))
    (host.start if loaded else host.begin)(data, registers, 0, address)
    begin = board.now()
    while host.read("STATUS") & 1:
        if on_poll is not None and on_poll(host):
            begin = board.now()
        if board.now() - begin > patience:
            board.reset()
            raise BoardError(f"the list has not ended after {patience:g} s; the board was reset")
    return check_list(host)


class _Registers:
    """A board as the host of lists sees an engine."""

    def __init__(self, board: EngineBoard) -> None:
        self.read32, self.write32 = board.read_register, board.write_register
        self.store = board.write_memory


def random_job_on(design: Surroundings, port: str | None, seed: int = 0) -> dict[str, Any]:
    """Run the first operation of a core on random operands, and compare its results.

    Parameters
    ----------
    design : Surroundings
    port : str, optional
        A port, as for `hwgen.board.connect`; default the simulated board.
    seed : int
        Of the operands.

    Raises
    ------
    CheckFailed
        If a result differs from the golden model, or the simulated memory is used against its
        data sheet; `BoardError` if the board does not answer.
    """
    core = design.design.core
    operation = core.operations[0]
    rng = np.random.default_rng(seed)
    sizes = operation.natural_sizes
    operands = draw_operands(core, operation, sizes, "random", rng)
    scalars = draw_scalars(operation, rng) if operation.scalars else None
    job = core.job(operands, scalars, operation=operation.name)
    transport: Any = SimulatedBoard(design) if port is None else port
    with open_board(transport, core, baud=design.baud) as board:
        start = board.now()
        results = run_on(board, core, job, operands)
        seconds = board.now() - start
        check_results(job.title, results, core.golden(job, operands))
        if port is None:
            transport.check_memory()
        return {
            "job": job.title,
            "where": SIMULATION if port is None else port,
            "results": sum(array.size for array in results.values()),
            "seconds": seconds,
            "resent": board.resent,
            "status": vars(board.status()),
        }
