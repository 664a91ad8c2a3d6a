# SPDX-License-Identifier: Apache-2.0
"""Post-processing: settings, records and golden model against exact arithmetic, RTL against it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.files import LINT_WAIVERS
from flows.simulation.verilator.verilator import lint
from hwgen.arithmetic.float_arithmetic import convert, from_integers
from hwgen.core.golden.post import apply
from hwgen.core.post import (
    ACTIVATIONS,
    FLOATS,
    INTEGERS,
    OUTPUTS,
    REGISTERS,
    ROUNDINGS,
    SINGLE,
    Columns,
    PostFeatures,
    PostSettings,
    registers_of,
)
from hwgen.errors import InputError
from hwgen.formats import floating, integer
from hwgen.formats.scale import multiplier_and_shift
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat
from rtl_templates.arithmetic.float.narrow import FloatNarrow
from rtl_templates.post import Post
from sim_tests.support.blocks import TOP, block_verilog, run_block
from sim_tests.support.floats import corners, random_pairs
from sim_tests.support.mutations import mutated
from sim_tests.support.post_blocks import assert_full_rate, run_post
from sim_tests.support.post_vectors import Vectors, accumulators, coverage, exact, vectors
from sim_tests.support.selection import commit_seed
from sim_tests.support.single_vectors import single_vectors
from sim_tests.support.stream_blocks import PREFIX, run_stream, stream_verilog

Record = Callable[[str, object], None]
ALL = (OUTPUTS, ACTIVATIONS, ROUNDINGS)


def features(accumulator: str, *arguments: Any, **options: Any) -> PostFeatures:
    fmt = SINGLE if accumulator == "fp32" else integer(accumulator)
    return PostFeatures(fmt, *arguments, **options)


# -- scales ---------------------------------------------------------------------------------------


def test_multipliers() -> None:
    rng = np.random.default_rng(0)
    scales = rng.standard_normal(20_000) * 2.0 ** rng.integers(-80, 29, 20_000)
    edges = [1.0, 2.0**31 - 1, 1 - 2.0**-40, 2.0**-32, 2.0**-33, 2.0**-63, 2.0**-64, 2.0**-65, 0.0]
    scales = np.concatenate([scales, edges, np.negative(edges), np.nextafter(edges, 1)])
    multipliers, shifts = multiplier_and_shift(scales)
    for scale, multiplier, shift in zip(
        scales.tolist(), multipliers.tolist(), shifts.tolist(), strict=True
    ):
        error = abs(Fraction(scale) - Fraction(multiplier, 1 << shift))
        assert error <= Fraction(1, 1 << (shift + 1)) or multiplier == 0
        assert error <= abs(Fraction(scale)) / (1 << 31) or shift == 63 or abs(scale) <= 2**-64
        assert 1 << 30 <= abs(multiplier) <= 1 << 31 or shift == 63 or multiplier == shift == 0
        assert -(1 << 31) < multiplier < 1 << 31
    for scale in (1.0, 1 - 2.0**-40):
        assert [int(part) for part in multiplier_and_shift(scale)] == [1 << 30, 30]
    for scale in (np.inf, np.nan, 2.0**31, -(2.0**31), 2.0**31 - 0.5):
        with pytest.raises(InputError, match=r"^scale: must be finite and below 2\*\*31 in"):
            multiplier_and_shift([1, scale])


# -- settings and records -------------------------------------------------------------------------

WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"output": "int9"}, r"output: must be one of raw, int4, .*, not 'int9' \(did you mean 'int"),
    ({"output": "int8", "activation": "gelu"}, "activation: must be one of none, relu, leaky, not"),
    ({"output": "int8", "rounding": "even"}, "rounding: must be one of half_even, .* 'even' .did"),
    ({"output": "int8", "multiplier": 1 << 31}, "multiplier: must be an integer of -2147483648"),
    ({"output": "int8", "multiplier": 1.5}, "multiplier: must be an integer .* not 1.5"),
    ({"output": "int8", "shift": 64}, r"shift: must be an integer of 0\.\.63, not 64"),
    ({"output": "int8", "shift": True}, "shift: must be an integer of .*, not True"),
    ({"output": "int8", "zero": 128}, r"zero: must be an integer of -128\.\.127 \(int8\), not 128"),
    ({"output": "uint8", "zero": -1}, r"zero: must be an integer of 0\.\.255 \(uint8\), not -1"),
    ({"output": "int4", "maximum": 8}, r"maximum: must be an integer of -8\.\.7 \(int4\), not 8"),
    ({"output": "int8", "minimum": 5, "maximum": 4}, "minimum: must not exceed maximum = 4, not 5"),
    ({"output": "raw", "activation": "leaky"}, "activation: raw outputs are not scaled; use none"),
    ({"output": "raw", "zero": 1}, "zero: raw outputs have no zero point; leave it out"),
    ({"output": "fp16", "minimum": 0}, "minimum: fp16 outputs have no limits; leave it out"),
    ({"output": "fp16", "shift": 3}, "shift: fp16 outputs have none; leave it out"),
    ({"output": "int8", "scale": 0.5}, "scale: int8 outputs have none; leave it out"),
    ({"output": "fp32", "scale": float("inf")}, "scale: must be a finite number of single"),
    ({"output": "fp32", "scale": 3.5e38}, "scale: must be a finite number of single precision"),
    ({"output": "int8", "columns": True, "shift": 2}, "shift: with columns it is that of the"),
    ({"output": "int8", "slope_shift": 2}, "slope_shift: only activation leaky has a slope"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), WRONG_SETTINGS, ids=[m for _, m in WRONG_SETTINGS]
)
def test_wrong_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        PostSettings(**arguments)


def test_wrong_scaled_settings() -> None:
    with pytest.raises(
        InputError, match=r"^slope: only activation leaky has a slope; leave it out"
    ):
        PostSettings.scaled("int8", 0.5, slope=0.1)
    with pytest.raises(InputError, match=r"^scale: raw outputs are not scaled; leave it out"):
        PostSettings.scaled("raw", 0.5)
    with pytest.raises(InputError, match=r"^scale: must be finite and below"):
        PostSettings.scaled("int8", 2.0**31)


def test_settings_that_hardware_does_not_have() -> None:
    small = features("int24", ("int8", "fp16"), ("relu",), columns=False)
    PostSettings("int8", "relu").check(small)
    for settings, message in (
        (PostSettings("int4", "relu"), "output: this hardware has int8, fp16, not int4; build it"),
        (PostSettings("int8"), "activation: this hardware has relu, not none; build it with none"),
        (PostSettings("int8", "relu", "floor"), "rounding: this hardware has half_even, not floor"),
        (PostSettings("int8", "relu", columns=True), "columns: this hardware has no column rec"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            settings.check(small)
    with pytest.raises(InputError, match=r"^columns: this hardware takes its scales from column"):
        PostSettings("int8").check(features("int24", ("int8",), tensor=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("int1", ("int8",)), r"accumulator: must be 2\.\.64 bits wide, not int1"),
        (("int8", ()), "outputs: must name at least one of raw, int4"),
        (("int8", ("int8", "fp8")), "outputs: must be one of .*, not 'fp8'"),
        (("int8", ("raw",), ("leaky",)), "activations: leaky scales negative numbers, but raw"),
        (("int8", ("int8",), ("none",), ()), "roundings: must name at least one of half_even"),
    ],
)
def test_wrong_features(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        features(*arguments)
    with pytest.raises(InputError, match=r"^columns, tensor: at least one of them must be true"):
        features("int8", ("int8",), columns=False, tensor=False)


def test_registers() -> None:
    settings = PostSettings(
        "uint16", "leaky", "half_up", multiplier=-2, shift=63, slope_multiplier=3, slope_shift=5,
        zero=7, minimum=1, maximum=60000,
    )  # fmt: skip
    assert settings.registers(integer("int32")) == {
        "POST_FLAGS": 1 | 2 << 3 | 2 << 5 | 0 << 7 | 1 << 8,
        "POST_MULTIPLIER": 0xFFFFFFFE,
        "POST_SLOPE": 3,
        "POST_SHIFT": 63 | 5 << 8,
        "POST_ZERO": 7,
        "POST_MIN": 1,
        "POST_MAX": 60000,
    }
    assert settings.packed(integer("int32")) & (1 << 64) - 1 == 0xFFFFFFFE_00000151
    single = PostSettings.scaled("fp16", 0.1, activation="leaky", slope=-0.5)
    words = single.registers(integer("int32"))
    assert struct.pack("<II", words["POST_MULTIPLIER"], words["POST_SLOPE"]) == struct.pack(
        "<ff", 0.1, -0.05
    )
    sizes = [
        PostSettings("raw").registers(integer(a))["POST_FLAGS"] >> 8 for a in ("int9", "int33")
    ]
    assert sizes == [2, 3]
    for register in REGISTERS:
        places = [bit for f in register.fields for bit in range(f.offset, f.offset + f.bits)]
        assert len(set(places)) == len(places)
        assert max(places) < 32


def test_texts_of_registers_say_what_the_hardware_has() -> None:
    features = PostFeatures(
        integer("int32"), ("raw", "int8"), activations=("relu",), roundings=("floor", "half_up")
    )
    texts = {
        field.name: field.text for register in registers_of(features) for field in register.fields
    }
    assert texts["kind"] == "Output: 0 raw, 1 integer."
    assert texts["activation"] == "Activation: 1 relu. This hardware ignores it."
    assert texts["rounding"] == "Rounding of integers: 3 floor, 2 half_up."
    assert texts["slope"].endswith("This hardware ignores it.")
    assert "ignores" not in texts["multiplier"] + texts["columns"] + texts["size"]
    raw = PostFeatures(integer("int32"), ("raw",), columns=False)
    ignored = {
        field.name
        for register in registers_of(raw) for field in register.fields if "ignores" in field.text
    }  # fmt: skip
    assert ignored == {
        "kind", "rounding", "columns", "multiplier", "slope", "shift", "slope_shift", "zero",
        "minimum", "maximum",
    }  # fmt: skip
    positions = [[field[:4] for field in register.fields] for register in registers_of(raw)]
    assert positions == [[field[:4] for field in register.fields] for register in REGISTERS]


def test_records() -> None:
    columns = Columns.scaled(
        "int8", [0.5, 2.0**-70, -3.0], bias=[-(1 << 31), 1, -1], slopes=[0.25, 0, 1]
    )
    image = columns.encode()
    assert image.shape == (3, 16)
    assert image.tobytes() == b"".join(
        struct.pack("<iiiBBH", *row, 0)
        for row in (
            (-(1 << 31), 1 << 30, 1 << 30, 31, 33),
            (1, 0, 0, 0, 0),
            (-1, -3 << 29, -3 << 29, 29, 29),
        )
    )
    back = Columns.decode(image.ravel())
    assert np.array_equal(back.encode(), image)
    assert len(back) == 3
    single = Columns.scaled("fp32", 0.1, bias=[1, 2], slopes=2.0).encode()
    assert single.tobytes()[16:] == struct.pack("<iffI", 2, 0.1, np.float32(0.2), 0)
    raw = Columns.scaled("raw", bias=[3])
    assert apply(PostSettings("raw", columns=True), integer("int8"), np.array([4]), raw) == 7


def test_wrong_records() -> None:
    for arguments, message in (
        ({"scales": [0.5, np.nan]}, "scales: must be finite and below"),
        ({"bias": [1.5]}, "bias: must be integers, not float64; divide it by the scale"),
        ({"bias": [1 << 31]}, r"bias: must be -2147483648\.\.2147483647, found 2147483648"),
        ({"scales": [1, 2], "bias": [1, 2, 3]}, r"scales, bias, slopes: must be one number or one"),
        ({"scales": [[1]]}, r"scales, bias, slopes: must be .* \(1, 1\), \(\), \(\)"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            Columns.scaled("int8", **arguments)
    with pytest.raises(InputError, match=r"^scales: must be finite numbers of single precision"):
        Columns.scaled("fp16", 1e39)
    with pytest.raises(
        InputError, match=r"^column records: must be a multiple of 16 bytes, not 17"
    ):
        Columns.decode(np.zeros(17, np.uint8))
    with pytest.raises(InputError, match=r"^shift: must be 0\.\.63, found 64\.\.64"):
        Columns.decode(np.full(16, 64, np.uint8))
    good = Columns.scaled("int8", [1, 2])
    with pytest.raises(InputError, match=r"^shift: must be uint8 of shape \(2,\), not int64"):
        replace(good, shift=np.zeros(2, np.int64))


# -- golden model ---------------------------------------------------------------------------------


def test_wrong_accumulators() -> None:
    fmt, ask = integer("int8"), PostSettings("int8", columns=True)
    columns = Columns.scaled("int8", [1, 2])
    with pytest.raises(InputError, match=r"^accumulators: must be -128\.\.127 \(int8\), found"):
        apply(PostSettings("int8"), fmt, np.array([128]))
    with pytest.raises(InputError, match=r"^columns: the settings ask for column records, but"):
        apply(ask, fmt, np.array([1]))
    with pytest.raises(
        InputError, match=r"^columns: there are column records, but the settings do"
    ):
        apply(PostSettings("int8"), fmt, np.array([1, 2]), columns)
    with pytest.raises(InputError, match=r"^columns: must be as many as .* \(4, 3\), not 2"):
        apply(ask, fmt, np.zeros((4, 3), int), columns)
    assert apply(ask, fmt, np.zeros((0, 2), int), columns).shape == (0, 2)


GOLDEN = {
    "int32": features("int32", *ALL),
    "int64": features("int64", *ALL),
    "uint64": features("uint64", *ALL),
    "uint12": features("uint12", *ALL),
    "int2": features("int2", *ALL),
}


def check_golden(arguments: Vectors) -> int:
    """Compare with exact arithmetic, element by element; return how many there were."""
    count = 0
    for index, settings in enumerate(arguments.settings):
        _, acc, columns = arguments.part(index)
        result = apply(settings, arguments.features.accumulator, acc, columns)
        tensor = (0, settings.factors[0], settings.shift, settings.factors[1], settings.slope_shift)
        records = [tensor] * len(acc)
        if columns is not None:
            parts = (columns.bias, columns.multiplier, columns.shift, columns.slope_multiplier,
                     columns.slope_shift)  # fmt: skip
            records = list(zip(*(part.tolist() for part in parts), strict=True))
        expected = [
            exact(settings, arguments.features, value, *record)
            for value, record in zip(acc.tolist(), records, strict=True)
        ]
        wanted = np.array(expected, result.dtype)
        same = (result == wanted) | ((result != result) & (wanted != wanted))
        if settings.output in FLOATS:
            same &= (np.signbit(result) == np.signbit(wanted)) | (result != result)
        assert same.all(), (settings, acc[~same][:3], result[~same][:3], wanted[~same][:3])
        count += len(acc)
    return count


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    assert check_golden(vectors(GOLDEN[name], 8_000, 3, seed=3)) == 24_000


@pytest.mark.long
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_campaign(name: str) -> None:
    assert check_golden(vectors(GOLDEN[name], 400_000, 3, seed=4)) == 1_200_000


def test_golden_by_hand() -> None:
    """Halves in every mode; a bias; the zero point behind the rounding, the clamp behind that."""
    acc, fmt = np.array([-7, -5, -3, -1, 1, 3, 5, 7]), integer("int16")
    for rounding, expected in (
        ("half_even", [-4, -2, -2, 0, 0, 2, 2, 4]),
        ("half_away", [-4, -3, -2, -1, 1, 2, 3, 4]),
        ("half_up", [-3, -2, -1, 0, 1, 2, 3, 4]),
        ("floor", [-4, -3, -2, -1, 0, 1, 2, 3]),
    ):
        result = apply(PostSettings.scaled("int8", 0.5, rounding=rounding), fmt, acc)
        assert result.tolist() == expected
        assert result.dtype == np.int8
    settings = PostSettings.scaled("int8", 0.5, zero=10, minimum=8, maximum=11)
    assert apply(settings, fmt, acc).tolist() == [8, 8, 8, 10, 10, 11, 11, 11]
    leaky = PostSettings.scaled("int8", 1.0, activation="leaky", slope=0.25)
    assert apply(leaky, fmt, np.array([-100, -6, 100])).tolist() == [-25, -2, 100]
    columns = Columns.scaled("fp16", [0.5, 2.0], bias=[1, -1])
    result = apply(
        PostSettings("fp16", "relu", columns=True), fmt, np.array([[3, 0], [-9, 9]]), columns
    )
    assert result.tolist() == [[2.0, 0.0], [0.0, 16.0]]
    assert result.dtype == np.float16


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_vectors_cover_everything(name: str) -> None:
    counts = coverage(vectors(GOLDEN[name], 33_000, 3))
    assert len(counts) > 50
    assert not {met: count for met, count in counts.items() if count < 5}


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
def test_golden_from_integers(name: str) -> None:
    fmt = floating(name)
    rng = np.random.default_rng(1)
    for acc in ("int64", "uint64", "int30"):
        values = accumulators(features(acc, ("raw",)), 4_000, rng)
        if acc == "uint64":
            values = values.astype(object) * 3 - 5
        if acc == "int30":
            values = values.astype(np.int64)
        result = fmt.to_float64(from_integers(fmt, values))
        for value, came in zip(values.tolist(), result.tolist(), strict=True):
            places = max(0, abs(value).bit_length() - fmt.precision)
            wanted = round(Fraction(value, 1 << places)) << places
            assert came == (wanted if abs(wanted) <= fmt.max else np.copysign(np.inf, value))


# -- conversions ----------------------------------------------------------------------------------

NARROWINGS = [("fp32", "fp16"), ("fp32", "bf16"), ("bf16", "fp8_e4m3")]


@pytest.mark.parametrize(("source", "target"), NARROWINGS)
def test_narrowing(source: str, target: str, tmp_path: Path) -> None:
    """Every bit pattern, or every number of the narrow format, their middles and neighbours."""
    src, dst = floating(source), floating(target)
    if src.width <= 16:
        bits = np.arange(1 << src.width).astype(src.bits_dtype)
    else:
        with np.errstate(all="ignore"):
            every = dst.decode(np.arange(1 << 16).astype(dst.bits_dtype)).astype(np.float64)
            floats = np.sort(every[np.isfinite(every)])
            middle = ((floats[1:] + floats[:-1]) / 2).astype(np.float32)
        middle = middle[:: 1 + (target == "bf16")].view(np.uint32)
        bits = np.concatenate([middle, middle + np.uint32(1), middle - np.uint32(1)])
        bits = np.concatenate([bits, random_pairs(src, 30_000, 1)[0], corners(src)])
    result = run_block(FloatNarrow(src, dst), {"i": bits}, tmp_path, lanes=4)["o"]
    assert np.array_equal(result, convert(src, dst, bits))


@pytest.mark.parametrize(
    ("src", "dst"), [("fp16", "fp32"), ("fp16", "bf16"), ("fp8_e4m3", "fp8_e5m2")]
)
def test_narrowing_is_refused(src: str, dst: str) -> None:
    with pytest.raises(ValueError, match=f"{src} cannot be narrowed to {dst}"):
        FloatNarrow(floating(src), floating(dst))


@pytest.mark.parametrize(
    ("source", "target", "stages"),
    [("uint16", "fp16", 1), ("int64", "fp32", 2), ("int8", "bf16", 0)],
)
def test_integer_to_float(source: str, target: str, stages: int, tmp_path: Path) -> None:
    src, fmt = integer(source), floating(target)
    if src.width <= 16:
        values = np.arange(src.min, src.max + 1)
    else:
        values = accumulators(features(source, ("raw",)), 60_000, np.random.default_rng(2))
    bits = values.astype(src.dtype).view(f"u{src.width // 8}")
    options = {"latency": stages, "stalls": stages, "lanes": 4}
    block = IntegerToFloat(src, fmt, stages, enabled=stages > 0)
    result = run_block(block, {"i": bits}, tmp_path, **options)["o"]  # type: ignore[arg-type]
    assert np.array_equal(result, from_integers(fmt, values.astype(np.int64)))


def test_conversions_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"stages must be 0\.\.2, not 3"):
        IntegerToFloat(integer("int8"), floating("fp32"), 3)
    with pytest.raises(ValueError, match="integers cannot be converted to fp8_e4m3"):
        IntegerToFloat(integer("int8"), floating("fp8_e4m3"))


# -- RTL ------------------------------------------------------------------------------------------

RTL = {
    "int32": (features("int32", *ALL), 34_000),
    "int64": (features("int64", *ALL), 34_000),
    "uint64": (features("uint64", ("int32", "raw", "fp32"), *ALL[1:]), 6_000),
    "uint12": (features("uint12", ("uint8", "raw"), ("none", "relu"), ("half_away",)), 6_000),
    "int20": (features("int20", ("int8",), ("relu",), columns=True, tensor=False), 6_000),
    "int33": (
        features("int33", ("int16", "fp16"), ("none", "leaky"), ROUNDINGS[2:], columns=False),
        6_000,
    ),
    "int2": (features("int2", ("int4", "bf16"), ("leaky",), ROUNDINGS[:2], columns=False), 6_000),
    "raw": (features("int40", ("raw",)), 6_000),
    "fp32": (features("fp32", *ALL), 10_000),
    "fp32_records": (features("fp32", ("int8", "fp16"), ("relu",), tensor=False), 4_000),
    "fp32_tensor": (
        features("fp32", ("int4", "uint16", "bf16"), ACTIVATIONS, columns=False),
        4_000,
    ),
    "fp32_wide": (features("fp32", ("int32",), ("leaky",), ("half_away", "floor")), 4_000),
    "fp32_single": (features("fp32", ("fp32",), columns=False), 2_000),
    "fp32_raw": (features("fp32", ("raw",)), 4_000),
    "fp32_as_they_are": (features("fp32", ("raw",), columns=False), 2_000),
}
USUAL = ("int32", "int64", "uint12", "int20", "int33", "raw", "fp32")
"""Those that are tried every time."""


def drawn(offered: PostFeatures, words: int, lanes: int = 3, seed: int = 0) -> Vectors:
    """Return words for a block, whose accumulators are integers or in single precision."""
    draw = single_vectors if offered.single else vectors
    return draw(offered, words, lanes, seed)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in USUAL else pytest.mark.long) for n in RTL]
)
def test_post(name: str, tmp_path: Path, record_property: Record) -> None:
    arguments = drawn(*RTL[name])
    run_post(arguments, tmp_path, idle=0.1, stall=0.1)
    record_property(f"{name} vectors", arguments.acc.size)


@pytest.mark.long
@pytest.mark.parametrize("name", RTL)
def test_post_campaign(name: str, tmp_path: Path, record_property: Record) -> None:
    arguments = drawn(RTL[name][0], 400_000, seed=commit_seed())
    run_post(arguments, tmp_path)
    record_property(f"{name} vectors", arguments.acc.size)


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_features_drawn_at_random(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([commit_seed(), number])

    def some(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(rng.permutation(words)[: rng.integers(1, len(words) + 1)].tolist())

    columns = bool(rng.integers(3))
    outputs, activations = some(OUTPUTS), some(ACTIVATIONS)
    if outputs == ("raw",) and "leaky" in activations:
        activations = ("none",)
    options = {"columns": columns, "tensor": not columns or bool(rng.integers(2))}
    offered = features("fp32", outputs, activations, some(ROUNDINGS), **options)
    if activations == ("leaky",) and "raw" in outputs:
        offered = replace(offered, activations=("none", "leaky"))
    run_post(drawn(offered, 8_000, 2, seed=number), tmp_path, idle=0.1, stall=0.1)


FULL_RATE = ("fp32_records", "fp32_tensor", "fp32_as_they_are")


@pytest.mark.parametrize(
    "name", ["int20", "int33", *(pytest.param(n, marks=pytest.mark.long) for n in FULL_RATE)]
)
def test_full_rate(name: str, tmp_path: Path) -> None:
    """A word a cycle, and the latency that the block states."""
    assert_full_rate(drawn(RTL[name][0], 200), tmp_path)


@pytest.mark.parametrize(
    ("accumulator", "outputs", "columns", "latency"),
    [
        ("int64", ("raw",), True, 2),
        ("int33", ("int8", "raw"), True, 5),
        ("int34", ("int8",), True, 6),
        ("int8", ("fp32", "int8"), True, 7),
        ("int64", ("bf16", "fp32"), True, 8),
        ("fp32", ("raw",), False, 2),
        ("fp32", ("raw",), True, 5),
        ("fp32", ("fp32",), False, 5),
        ("fp32", ("fp32", "raw"), True, 8),
        ("fp32", ("bf16",), False, 6),
        ("fp32", ("fp16",), True, 9),
        ("fp32", ("int8",), False, 8),
        ("fp32", ("int8", "fp16"), True, 11),
    ],
)
def test_latency(accumulator: str, outputs: tuple[str, ...], columns: bool, latency: int) -> None:
    """As the documentation has it."""
    assert Post(features(accumulator, outputs, columns=columns), 1).latency == latency


@pytest.mark.parametrize("name", ["int20", "fp32"])
@pytest.mark.parametrize(("idle", "stall"), [(0.6, 0.1), (0.1, 0.7)])
def test_stalls(name: str, idle: float, stall: float, tmp_path: Path) -> None:
    arguments = drawn(RTL[name][0], 1500, seed=8)
    run_post(arguments, tmp_path, idle=idle, stall=stall, seed=int(10 * idle + 100 * stall))


@pytest.mark.parametrize("at", [1, 5, 100])
def test_reset(at: int, tmp_path: Path) -> None:
    """A reset drops the words inside; later words are correct."""
    arguments, lanes = drawn(RTL["int20"][0], 300, 3, seed=9), 3
    block = Post(arguments.features, lanes)
    out = run_stream(block, arguments.inputs(lanes), tmp_path, stall=0.5, reset_at=at, seed=at)
    kept = out.report["kept"]
    assert kept < at
    rows = np.r_[:kept, at:300]
    places = (rows[:, None] * lanes + np.arange(lanes)).ravel()
    columns = Columns(**{name: v[places] for name, v in vars(arguments.columns).items()})
    rest = replace(
        arguments, chosen=arguments.chosen[rows], acc=arguments.acc[rows], columns=columns
    )
    assert not rest.differences(out.outputs["o_data"])


@pytest.mark.parametrize(
    "offered",
    [*(RTL[name][0] for name in ("int33", "raw", "fp32", "fp32_as_they_are")),
     features("uint8", ("int8",))],
    ids=["int33", "raw", "fp32", "fp32_as_they_are", "uint8"],
)  # fmt: skip
def test_verilog_lints_clean(offered: PostFeatures, tmp_path: Path) -> None:
    source = tmp_path / "post.v"
    source.write_text(stream_verilog(Post(offered, 2)), encoding="utf-8")
    assert not lint([source], f"{PREFIX}_post_2", list(LINT_WAIVERS))


def test_verilog_of_a_narrowing_lints_clean(tmp_path: Path) -> None:
    source = tmp_path / "narrow.v"
    source.write_text(block_verilog(FloatNarrow(floating("fp32"), floating("fp16"))), "utf-8")
    assert not lint([source], TOP, list(LINT_WAIVERS))


def test_only_what_is_asked_for_is_built() -> None:
    for offered, text in (
        (features("int32", INTEGERS), "multiply_fp32"),
        (features("int32", ("raw",), columns=False), "$signed"),
        (features("fp32", ("raw",)), "multiply_fp32"),
        (features("fp32", ("fp32",), columns=False), "add_fp32"),
    ):
        assert text not in stream_verilog(Post(offered, 1))
    texts = [
        len(stream_verilog(Post(features("int32", ("int8",), activations, roundings), 1)))
        for activations, roundings in (
            (("none",), ("floor",)),
            (("none",), ROUNDINGS),
            (ACTIVATIONS, ROUNDINGS),
        )
    ]
    assert texts == sorted(set(texts))


MUTATIONS = {
    "int20": {
        "sticky bit dropped": (r"(assign quotient_lost_5 = quotient_lost_4) \| \w+;", r"\1;"),
        "quotient wraps": (r"assign (\{ \w+\[64:10\], clamped \}) = \w+ \?", r"assign \1 = 1'h0 ?"),
        "zero point of another word": (r"zero_3 <= zero_2", "zero_3 <= zero_1"),
        "moves while stalled": (r"if \(run\) product_2 <=", "product_2 <="),
        "ties to odd": (r"sticky_3 \| moved_3\[1\]", "sticky_3 | ~moved_3[1]"),
        "ties of negative numbers towards zero": (r"sticky_3 \| _\d+_", "1'h1"),
        "zero point lost": (r"\{ zero\w*, round_up \}", "{ 8'h00, round_up }"),
        "no lower limit": (r"assign below = .*;", "assign below = 1'h0;"),
        "upper limit one more": (r"(assign above = \$signed\(result_4\) >) ", r"\1 1 + "),
        "relu keeps negative numbers": (r"assign keep = .*;", "assign keep = 1'h1;"),
        "slope everywhere": (r"assign leaks = total\[32\] & ", "assign leaks = "),
        "bias without records": (r"record\[31:0\] & \{.*\};", "record[31:0];"),
        "settings of another word": (r"rounding_2 <= rounding_1", "rounding_2 <= settings[6:5]"),
        "full when it is not": (r"assign i_ready = (\w+) \| _\d+_;", r"assign i_ready = 1'h1;"),
    },
    "fp32": {
        "a NaN is too large": (r"assign number = ~ \w+;", "assign number = 1'h1;"),
        "activation of another word": (
            r"activation_3 <= activation_2", "activation_3 <= activation_1",
        ),
        "no bias changes -0": (r"record\[31\] \| _\d+_;", "record[31];"),
        "sticky bit dropped": (r"sticky_9 <= \w+;", "sticky_9 <= 1'h0;"),
        "ties of negative numbers": (r"= sticky_9 \| _\d+_;", "= 1'h1;"),
        "negative numbers one too small": (r"round_up \^ sign_9", "round_up"),
        "slope everywhere": (r"assign leaks = biased\[31\] & ", "assign leaks = "),
        "relu keeps negative numbers": (r"assign keep = .*;", "assign keep = 1'h1;"),
        "moves while stalled": (r"if \(run\) number_8 <=", "number_8 <="),
    },
}  # fmt: skip
"""Ways to break the emitted Verilog, of accumulators: pattern and what takes its place."""

ALWAYS = {"int20": 4, "fp32": 2}
"""How many of them, the first ones, are tried every time."""


@pytest.mark.parametrize(
    ("accumulator", "mutation"),
    [
        pytest.param(fmt, name, marks=[] if number < ALWAYS[fmt] else pytest.mark.long)
        for fmt, ways in MUTATIONS.items()
        for number, name in enumerate(ways)
    ],
)
def test_mutation_is_noticed(accumulator: str, mutation: str, tmp_path: Path) -> None:
    outputs = ("int8", "raw") if accumulator == "fp32" else ("int8",)
    arguments = drawn(features(accumulator, outputs, *ALL[1:]), 4_000, 1)
    text = stream_verilog(Post(arguments.features, 1))
    text = mutated(text, *MUTATIONS[accumulator][mutation])
    with pytest.raises(AssertionError, match=r"\d+ of \d+: |words after|array_equal"):
        run_post(arguments, tmp_path, stall=0.3, verilog=text)
