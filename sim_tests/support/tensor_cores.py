# SPDX-License-Identifier: Apache-2.0
"""Results of the tensor cores of an H100 that are part of the tests, by operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from flows.bench.tensor_cores.subset import subset_vectors
from flows.bench.tensor_cores.vectors import Measured
from sim_tests.support.paths import ROOT

SUBSET = ROOT / "sim_tests" / "data" / "tensor_cores.npz"


@cache
def measured() -> Mapping[str, list[Measured]]:
    """Return the results of each operation: single steps, then chains of four from +0."""
    result = defaultdict(list)
    for vector in subset_vectors(SUBSET):
        result[vector.instruction.operation].append(vector)
    return result


def measured_chains(operation: str) -> list[Measured]:
    """Return the results of chains of four steps from +0."""
    return [vector for vector in measured()[operation] if vector.c is None]
