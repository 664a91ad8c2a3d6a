# SPDX-License-Identifier: Apache-2.0
"""Operands of simulated jobs: patterns of values, and rows whose results are near ties."""

from __future__ import annotations

import numpy as np
import pytest

from flows.bench.mutation import design_of
from flows.simulation.bench_jobs import draw_job
from flows.simulation.cases import JobSpec, cases
from flows.simulation.operands import TIES, draw_near_ties
from flows.simulation.placement import source_core
from hwgen.core.protocols import RoundingCore
from hwgen.core.registry import core_of
from hwgen.formats import differences

ROWS = {"rows": 24, "length": 9}
ERROR = 2.0**-22


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("vector", "softmax"),
        ("vector", "rms_norm"),
        ("vector", "gated"),
        ("vector", "add"),
        ("stream_engine", "quantise"),
    ],
)
def test_results_near_ties_show_an_error_in_the_last_places(family: str, name: str) -> None:
    """Results change if those in single precision are off by two units in the last place."""
    core = source_core(core_of(design_of(family).params))
    assert isinstance(core, RoundingCore)
    operation = core.select_operation(name)

    def changed(operands: dict[str, np.ndarray], scalars: dict[str, float]) -> int:
        job = core.job(operands, scalars, operation=name)
        rounding = core.unrounded(job, operands)
        assert rounding is not None
        exact, fmt = rounding
        right = core.golden(job, operands)["result"]
        assert not len(differences(fmt.nearest(exact), right))
        wrong = [fmt.nearest(exact * (1 + error)) for error in (-ERROR, ERROR)]
        return len(differences(wrong[0], right)) + len(differences(wrong[1], right))

    near = changed(*draw_near_ties(core, operation, ROWS, np.random.default_rng(0)))
    usual = draw_job(core, JobSpec(name, tuple(ROWS.items())), np.random.default_rng(0))
    assert near >= 2
    assert near > changed(dict(usual.operands), dict(usual.job.scalars))


def test_rows_near_ties_are_the_same_for_the_same_seed() -> None:
    core = core_of(design_of("vector").params)
    spec = JobSpec("rms_norm", tuple(ROWS.items()), TIES)
    first, second, other = (draw_job(core, spec, np.random.default_rng(s)) for s in (1, 1, 2))
    assert first.job.scalars == second.job.scalars
    for name, values in first.operands.items():
        np.testing.assert_array_equal(values, second.operands[name])
    assert any((first.operands[n] != other.operands[n]).any() for n in first.operands)


@pytest.mark.parametrize("family", ["vector", "stream_engine"])
def test_the_regression_has_ties(family: str) -> None:
    core = core_of(design_of(family).params)
    names = [case.name for case in cases(core, 0)]
    wanted = [f"{operation.name}_ties" for operation in core.operations]
    assert set(wanted) <= set(names)
