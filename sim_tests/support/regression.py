# SPDX-License-Identifier: Apache-2.0
"""Regressions that must pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flows.simulation.runner import Outcome, regress
from hwgen.core.params.base import FamilyConfig
from sim_tests.support.designs import design_of


def assert_passed(outcomes: Sequence[Outcome]) -> None:
    """Fail with the messages of all outcomes that did not pass."""
    failed = [f"{outcome.name}: {outcome.message}" for outcome in outcomes if not outcome.passed]
    assert not failed, "\n".join(failed)


def assert_regression_passes(
    config: FamilyConfig, work: Path, *, seed: int = 0, names: Sequence[str] | None = None
) -> None:
    """Simulate the regression of a configuration, or the named cases of it."""
    assert_passed(regress(design_of(config), work, seed=seed, names=names))
