# SPDX-License-Identifier: Apache-2.0
"""Proofs of configurations that are drawn from the whole schema, others at each commit."""

from __future__ import annotations

import pytest

from flows.bench.draws import draw
from flows.build.design import Design
from flows.formal.prove import prove_design
from sim_tests.support.selection import commit_seed

STREAMS = ("adder_tree", "broadcast_2d", "cube", "systolic", "ternary_lut", "vector")
"""Families whose proofs take seconds; those of engines and of attention are in `make prove`."""


@pytest.mark.rotate(40)
@pytest.mark.parametrize("name", STREAMS)
def test_nothing_is_refuted_of_a_drawn_configuration(name: str) -> None:
    """Properties that are not decided in the time are unknown, which depends on the machine."""
    (config,) = draw(commit_seed(), 1, 5_000.0, names=(name,))
    certificate = prove_design(Design.of(config), seconds=5)
    assert certificate.status != "refuted", config.model_dump_json()
