# SPDX-License-Identifier: Apache-2.0
"""Ternary-LUT cores whose floating-point activations are aligned: blocks, golden model, RTL."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Member

from flows.simulation.operands import PATTERNS, draw_matrices
from flows.simulation.run import run_product
from hwgen.arithmetic.alignment import aligned, exponents, largest_exponent
from hwgen.families.ternary_lut.alignment import exact_fraction_bits, rounded_additions
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.formats import FloatFormat, IntegerFormat, differences, floating
from rtl_templates.arithmetic.float.align import Align, LargestExponent
from rtl_templates.arithmetic.float.from_scaled import ScaledToFloat
from rtl_templates.hdl.hierarchy import Block, place
from sim_tests.contract.contract import Contract, Covering, Mutations, Regressions
from sim_tests.families.test_ternary_lut_float import core
from sim_tests.support.blocks import run_block
from sim_tests.support.cores import cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.floats import corners
from sim_tests.support.mutations import Mutation

AXES: dict[str, list[Any]] = {
    "formats": [
        ("fp16", "fp32"),
        ("fp16", "fp16"),
        ("bf16", "fp32"),
        ("bf16", "bf16"),
        ("fp8_e4m3", "fp8_e4m3"),
        ("fp8_e5m2", "fp32"),
    ],
    "alignment": ["auto_bits", "exact", "most"],
    "reduce": [0, 1, 2, 3, 4],
    "accumulate": [0, 1, 2],
    "method": [("lut", 2), ("select", 1), ("lut", 1), ("lut", 3), ("lut", 4)],
    "tables": [1, 2, 3, 5],
    "depth": [1, 2, 8],
    "table": [1, 2, 3, 4],
    "fetch_ports": [1, 2],
    "reduction": ["compressors", "adders"],
}
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


def configuration(name: str, values: dict[str, Any]) -> TernaryLutConfig:
    fmt = floating(values["formats"][0])
    exact = exact_fraction_bits(fmt)
    if exact > 40:  # bf16
        exact = 40
        alignment: dict[str, Any] = {"alignment": "beat", "fraction_bits": exact}
    else:
        alignment = {"alignment": "exact"}
    alignment = {
        "auto_bits": {"alignment": "beat"},
        "exact": alignment,
        "most": {"alignment": "beat", "fraction_bits": exact},
        "fewest": {"alignment": "beat", "fraction_bits": fmt.mantissa_bits},
    }[values["alignment"]]
    return core(name, values, reduction=values.get("reduction", "compressors"), **alignment)


COVERING = Covering("aligned", AXES, configuration, every=144)

LARGE = [
    configuration(
        f"large_{fmt}_{mu}",
        {"formats": (fmt, "fp32"), "alignment": bits, "method": ("lut", mu), "tables": 2},
    )
    for fmt, mu, bits in (("fp16", 5, "fewest"), ("fp8_e5m2", 6, "auto_bits"))
]


def sized(activation: str = "fp16", **fields: Any) -> TernaryLutConfig:
    array = {"group_size": 2, "tables": 3, "fetch_ports": 2, "alignment": "beat"}
    array |= fields.pop("array", {})
    return TernaryLutConfig.model_validate(
        {"name": "sized", "activation": activation, "array": array, **fields}
    )


# -- golden model ----------------------------------------------------------------------------------


def exact_value(fmt: FloatFormat, bits: int) -> Fraction:
    return Fraction(float(fmt.to_float64(np.array([bits], fmt.bits_dtype))[0]))


def rounded_fraction(value: Fraction) -> int:
    """Return the nearest integer, away from zero if there are two."""
    magnitude = int(2 * abs(value) + 1) // 2
    return magnitude if value >= 0 else -magnitude


def nearest(fmt: FloatFormat, value: Fraction) -> int:
    """Return the bits of the number nearest to a rational one, ties to even."""
    if not value:
        return 0
    magnitude = abs(value)
    exponent = 1 - fmt.bias
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - fmt.mantissa_bits)
    count = round(magnitude / unit)  # ties to even
    bits = min(count + (exponent + fmt.bias - 1 << fmt.mantissa_bits), fmt.overflow)
    if bits == fmt.nan:
        return int(bits)
    return int(bits | (fmt.sign_mask if value < 0 else 0))


def reference(config: TernaryLutConfig, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return C by rational numbers, one element after the other."""
    fmt, result, fraction_bits = config.activation, config.result, config.array.fraction_bits
    assert isinstance(fraction_bits, int)
    bits = fmt.encode(a)
    c = np.zeros((a.shape[0], w.shape[1]), result.bits_dtype)
    for m, n in np.ndindex(c.shape):
        total = result.decode(np.zeros(1, result.bits_dtype))[0]
        for k in range(0, a.shape[1], config.terms):
            beat = [int(b) for b in bits[m, k : k + config.terms]]
            weights = w[k : k + config.terms, n].tolist()
            if not np.isfinite(fmt.to_float64(bits[m, k : k + config.terms])).all():
                total = result.dtype.type(np.nan)
                continue
            top = max([(b & fmt.magnitude_mask) >> fmt.mantissa_bits for b in beat] + [1])
            if config.array.alignment == "exact":
                top = largest_exponent(fmt)
            unit = Fraction(2) ** (top - fmt.bias - fraction_bits)
            psum = sum(
                weight * rounded_fraction(exact_value(fmt, b) / unit)
                for b, weight in zip(beat, weights, strict=True)
            )
            addend = np.array([nearest(result, psum * unit)], result.bits_dtype)
            with np.errstate(all="ignore"):
                total = total + result.decode(addend)[0]
        c[m, n] = result.encode(np.array([total]))[0]
    return np.asarray(result.decode(c))


