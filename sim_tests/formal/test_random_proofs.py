# SPDX-License-Identifier: Apache-2.0
"""Proofs of configurations that are drawn from the whole schema, others at each commit."""

from __future__ import annotations

import pytest

from flows.bench.draws import draw
from flows.build.design import Design
from flows.formal.prove import prove_design
from hwgen.core.registry import families
from sim_tests.support.selection import commit_seed

SEARCHED = {"credits"}
"""Groups that are proven or reported as unknown."""


@pytest.mark.rotate(10)
@pytest.mark.parametrize("name", list(families()))
def test_a_drawn_configuration_is_proven(name: str) -> None:
    (config,) = draw(commit_seed(), 1, 20_000.0, names=(name,))
    certificate = prove_design(Design.of(config), seconds=20)
    assert certificate.status != "refuted"
    unproven = [
        (entry.module, result.name, result.detail)
        for entry in certificate.entries
        for result in entry.results
        if result.status != "proven" and result.group not in SEARCHED
    ]
    assert not unproven, config.model_dump_json()
