# SPDX-License-Identifier: Apache-2.0
"""Random jobs on a board, compared with the golden model."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.board.simulation import SimulatedBoard
from flows.board.surroundings import Surroundings
from flows.simulation.operands import draw_operands
from flows.simulation.run import check_results
from hwgen.board.link import connect

SIMULATION = "simulation"
"""Name of the port of a simulated board."""


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
        If a result differs from the golden model; `BoardError` if the board does not answer.
    """
    core = design.design.core
    operation = core.operations[0]
    sizes = {size.name: size.natural for size in operation.sizes}
    operands = draw_operands(core, operation, sizes, "random", np.random.default_rng(seed))
    job = core.job(operands, operation=operation.name)
    transport: Any = SimulatedBoard(design) if port is None else port
    with connect(transport, core, baud=design.baud) as board:
        start = board.now()
        results = board.run(job, operands)
        seconds = board.now() - start
        check_results(job.title, results, core.golden(job, operands))
        return {
            "job": job.title,
            "where": SIMULATION if port is None else port,
            "results": sum(array.size for array in results.values()),
            "seconds": seconds,
            "resent": board.resent,
            "status": vars(board.status()),
        }