@pytest.mark.parametrize("config", [*COVERING.configs, *LARGE], ids=lambda config: config.name)
def test_golden_is_the_contract(config: TernaryLutConfig) -> None:
    rng = np.random.default_rng(3)
    size = (3, 2 * config.terms + 1, 3)
    for kind in PATTERNS:
        a, w = draw_matrices(config, size, kind, rng)
        result, expected = golden(config, a, w), reference(config, a, w)
        assert result.dtype == config.result.dtype
        wrong = differences(result, expected)
        assert not len(wrong), (kind, wrong[0], result[tuple(wrong[0])], expected[tuple(wrong[0])])


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("seed", range(2))
def test_error_is_within_the_bound(name: str, seed: int) -> None:
    """Of a beat: within the stated bound, which is no larger than that of rounded additions."""
    rng = np.random.default_rng(seed)
    for mu, tables in ((1, 32), (2, 16), (3, 11), (4, 8), (1, 2), (5, 1)):
        config = sized(name, array={"group_size": mu, "tables": tables})
        bits = config.array.fraction_bits
        assert isinstance(bits, int)
        fmt, n = config.activation, config.terms
        # Widely spread, all just beside a half of the last place, and any.
        x = rng.standard_normal((64, n)) * 2.0 ** rng.integers(-6, 4, (64, n))
        top = 2.0 ** min(4, fmt.bias - 2)
        x[0] = top * 2.0 ** -(bits + 1) * (1 + 2.0**-fmt.mantissa_bits)
        x[0, 0] = top
        a = fmt.decode(fmt.round(x))
        w = rng.integers(-1, 2, (n, 32), np.int8)
        w[:, 0] = 1
        wide = fmt.to_float64(fmt.encode(a))
        error = np.abs(golden(config, a, w).astype(np.float64) - wide @ w)
        size = np.abs(wide).sum(axis=1, keepdims=True)
        bound = (n - 1) * 2.0 ** -(bits + 1)
        if (n * ((2 << bits) - 1)).bit_length() > config.result.precision:
            bound += 2.0**-config.result.precision
        chain = rounded_additions(mu, tables) * 2.0**-fmt.precision
        assert bound <= chain
        assert (error <= bound * size).all()


def test_exact_alignment_rounds_a_beat_once() -> None:
    config = sized(array={"alignment": "exact", "group_size": 1, "tables": 4})
    a = np.array([[65504, 2**-24, 2**-24, -65504]], np.float16)
    assert golden(config, a, np.ones((4, 1), np.int8)) == np.float32(2**-23)
    beat = sized(array={"group_size": 1, "tables": 4})
    assert golden(beat, a, np.ones((4, 1), np.int8)) == 0


def test_infinities_and_nans_make_a_row_nan() -> None:
    config = sized(array={"group_size": 1, "tables": 2})
    w = np.array([[1, 0, -1], [0, 1, 1]], np.int8)
    for value in (np.inf, -np.inf, np.nan):
        a = np.array([[1, 2], [1, value], [2, 2]], np.float16)
        result = golden(config, a, w)
        assert np.isnan(result).tolist() == [[False] * 3, [True] * 3, [False] * 3]


# -- blocks ----------------------------------------------------------------------------------------


def patterns(fmt: FloatFormat, count: int) -> np.ndarray:
    """Return finite bit patterns: all of a narrow format, else corners and random ones."""
    if fmt.width == 8:
        bits = np.arange(256).astype(fmt.bits_dtype)
    else:
        rng = np.random.default_rng(0)
        drawn = rng.integers(0, 1 << fmt.width, count).astype(fmt.bits_dtype)
        bits = np.concatenate([corners(fmt), drawn])
    return bits[np.isfinite(fmt.to_float64(bits))]


