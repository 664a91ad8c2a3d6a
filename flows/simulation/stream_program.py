# SPDX-License-Identifier: Apache-2.0
"""Beats through a stream core with no Python in the simulation: ``hwgen run --driver fast``.

The Verilated model is driven by ``cpp/stream.cpp``, which gets the beats of each input port
through a pipe.  A schedule repeats blocks, so that the beats of a port can be far more than its
operand: they are never all in memory.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.programs import follow
from flows.simulation.registry import simulator
from flows.simulation.simulator import ModelCompiler
from hwgen.core.cycles.basis import Cycles
from hwgen.core.operation import Chunks, StreamPlan
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import CheckFailed

HARNESS = Path(__file__).parent / "cpp"
"""The C++ sources."""

FILES = ("stream.cpp", "recorder.h")

PIPE_BYTES = 1 << 20
"""What a pipe should hold, so that simulation and feeding rarely wait for each other."""

LIMIT_CYCLES = 1000
"""Cycles beyond twice those of the cycle model after which a simulation ends."""

CYCLES_AFTER = 4
"""Cycles that a simulation goes on after the last result beat, as in ``cpp/stream.cpp``."""

BATCH_BYTES, BATCH_CHUNKS = 1 << 18, 1 << 12
"""Beats are sent when there are this many bytes or chunks of them."""


def compile_stream(
    design: Design,
    *,
    activity: bool = False,
    cycles: int | None = None,
    compiler: ModelCompiler | None = None,
) -> Path:
    """Return the program that simulates a stream core; see ``cpp/stream.cpp``.

    Parameters
    ----------
    design : Design
    activity : bool
        Whether `run_stream` also leaves how signals switched, in ``beats.bin.saif``.
    cycles : int, optional
        How many it is for: a program for few is compiled sooner and runs slower.
    compiler : ModelCompiler, optional
        What compiles it; default the simulator.
    """
    top = design.name
    sources = {
        f"{top}.v": design.verilog,
        **{name: (HARNESS / name).read_text(encoding="utf-8") for name in FILES},
        "design.h": _connections(design.params.ports),
    }
    return (compiler or simulator()).compile_program(
        top, sources, ["stream.cpp"], cycles=cycles, activity=activity
    )


def _connections(ports: Any) -> str:
    """Return the C++ function that says where the model's ports are."""
    lines = []
    for port in ports:
        last = f"&top.{port.prefix}_tlast" if port.last else "nullptr"
        where = (
            f"Port{{&top.{port.prefix}_tdata, {port.beat_bytes}, {last},"
            f" &top.{port.prefix}_tvalid, &top.{port.prefix}_tready}}"
        )
        if port.direction == "in":
            lines.append(f"    inputs.push_back({where});")
        else:
            lines.append(f"    output = {where};")
    head = "void connect(Vtop& top, std::vector<Port>& inputs, Port& output) {"
    return "\n".join([head, *lines, "}", ""])


