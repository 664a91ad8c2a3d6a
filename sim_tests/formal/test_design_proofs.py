# SPDX-License-Identifier: Apache-2.0
"""Proofs of whole designs, and broken designs that they notice."""

from __future__ import annotations

import re
from functools import cache

import pytest

from flows.build.design import Design
from flows.formal.prove import prove_design
from hwgen.core.registry import family

BROKEN = [
    # A regular expression of the Verilog, what it becomes, and a property that is not proven then.
    (r"\.out__ready\(m_axis_out_tready\)", ".out__ready(1'h1)", "m_axis_out stable"),
    (r"\.act__valid\(s_axis_act_tvalid\)", ".act__valid(1'h1)", "s_axis_act accepted once"),
    (r"\.wgt__valid\(.*\)", ".wgt__valid(m_axis_out_tready)", "s_axis_wgt accepted once"),
    (r"(assign space = ).*;", r"\1 1'h1;", "out_buffer never overflows"),
]


@cache
def design() -> Design:
    config = {"name": "tiny", "family": "systolic", "array": {"rows": 2, "cols": 2}}
    return Design.of(family("systolic").params_class.model_validate(config))


def statuses(changed: Design) -> dict[str, str]:
    certificate = prove_design(changed, seconds=5)
    return {each.name: each.status for entry in certificate.entries for each in entry.results}


@pytest.mark.rotate(3)
@pytest.mark.parametrize(("pattern", "change", "name"), BROKEN)
def test_a_broken_design_is_not_proven(pattern: str, change: str, name: str) -> None:
    verilog, count = re.subn(pattern, change, design().verilog)
    assert count == 1, pattern
    assert statuses(design().with_verilog(verilog))[name] != "proven"
