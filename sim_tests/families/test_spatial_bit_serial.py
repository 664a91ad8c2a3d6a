# SPDX-License-Identifier: Apache-2.0
"""Processing elements that take elements of W term by term, and bits of their scales."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from flows.simulation.run import run_product
from hwgen.core.params.block_operands import factor_of
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.registry import family
from hwgen.formats.block.factors import signed_digits, term_count, term_table
from hwgen.formats.registry import block_format
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.families.test_spatial_blocks import config_of
from sim_tests.support.cores import cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation

WIDE = {
    "name": "wide",
    "element": "int8",
    "block": 32,
    "scale": {"format": "uint8", "rule": "absmax", "second": "column"},
}


def serial_core(
    name: str, activation: str, weight: Any, accumulator: str, array: dict[str, Any], pe: int
) -> SpatialConfig:
    """Return a small core of bit-serial PEs."""
    return config_of(name, activation, weight, accumulator, {**array, "pe": "bit_serial"}, pe)


COVERING = [
    serial_core(*values)
    for values in (
        ("cube", "fp16", "bitmod_fp4", "fp32", {"rows": 1, "cols": 2, "depth": 4}, 1),
        ("adder_tree", "fp8_e5m2", "int6_g16", "exact", {"cols": 2, "depth": 16}, 0),
        ("broadcast_2d", "fp8_e4m3", "bitmod_fp3", "aligned(20)", {"rows": 2, "cols": 1}, 0),
        ("cube", "int8", "bitmod_fp3", "fp32", {"rows": 2, "cols": 2, "depth": 32}, 2),
        ("adder_tree", "mxfp8_e5m2", WIDE, "exact", {"cols": 1, "depth": 8}, 2),
        ("broadcast_2d", "mxfp8_e5m2", "mxfp4", "aligned(25)", {"rows": 2, "cols": 2}, 2),
        ("adder_tree", "uint5", "ternary_g16", "fp32", {"cols": 2, "depth": 4}, 1),
        ("cube", "fp16", "nvfp4", "exact", {"rows": 2, "cols": 1, "depth": 32}, 1),
    )
]
"""Numbers of terms from one to four, scales by bits and by a multiplier, several blocks a beat."""


def test_both_ways_to_multiply_by_scales_are_covered() -> None:
    assert {config.scale_cycles for config in COVERING} == {0, 9}
    assert {config.slots for config in COVERING} == {1, 2, 3, 4}


@pytest.mark.parametrize("number", [*range(-300, 301), 2**40 - 1])
def test_terms_make_the_number(number: int) -> None:
    terms = signed_digits(number)
    assert sum(-(1 << place) if negative else 1 << place for negative, place in terms) == number
    places = [place for _, place in terms]
    assert all(high - low > 1 for high, low in itertools.pairwise(places))
    # The first one has the sign of the number.
    assert not terms or terms[0][0] == (number < 0)


@pytest.mark.parametrize(
    ("name", "count"),
    [("bitmod_fp3", 2), ("bitmod_fp4", 2), ("mxfp4", 2), ("int4_g32", 2), ("int6_g32", 3),
     ("int8_g32", 4), ("ternary_g32", 1)],
)  # fmt: skip
def test_how_many_terms_formats_have(name: str, count: int) -> None:
    factor = factor_of(block_format(name))
    assert term_count(factor) == count
    assert len(term_table(factor)) == 1 << factor.width + factor.special_width


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_results_are_those_of_a_mac_in_as_many_times_the_beats_as_terms() -> None:
    array = {"cols": 2, "depth": 8}
    core = serial_core("adder_tree", "fp8_e5m2", "bitmod_fp4", "fp32", array, 1)
    plain = config_of("adder_tree", "fp8_e5m2", "bitmod_fp4", "fp32", array, 1)
    rng, fmt = np.random.default_rng(2), plain.weight
    a, w = plain.activation.random(rng, (3, 200)), fmt.sample(rng, (5, 200), "random").T
    # An infinity is one of the whole weight, whatever signs its terms have.
    a[1:] = np.where(np.isfinite(a[1:]), a[1:], 1)
    a[1, 3], a[2, 150] = np.inf, -np.inf
    result = run_product(design_of(core), a, w)
    expected = golden(plain, a, w)
    np.testing.assert_array_equal(result.result.view(np.uint32), expected.view(np.uint32))
    assert np.isinf(expected[1:]).any()
    assert core.slots == 2
    # 32 beats of two slots for each of nine tiles.
    assert result.cycles == cycles(core, 3, 200, 5) == 9 * 64 + core.latency
    assert core.latency == plain.latency + core.scale_cycles


MUTANT = {
    "family": "adder_tree", "activation": "fp8_e5m2", "weight": "bitmod_fp4",
    "accumulator": "fp32", "max_k": 300, "array": {"cols": 1, "depth": 8, "pe": "bit_serial"},
}  # fmt: skip

MUTATIONS = [
    Mutation("each term begins a sum", "core", r"first & _\d+_", "first", MUTANT),
    Mutation(
        "the lowest bit of a scale", "pe", r"\| scale_bits\[7:0\]", "| scale_bits[6:0]", MUTANT
    ),
]


CONTRACT = Contract(
    "spatial_bit_serial",
    "cube",
    regressions=(Regressions(COVERING, every=27),),
    mutations=(
        Mutations(
            family("adder_tree").params_class,
            ("values_random", "values_special"),
            MUTATIONS,
            long=True,
        ),
    ),
    refused=[
        (
            f"activation: {activation}\nweight: {weight}\narray: {{pe: bit_serial, depth: 16}}",
            f"array.pe: must not be bit_serial with .*: {why}",
        )
        for (activation, weight), why in (
            (("int8", "int8"), "neither is floating point or in blocks"),
            (("fp16", "fp16"), "not every fp16 is finite"),
            (("mxfp8_e4m3", "mxfp8_e4m3"), "not every mxfp8_e4m3 is finite"),
            (("int8", "int4_g16_zero"), "the terms of int4_g16_zero depend on more than 9 bits"),
            (("bitmod_fp4", "bitmod_fp4"), "bitmod_fp4 has special numbers"),
            (("fp16", "int4_g16_min"), "the sum of the other operand's elements"),
        )
    ],
)
