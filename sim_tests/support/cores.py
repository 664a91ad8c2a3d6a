# SPDX-License-Identifier: Apache-2.0
"""Products of matrices on the core of a configuration, in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hwgen.core.files.packing import pack, unpack
from hwgen.core.operation import Array, Job, gemm_operands
from hwgen.core.params.base import FamilyConfig
from hwgen.core.post import Columns, PostSettings
from hwgen.core.registry import core_of
from hwgen.formats.block import quantise_lines

Size = tuple[int, int, int]


def assert_weights_round_trip(config: FamilyConfig, rng: np.random.Generator) -> None:
    """Check that weights that are quantised to blocks and packed come back as they were rounded."""
    weights = rng.standard_normal((70, 5))
    packed = pack(config, weights)
    fmt: Any = config.weight
    assert fmt.is_block
    records, second = quantise_lines(fmt, weights.T)
    np.testing.assert_array_equal(packed.weights, records.T)
    back = unpack(config, packed.description, packed.image)
    np.testing.assert_array_equal(back, fmt.decode(records, second).T)


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
    selected = core_of(config).select_operation(operation)
    job = Job(selected, selected.check_sizes(sizes), selected.check_scalars(scalars or {}))
    return core_of(config).cycles([job]).number