@pytest.mark.parametrize(
    ("name", "fraction_bits"),
    [("fp8_e4m3", 6), ("fp8_e5m2", 14), ("fp8_e4m3", 14), ("fp8_e5m2", 6)],
)
def test_align(name: str, fraction_bits: int, tmp_path: Path) -> None:
    """Every number by every exponent that is large enough."""
    fmt = floating(name)
    bits, exponent = (
        each.ravel() for each in np.meshgrid(patterns(fmt, 0), np.arange(largest_exponent(fmt) + 1))
    )
    legal = exponent >= exponents(fmt, bits)
    bits, exponent = bits[legal], exponent[legal]
    block = Bytes(Align(fmt, fraction_bits))
    result = run_block(block, {"i": bits, "exponent": exponent.astype(np.uint8)}, tmp_path)["o"]
    signed = result.view(f"i{result.itemsize}").astype(np.int64)
    assert np.array_equal(signed, aligned(fmt, bits, exponent, fraction_bits))


class Bytes(Block):
    """A block whose ports are 8, 16, 32 or 64 bits wide, as arrays are; outputs are extended."""

    def __init__(self, block: Block) -> None:
        self.block = block
        members = {}
        for name, member in block.ports.items():
            width = 1 if name == "run" else max(8, 1 << (block.width(name) - 1).bit_length())
            members[name] = Member(member.flow, width)
        super().__init__("bytes", members)

    def build(self, m: Module) -> None:
        ports = {}
        for name, member in self.block.ports.items():
            port = getattr(self, name)
            ports[name] = port[: self.block.width(name)]
            if member.flow != In:
                ports[name] = Signal(member.shape, name=f"{name}_narrow")
                m.d.comb += port.eq(ports[name])
        place(m, "inside", self.block, **ports)


@pytest.mark.parametrize(
    ("width", "exponent_bits", "offset", "target", "stages", "far"),
    [
        (16, 8, -140, "fp32", 0, False),
        (32, 8, -160, "fp32", 2, False),
        (16, 8, -16, "fp16", 1, False),
        (16, 8, -6, "fp8_e4m3", 0, False),
        (32, 8, -155, "bf16", 1, False),
        (16, 8, -300, "fp32", 1, True),  # far below all normal numbers, too
        (16, 8, -100, "fp16", 0, True),
    ],
)
@pytest.mark.rotate(6)
def test_scaled_to_float(
    width: int,
    exponent_bits: int,
    offset: int,
    target: str,
    stages: int,
    far: bool,
    tmp_path: Path,
) -> None:
    """Random integers of every length and corners, by all kinds of exponents."""
    fmt, source = floating(target), IntegerFormat(width, True)
    lowest = 0 if far else max(0, 1 - (width - 1 + offset + fmt.bias))
    rng = np.random.default_rng(1)
    corner = [0, 1, -1, source.max, source.min, source.min + 1]
    lengths = rng.integers(1, width, 20_000)
    values = rng.integers(0, 1 << 62, 20_000) % (1 << lengths)
    values = np.where(rng.random(20_000) < 0.5, values, -values)
    values = np.concatenate([np.repeat(corner, 1 << exponent_bits), values])
    exponent = np.concatenate(
        [np.tile(np.arange(256), len(corner)), rng.integers(0, 256, 20_000)]
    ).clip(lowest, None)
    special = rng.random(len(values)) < 0.02
    expected = fmt.round(np.ldexp(values.astype(np.float64), (exponent + offset).astype(np.int32)))
    expected = np.where(special, fmt.bits_dtype.type(fmt.nan), expected)
    block = ScaledToFloat(source, range(lowest, 256), offset, fmt, stages, enabled=stages > 0)
    inputs = {
        "i": values.astype(f"i{width // 8}").view(f"u{width // 8}"),
        "exponent": exponent.astype(np.uint8),
        "special": special.astype(np.uint8),
    }
    result = run_block(Bytes(block), inputs, tmp_path, latency=stages, stalls=stages, lanes=8)["o"]
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("name", ["fp16", "fp8_e4m3"])
def test_largest_exponent(name: str, tmp_path: Path) -> None:
    fmt, lanes = floating(name), 8 // (floating(name).width // 8)
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 1 << fmt.width, (4000, lanes)).astype(fmt.bits_dtype)
    bits &= fmt.bits_dtype.type(fmt.sign_mask) | rng.integers(0, 1 << fmt.width, (4000, 1)).astype(
        fmt.bits_dtype
    )
    bits[0], bits[1] = 0, fmt.sign_mask
    bits[2], bits[3] = fmt.nan, fmt.overflow | fmt.sign_mask
    block = Bytes(LargestExponent(fmt, lanes))
    result = run_block(block, {"i": np.ascontiguousarray(bits).view(np.uint64).ravel()}, tmp_path)
    finite = np.isfinite(fmt.to_float64(bits)).all(axis=1)
    assert np.array_equal(result["special"] == 0, finite)
    assert np.array_equal(result["exponent"][finite], exponents(fmt, bits).max(axis=1)[finite])