class _Said:
    """Output of a simulation: its cycles, or the number of missing result beats."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self.cycles: int | None = None
        self.missing: int | None = None
        self._on_line = on_line

    def line(self, line: str) -> None:
        """Take a line."""
        kind, _, rest = line.partition(" ")
        if kind == "CYCLES":
            self.cycles = int(rest.split()[0])
        elif kind == "MISSING":
            self.missing = int(rest.split()[0])
        if self._on_line:
            self._on_line(line)


def run_stream(
    config: FamilyConfig,
    program: Path,
    plan: StreamPlan,
    packed: Mapping[str, Chunks],
    expected: int,
    work: Path,
    *,
    on_line: Callable[[str], None] | None = None,
    timeout: float,
    seed: int = 0,
) -> tuple[np.ndarray, int]:
    """Stream blocks of beats through a core at full rate.

    Parameters
    ----------
    config : FamilyConfig
    program : Path
        From `compile_stream`.
    plan : StreamPlan
    packed : mapping
        Beats of every input port, as the plan packs them.
    expected : int
        Cycles that the product takes; twice as many and `LIMIT_CYCLES` are the limit.
    work : Path
        Directory for the log and the result beats.
    on_line : callable, optional
        Gets every line that the simulation prints.
    timeout : float
        Seconds.
    seed : int
        Of what registers without a reset hold at the start.

    Returns
    -------
    (ndarray of uint8, shape (output_beats, bytes), int)
        The result beats, and the cycles from the first input beat to the last result beat, both
        included.

    Raises
    ------
    CheckFailed
        If result beats are missing, or the simulation failed otherwise.
    """
    beats, log = work / "beats.bin", work / "simulation.log"
    inputs = [port for port in config.ports if port.direction == "in"]
    limit = 2 * expected + LIMIT_CYCLES
    said = _Said(on_line)
    senders = [_Sender(packed[port.name]) for port in inputs]
    files = [sender.file for sender in senders]
    numbers = [plan.output_beats, limit, expected, seed + 1, *files]
    for sender in senders:
        sender.start()
    command = [str(program), str(beats), *map(str, numbers)]
    ended = follow(command, None, log, on_line=said.line, timeout=timeout, files=files)
    for sender in senders:
        sender.finish()
    if ended.expired:
        raise CheckFailed(f"the simulation did not end within {timeout:.0f} s")
    if said.missing is not None:
        raise CheckFailed(f"{said.missing} result beats are missing after {limit} cycles")
    if ended.status or said.cycles is None:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
        raise CheckFailed("\n".join([f"the simulator ended with status {ended.status}:", *tail]))
    return np.fromfile(beats, np.uint8).reshape(plan.output_beats, -1), said.cycles


def follow_progress(on_progress: Callable[[int, int], None] | None) -> Callable[[str], None]:
    """Return a function of the lines of a simulation that reports its progress."""

    def read_line(line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == "PROGRESS" and on_progress:
            done, total = map(int, rest.split())
            on_progress(done, total)

    return read_line


def check_cycles(product: str, counted: int, model: Cycles) -> None:
    """Hold the cycles of a simulation at full rate against the cycle model.

    Raises
    ------
    CheckFailed
        If the model does not allow them.
    """
    if not model.allows(counted):
        raise CheckFailed(f"{product}: the RTL took {counted} cycles, the cycle model says {model}")


class _Sender(threading.Thread):
    """Writes the beats of a port into a pipe as the simulation reads them.

    Attributes
    ----------
    file : int
        The end to read from.
    """

    def __init__(self, chunks: Iterator[tuple[np.ndarray, bool]]) -> None:
        super().__init__(daemon=True)
        self.file, self._pipe = os.pipe()
        self._chunks = chunks
        self._error: BaseException | None = None
        with suppress(ImportError, AttributeError, OSError):  # a wish, and Linux only
            import fcntl

            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def run(self) -> None:
        try:
            with suppress(BrokenPipeError), os.fdopen(self._pipe, "wb") as pipe:
                for batch in batches(self._chunks):
                    for part in batch:
                        pipe.write(part)
        except BaseException as error:  # raised again where somebody sees it
            self._error = error

    def finish(self) -> None:
        """Wait for the end, and raise what went wrong."""
        self.join()
        if self._error:
            raise self._error


def batches(chunks: Iterator[tuple[np.ndarray, bool]]) -> Iterator[tuple[Any, ...]]:
    """Yield what ``cpp/stream.cpp`` reads: the parts of a batch, each a buffer of bytes."""
    contents: list[np.ndarray] = []
    lasts: list[bool] = []
    volume = 0
    for beats, last in chunks:
        contents.append(beats)
        lasts.append(last)
        volume += beats.nbytes
        if volume >= BATCH_BYTES or len(contents) == BATCH_CHUNKS:
            yield _batch(contents, lasts)
            contents, lasts, volume = [], [], 0
    if contents:
        yield _batch(contents, lasts)


def _batch(arrays: list[np.ndarray], lasts: list[bool]) -> tuple[Any, ...]:
    heads = np.empty((len(arrays), 2), "<u4")
    heads[:, 0] = [len(beats) for beats in arrays]
    heads[:, 1] = lasts
    data = np.ascontiguousarray(arrays[0]) if len(arrays) == 1 else np.concatenate(arrays)
    return struct.pack("<I", len(arrays)), heads.data, data.reshape(-1).data
