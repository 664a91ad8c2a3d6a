# SPDX-License-Identifier: Apache-2.0
"""Products of matrices on the core of a configuration, in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hwgen.core.jobs import select_operation
from hwgen.core.operation import Array, Job, gemm_operands
from hwgen.core.params.base import FamilyConfig
from hwgen.core.post import Columns, PostSettings
from hwgen.core.registry import core_of

Size = tuple[int, int, int]


def golden(
    config: FamilyConfig,
    a: Array,
    w: Array,
    settings: PostSettings | None = None,
    columns: Columns | None = None,
) -> Array:
    return core_of(config).multiply(a, w, settings, columns)


def plan(config: FamilyConfig, m: int, k: int, n: int, settings: PostSettings | None = None) -> Any:
    core = core_of(config)
    return core.schedule(core.gemm(m, k, n, settings))


def cycles(config: FamilyConfig, m: int, k: int, n: int) -> int:
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: FamilyConfig, sizes: Iterable[Size]) -> int:
    core = core_of(config)
    return core.cycles([core.gemm(*size) for size in sizes]).number


def cycles_of_operands(config: FamilyConfig, pairs: Iterable[tuple[Array, Array]]) -> int:
    core = core_of(config)
    operands = [gemm_operands(a, w) for a, w in pairs]
    jobs = [core.job(each) for each in operands]
    return core.cycles(jobs, operands).number


def most_cycles_of(config: FamilyConfig, sizes: Iterable[Size]) -> int:
    core = core_of(config)
    counted = core.cycles([core.gemm(*size) for size in sizes])
    return counted.most or counted.number


def job_cycles(
    config: FamilyConfig,
    operation: str,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
) -> int:
    selected = select_operation(config, operation)
    job = Job(selected, selected.check_sizes(sizes), selected.check_scalars(scalars or {}))
    return core_of(config).cycles([job]).number