def test_what_cannot_be_converted_or_aligned() -> None:
    with pytest.raises(ValueError, match=r"stages must be 0\.\.2, not 3"):
        ScaledToFloat(IntegerFormat(8, True), range(1), 0, floating("fp32"), 3)
    with pytest.raises(ValueError, match="fraction_bits must be 10 or more of fp16, not 9"):
        Align(floating("fp16"), 9)


# -- RTL -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_extreme_exponents() -> None:
    """Subnormals, largest numbers and ties through the hardware, beat by beat."""
    config = sized(accumulator="fp16", array={"tables": 2, "fetch_ports": 3})
    fmt = config.activation
    rng = np.random.default_rng(7)
    # Rows of one exponent each, then of any two far apart.
    exponent = np.concatenate([np.arange(31), rng.integers(0, 31, 97)])
    field = np.where(rng.random((128, 16)) < 0.5, exponent[:, None], rng.integers(0, 31, (128, 1)))
    field[:31] = exponent[:31, None]
    mantissa = rng.choice([0, 1, 0x200, 0x3FF, 0x155], (128, 16))
    sign = rng.integers(0, 2, (128, 16)) << 15
    a = fmt.decode((field << 10 | mantissa | sign).astype(np.uint16))
    w = rng.integers(-1, 2, (16, 5), np.int8)
    result = run_product(design_of(config), a, w)
    assert not len(differences(result.result, golden(config, a, w)))
    assert result.cycles == cycles(config, 128, 16, 5)


def test_no_floating_point_adder_but_the_accumulators() -> None:
    text = design_of(sized(array={"group_size": 3})).verilog
    result = re.findall(r"^ *(?:module )?(sized_add_\w+) ?\w*\b", text, re.M)
    assert result == ["sized_add_fp32_0"] * 2  # the module, and one in the column


# -- mutations -------------------------------------------------------------------------------------

SMALL = {
    "activation": "fp8_e5m2",
    "accumulator": "fp8_e5m2",
    "array": {
        "group_size": 2,
        "tables": 3,
        "fetch_ports": 2,
        "accumulator_depth": 4,
        "alignment": "beat",
    },
    "pipeline": {"table": 3, "reduce": 2},
}


MUTATIONS = [
    Mutation("rounded down", "align_fp8_e5m2_4", r"assign up = .*;", "assign up = i[7];", SMALL),
    Mutation("exponent a beat early", "alignment", r"exponent <= exponent_aligned;",
             "exponent <= exponent_largest;", SMALL),
    Mutation("NaN lost", "column", r"\.special\(special\)", ".special(1'h0)", SMALL),
    Mutation("some exponents not looked at", "largest_exponent_fp8_e5m2_6",
             r"max_2_0 = _\d+_ \? max_0_2 : ", "max_2_0 = ", SMALL),
]  # fmt: skip


# -- bad input -------------------------------------------------------------------------------------


CONTRACT = Contract(
    "aligned",
    "ternary_lut",
    covering=COVERING,
    regressions=(Regressions(LARGE, every=6),),
    clean=COVERING.configs[::7],
    clean_every=8,
    mutations=(
        Mutations(
            TernaryLutConfig,
            ("shapes_0", "shapes_7", "values_random", "values_special", "stalls_4"),
            MUTATIONS,
        ),
    ),
    refused=(
        ("array: {alignment: beat}", r"array\.alignment: must be none with activation int8, not b"),
        (
            "activation: bf16\narray: {alignment: exact}",
            r"must be none or beat with activation bf16, not exact; .* integers of 262 bits",
        ),
        (
            "activation: fp16\narray: {alignment: beat, fraction_bits: 9}",
            r"array\.fraction_bits: must be 10 to 39 with activation fp16, not 9: fewer would",
        ),
        (
            "activation: fp16\narray: {fraction_bits: 12, alignment: none}",
            r"array\.fraction_bits: must be auto without alignment, not 12; only",
        ),
        (
            "activation: fp16\narray: {fraction_bits: 12, method: multiply, group_size: 1}",
            r"array\.fraction_bits: must be auto without alignment, not 12; only",
        ),
        (
            "activation: fp16\narray: {alignment: exact, fraction_bits: 12}",
            r"array\.fraction_bits: must be auto with alignment exact, not 12; the format decides",
        ),
        (
            "activation: fp16\narray: {alignment: beat, method: multiply, group_size: 1}",
            r"array\.alignment: must be none with method multiply, not beat",
        ),
        (
            "array: {alignment: row}",
            r"array\.alignment: must be auto, none, beat or exact, not 'row'",
        ),
        (
            "activation: fp16\narray: {alignment: beat, fraction_bits: many}",
            r"array\.fraction_bits: ",
        ),
    ),
)
