# SPDX-License-Identifier: Apache-2.0
"""Matrices through a core's RTL: what ``hwgen run`` and the demo stand on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flows.build.design import Design
from flows.simulation.engine_matrices import run_engine
from flows.simulation.runner import compile_design, simulate
from flows.simulation.stream_program import check_cycles, progress, run_product
from flows.tools.guard import scratch
from hwgen.core.cycles.figures import Cycles
from hwgen.core.operation import RECORDS, Arrays, Job, StreamPlan, gemm_operands
from hwgen.core.post import Columns, PostSettings
from hwgen.core.registry import core_of
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.errors import CheckFailed, InputError
from hwgen.formats import differences

Engine = Literal["fast", "cocotb"]


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    Parameters
    ----------
    c : ndarray, shape (m, n)
        The product, in the dtype of the results.
    cycles : int
        From the first input beat to the last result beat, both included; of an engine that works
        on memory those in which it was busy.
    model : Cycles, optional
        What the cycle model says; of a stream core the simulation agrees with it.
    """

    c: np.ndarray
    cycles: int
    model: Cycles | None = None


@dataclass(frozen=True)
class LayerRun:
    """One layer on the RTL.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    cycles, model_cycles : int
        Of the simulation and of the cost model.
    utilisation : float
        Useful multiply-accumulates in relation to what the core could do in `cycles`.
    moved : int or None
        Bytes over the memory port, of an engine that has one.
    most_cycles : int or None
        What values could have taken at most, of a core whose cycles depend on them.
    """

    m: int
    k: int
    n: int
    cycles: int
    model_cycles: int
    utilisation: float
    moved: int | None = None
    most_cycles: int | None = None

    @property
    def size(self) -> str:
        """The sizes in words."""
        return f"{self.m} x {self.k} x {self.n}"


def check_results(name: str, actual: np.ndarray, expected: np.ndarray) -> None:
    """Hold results against the golden model.

    Raises
    ------
    CheckFailed
        If any of them differs; `name` says of what they are.
    """
    wrong = differences(actual, expected)
    if len(wrong):
        row, column = map(int, wrong[0])
        raise CheckFailed(
            f"{name}: {len(wrong)} of {expected.size} results of the RTL differ from the golden"
            f" model, first C[{row},{column}]: expected {expected[row, column]}, got"
            f" {actual[row, column]}"
        )


def run_matrices(
    design: Design,
    a: np.ndarray,
    w: np.ndarray,
    settings: PostSettings | None = None,
    columns: Columns | None = None,
    *,
    engine: Engine = "fast",
    on_progress: Callable[[int, int], None] | None = None,
    timeout: float = 24 * 3600,
) -> RunResult:
    """Compute ``post(a . w)`` with a design in Verilator.

    Parameters
    ----------
    design : Design
    a : ndarray, shape (m, k)
    w : ndarray of int, shape (k, n)
    settings : PostSettings, optional
        Post-processing; by default raw results, of hardware that has post-processing.
    columns : Columns, optional
        Records of the columns, if ``settings.columns``.
    engine : {"fast", "cocotb"}
        What drives the simulation: a C++ harness, or cocotb, which gives the same and takes longer.
    on_progress : callable, optional
        Gets the cycles simulated and the cycles in all.
    timeout : float
        Seconds.

    Raises
    ------
    InputError
        If the operands do not fit the core.
    CheckFailed
        If the simulation fails, or takes other cycles than the cycle model of a stream core says.
    """
    config = design.config
    if config.buses:
        if engine != "fast":
            raise InputError(
                f"cocotb runs cores with stream ports, but {config.name!r} works on memory;"
                " use --engine fast"
            )
        settings = settings or RAW_RESULTS
        return RunResult(
            *run_engine(design, a, w, settings, columns, on_progress=on_progress, timeout=timeout)
        )
    job = core_of(config).gemm(*a.shape, w.shape[1], settings)
    plan = core_of(config).schedule(job)
    assert isinstance(plan, StreamPlan)
    with scratch("hwgen-run-") as work:
        product = run_product if engine == "fast" else _cocotb
        operands = gemm_operands(a, w, columns)
        image, cycles, model = product(
            design, job, operands, work, on_progress=on_progress, timeout=timeout
        )
    return RunResult(plan.unpack(image)["result"], cycles, model)


def _cocotb(
    design: Design,
    job: Job,
    operands: Arrays,
    work: Path,
    *,
    on_progress: Callable[[int, int], None] | None,
    timeout: float,
) -> tuple[np.ndarray, int, Cycles]:
    config = design.config
    core = core_of(config)
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    plan.pack(operands)  # refuses operands that do not fit
    cycles, look = 0, progress(on_progress)

    def follow(line: str) -> None:
        nonlocal cycles
        look(line)
        kind, _, rest = line.partition(" ")
        if kind == "CYCLES":
            cycles = int(rest.split()[0])

    build_dir = compile_design(design)
    files = {key: str(work / f"{key}.npy") for key in ("activations", "weights")}
    np.save(files["activations"], operands["activations"].astype(config.activation.file_dtype))
    np.save(files["weights"], operands["weights"])
    beats = work / "beats.bin"
    request: dict[str, Any] = {**files, "beats": str(beats)}
    if config.post_features is not None:
        request["settings"] = None if job.post is None else asdict(job.post)
        if RECORDS in operands:
            request["columns"] = str(work / "columns.npy")
            np.save(request["columns"], operands[RECORDS])
    outcomes = simulate(
        config,
        build_dir,
        "flows.simulation.cocotb.run",
        request,
        work,
        on_line=follow,
        timeout=timeout,
    )
    if len(outcomes) != 1 or not outcomes[0].passed:
        raise CheckFailed("; ".join(o.message for o in outcomes) or "the simulation failed")
    model = core.cycles([job], [operands])
    check_cycles(job.title.replace("x", " x "), cycles, model)
    return np.fromfile(beats, np.uint8).reshape(plan.output_beats, -1), cycles, model
