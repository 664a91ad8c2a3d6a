# SPDX-License-Identifier: Apache-2.0
"""Operations of an engine around a stream core: those of the core, from memory to memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hwgen.core.registry import family
from hwgen.core.schedule.memory import MemoryPlan, memory_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Operation
    from hwgen.families.stream_engine.params import StreamEngineConfig


def job(
    config: StreamEngineConfig,
    operation: Operation,
    operands: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, float],
) -> MemoryPlan:
    """Return how an operation goes from memory to memory.

    Raises
    ------
    InputError
        If operands or scalars do not fit the operation.
    """
    core = config.compute
    plan = family(core.family).part("schedule").job(core, operation, operands, scalars)
    return memory_plan(plan, core.ports)
