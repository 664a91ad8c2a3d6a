# SPDX-License-Identifier: Apache-2.0
"""The demonstration on a board: a bitstream, and the same design reading digits at its pins.

``python -m flows.demonstration.board [--board NAME] [--config FILE] [--output DIR]`` makes the
bitstream as ``hwgen board build`` does, trains and quantises a small network
(`flows.demonstration.digits`), and classifies every image of the test split on the simulated
board: the Verilog is the file that the bitstream was made of, and jobs reach it bit by bit through
its serial port.  Each layer's result must equal the golden model's; else the exit status is 1.
``--port /dev/ttyUSB1`` takes a board instead of the simulation.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from flows.board.design import BoardDesign
from flows.board.jobs import open_board, run_on
from flows.board.simulation import SimulatedBoard, compile_board
from flows.build.load import load_design
from flows.demonstration import digits
from flows.demonstration.digits import Integers
from flows.demonstration.program import run_program
from flows.simulation.run import check_results
from hwgen.board import Board, EngineBoard
from hwgen.board.protocol import Status
from hwgen.board.registry import board as board_named
from hwgen.core.operation import gemm_operands
from hwgen.reports.terminal import console

DEFAULT_CONFIG = Path("configs") / "boards" / "digits.yaml"
DEFAULT_OUTPUT = Path("build") / "demo-board"
BAUD = 3_000_000


@click.command()
@click.option("--board", "name", metavar="NAME", default="icebreaker", show_default=True,
              help="A board; `hwgen board list` lists them.")  # fmt: skip
@click.option(
    "--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Configuration of the core.",
)  # fmt: skip
@click.option(
    "--output", metavar="DIR", default=DEFAULT_OUTPUT, show_default=True,
    type=click.Path(path_type=Path), help="Directory for the bitstream.",
)  # fmt: skip
@click.option("--baud", type=int, default=BAUD, show_default=True, help="Bits a second.")
@click.option("--port", metavar="PORT", help="Serial port of a board; default a simulated one.")
def command(name: str, config: Path, output: Path, baud: int, port: str | None) -> None:
    """Make a bitstream, and classify handwritten digits on a simulated board."""
    out = console()
    arguments = [
        "board", "build", "--board", name, "--config", str(config), "--baud", str(baud),
        "--output", str(output), "--seeds", "1", "--force",
    ]  # fmt: skip
    out.print(f"hwgen {shlex.join(arguments)}", style="dim", soft_wrap=True)
    status = subprocess.run([sys.executable, "-m", "hwgen", *arguments], check=False).returncode
    if status:
        click.get_current_context().exit(status)
    design = BoardDesign(load_design(config), board_named(name), baud)
    where = port or _simulated(design, output)
    started = time.monotonic()
    done = classify(design, where)
    how = f"on {port}" if port else f"simulated in {time.monotonic() - started:.0f} s"
    out.print(
        f"\n{done.images} handwritten digits in {done.jobs} jobs through the serial port of"
        f" {name}: {done.seconds:.2f} s, {done.images / done.seconds:.0f} images a second ({how})",
        soft_wrap=True,
    )
    out.print(
        f"{done.right} right, {100 * done.right / done.images:.2f} %; {done.status.crc_errors} CRC"
        f" errors, {done.status.overruns} overruns, {done.resent} requests sent again",
        soft_wrap=True,
    )
    out.print("Every result of the board equals the golden model, bit for bit.")


@dataclass(frozen=True)
class Classified:
    """Digits that a board has read.

    Parameters
    ----------
    images, right, jobs : int
        How many images there were, how many of them were read right, in how many jobs.
    seconds : float
        Time of the board that they took, by the host's clock or that of the simulation.
    resent : int
        Requests that were sent again.
    status : Status
        Counters of the bridge.
    """

    images: int
    right: int
    jobs: int
    seconds: float
    resent: int
    status: Status


def classify(design: BoardDesign, where: Any, count: int | None = None) -> Classified:
    """Train a small network for a core, and let a board read handwritten digits.

    Parameters
    ----------
    design : BoardDesign
    where : str or Transport
        Port of the board; see `hwgen.board.connect`.
    count : int, optional
        Images; default all of the test split.

    Raises
    ------
    CheckFailed
        If a result differs from the golden model, or the board does not answer.
    """
    core: Any = design.design.core
    # The core inside an engine says which formats there are.
    params = core.params.compute if design.on_memory else core.params
    data = digits.load()
    ternary = digits.wants_ternary(params.weight)
    width = digits.HIDDEN_TERNARY if ternary else digits.HIDDEN
    network = digits.train(data, width, ternary=ternary)
    integers = digits.quantise(
        network, data.train_pixels, params.activation, params.weight, params.result
    )
    pixels, labels = data.test_pixels[:count], data.test_labels[:count]
    with open_board(where, core, baud=design.baud) as board:
        begun = board.now()
        predictions = integers.classify(pixels, lambda a, w: run_layer(board, core, a, w))
        seconds = board.now() - begun
        status = board.status()
    assert np.array_equal(predictions, integers.classify(pixels, core.multiply))
    right = int(np.sum(predictions == labels))
    return Classified(len(labels), right, len(integers.layers), seconds, board.resent, status)


def run_layer(board: Board | EngineBoard, core: Any, a: Integers, w: Integers) -> Integers:
    """Return ``a . w`` by a board, compared with the golden model.

    Raises
    ------
    CheckFailed
        If a result differs.
    """
    (m, k), n = a.shape, w.shape[1]
    job, operands = core.gemm(m, k, n), gemm_operands(a, w)
    results = run_on(board, core, job, operands)
    check_results(job.title, results, core.golden(job, operands))
    (result,) = results.values()
    return result


def _simulated(design: BoardDesign, output: Path) -> SimulatedBoard:
    """Return a simulation of the file that the bitstream was made of."""
    verilog = (output / f"{design.name}.v").read_text(encoding="utf-8")
    return SimulatedBoard(design, library=compile_board(design, verilog=verilog))


if __name__ == "__main__":
    sys.exit(run_program(command))
