# SPDX-License-Identifier: Apache-2.0
"""Cores that multiply blocks against their golden and cycle models, and what they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from flows.simulation.run import run_product
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.registry import family
from hwgen.families.spatial.schedule import Schedule
from hwgen.formats.block import quantise_lines
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.formats.many_blocks import FORMATS, check, rounded
from sim_tests.support.cores import assert_weights_round_trip, cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation
from sim_tests.support.selection import commit_seed, covering_values


def config_of(
    name: str, activation: str, weight: Any, accumulator: str, array: dict[str, Any], pe: int
) -> SpatialConfig:
    """Return a small core."""
    values = {
        "name": "core", "family": name, "activation": activation, "weight": weight,
        "accumulator": accumulator, "array": array, "pipeline": {"pe": pe}, "max_k": 300,
    }  # fmt: skip
    config: Any = family(name).params_class.model_validate(values)
    return config


COVERING = [
    config_of(*values)
    for values in (
        ("adder_tree", "mxfp4", "mxfp4", "exact", {"cols": 2, "depth": 8}, 0),
        ("cube", "mxfp4", "mxfp4", "aligned(35)", {"rows": 2, "cols": 2, "depth": 64}, 1),
        ("broadcast_2d", "mxfp4", "mxfp4", "fp32", {"rows": 2, "cols": 2}, 2),
        ("cube", "nvfp4", "nvfp4", "exact", {"rows": 2, "cols": 2, "depth": 32}, 1),
        ("adder_tree", "nvfp4", "nvfp4", "fp32", {"cols": 3, "depth": 16}, 2),
        ("adder_tree", "nvint4", "nvint4", "aligned(25)", {"cols": 2, "depth": 8}, 0),
        ("cube", "mxfp8_e4m3", "mxfp8_e4m3", "fp32", {"rows": 2, "cols": 1, "depth": 16}, 2),
        ("adder_tree", "mxfp8_e4m3", "mxfp8_e4m3", "exact", {"cols": 1, "depth": 16}, 1),
        ("adder_tree", "mxfp8_e5m2", "mxfp8_e5m2", "aligned(13)", {"cols": 2, "depth": 4}, 1),
        ("broadcast_2d", "mxfp8_e5m2", "mxfp8_e5m2", "exact", {"rows": 1, "cols": 2}, 0),
        ("cube", "mxfp6_e2m3", "mxfp6_e2m3", "fp32", {"rows": 3, "cols": 2, "depth": 4}, 0),
        ("adder_tree", "mxfp6_e3m2", "mxfp6_e3m2", "aligned(25)", {"cols": 1, "depth": 32}, 2),
        ("broadcast_2d", "mxint8", "mxint8", "exact", {"rows": 2, "cols": 3}, 2),
        ("cube", "mxint8", "mxfp8_e4m3", "aligned(25)", {"rows": 2, "cols": 1, "depth": 16}, 1),
        ("adder_tree", "mxfp8_e4m3", "mxfp4", "fp32", {"cols": 2, "depth": 8}, 1),
        ("adder_tree", "int8", "int4_g128", "fp32", {"cols": 2, "depth": 16}, 1),
        ("broadcast_2d", "int8", "int4_g32", "exact", {"rows": 2, "cols": 3}, 1),
        ("cube", "uint5", "int3_g16", "aligned(13)", {"rows": 2, "cols": 2, "depth": 16}, 0),
        ("adder_tree", "int16", "ternary_g64", "exact", {"cols": 2, "depth": 32}, 2),
        ("adder_tree", "q8_0", "q4_0", "exact", {"cols": 2, "depth": 32}, 2),
        ("cube", "int8", "bitmod_fp4", "fp32", {"rows": 2, "cols": 2, "depth": 32}, 2),
        ("adder_tree", "bitmod_fp3", "bitmod_fp3", "aligned(25)", {"cols": 2, "depth": 16}, 1),
        ("adder_tree", "fp16", "int4_g16", "exact", {"cols": 2, "depth": 8}, 0),
        ("cube", "fp16", "int2_g16", "aligned(35)", {"rows": 2, "cols": 2, "depth": 16}, 2),
        ("broadcast_2d", "fp8_e5m2", "mxfp4", "fp32", {"rows": 2, "cols": 2}, 1),
        ("cube", "fp8_e4m3", "fp8_e4m3", "fp32", {"rows": 2, "cols": 2, "depth": 4}, 1),
        ("adder_tree", "int8", "q4_1", "fp32", {"cols": 2, "depth": 8}, 1),
        ("adder_tree", "int8", "int4_g16_zero", "aligned(25)", {"cols": 3, "depth": 8}, 1),
        (
            "cube",
            "fp8_e4m3",
            "fp8_e5m2",
            "aligned(13)",
            {"rows": 2, "cols": 2, "depth": 4, "pe": "fused"},
            1,
        ),
    )
]
"""Every family, accumulator, register and kind of format, with several beats a block and several
blocks a beat."""


SMALL_FLOATS = [
    config_of(*values)
    for values in (
        ("cube", "fp4_e2m1", "fp4_e2m1", "exact", {"rows": 2, "cols": 2, "depth": 8}, 1),
        ("adder_tree", "fp6_e3m2", "fp8_e4m3", "fp32", {"cols": 2, "depth": 4}, 0),
        ("broadcast_2d", "fp6_e2m3", "int4_g32", "aligned(25)", {"rows": 2, "cols": 2}, 2),
        ("cube", "int8", "fp4_e2m1", "fp32", {"rows": 2, "cols": 2, "depth": 4}, 2),
        ("adder_tree", "fp16", "fp6_e2m3", "aligned(35)", {"cols": 3, "depth": 5}, 2),
        ("broadcast_2d", "mxfp6_e3m2", "fp6_e3m2", "exact", {"rows": 2, "cols": 3}, 0),
    )
]
"""Floating-point numbers below 8 bits, alone and against other formats."""


def shown(config: SpatialConfig) -> set[tuple[str, Any]]:
    """Return the properties of a configuration: family, accumulator, registers, formats."""
    formats = {"activation": config.activation, "weight": config.weight}
    names = {axis: re.match("[a-z]+", str(fmt)) for axis, fmt in formats.items()}
    values = {(axis, name[0] if name else "") for axis, name in names.items()}
    return values | {
        ("family", config.family),
        ("accumulator", str(config.accumulator)),
        ("register", config.pipeline.pe),
    }


DRAWN = covering_values(COVERING, shown, commit_seed())
"""Configurations that this commit simulates."""


def test_what_is_drawn_shows_everything() -> None:
    assert set().union(*map(shown, DRAWN)) == set().union(*map(shown, COVERING))
    assert len(DRAWN) <= len(COVERING) // 2


LONG = [
    config_of(*values)
    for values in (
        ("broadcast_2d", "mxfp8_e5m2", "q4_1", "exact", {"rows": 2, "cols": 2}, 0),
        ("cube", "int4_g16_min", "fp16", "exact", {"rows": 2, "cols": 2, "depth": 32}, 2),
        ("adder_tree", "bf16", "int4_g16", "fp32", {"cols": 2, "depth": 4}, 1),
        ("cube", "int8", "int4_g16_min", "fp32", {"rows": 2, "cols": 2, "depth": 16}, 2),
        ("adder_tree", "int5_g16_zero", "int3_g16_zero", "exact", {"cols": 2, "depth": 32}, 0),
        ("adder_tree", "fp16", "fp16", "aligned(25)", {"cols": 2, "depth": 4, "pe": "fused"}, 0),
        (
            "adder_tree", "mxfp8_e5m2", "mxfp4", "aligned(25)",
            {"cols": 2, "depth": 32, "pe": "fused"}, 1,
        ),
        (
            "adder_tree", "bf16", "fp6_e3m2", "aligned(35)",
            {"cols": 2, "depth": 4, "pe": "fused"}, 2,
        ),
    )
]  # fmt: skip
"""Minima of either operand with infinities and several blocks a beat, long integers, and products
aligned each by itself."""


def test_a_product_of_blocks_through_the_hardware() -> None:
    config = config_of("adder_tree", "mxfp4", "mxfp4", "fp32", {"cols": 2, "depth": 16}, 1)
    rng = np.random.default_rng(5)
    fmt: Any = config.activation
    a = fmt.sample(rng, (3, 100), "special")
    w = fmt.sample(rng, (5, 100), "random").T
    result = run_product(design_of(config), a, w)
    expected = golden(config, a, w)
    np.testing.assert_array_equal(result.result.view(np.uint32), expected.view(np.uint32))
    # Four blocks of two beats for each of nine tiles, none of which waits.
    assert result.cycles == cycles(config, 3, 100, 5) == 9 * 8 + config.latency


MUTANT = {
    "family": "adder_tree", "activation": "mxfp4", "weight": "mxfp4", "accumulator": "fp32",
    "max_k": 200, "array": {"cols": 2, "depth": 8}, "pipeline": {"pe": 1},
}  # fmt: skip

MUTATIONS = [
    Mutation(
        "parts of a scale in another order", "edge_a", r"\{ i\[33:32\], parts\[5:2\] \}",
        "{ parts[3:0], i[33:32] }", MUTANT,
    ),
    Mutation(
        "a block that keeps the sum of the one before", "pe", r"first \? 14'h0000 : integer_0",
        "integer_0", MUTANT,
    ),
    Mutation("a scale that is no number", "scale_e8m0", "& i;", "1'b0;", MUTANT),
    Mutation(
        "subnormal terms", "scaled_int14_e9m256_to_fp32_0", r"amount = _\d+_ &",
        "amount = 5'h00 &", MUTANT,
    ),
]  # fmt: skip


MINIMUM = {
    "family": "adder_tree", "activation": "fp8_e5m2", "weight": "int4_g16_min",
    "accumulator": "exact", "max_k": 100, "array": {"cols": 2, "depth": 8}, "pipeline": {"pe": 1},
}  # fmt: skip

MINIMUM_MUTATIONS = [
    Mutation(
        "a sum of elements that goes on", "edge_a", r"so_far_0 = first_reg \?",
        "so_far_0 = 1'h0 ?", MINIMUM,
    ),
    Mutation(
        "a minimum that is no number", "edge_w", r"\.none\(min_none_0\)", ".none()", MINIMUM
    ),
    Mutation(
        "infinite elements beside a minimum", "pe",
        r"w_min_significand\[11\] \? a_sum_infinite\[1\] : a_sum_infinite\[0\]", "1'h0", MINIMUM,
    ),
]  # fmt: skip


FUSED = {
    "family": "cube", "activation": "fp8_e4m3", "weight": "fp8_e5m2", "accumulator": "aligned(13)",
    "max_k": 100, "array": {"rows": 1, "cols": 2, "depth": 4, "pe": "fused"},
    "pipeline": {"pe": 1},
}  # fmt: skip

FUSED_MUTATIONS = [
    Mutation("an exponent that is left out", "pe", "exponent_1_0 <= shift_1", "exponent_1_0 <= 0",
             FUSED),
    Mutation("an element that is no number", "pe", "a_nans_0 <= a_nans", "a_nans_0 <= 0", FUSED),
    Mutation("signs of one operand", "pe", r"a_elements\[13\] \^ w_elements\[13\]",
             "a_elements[13]", FUSED),
]  # fmt: skip


VALUES = ("values_random", "values_special")

CUSTOM = "name: small\nelement: int3\nblock: 24\nscale: {format: bf16, rule: absmax}\n"


def test_a_format_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    text = "name: core\nfamily: adder_tree\nweight: own/small.yaml\narray: {depth: 8}\nmax_k: 300\n"
    (tmp_path / "own" / "small.yaml").write_text(CUSTOM)
    (tmp_path / "core.yaml").write_text(text)
    config: Any = load_config(tmp_path / "core.yaml")
    assert config.weight.block == 24
    # The contents are the identity, wherever they stand.
    again = parse_config(
        text.replace(
            "own/small.yaml",
            "{name: small, element: int3, block: 24, scale: {format: bf16, rule: absmax}}",
        ),
        "other.yaml",
    )
    assert again.resolved() == config.resolved()
    assert again.digest == config.digest
    (tmp_path / "own" / "small.yaml").write_text(CUSTOM.replace("24", "48"))
    assert load_config(tmp_path / "core.yaml").digest != config.digest
    rng = np.random.default_rng(3)
    records, _ = quantise_lines(config.weight, rng.standard_normal((3, 50)))
    a = rng.integers(-128, 128, (2, 50))
    exact = a @ config.weight.decode(records, np.ones(1, np.float32)).T
    np.testing.assert_allclose(golden(config, a, records.T), exact, rtol=1e-6)


def test_rounding_to_single_precision() -> None:
    rng = np.random.default_rng(8)
    numbers = rng.integers(-(1 << 40), 1 << 40, 2000)
    exponents = rng.integers(-200, 120, 2000)
    with np.errstate(over="ignore"):
        wide = np.ldexp(numbers.astype(np.float64), exponents.astype(np.int32))
        expected = wide.astype(np.float32).view(np.uint32)
    for number, exponent, bits in zip(numbers, exponents, expected, strict=True):
        assert rounded(int(number), int(exponent)) == bits


@pytest.mark.parametrize("name", FORMATS)
def test_many_blocks(name: str) -> None:
    assert check(name, 2000) == 2000


def test_images_of_weights_round_trip() -> None:
    rng = np.random.default_rng(6)
    for values in (("mxfp4", "mxfp4", 8), ("int8", "bitmod_fp4", 64), ("nvfp4", "nvfp4", 32)):
        array = {"cols": 3, "depth": values[2]}
        config = config_of("adder_tree", values[0], values[1], "exact", array, 0)
        assert_weights_round_trip(config, rng)


def test_lanes_hold_elements_then_scale() -> None:
    # A block of 32 in four beats of eight: each has eight codes and a quarter of the scale.
    config = config_of("adder_tree", "mxfp4", "mxfp4", "exact", {"cols": 1, "depth": 8}, 0)
    fmt: Any = config.activation
    row = np.zeros((1, 32), fmt.dtype)
    row["code"] = np.arange(32) % 16
    row["scale"] = 0b11_01_00_10
    beats = Schedule(config, 1, 32, 1).pack_activations(row)[0]
    numbers = [int.from_bytes(beat.tobytes(), "little") for beat in beats]
    low, high = 0x76543210, 0xFEDCBA98
    assert numbers == [low | 0b10 << 32, high | 0b00 << 32, low | 0b01 << 32, high | 0b11 << 32]


BOTH = "activation: mxfp4\nweight: mxfp4\n"
OTHER = "element: int3, block: 32, scale: {format: fp16, rule: mean}"


# -- significands times integers -------------------------------------------------------------------

HYBRID = [
    config_of(name, activation, weight, accumulator, {**array, "pe": "hybrid"}, registers)
    for name, activation, weight, accumulator, array, registers in (
        ("cube", "fp16", "int4_g16", "exact", {"rows": 2, "cols": 2, "depth": 8}, 1),
        ("adder_tree", "int5_g16", "fp8_e5m2", "fp32", {"cols": 2, "depth": 4}, 0),
        ("broadcast_2d", "fp8_e4m3", "int4_g16_zero", "aligned(25)", {"rows": 2, "cols": 2}, 2),
        ("adder_tree", "fp16", "int8", "fp32", {"cols": 2, "depth": 4}, 2),
        ("adder_tree", "fp16", "ternary_g64", "aligned(13)", {"cols": 3, "depth": 32}, 1),
        ("cube", "fp4_e2m1", "uint8", "exact", {"rows": 2, "cols": 1, "depth": 4}, 0),
        ("adder_tree", "bf16", "q4_0", "fp32", {"cols": 2, "depth": 8}, 2),
    )
]


HYBRID_MUTANT = {
    "family": "adder_tree", "activation": "fp16", "weight": "int4_g16", "accumulator": "fp32",
    "max_k": 100, "array": {"cols": 2, "depth": 4, "pe": "hybrid"}, "pipeline": {"pe": 1},
}  # fmt: skip


def test_hybrids_have_the_results_and_cycles_of_a_mac() -> None:
    hybrid, plain = (
        config_of("adder_tree", "fp16", "int4_g16", "fp32", {"cols": 2, "depth": 8, "pe": pe}, 1)
        for pe in ("hybrid", "mac")
    )
    assert cycles(hybrid, 3, 100, 5) == cycles(plain, 3, 100, 5)
    rng, fmt = np.random.default_rng(2), cast("Any", plain.weight)
    a, w = plain.activation.random(rng, (3, 100)), fmt.sample(rng, (5, 100), "random").T
    result = run_product(design_of(hybrid), a, w).result
    np.testing.assert_array_equal(result.view(np.uint32), golden(plain, a, w).view(np.uint32))


TREE, CUBE = family("adder_tree").params_class, family("cube").params_class

HYBRID_MUTATIONS = [
    Mutation("sign of a weight dropped", "decode_int4_g16", r"assign sign = .*;",
             "assign sign = 1'b0;", HYBRID_MUTANT),
]  # fmt: skip

CONTRACT = Contract(
    "spatial_blocks",
    "adder_tree",
    regressions=(
        Regressions(COVERING, chosen=DRAWN),
        Regressions(SMALL_FLOATS, every=45),
        Regressions(LONG, long=True),
        Regressions(HYBRID[:2]),
        Regressions(HYBRID[2:], long=True),
    ),
    shipped=("mxfp4.yaml", "nvfp4.yaml", "w4a16.yaml", "bitmod.yaml"),
    shipped_every=18,
    clean=COVERING[::6],
    clean_every=8,
    mutations=(
        Mutations(TREE, VALUES, MUTATIONS),
        Mutations(TREE, VALUES, MINIMUM_MUTATIONS, long=True),
        Mutations(CUBE, VALUES, FUSED_MUTATIONS, long=True),
        Mutations(TREE, VALUES, HYBRID_MUTATIONS),
    ),
    refused=(
        ("activation: mxfp4\nweight: nvfp4", "weight: must have blocks of 32"),
        ("weight: mxfp4\narray: {depth: 12}", "array.depth: must be 1, 2, 4, 8, 16, 32 or"),
        ("weight: mxfp4\naccumulator: int32", r"accumulator: must be exact, fp32 or aligned\(n\)"),
        ("accumulator: fp32", "accumulator: must be exact or an integer with int8 x int8"),
        (
            "weight: mxfp4\naccumulator: fp32\narray: {depth: 64}",
            "array.depth: must be at most 32, a block, with accumulator fp32",
        ),
        ("weight: mxfp4\narray: {pe: carry_save}", "array.pe: must be mac with int8 x mxfp4"),
        ("weight: mxfp4\noverflow: saturate", "overflow: must be wrap"),
        ("weight: mxfp4\npost: {columns: false}", "post.columns: has no effect without post"),
        ("weight: q4_1\naccumulator: aligned(25)", "accumulator: must be exact or fp32 with int8"),
        ("activation: q4_1\nweight: q4_1", "activation: must have no minimum with weight q4_1"),
        (
            "activation: bf16\nweight: bf16",
            "weight: must be shorter than bf16 with activation bf16",
        ),
        ("weight: int4_g48", "weight: .*give it in a file of your own"),
        ("weight: nosuch.yaml", "weight: nosuch.yaml: .*"),
        ("weight: {name: small, element: int3, block: 24}", "weight: scale: missing"),
        (
            f"weight: q8_0\nactivation: {{name: q8_0, {OTHER}}}",
            "weight: must have another name than activation",
        ),
        ("weight: mxfp4\npipeline: {final_adder: 1}", "pipeline.final_adder: must be 0"),
        (
            "activation: fp16\nweight: int4_g16\naccumulator: aligned(25)\narray: {pe: fused}",
            "array.pe: must not be fused with fp16 x int4_g16: int4_g16 is not floating point",
        ),
        (
            "activation: nvfp4\nweight: nvfp4\naccumulator: aligned(25)\narray: {pe: fused}",
            "array.pe: must not be fused with nvfp4 x nvfp4: scales must be powers of two",
        ),
        (
            "activation: fp16\nweight: fp16\naccumulator: fp32\narray: {pe: fused}",
            (
                r"accumulator: must be aligned\(n\), aligned\(n, m\) or a tensor core"
                r" with array.pe fused, not fp32"
            ),
        ),
        (
            f"{BOTH}accumulator: aligned(9)\narray: {{depth: 16, pe: fused}}",
            "array.depth: must be a multiple of 32, a block of mxfp4 x mxfp4, with array.pe fused",
        ),
        ("array: {pe: fused}", "array.pe: must not be fused with int8 x int8: neither is"),
        *(
            (
                f"family: cube\nactivation: {activation}\nweight: {weight}\narray: {{pe: hybrid}}",
                f"array.pe: {why}",
            )
            for activation, weight, why in (
                (
                    "mxfp4",
                    "mxfp4",
                    "must be mac with mxfp4 x mxfp4, not hybrid: both are floating point",
                ),
                (
                    "int8",
                    "int4_g16",
                    "must be mac with int8 x int4_g16, not hybrid: none is floating",
                ),
                ("fp16", "q4_1", "must be mac with fp16 x q4_1, not hybrid: the sum of the other"),
                ("int8", "int8", "must not be hybrid with int8 x int8: neither is floating point"),
            )
        ),
    ),
)
