# SPDX-License-Identifier: Apache-2.0
"""Operations that are no products of matrices through a core's RTL: ``hwgen run --operation``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flows.build.design import Design
from flows.simulation.stream_engine_run import run_on_engine
from flows.simulation.stream_program import check_cycles, compile_stream, progress, run_stream
from flows.tools.guard import scratch
from hwgen.core.cycles.figures import Cycles
from hwgen.core.operation import GEMM, Operation, StreamPlan, sizes_text
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed, InputError
from hwgen.formats import differences

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class OperationRun:
    """What a run gave.

    Parameters
    ----------
    results : dict of ndarray
        By name.
    sizes : mapping of int
        By name.
    cycles : int
        From the first input beat to the last result beat, both included; of an engine, those in
        which it was busy.
    expected : Cycles
        By the cycle model, which agrees.
    """

    results: dict[str, np.ndarray]
    sizes: Mapping[str, int]
    cycles: int
    expected: Cycles


def run_operation(
    design: Design,
    operation: Operation,
    operands: Mapping[str, np.ndarray],
    scalars: Mapping[str, float],
    *,
    on_progress: Callable[[int, int], None] | None = None,
    timeout: float = 24 * 3600,
) -> OperationRun:
    """Carry out an operation with a design in Verilator.

    Parameters
    ----------
    design : Design
    operation : Operation
        One of its operations, not `GEMM`.
    operands : mapping of ndarray
    scalars : mapping of float
        Those that are missing have their defaults.
    on_progress : callable, optional
        Gets the cycles simulated and the cycles in all.
    timeout : float
        Seconds.

    Raises
    ------
    InputError
        If operands or scalars do not fit.
    CheckFailed
        If the simulation fails, or takes other cycles than the cycle model says.
    """
    if operation.name == GEMM:
        raise InputError("products of matrices run by their operands --activations and --weights")
    sizes, given = operation.check_operands(operands), operation.check_scalars(scalars)
    config = design.config
    core = core_of(config)
    if config.takes_jobs:
        found, cycles, modelled = run_on_engine(
            design, operation, operands, given, on_progress=on_progress, timeout=timeout
        )
        check_cycles(f"{operation.name} of {sizes_text(sizes)}", cycles, modelled)
        return OperationRun(found, sizes, cycles, modelled)
    job = core.job(operands, given, operation=operation.name)
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    expected = core.cycles([job]).number
    program = compile_stream(design, cycles=expected)
    with scratch("hwgen-run-") as work:
        image, cycles = run_stream(
            config, program, plan, plan.pack(operands), expected, work,
            on_line=progress(on_progress), timeout=timeout,
        )  # fmt: skip
    check_cycles(f"{operation.name} of {sizes_text(sizes)}", cycles, Cycles(expected))
    return OperationRun(plan.unpack(image), sizes, cycles, Cycles(expected))


def compare(results: Mapping[str, np.ndarray], golden: Mapping[str, np.ndarray]) -> None:
    """Hold results against those of the golden model.

    Raises
    ------
    CheckFailed
        If any of them differs.
    """
    for name, expected in golden.items():
        wrong = differences(results[name], expected)
        if len(wrong):
            index = tuple(map(int, wrong[0]))
            raise CheckFailed(
                f"{len(wrong)} of {expected.size} elements of {name} differ from the golden model,"
                f" first {name}[{','.join(map(str, index))}]: expected {expected[index]}, got"
                f" {results[name][index]}; nothing written"
            )
