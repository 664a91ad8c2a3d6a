# SPDX-License-Identifier: Apache-2.0
"""Systolic arrays of floating-point numbers and blocks against their golden and cycle models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.simulation.run import run_product
from hwgen.core.registry import family
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.support.cores import assert_weights_round_trip, cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation


def config_of(
    activation: str, weight: str, accumulator: str, array: dict[str, Any], pe: int
) -> SystolicConfig:
    """Return a small core."""
    return SystolicConfig.model_validate(
        {
            "name": "core", "activation": activation, "weight": weight, "accumulator": accumulator,
            "array": array, "pipeline": {"pe": pe}, "max_k": 300,
        }
    )  # fmt: skip


STAYS: dict[str, dict[str, Any]] = {
    "w": {"dataflow": "weight_stationary", "accumulator_depth": 5},
    "a": {"dataflow": "input_stationary", "accumulator_depth": 7},
}

COVERING = [
    config_of(*values)
    for values in (
        ("fp8_e4m3", "fp8_e4m3", "fp32", {"rows": 2, "cols": 3}, 0),
        ("mxfp4", "mxfp4", "fp32", {"rows": 3, "cols": 5, "broadcast": 2}, 1),
        ("fp16", "int4_g16", "exact", {"rows": 2, "cols": 3, "pe": "hybrid"}, 2),
        ("nvfp4", "nvfp4", "aligned(35)", {"rows": 18, "cols": 2}, 2),
        ("fp4_e2m1", "fp4_e2m1", "exact", {"rows": 5, "cols": 4, "broadcast": 3}, 1),
        ("int8", "q4_1", "exact", {"rows": 2, "cols": 3, "broadcast": 1}, 1),
        ("fp8_e5m2", "int4", "aligned(25)", {"rows": 2, "cols": 3}, 0),
        ("mxint8", "mxfp8_e4m3", "exact", {"rows": 2, "cols": 1}, 0),
        ("fp16", "fp16", "fp32", {"rows": 1, "cols": 3, "broadcast": 1}, 2),
        ("int8", "bitmod_fp4", "fp32", {"rows": 3, "cols": 2}, 1),
        ("fp8_e5m2", "int4_g16_min", "fp32", {"rows": 2, "cols": 3, "broadcast": 2}, 2),
        ("int4_g16_zero", "fp6_e3m2", "aligned(13)", {"rows": 2, "cols": 2}, 1),
        ("bf16", "int8", "fp32", {"rows": 1, "cols": 1, "pe": "hybrid"}, 0),
        ("fp8_e4m3", "fp8_e4m3", "fp32", {"rows": 3, "cols": 3, **STAYS["w"]}, 0),
        ("fp8_e5m2", "int4", "fp32", {"rows": 1, "cols": 2, **STAYS["a"]}, 1),
        ("nvfp4", "nvfp4", "exact", {"rows": 16, "cols": 3, "broadcast": 2, **STAYS["a"]}, 1),
        ("int8", "ternary_g16", "exact", {"rows": 16, "cols": 2, **STAYS["w"]}, 0),
        ("fp16", "fp6_e2m3", "aligned(25)", {"rows": 4, "cols": 2, **STAYS["a"]}, 2),
        ("fp8_e4m3", "ternary", "aligned(25)", {"rows": 5, "cols": 3, **STAYS["w"]}, 1),
    )
]
"""Kinds of formats and accumulators, registers, groups of columns and several bands of rows."""


LONG = [
    config_of(*values)
    for values in (
        ("mxfp4", "mxfp4", "fp32", {"rows": 32, "cols": 2, **STAYS["w"]}, 1),
        ("fp16", "int4_g16", "aligned(25)",
         {"rows": 16, "cols": 3, "pe": "hybrid", "broadcast": 2, **STAYS["w"]}, 2),
        ("int8", "bitmod_fp4", "fp32", {"rows": 128, "cols": 1, **STAYS["w"]}, 2),
        ("bitmod_fp3", "int8", "exact", {"rows": 128, "cols": 1, **STAYS["w"]}, 0),
        ("mxfp8_e5m2", "mxfp6_e3m2", "fp32", {"rows": 32, "cols": 2, **STAYS["a"]}, 0),
    )
]  # fmt: skip
"""Stationary arrays that are as high as longer blocks."""


@pytest.mark.slow
def test_a_product_of_blocks_through_the_hardware() -> None:
    config = config_of("mxfp4", "mxfp4", "fp32", {"rows": 2, "cols": 3}, 1)
    rng, fmt = np.random.default_rng(5), config.activation
    a = fmt.sample(rng, (3, 100), "special")
    w = fmt.sample(rng, (5, 100), "random").T
    result = run_product(design_of(config), a, w)
    expected = golden(config, a, w)
    np.testing.assert_array_equal(result.result.view(np.uint32), expected.view(np.uint32))
    # Four blocks of 32 slots for each of four tiles, none of which waits.
    assert result.cycles == cycles(config, 3, 100, 5) == 4 * 4 * 32 + config.latency + 2 - 1


SIZES = ((1, 1, 1), (4, 100, 7), (12, 33, 5), (2, 300, 3), (9, 16, 10))


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", ["output", "weight", "input"])
@pytest.mark.rotate(6)
def test_cycles_are_those_of_the_hardware(dataflow: str) -> None:
    stays = {
        "output": {"rows": 3, "cols": 2},
        "weight": {"rows": 16, "cols": 3, **STAYS["w"]},
        "input": {"rows": 16, "cols": 2, **STAYS["a"]},
    }
    config = config_of("nvfp4", "nvfp4", "exact", stays[dataflow], 1)
    rng = np.random.default_rng(9)
    for m, k, n in SIZES:
        a = config.activation.sample(rng, (m, k), "random")
        w = config.weight.sample(rng, (n, k), "random").T
        assert run_product(design_of(config), a, w).cycles == cycles(config, m, k, n), (m, k, n)


def test_results_are_those_of_the_spatial_families() -> None:
    """A product does not depend on the array that computes it."""
    systolic = config_of("mxfp8_e5m2", "mxfp4", "aligned(25)", {"rows": 2, "cols": 3}, 1)
    values = {**systolic.resolved(), "family": "broadcast_2d", "array": {"rows": 2, "cols": 3}}
    spatial: Any = family("broadcast_2d").params_class.model_validate(values)
    rng = np.random.default_rng(7)
    a = systolic.activation.sample(rng, (4, 70), "special")
    w = systolic.weight.sample(rng, (6, 70), "random").T
    one, other = golden(systolic, a, w), golden(spatial, a, w)
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_images_of_weights_round_trip() -> None:
    rng = np.random.default_rng(6)
    for weight in ("mxfp4", "bitmod_fp4", "int4_g16_min"):
        config = config_of("int8", weight, "exact", {"rows": 2, "cols": 3}, 0)
        assert_weights_round_trip(config, rng)
    for stays in STAYS.values():
        array = {"rows": 32, "cols": 3, **stays}
        assert_weights_round_trip(config_of("mxfp4", "mxfp4", "exact", array, 0), rng)


MUTANT = {
    "activation": "mxfp4", "weight": "mxfp4", "accumulator": "fp32", "max_k": 200,
    "array": {"rows": 2, "cols": 3, "broadcast": 2}, "pipeline": {"pe": 1},
}  # fmt: skip

STANDING = {
    **MUTANT,
    "activation": "nvfp4",
    "weight": "nvfp4",
    "array": {"rows": 16, "cols": 2, "dataflow": "weight_stationary", "accumulator_depth": 4},
}

FROZEN = {
    **MUTANT,
    "activation": "fp8_e4m3",
    "weight": "fp4_e2m1",
    "array": {"rows": 8, "cols": 1},
}

MUTATIONS = [
    Mutation(
        "a scale that does not wait", "edge_x", r"if \(_04_\) none_reg",
        "if (run) none_reg", MUTANT,
    ),
    Mutation(
        "a block that keeps the sum of the one before", "product",
        r"first \? 14'h0000 : integer_0", "integer_0", MUTANT,
    ),
    Mutation(
        "a frozen slot that counts twice", "array",
        r"if \(_\d+_\) valid_edge <= 8'h00;\s+else ", "",
        FROZEN,
        ("stalls_1", "stalls_5", "stalls_8"),
    ),
    Mutation(
        "scales that do not wait for the tile before", "foot",
        r"if \(_\d+_\) pending_0", "if (run) pending_0", STANDING,
    ),
    Mutation(
        "flags of sums that get lost", "pe_26", r"\| psum\[0\]", "| 1'h0",
        {**STANDING, "activation": "fp8_e4m3", "weight": "int4"},
    ),
]  # fmt: skip


CONTRACT = Contract(
    "systolic_blocks",
    "systolic",
    regressions=(Regressions(COVERING, every=36), Regressions(LONG, long=True)),
    clean=COVERING[::5],
    clean_every=0,
    mutations=(
        Mutations(SystolicConfig, ("values_random", "values_special"), MUTATIONS, long=True),
    ),
    refused=(
        ("activation: mxfp4\nweight: nvfp4", "weight: must have blocks of 32"),
        ("weight: mxfp4\naccumulator: int32", r"accumulator: must be exact, fp32 or aligned\(n\)"),
        ("accumulator: fp32", "accumulator: must be exact or an integer with int8 x int8"),
        ("array: {pe: hybrid}", "array.pe: must not be hybrid with int8 x int8"),
        ("weight: mxfp4\narray: {pe: carry_save}", "array.pe: must be mac with int8 x mxfp4"),
        ("weight: mxfp4\noverflow: saturate", "overflow: must be wrap"),
        ("weight: mxfp4\npipeline: {final_adder: 1}", "pipeline.final_adder: must be 0"),
        (
            "weight: mxfp4\narray: {dataflow: weight_stationary}",
            "array.rows: must be 32, a block, with int8 x mxfp4 and weight_stationary, not 16",
        ),
        (
            "weight: int4_g16_min\narray: {dataflow: weight_stationary}",
            "array.dataflow: must be output_stationary with int8 x int4_g16_min",
        ),
        (
            (
                "weight: {name: p, element: int3, block: 2, scale: {format: bf16, rule: absmax}}\n"
                "pipeline: {pe: 1}"
            ),
            "weight: must have blocks of 3 or more",
        ),
    ),
)
