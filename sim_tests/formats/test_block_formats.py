# SPDX-License-Identifier: Apache-2.0
"""Block formats: elements, scales, images, files, and the commands that use them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st

from hwgen.cli import main
from hwgen.core.files.block_formats import block_format_of, read_format
from hwgen.errors import ConfigError, InputError
from hwgen.formats.block import (
    BlockFormat,
    Blocks,
    element,
    image_bytes,
    pack_blocks,
    quantise_blocks,
    unpack_blocks,
)
from hwgen.formats.block.elements import Rounding
from hwgen.formats.block.file import FormatFile, document_of
from hwgen.formats.registry import block_format, shipped

ALL = (*shipped(), "int4_g128", "int2_g16", "int8_g256_min", "int3_g48_min", "ternary_g64")
MX = tuple(name for name in shipped() if name.startswith("mx"))

# -- elements ----------------------------------------------------------------------------------

TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("name", TYPES)
def test_elements_are_those_of_ml_dtypes(name: str) -> None:
    ours, theirs = element(name), np.dtype(TYPES[name])
    codes = np.arange(1 << ours.width, dtype=np.uint8)
    np.testing.assert_array_equal(ours.decode(codes), codes.view(theirs).astype(np.float64))
    rng = np.random.default_rng(0)
    values = rng.uniform(-ours.max, ours.max, 100_000)
    values[:50_000] *= 2.0 ** rng.integers(-20, 0, 50_000)
    ties = np.convolve(ours.finite, [0.5, 0.5], "valid")
    values = np.concatenate([values, ties, ours.finite])
    rounded = values.astype(np.float32).astype(theirs).astype(np.float64)
    exact = values.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(ours.decode(ours.encode(exact)), rounded)


@pytest.mark.parametrize(
    "name", [*TYPES, "e2m0", "int2", "int4", "int8f6", "uint4", "offset4", "ternary"]
)
@pytest.mark.parametrize("rounding", ["even", "away", "up", "inward", "zero"])
def test_rounding_to_elements(name: str, rounding: Rounding) -> None:
    """Against a search over all values in exact rationals, ties and saturation included."""
    chosen = element(name)
    known = sorted({Fraction(value) for value in chosen.finite})
    middles = [(low + high) / 2 for low, high in pairwise(known)]
    near = [m + d for m in middles for d in (0, Fraction(1, 1 << 20), -Fraction(1, 1 << 20))]
    wanted = [*known, *near, *(x * 3 for x in known)]
    codes = chosen.encode(np.array([float(x) for x in wanted]), rounding)
    for x, code in zip(wanted, codes.tolist(), strict=True):
        result = Fraction(chosen.values[code])
        if not known[0] <= x <= known[-1]:
            assert result == (known[0] if x < known[0] else known[-1])
            continue
        low = max(value for value in known if value <= x)
        high = min(value for value in known if value >= x)
        assert result in (low, high)
        if rounding == "zero":
            assert abs(result) == min(abs(low), abs(high)) or low == high
            continue
        other = high if result == low else low
        assert abs(x - result) <= abs(x - other)
        if abs(x - result) == abs(x - other) and low != high:
            if rounding == "even":
                assert code % 2 == 0
            else:
                upward = {"up": True, "away": x > 0, "inward": x < 0}
                assert (result == high) == upward[rounding]


def test_what_is_no_element() -> None:
    for name in ("e6m1", "e4m4", "int1", "int9", "offset1", "int4f9", "fp4", ""):
        with pytest.raises(ValueError, match="must be e2m1"):
            element(name)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mxfp4", 14), ("mxfp6_e2m3", 18), ("mxfp6_e3m2", 24), ("mxfp8_e4m3", 42),
     ("mxfp8_e5m2", 70), ("mxint8", 20), ("nvfp4", 13)],
)  # fmt: skip
def test_bits_of_exact_dot_products(name: str, bits: int) -> None:
    assert block_format(name).dot_width() == bits


# -- quantisation --------------------------------------------------------------------------------


def matrix(rng: np.random.Generator, k: int, n: int) -> np.ndarray[Any, Any]:
    """Return weights whose rows and columns differ widely in magnitude."""
    spread = np.exp2(rng.integers(-6, 6, (k, 1)) / 2) * np.exp2(rng.integers(-20, 8, (1, n)))
    return (rng.standard_normal((k, n)) * spread).astype(np.float32)


def wanted_exponent(largest: Fraction, rule: str, fmt: BlockFormat) -> int:
    """Return the exponent of a power-of-two scale, by search."""
    binade = next(e for e in range(-200, 200) if Fraction(2) ** (e + 1) > largest)
    if rule == "rceil":
        top = Fraction(fmt.element.max)
        return next(e for e in range(-300, 300) if top * Fraction(2) ** e >= largest)
    if rule == "ceil" and largest > Fraction(2) ** binade:
        binade += 1
    return binade - fmt.element.emax


@pytest.mark.parametrize("name", MX)
@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil"])
def test_power_of_two_scales(name: str, rule: Any) -> None:
    given_format = document_of(block_format(name))
    given_format["scale"]["rule"] = rule
    fmt = FormatFile.model_validate(given_format).format()
    rng = np.random.default_rng(3)
    weights = matrix(rng, 64, 4)
    weights[:32, 0] = 0
    weights[0, 0] = fmt.element.max  # at the limits of the rules
    weights[:32, 1] = 0
    weights[0, 1] = -4.0
    blocks = quantise_blocks(weights, fmt)
    for column in range(4):
        for number in range(2):
            part = weights[32 * number : 32 * number + 32, column]
            largest = max(abs(Fraction(float(x))) for x in part)
            exponent = wanted_exponent(largest, rule, fmt)
            assert blocks.scales[column, number] == exponent + 127
            check_nearest(part, blocks, column, number, Fraction(2) ** exponent)


def check_nearest(
    part: np.ndarray[Any, Any], blocks: Blocks, column: int, number: int, scale: Fraction
) -> None:
    """Check that no element is nearer to a number than its own, in exact rationals."""
    chosen = 0 if blocks.chosen is None else int(blocks.chosen[column, number])
    values = blocks.format.elements_of(chosen).values
    known = [Fraction(value) for value in values if math.isfinite(value)]
    for x, code in zip(part.tolist(), blocks.codes[column, number].tolist(), strict=True):
        error = abs(Fraction(x) - Fraction(values[code]) * scale)
        assert error == min(abs(Fraction(x) - value * scale) for value in known)


@pytest.mark.parametrize("name", ["int4_g128", "int2_g16", "nvint4", "nvfp4", "bitmod_fp3"])
def test_other_scales(name: str) -> None:
    fmt = block_format(name)
    rng = np.random.default_rng(4)
    weights = matrix(rng, 2 * fmt.block, 3)
    blocks = quantise_blocks(weights, fmt)
    second = blocks.second if len(blocks.second) > 1 else np.repeat(blocks.second, 3)
    for column in range(3):
        for number in range(2):
            part = weights[fmt.block * number : fmt.block * (number + 1), column]
            kept = fmt.scale.decode(blocks.scales[column : column + 1, number])[0]
            chosen = 0 if blocks.chosen is None else int(blocks.chosen[column, number])
            top = fmt.elements_of(chosen).max
            wanted = np.abs(part).max() / float(second[column]) / top
            assert abs(kept - wanted) <= max(wanted * 2**-4, 0.5 * (fmt.scale.name == "uint8"))
            # Division by the second scale rounds; all else is exact.
            scaled = (part.astype(np.float64) / float(second[column])).astype(np.float64)
            if kept:
                check_nearest(scaled, blocks, column, number, Fraction(float(kept)))


def test_special_numbers_are_the_best_of_all() -> None:
    fmt = block_format("bitmod_fp4")
    weights = matrix(np.random.default_rng(5), 256, 4)
    blocks = quantise_blocks(weights, fmt)
    assert blocks.chosen is not None
    assert len(np.unique(blocks.chosen)) > 1
    exact = weights.astype(np.float64) / blocks.second.astype(np.float64)
    for column in range(4):
        for number in range(2):
            part = exact[128 * number : 128 * number + 128, column]
            errors: list[float] = []
            for special in range(4):
                chosen = fmt.elements_of(special)
                scale = float(np.clip(np.round(np.abs(part).max() / chosen.max), 0, 255))
                quotient = part / scale if scale else np.zeros_like(part)
                values = chosen.decode(chosen.encode(np.clip(quotient, -16, 16))) * scale
                errors.append(float(np.square(values - part).sum()))
            assert errors[int(blocks.chosen[column, number])] == pytest.approx(min(errors))


def check_many(name: str, blocks_of: int, rng: np.random.Generator) -> None:
    """Compare with a search over all elements, many blocks at once."""
    fmt = block_format(name)
    weights = matrix(rng, blocks_of * fmt.block, 20)
    blocks = quantise_blocks(weights, fmt)
    exact = weights.astype(np.float64) / blocks.second.astype(np.float64)
    parts = exact.T.reshape(20, -1, fmt.block)
    if blocks.minima is not None and fmt.minimum:
        parts = parts - fmt.minimum.to_float64(blocks.minima)[..., None]
    scale = fmt.scale.decode(blocks.scales)[..., None]
    tables = [fmt.elements_of(i).finite for i in range(len(fmt.special))] or [fmt.element.finite]
    best = np.full(parts.shape, np.inf)
    for number, table in enumerate(tables):
        here = np.full(parts.shape, np.inf)
        for value in table:
            np.minimum(here, np.abs(parts - value * scale), out=here)
        mine = True if blocks.chosen is None else (blocks.chosen == number)[..., None]
        best = np.where(mine, here, best)
    columns = np.array(tables)
    chosen = 0 if blocks.chosen is None else blocks.chosen[..., None]
    assert columns.shape[1] <= 256
    values = np.array([fmt.elements_of(i).values for i in range(len(tables))])[chosen, blocks.codes]
    error = np.abs(parts - values * scale)
    # Quotients are rounded to double precision before they are compared.
    np.testing.assert_allclose(error, best, rtol=1e-9, atol=1e-14 * float(np.abs(parts).max()))


SEARCHED = tuple(name for name in ALL if not name.startswith("q"))


@pytest.mark.parametrize("name", SEARCHED)
def test_many_blocks_are_nearest(name: str) -> None:
    check_many(name, 40, np.random.default_rng(6))


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_million_blocks_are_nearest(name: str) -> None:
    for seed in range(100):
        check_many(name, 500, np.random.default_rng([11, seed]))


# -- corners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MX)
def test_corners_of_mx(name: str) -> None:
    fmt = block_format(name)
    weights = np.zeros((32, 8), np.float64)
    weights[3, 0] = math.nan
    weights[:, 1] = math.inf
    weights[5, 2] = 2.0**-149  # scales end at 2**-127
    weights[5, 3] = 3.0e38
    weights[:, 4] = -1.0
    weights[0, 5] = -fmt.element.max * 1.5  # saturates, or moves up
    weights[:, 6] = 2.0**-126
    blocks = quantise_blocks(weights, fmt)
    values = blocks.decode()
    assert np.isnan(values[:, :2]).all()
    assert (blocks.scales[:2] == 0xFF).all()
    assert blocks.scales[2, 0] == 0
    assert not values[:, 2].any()
    assert np.isfinite(values[:, 2:]).all()
    assert values[5, 3] == pytest.approx(3.0e38, rel=0.35)
    assert (values[:, 4] == -1.0).all()
    assert values[0, 5] <= -fmt.element.max
    assert (values[:, 6] == 2.0**-126).all()
    assert not values[:, 7].any()
    assert not blocks.codes[7].any()


def test_a_scale_too_large_for_its_format_is_nan() -> None:
    weights = np.full((32, 1), 1e300)
    assert np.isnan(quantise_blocks(weights, block_format("mxfp4")).decode()).all()


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (math.nan, "q8_0", r"\[34,1\] = nan is no number, which q8_0 cannot hold"),
        (-math.inf, "nvfp4", r"\[34,1\] = -inf is no number"),
        (1e12, "int4_g32", r"\[34,1\] = 1000000000000.0 needs a scale beyond fp16"),
        (-1e6, "q4_1", r"\[34,1\] = -1000000.0 is beyond the minima of fp16"),
    ],
)
def test_what_a_format_cannot_hold_is_named(value: float, name: str, message: str) -> None:
    weights = np.zeros((64, 3))
    weights[34, 1] = value
    with pytest.raises(InputError, match=message):
        quantise_blocks(weights, block_format(name))


def test_a_last_block_is_filled_or_refused() -> None:
    fmt, weights = block_format("mxint8"), np.ones((33, 2), np.float32)
    blocks = quantise_blocks(weights, fmt)
    assert blocks.codes.shape == (2, 2, 32)
    assert not blocks.codes[:, 1, 1:].any()
    np.testing.assert_array_equal(blocks.decode(), weights)
    with pytest.raises(InputError, match="K is 33, no multiple of the 32"):
        quantise_blocks(weights, fmt, strict=True)


# -- images --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.sampled_from(ALL), st.integers(1, 300), st.integers(1, 5), st.integers(0, 1 << 30))
def test_images_and_numbers_are_the_same(name: str, k: int, n: int, seed: int) -> None:
    fmt = block_format(name)
    k = -(-k // (fmt.block * fmt.together)) * fmt.block * fmt.together if fmt.together > 1 else k
    blocks = quantise_blocks(matrix(np.random.default_rng(seed), k, n), fmt)
    image = pack_blocks(blocks)
    assert len(image) == image_bytes(fmt, (k, n))
    again = unpack_blocks(image, fmt, (k, n), blocks.second)
    np.testing.assert_array_equal(again.decode(), blocks.decode())
    assert pack_blocks(again) == image
    with pytest.raises(InputError, match="bytes, this one"):
        unpack_blocks(image + b"\0", fmt, (k, n))


def halves(distance: int) -> np.ndarray:
    """Return numbers at halves, or the next ones below or above, and zeros of both signs."""
    rng = np.random.default_rng(4)
    weights = rng.integers(-16, 17, (1024, 16)).astype(np.float32) / 2
    weights *= np.float32(2.0) ** rng.integers(-10, 5, (1, 16)).astype(np.float32)
    if distance:
        weights = np.nextafter(weights, np.float32(distance * 1e9))
    weights[:64] = 0
    weights[64:96] = -0.0
    return weights


GGUF_MXFP4 = FormatFile.model_validate(
    {**document_of(block_format("mxfp4")), "name": "ours", "rounding": "inward"}
).format()


@pytest.mark.parametrize(
    ("name", "distance"),
    # The package's logarithm in single precision rounds numbers just below a power of two up to it.
    [("mxfp4", 0), *product(("q8_0", "q4_0", "q4_1"), (0, -1, 1))],
)
def test_halves_and_zeros_are_those_of_gguf(name: str, distance: int) -> None:
    weights = halves(distance)
    fmt = GGUF_MXFP4 if name == "mxfp4" else block_format(name)
    image = np.frombuffer(pack_blocks(quantise_blocks(weights, fmt)), np.uint8).reshape(16, -1)
    wanted = quants.quantize(np.ascontiguousarray(weights.T), GGMLQuantizationType[name.upper()])
    np.testing.assert_array_equal(image, wanted)


@pytest.mark.parametrize("name", ["e2m1", "int8f6"])
def test_elements_that_are_no_integers_are_rounded_to_the_nearest(name: str) -> None:
    """Not to integers, where quotients are products with the reciprocal."""
    fmt = FormatFile.model_validate(
        {
            "name": "ours", "element": name, "block": 4, "rounding": "up", "reciprocal": True,
            "scale": {"format": "fp32", "rule": "absmax"},
        }
    ).format()  # fmt: skip
    chosen = element(name)
    weights = np.array([[x, 0, -x, chosen.max] for x in chosen.finite if x > 0], np.float32).T
    np.testing.assert_array_equal(quantise_blocks(weights, fmt).decode(), weights)


@pytest.mark.parametrize("name", ["q8_0", "q4_0", "q4_1", "mxfp4"])
def test_images_are_those_of_gguf(name: str) -> None:
    fmt, kind = block_format(name), GGMLQuantizationType[name.upper()]
    weights = matrix(np.random.default_rng(7), 4096, 16)
    blocks = quantise_blocks(weights, fmt)
    image = np.frombuffer(pack_blocks(blocks), np.uint8).reshape(16, -1)
    np.testing.assert_array_equal(image, quants.quantize(np.ascontiguousarray(weights.T), kind))
    values = quants.dequantize(image, kind)
    np.testing.assert_array_equal(values, blocks.decode().T.astype(np.float32))


def test_nvfp4_reads_as_in_gguf() -> None:
    blocks = quantise_blocks(matrix(np.random.default_rng(8), 1024, 4), block_format("nvfp4"))
    image = np.frombuffer(pack_blocks(blocks), np.uint8).reshape(4, -1)
    values = quants.dequantize(image, GGMLQuantizationType.NVFP4)
    np.testing.assert_array_equal(values * blocks.second, blocks.decode().T.astype(np.float32))


def test_blocks_that_are_packed_together() -> None:
    blocks = quantise_blocks(np.ones((48, 1)), block_format("nvfp4"))
    with pytest.raises(InputError, match="K must be a multiple of 64"):
        pack_blocks(blocks)


# -- files ---------------------------------------------------------------------------------------

MINE = "name: mine\nelement: int3\nblock: 20\nscale: {format: bf16, rule: absmax}\n"


@pytest.mark.parametrize("name", ALL)
def test_formats_are_their_documents(name: str) -> None:
    fmt = block_format(name)
    assert FormatFile.model_validate(document_of(fmt)).format() == fmt
    assert fmt.name == name


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    fmt = block_format_of(str(tmp_path / "mine.yaml"))
    assert fmt.bits_per_value == 3 + 16 / 20
    weights = matrix(np.random.default_rng(9), 50, 3)
    assert quantise_blocks(weights, fmt).codes.shape == (3, 3, 20)


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("int3", "int33", "2:1: element", "must be e2m1"),
        ("20", "0", "3:1: block", "must be 1..4096"),
        ("rule: absmax", "rule: floor", "4:23: scale.rule", "must be one of absmax"),
        ("format: bf16", "format: e8m0", "4:23: scale.rule", "must be one of floor"),
        ("format: bf16", "format: uint8", "4:", "scale.second"),
        ("rule: absmax", "rule: absmax, second: tensor", "4:", "belongs to scales of the formats"),
        ("rule: absmax", "rule: range", "", "minimum"),
        ("block: 20", "block: 20\nminimum: fp16", "4:1: minimum", "belongs to scales of the rule"),
        ("block: 20", "block: 20\nnan: block", "4:1: nan", "must be refuse"),
        ("block: 20", "block: 20\nspecial: {code: 8, values: [1, 2]}", "4:", "must be below 8"),
        ("block: 20", "block: 20\npacking: {halves: true}", "4:", "needs elements of 4 bits"),
        ("block: 20", "block: 20\nblok: 3", "4:1: blok", "unknown key"),
    ],
)
def test_a_file_that_is_no_format(
    old: str, new: str, where: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.replace(old, new))
    with pytest.raises(ConfigError) as error:
        read_format(path)
    assert f"{path}:{where}" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["mxfp5", "int4_g8", "int9_g32", "ternary_g64_min", "int4", ""])
def test_a_format_that_is_not_there(name: str) -> None:
    with pytest.raises(InputError, match="no block format is called"):
        block_format(name)


# -- commands ------------------------------------------------------------------------------------


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    array = matrix(np.random.default_rng(10), 128, 6)
    np.save("w.npy", array)
    return array


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4", "q4_1", "bitmod_fp3", "mine.yaml"])
def test_pack_and_unpack(name: str, weights: Any, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(MINE)
    assert main(["pack", "--format", name, "--weights", "w.npy", "--output", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    Path("mine.yaml").unlink()  # the description holds the format
    assert main(["unpack", "--input", "out/w.json", "--output", "back.npy"]) == 0
    back = np.load("back.npy")
    assert back.shape == weights.shape
    relative = np.linalg.norm(back - weights) / np.linalg.norm(weights)
    assert relative == pytest.approx(told["error"]["relative_rms"])
    assert told["bytes"] == Path("out/w.bin").stat().st_size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weights", "w.npy"], "give either --config, for a core's weights, or --format"),
        (["--format", "mxfp5", "--weights", "w.npy"], "did you mean 'mxfp4'"),
        (["--format", "mxfp4", "--weights", "w.npy", "--per-column"], "go with --config"),
        (["--format", "int4_g48", "--strict", "--weights", "w.npy"], "K is 128, no multiple"),
        (["--format", "mxfp4", "--weights", "nan.npy"], "must be a matrix"),
        (["--format", "q8_0", "--weights", "bad.npy"], "bad.npy: [1,0] = nan is no number"),
    ],
)
def test_what_cannot_be_packed(
    arguments: list[str], message: str, weights: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("nan.npy", np.zeros(3))
    np.save("bad.npy", np.array([[0.0], [math.nan]]))
    assert main(["pack", *arguments, "--output", "out"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def _edited(change: Callable[[dict[str, Any]], object]) -> None:
    path = Path("out/w.json")
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "this hwgen reads version 1"),
        (lambda d: d.update(k=0), "k must be an integer"),
        (lambda d: d.update(n=7), "numbers of bitmod_fp3 has"),
        (lambda d: d.update(sha256="0"), "SHA-256 differs"),
        (lambda d: d["block_format"].update(block="x"), "block_format.block"),
        (lambda d: d.update(block_format=None), "block_format"),
        (lambda d: d.update(second_scales=[1.0]), "must be a list of 6 numbers"),
        (lambda d: d.update(second_scales=[[]] * 6), "must be numbers"),
        (lambda d: d.update(format="x"), "describes weights of a core: give its --config"),
    ],
)
def test_descriptions_that_do_not_fit(
    change: Callable[[dict[str, Any]], object],
    message: str,
    weights: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["pack", "--format", "bitmod_fp3", "--weights", "w.npy", "--output", "out"])
    if "numbers of bitmod" in message:
        _edited(lambda d: d.update(second_scales=[1.0] * 7))
    _edited(change)
    assert main(["unpack", "--input", "out/w.json", "--output", "back.npy"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("back.npy").exists()


def test_the_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == list(shipped())
    assert main(["formats", "int4_g128_min", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["bits_per_weight"] == 4.25
    assert one["minimum"] == "fp16"
    assert main(["formats"]) == 0
    assert "mxfp6_e2m3" in capsys.readouterr().out
