# SPDX-License-Identifier: Apache-2.0
"""Many faults at once: a program that simulates 255 of them in the bits of a word."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from flows.faults.circuit import Circuit
from flows.faults.sampling import Fault, faults_bytes
from flows.power.gate_simulator import HARNESS
from flows.simulation.programs import compiled, follow
from flows.tools.process import run
from flows.tools.toolchain import require, version_text
from hwgen.errors import CheckFailed

Outcome = Literal["same", "wrong", "hang", "parted", "detected", "noticed"]
"""Same results, other result beats, fewer results, (without streams) other outputs than expected;
and fewer results, or other result beats, and an error that the design reports."""

_OUTCOMES: tuple[Outcome, ...] = ("same", "wrong", "hang", "parted", "detected", "noticed")
_SOURCES = (Path(__file__).parent / "cpp" / "lanes.cpp", HARNESS / "table.h")
_COMPILE_S = 600.0


@dataclass(frozen=True)
class LaneResult:
    """End of a simulation with a fault.

    Parameters
    ----------
    outcome : str
    cycle : int
        When it was known.
    beats : mapping
        Index of each wrong result beat: its bits, packed, bit 0 first.
    """

    outcome: Outcome
    cycle: int
    beats: dict[int, np.ndarray] = field(default_factory=dict)


def run_lanes(
    circuit: Circuit,
    netlist: Path,
    trace: Path,
    faults: Sequence[Fault],
    work: Path,
    *,
    limit: int,
    timeout: float,
    on_done: Callable[[int], None] = lambda count: None,
) -> list[LaneResult]:
    """Simulate a netlist with single faults.

    Parameters
    ----------
    circuit : Circuit
    netlist : Path
        File with `Circuit.document`.
    trace : Path
        File with the ports of a run without faults.
    faults : sequence of Fault
        Sorted by cycle, which makes it fast.
    work : Path
        Directory to work in.
    limit : int
        Cycles after which a design hangs.
    timeout : float
        Seconds.
    on_done : callable
        Gets the number of faults that were simulated.

    Raises
    ------
    CheckFailed
        If the simulation fails, or differs from the trace without a fault.
    """
    (work / "faults.bin").write_bytes(faults_bytes(faults))
    lines: list[str] = []

    def read_line(line: str) -> None:
        name, _, count = line.partition(" ")
        if name == "PROGRESS":
            on_done(int(count))
        else:
            lines.append(line.strip())

    files = [netlist, trace, work / "faults.bin", work / "outcomes.bin"]
    command = [str(_program()), *map(str, files), str(limit)]
    ended = follow(command, None, work / "lanes.log", on_line=read_line, timeout=timeout)
    if ended.expired:
        raise CheckFailed(f"the fault simulation did not end within {timeout:.0f} s")
    if ended.status:
        raise CheckFailed(f"the fault simulation failed: {' '.join(lines[-3:])}")
    beat_bytes = -(-circuit.result_bits // 8) if circuit.has_streams else 0
    return _read(files[-1].read_bytes(), len(faults), beat_bytes)


def _read(data: bytes, count: int, beat_bytes: int) -> list[LaneResult]:
    results, position = [], 0
    for _ in range(count):
        outcome, cycle, beats = np.frombuffer(data, "<u4", 3, position).tolist()
        position += 12
        wrong: dict[int, np.ndarray] = {}
        for _ in range(beats):
            (index,) = np.frombuffer(data, "<u4", 1, position).tolist()
            wrong[index] = np.frombuffer(data, np.uint8, beat_bytes, position + 4)
            position += 4 + beat_bytes
        results.append(LaneResult(_OUTCOMES[outcome], cycle, wrong))
    return results


def _program() -> Path:
    """Return the compiled simulation, which is the same for all netlists."""
    compiler, name = require("g++"), "lanes"
    options = ["-std=c++17", "-O3"]
    if _has_avx2():
        options.append("-march=x86-64-v3")

    def make(work: Path) -> None:
        run(compiler, [*options, "lanes.cpp", "-o", name], work, "compile.log", _COMPILE_S)

    sources = {path.name: path.read_text(encoding="utf-8") for path in _SOURCES}
    return compiled(name, sources, [version_text(compiler), *options], make, folder="gates") / name


def _has_avx2() -> bool:
    if platform.machine() != "x86_64":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:  # another operating system
        return False
    return {"avx2", "bmi2", "fma"} <= set(flags)
