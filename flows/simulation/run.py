# SPDX-License-Identifier: Apache-2.0
"""One job through the RTL of a core, with no Python in the simulation: ``hwgen run``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flows.build.design import Design
from flows.simulation.bench_jobs import BenchJob, first_error
from flows.simulation.bus.job_host import JobFailed, JobHost, wait_moving
from flows.simulation.bus.list_host import ListHost
from flows.simulation.engine_program import Model, compile_model
from flows.simulation.placement import PlacedJob, place_job, source_core
from flows.simulation.runner import compile_design, simulate
from flows.simulation.simulator import ModelCompiler
from flows.simulation.stream_program import (
    check_cycles,
    compile_stream,
    follow_progress,
    run_stream,
)
from flows.tools.guard import scratch
from hwgen.core.core import Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.lists.commands import Program
from hwgen.core.lists.golden import Outcome
from hwgen.core.operation import Array, Arrays, Job, StreamPlan, gemm_operands
from hwgen.core.post import Columns, PostSettings
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed, InputError

Engine = Literal["fast", "cocotb"]

Progress = Callable[[int, int], None]
"""Gets the cycles simulated and the cycles in all."""

ACTIVITY = "beats.bin.saif"
"""Name of the file that says how signals switched."""

_BASE = _ALIGNMENT = 4096
"""The first address of a run in memory, and what regions of products begin at multiples of."""


@dataclass(frozen=True)
class JobRun:
    """A job that was simulated.

    Parameters
    ----------
    results : dict of ndarray
        By name.
    cycles : int
        From the first input beat to the last result beat, both included; of an engine, those in
        which it was busy.
    model : Cycles, optional
        By the cycle model; of a stream core the simulation agrees with it.
    """

    results: dict[str, Array]
    cycles: int
    model: Cycles | None = None

    @property
    def result(self) -> Array:
        """The only result."""
        (array,) = self.results.values()
        return array


def run_job(
    design: Design,
    job: Job,
    operands: Arrays,
    *,
    engine: Engine = "fast",
    activity: Path | None = None,
    compiler: ModelCompiler | None = None,
    pages: int = 0,
    any_cycles: bool = False,
    on_progress: Progress | None = None,
    timeout: float = 24 * 3600,
) -> JobRun:
    """Compute a job with a design in Verilator.

    Parameters
    ----------
    design : Design
    job : Job
        As `Core.job` returns it.
    operands : mapping of ndarray
        By name.
    engine : {"fast", "cocotb"}
        What drives the simulation: a C++ harness, or cocotb, which gives the same and takes longer.
    activity : Path, optional
        Directory for how signals switch, in `ACTIVITY`: of a stream core in the cycles of the job,
        of an engine also while the job is submitted.
    compiler : ModelCompiler, optional
        What compiles the design for the engine ``fast``; default the simulator.
    pages : int
        About how many pages each port of an engine has that may have pages; 0: none.
    any_cycles : bool
        Whether other cycles than those of the cycle model are fine, as those of a faulty design.
    on_progress : callable, optional
    timeout : float
        Seconds.

    Raises
    ------
    InputError
        If the operands do not fit the core.
    CheckFailed
        If the simulation fails, or takes other cycles than the cycle model allows; `JobFailed` if
        an engine reports an error.
    """
    core = design.core
    if core.buses:
        if engine != "fast":
            raise InputError(
                f"cocotb runs cores with stream ports, but {core.name!r} works on memory;"
                " use --driver fast"
            )
        return _run_in_memory(
            design, job, operands, pages, activity, compiler, any_cycles, on_progress, timeout
        )
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    packed = plan.pack(operands)  # refuses operands that do not fit, before anything is compiled
    model = core.cycles([job], [operands])
    with scratch("hwgen-run-") as work:
        if engine == "cocotb":
            image, cycles = _run_cocotb(design, job, operands, plan, work, on_progress, timeout)
        else:
            expected = model.most or model.number
            program = compile_stream(
                design, activity=activity is not None, cycles=expected, compiler=compiler
            )
            image, cycles = run_stream(
                design.params, program, plan, packed, expected, activity or work,
                on_line=follow_progress(on_progress), timeout=timeout,
            )  # fmt: skip
    if not any_cycles:
        check_cycles(job.title, cycles, model)
    return JobRun(plan.unpack(image), cycles, model)


def run_product(
    design: Design,
    a: np.ndarray,
    w: np.ndarray,
    post: PostSettings | None = None,
    columns: Columns | None = None,
    **options: Any,
) -> JobRun:
    """Compute ``post(a . w)`` with a design; see `run_job` for options.

    Parameters
    ----------
    design : Design
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    post : PostSettings, optional
        Post-processing; by default raw results, of hardware that has post-processing.
    columns : Columns, optional
        Records of the columns, if ``post.columns``.
    """
    (m, k), n = a.shape, w.shape[1]
    job = design.core.gemm(m, k, n, post)
    return run_job(design, job, gemm_operands(a, w, columns), **options)


def check_results(title: str, results: Arrays, expected: Arrays) -> None:
    """Compare results with those of the golden model.

    Raises
    ------
    CheckFailed
        If any of them differs; `title` names the job.
    """
    if error := first_error(results, expected):
        raise CheckFailed(
            f"{title}: {error.wrong} of {error.size} results of the RTL differ from the golden"
            f" model, first {error.element}: expected {error.expected}, got {error.actual}"
        )


# -- engines -----------------------------------------------------------------------------------


def _run_in_memory(
    design: Design,
    job: Job,
    operands: Arrays,
    pages: int,
    activity: Path | None,
    compiler: ModelCompiler | None,
    any_cycles: bool,
    on_progress: Progress | None,
    timeout: float,
) -> JobRun:
    """Compute a job from memory to memory, which answers in the next cycle."""
    core = design.core
    config: Any = design.params
    placed = placed_on(core, job, operands, base=_BASE, align=_ALIGNMENT, pages=pages)
    expected = core.cycles([job], [operands])
    library = compile_model(
        design.name, design.verilog, core.buses, cycles=expected.number,
        activity=activity is not None, compiler=compiler,
    )  # fmt: skip
    patience = 2 * expected.number + 1000
    end = time.monotonic() + timeout

    def follow(done: int) -> None:
        if time.monotonic() > end:
            raise CheckFailed(f"the simulation did not end within {timeout:.0f} s")
        if on_progress:
            on_progress(done, expected.number)

    with Model(library, read_latency=1, write_latency=1) as model:
        _store(model, placed)
        if activity:
            model.record(activity / ACTIVITY)
        if isinstance(core, ListCore):
            cycles = _run_list(config, model, placed, patience, follow)
        else:
            host = JobHost(config, model)
            host.run(placed.jobs, patience, follow)
            cycles = host.counter("BUSY")
        model.record(None)
        results = placed.results(model.load)
    if (
        expected.basis != "exact" and not any_cycles
    ):  # exact cycles are those of rows that are aligned
        check_cycles(job.title, cycles, expected)
    return JobRun(results, cycles, expected)


def _store(model: Model, placed: PlacedJob) -> None:
    """Put a job into a memory that has nothing else."""
    for job in placed.jobs:
        for address, size in job.written():
            model.map(address, size)
        for address, content in job.images():
            model.map(address, len(content))
            model.store(address, content)


def placed_on(core: Core[Any], job: Job, operands: Arrays, **options: Any) -> PlacedJob:
    """Put a job into the memory of an engine, or of the unit of an engine of lists.

    Parameters
    ----------
    core : Core
    job : Job
    operands : mapping of ndarray
        By name.
    **options
        Of `flows.simulation.placement.place_job`.
    """
    engine = core_of(core.params.job_unit) if isinstance(core, ListCore) else core
    return place_job(engine, BenchJob(source_core(engine), job, operands, {}), **options)


def list_of(config: Any, placed: PlacedJob) -> tuple[int, bytes]:
    """Return a command list that submits a job to the unit that multiplies, and its address."""
    (job,) = placed.jobs
    program = Program(list(config.units), config.lists.registers)
    program.job(config.job_unit_name, job.writes())
    program.halt()
    return -(-placed.end // _ALIGNMENT) * _ALIGNMENT, program.encode()


def _run_list(
    config: Any, model: Model, placed: PlacedJob, patience: int, follow: Callable[[int], None]
) -> int:
    """Run a list that submits a job to the unit that multiplies; return its cycles."""
    address, data = list_of(config, placed)
    model.map(address, len(data))
    host = ListHost(config, model)
    host.begin(data, (), 0, address)
    wait_moving(model, patience, follow)
    check_list(host)
    return host.read("CYCLES")


def check_list(host: ListHost) -> Outcome:
    """Return the outcome of a list, `JobFailed` unless it ended well; clear its interrupt."""
    outcome = host.outcome()
    if outcome.state != "done":
        raise JobFailed(
            f"the command list ended with {outcome.state} at descriptor {outcome.index}"
        )
    return outcome


# -- cocotb ------------------------------------------------------------------------------------


def _run_cocotb(
    design: Design,
    job: Job,
    operands: Arrays,
    plan: StreamPlan,
    work: Path,
    on_progress: Progress | None,
    timeout: float,
) -> tuple[np.ndarray, int]:
    """Return result beats and cycles of a job of a stream core that cocotb drives."""
    cycles, show = 0, follow_progress(on_progress)

    def follow(line: str) -> None:
        nonlocal cycles
        show(line)
        kind, _, rest = line.partition(" ")
        if kind == "CYCLES":
            cycles = int(rest.split()[0])

    files = {name: str(work / f"{name}.npy") for name in operands}
    for name, file in files.items():
        np.save(file, _plain(operands[name]))
    beats = work / "beats.bin"
    request = {
        "operands": files,
        "operation": job.operation.name,
        "scalars": dict(job.scalars),
        "post": job.post and asdict(job.post),
        "beats": str(beats),
    }
    outcomes = simulate(
        design.params,
        compile_design(design),
        "flows.simulation.cocotb.run",
        request,
        work,
        on_line=follow,
        timeout=timeout,
    )
    if len(outcomes) != 1 or not outcomes[0].passed:
        raise CheckFailed("; ".join(o.message for o in outcomes) or "the simulation failed")
    return np.fromfile(beats, np.uint8).reshape(plan.output_beats, -1), cycles


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array in a type that NumPy's files have."""
    return array.astype(np.float32) if array.dtype.isbuiltin == 2 else array
