# SPDX-License-Identifier: Apache-2.0
"""Datapaths equal their arithmetic definitions, and broken ones do not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from flows.build.design import Design
from flows.formal.datapaths import Datapath, prove_datapath
from flows.formal.definitions import SERIES, datapath_of
from flows.formal.modules import Part
from flows.formal.prove import blocks_of, prove_design
from hwgen.core.registry import family
from hwgen.formats.floating import floating
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat

QUICK = ("booth4 product", "saturating sum", "ternary product", "wider float")

BROKEN = {
    # A change of the Verilog of the narrowest of a type that makes it wrong.
    "compressor tree": ("assign o[1] = _01_ ^", "assign o[1] = _01_ |"),
    "booth4 recoder": ("assign two[1] = _03_ | _06_;", "assign two[1] = _03_;"),
    "ent recoder": ("assign _13_ = x[3] ^ _12_;", "assign _13_ = x[3] | _12_;"),
    "booth4 product": ("assign o[7] = ~ sum", "assign o[7] = sum"),
    "ent product": ("assign _14_ = { w[3], w }", "assign _14_ = { 1'h0, w }"),
    "saturating sum": ("_05_ = wide[8] ? 8'h80 : 8'h7f;", "_05_ = wide[8] ? 8'h81 : 8'h7f;"),
    "ternary product": ("assign carry = w[0] & w[1];", "assign carry = w[0];"),
    "ternary table": ("assign hits[3] = & key[1:0];", "assign hits[3] = key[1];"),
    "sum of products": ("$signed(product_0) +", "$signed(product_0) -"),
    "floating-point sum": ("align_lost_1 | _003_", "align_lost_1"),
    "floating-point product": ("assign _21_ = align_2[1] | sticky_aligned;",
                               "assign _21_ = align_2[1];"),
    "narrower float": ("assign _06_ = align_2[1] | _05_;", "assign _06_ = 1'h1;"),
    "wider float": ("subnormal = 4'h8 - zeros", "subnormal = 4'h7 - zeros"),
    "integer to float": ("5'h16 - count", "5'h15 - count"),
    "element of a block": ("= i[2:1] - normal;", "= i[2:1];"),
    "requantisation": ("assign quotient_lost_2 = quotient_lost_1 |", "assign quotient_lost_2 ="),
}  # fmt: skip


@cache
def narrowest(name: str) -> Datapath:
    series = SERIES[name]
    return series.make(series.cases[0])


def test_every_type_has_a_broken_datapath() -> None:
    assert BROKEN.keys() == SERIES.keys()


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.rotate(8)) for name in SERIES],
)
def test_a_datapath_equals_its_definition(name: str, tmp_path: Path) -> None:
    proof = prove_datapath(narrowest(name), tmp_path, 60)
    assert proof.status == "proven", proof.detail


@pytest.mark.rotate(8)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_datapath_is_refuted(name: str, tmp_path: Path) -> None:
    text, change = BROKEN[name]
    part = narrowest(name).part
    assert part.text.count(text) == 1
    broken = Part(part.name, part.text.replace(text, change))
    proof = prove_datapath(narrowest(name), tmp_path, 60, broken)
    assert proof.status == "refuted", proof.detail
    assert proof.trace


def test_sat_refutes_a_rare_difference(tmp_path: Path) -> None:
    datapath = datapath_of(IntegerToFloat(IntegerFormat(16, signed=True), floating("fp16")))
    assert datapath is not None
    text = "assign magnitude = "
    assert datapath.part.text.count(text) == 1
    changed = datapath.part.text.replace(text, f"{text}i == 16'h1235 ? 16'h1 : ")
    proof = prove_datapath(datapath, tmp_path, 60, Part(datapath.part.name, changed))
    assert (proof.status, proof.engine) == ("refuted", "SAT")
    assert proof.trace == [{"i": 0x1235}]


def test_what_takes_too_long_is_unknown(tmp_path: Path) -> None:
    datapath = datapath_of(FloatAdder(floating("fp16")))
    assert datapath is not None
    assert len(datapath.split) == 10
    proof = prove_datapath(replace(datapath, split=()), tmp_path, 1)
    assert (proof.status, proof.engine) == ("unknown", "SAT")


@pytest.mark.rotate(8)
def test_datapaths_of_a_design() -> None:
    config = {"name": "tiny", "family": "adder_tree", "activation": "int4", "weight": "int4",
              "array": {"cols": 2, "depth": 2, "pe": "same_weight", "encoding": "ent"}}  # fmt: skip
    design = Design.of(family("adder_tree").params_class.model_validate(config))
    assert any(datapath_of(block) for block in blocks_of(design).values())
    certificate = prove_design(design, seconds=20, datapaths=True)
    assert certificate.groups["datapaths"]["status"] == "proven"
    results = [each for entry in certificate.entries for each in entry.results]
    assert "ent recoder int4" in {each.name for each in results}
