# SPDX-License-Identifier: Apache-2.0
"""The beats of a job, cycle by cycle, by the models that also count its cycles."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.simulation.operands import draw_operands
from hwgen.core.core import Core
from hwgen.core.cycles.core_flow import CoreFlow
from hwgen.core.operation import GEMM, Job, StreamPlan, sizes_text
from hwgen.core.protocols import BufferedCore, TileCore
from hwgen.reports.job_timing import JobTrace, Lane, Run

MOST_CYCLES = 4000
"""Cycles up to which beats are traced; of longer jobs only their number is shown."""

_TILES = 2  # of each size, where the operation has natural ones


def typical_job(core: Core[Any]) -> Job:
    """Return a short job that fills the hardware: twice its natural sizes, where allowed."""
    names = [operation.name for operation in core.operations]
    operation = core.select_operation(GEMM if GEMM in names else names[0])
    sizes = {}
    for size in operation.sizes:
        wanted = _TILES * size.natural
        sizes[size.name] = wanted if wanted <= size.most and not wanted % size.multiple else (
            min(size.most, max(size.natural, size.multiple))
        )  # fmt: skip
    return Job(operation, sizes, operation.check_scalars({}))


def trace_job(core: Core[Any], job: Job) -> JobTrace:
    """Return the beats of a job at full rate.

    The cycle of each beat is that of the core's `CoreFlow`, with the same total as `Core.cycles`.
    Cores without one, and those with cycles that depend on values, have the number of beats only.

    Raises
    ------
    InputError
        If the core cannot compute the job.
    """
    cycles = core.cycles([job])
    label = f"{job.operation.name}, {sizes_text(job.sizes)}"
    if not core.ports:
        return JobTrace(label, cycles.number, cycles.basis, _memory_lanes(core, job))
    marks = _input_marks(core, job)
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    lanes = None
    if cycles.basis == "exact" and cycles.number <= MOST_CYCLES:
        lanes = _timed_lanes(core, marks, plan.output_beats, cycles.number)
    if lanes is None:
        counts = {name: len(each) for name, each in marks.items()}
        lanes = tuple(
            Lane(port.prefix, counts.get(port.name, plan.output_beats)) for port in core.ports
        )
    return JobTrace(label, cycles.number, cycles.basis, lanes)


def _input_marks(core: Core[Any], job: Job) -> dict[str, list[bool]]:
    """Return ``tlast`` of every input beat, by the name of the port."""
    operands = draw_operands(core, job.operation, job.sizes, "random", np.random.default_rng(0))
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    marks: dict[str, list[bool]] = {}
    for name, chunks in plan.pack(operands).items():
        marks[name] = []
        for beats, last in chunks:
            marks[name] += [False] * (len(beats) - 1) + [last]
    return marks


def _timed_lanes(
    core: Core[Any], marks: dict[str, list[bool]], results: int, cycles: int
) -> tuple[Lane, ...] | None:
    """Return the ports with the cycles of their beats, None if their total is not `cycles`."""
    if set(marks) != {"act", "wgt"} or not isinstance(core, TileCore):
        return None
    # A flow takes first the operand that moves; an input-stationary core keeps `act` in its PEs.
    for inputs in (("act", "wgt"), ("wgt", "act")):
        runs = _runs(core.core_flow(), marks[inputs[0]], marks[inputs[1]], results, cycles)
        if runs is not None:
            named: dict[str, list[Run]] = dict(zip((*inputs, "out"), runs, strict=True))
            return tuple(
                Lane(port.prefix, len(marks.get(port.name, ())) or results, tuple(named[port.name]))
                for port in core.ports
            )
    return None


def _runs(
    flow: CoreFlow, first: list[bool], second: list[bool], results: int, cycles: int
) -> tuple[list[Run], list[Run], list[Run]] | None:
    """Return the runs of both input ports and of the results; None if they do not end in time."""
    runs: tuple[list[Run], list[Run], list[Run]] = ([], [], [])
    counts = [0, 0, 0]
    for cycle in range(cycles):
        one, two = counts[0] < len(first), counts[1] < len(second)
        transfers = flow.cycle(one, one and first[counts[0]], two, two and second[counts[1]], True)
        valids = (one, two, transfers[2])
        for port, (valid, transfer) in enumerate(zip(valids, transfers, strict=True)):
            if not valid:
                continue
            counts[port] += transfer
            last = runs[port][-1] if runs[port] else None
            if last and last[0] + last[1] == cycle and last[2] == transfer:
                runs[port][-1] = (last[0], last[1] + 1, transfer)
            else:
                runs[port].append((cycle, 1, transfer))
    complete = counts == [len(first), len(second), results]
    ends = runs[2][-1] if runs[2] else None
    return runs if complete and ends and ends[0] + ends[1] == cycles else None


def _memory_lanes(core: Core[Any], job: Job) -> tuple[Lane, ...]:
    """Return the beats of the memory port of an engine, both directions apart."""
    bus = next(bus for bus in core.buses if bus.protocol == "axi4")
    size = bus.data_width // 8
    moved = job.operation.bytes_of(job.sizes)
    written = sum(moved[tensor.name] for tensor in job.operation.results)
    read = sum(moved[tensor.name] for tensor in job.operation.operands)
    if isinstance(core, BufferedCore):
        read = core.memory_use([job]).moved_bytes - written
    return (
        Lane(f"{bus.prefix}, read", -(-read // size)),
        Lane(f"{bus.prefix}, written", -(-written // size)),
    )
