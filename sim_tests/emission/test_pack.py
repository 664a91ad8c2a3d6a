# SPDX-License-Identifier: Apache-2.0
"""Images of weights, and ``hwgen pack`` and ``hwgen unpack``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.core.files.packing import pack, pack_trits, unpack, unpack_trits
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.formats import ternary
from hwgen.formats.quantise import quantise
from sim_tests.support.cores import plan as gemm_plan

LUT = "family: ternary_lut\n"
CONFIGS = {
    "lut5": f"{LUT}array: {{group_size: 5, tables: 3, fetch_ports: 4}}\n",
    "lut2": f"{LUT}array: {{group_size: 2, tables: 4, fetch_ports: 3, accumulator_depth: 2}}\n",
    "lut7": f"{LUT}array: {{group_size: 7, tables: 1, fetch_ports: 1}}\n",
    "lut1": f"{LUT}array: {{group_size: 1, tables: 3, fetch_ports: 5}}\n",
    "w1": f"{LUT}weight: int1\narray: {{group_size: 3, tables: 2, fetch_ports: 5}}\n",
    "w2": f"{LUT}weight: int2\narray: {{group_size: 4, tables: 3, fetch_ports: 4}}\n",
    "w3": f"{LUT}weight: int3\narray: {{group_size: 1, tables: 5, fetch_ports: 3}}\n",
    "w4": f"{LUT}weight: int4\narray: {{group_size: 7, tables: 1, fetch_ports: 2}}\n",
    "select": f"{LUT}array: {{method: select, group_size: 1, tables: 3, fetch_ports: 7}}\n",
    "multiply": f"{LUT}array: {{method: multiply, group_size: 1, tables: 5, fetch_ports: 3}}\n",
    "os": "family: systolic\nweight: int5\narray: {rows: 3, cols: 5}\n",
    "ws": "family: systolic\narray: {rows: 3, cols: 4, dataflow: weight_stationary}\n",
    "is": "family: systolic\nweight: uint3\n"
    "array: {rows: 4, cols: 3, dataflow: input_stationary, accumulator_depth: 4}\n",
}


def configuration(name: str) -> FamilyConfig:
    return parse_config(f"name: {name}_core\nmax_k: 4096\n{CONFIGS[name]}")


def weights_for(config: Any, k: int, n: int, seed: int = 0) -> np.ndarray:
    weights: np.ndarray = config.weight.random(np.random.default_rng(seed), (k, n))
    return weights


# -- images ----------------------------------------------------------------------------------------


@given(
    name=st.sampled_from(sorted(CONFIGS)),
    k=st.integers(1, 40),
    n=st.integers(1, 25),
    m=st.integers(1, 20),
    seed=st.integers(0, 99),
)
@settings(max_examples=150)
def test_packing_is_inverted_exactly(name: str, k: int, n: int, m: int, seed: int) -> None:
    config = configuration(name)
    w = weights_for(config, k, n, seed)
    packed = pack(config, w)
    assert np.array_equal(unpack(config, packed.description, packed.image), w)
    # The image is the schedule's own, for any M.
    plan = gemm_plan(config, m, k, n)
    assert plan.pack_weights(w).tobytes() == packed.image
    assert np.array_equal(plan.unpack_weights(plan.pack_weights(w)), w)


@given(k=st.integers(1, 30), n=st.integers(1, 30), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_trits_take_two_bits_row_by_row(k: int, n: int, seed: int) -> None:
    w = np.random.default_rng(seed).integers(-1, 2, (k, n))
    image = pack_trits(w)
    assert image.size == -(-k * n // 4)
    number = int.from_bytes(image.tobytes(), "little")
    assert number == sum((int(x) & 3) << 2 * i for i, x in enumerate(w.reshape(-1)))
    assert np.array_equal(unpack_trits(image, k, n), w)


def test_the_image_is_dense_keys_in_the_order_of_the_stream() -> None:
    """Five weights of group 5 are a byte: one lane of one beat for each column."""
    config = configuration("lut5")
    w = weights_for(config, 30, 8)
    image = np.frombuffer(pack(config, w).image, np.uint8).reshape(2, 2, 4, 3)
    for tile, group, port, table in np.ndindex(image.shape):
        k = (tile * 3 + table) * 5
        assert image[tile, group, port, table] == ternary.encode(w[k : k + 5, group * 4 + port])


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_images_of_the_wrong_length_are_refused(name: str) -> None:
    plan = gemm_plan(configuration(name), 1, 7, 9)
    image = plan.pack_weights(np.ones((7, 9), int)).reshape(-1)
    for wrong in (image[:-1], np.append(image, np.uint8(0)), image[:0]):
        with pytest.raises(InputError, match=rf"= {image.size} bytes .*found {wrong.size}"):
            plan.unpack_weights(wrong)


@pytest.mark.parametrize("name", ["lut5", "lut2", "multiply"])
def test_bytes_that_are_no_keys_are_refused(name: str) -> None:
    config = configuration(name)
    packed = pack(config, np.zeros((15, 12), int))
    image = bytes([0b10101010] if name == "multiply" else [0xFF]) * len(packed.image)
    description = {**packed.description, "sha256": hashlib.sha256(image).hexdigest()}
    with pytest.raises(InputError, match=r"packed weights: (a key of|must be -1\.\.1)"):
        unpack(config, description, image)


# -- the commands ----------------------------------------------------------------------------------

Commands = Callable[..., int]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Run ``pack`` or ``unpack`` in an empty directory, with the configuration of a name."""
    monkeypatch.chdir(tmp_path)
    for name, text in CONFIGS.items():
        Path(f"{name}.yaml").write_text(f"name: {name}_core\nmax_k: 4096\n{text}")

    def run(command: str, name: str, *options: str) -> int:
        files = {
            "pack": ["--weights", "w.npy", "--output", "packed"],
            "unpack": ["--input", "packed/w.json", "--output", "back.npy"],
        }[command]
        return main([command, "--config", f"{name}.yaml", *files, *options])

    return run


def message_of(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    return error


@pytest.mark.parametrize("layout", ["keys", "trits"])
@pytest.mark.parametrize("shape", [(1, 1), (17, 9), (30, 8)])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_round_trip(
    commands: Commands,
    name: str,
    shape: tuple[int, int],
    layout: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = configuration(name)
    w = weights_for(config, *shape)
    np.save("w.npy", np.asfortranarray(w))
    if layout == "trits" and str(config.weight) != "ternary":
        assert commands("pack", name, "--layout", layout) == 2
        assert "the layout trits is for ternary weights, but" in message_of(capsys)
        assert not Path("packed").exists()
        return
    assert commands("pack", name, "--layout", layout, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    description = json.loads(Path("packed/w.json").read_text())
    image = Path("packed/w.bin").read_bytes()
    assert printed["files"] == {"w.bin": len(image), "w.json": printed["files"]["w.json"]}
    assert description["sha256"] == hashlib.sha256(image).hexdigest()
    assert (description["k"], description["n"]) == shape
    assert description["bytes"] == len(image)
    assert description["digest"] == config.digest
    assert description["config"] == config.resolved()
    if layout == "keys":
        assert description["beats"] * description["beat_bytes"] == len(image)
    assert commands("unpack", name) == 0
    back = np.load("back.npy")
    assert np.array_equal(back, w)
    assert back.dtype.itemsize == 1


def test_the_summary_says_bits_per_weight(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("w.npy", np.zeros((30, 8), np.int8))
    assert commands("pack", "lut5") == 0
    out = capsys.readouterr().out
    assert "1.6 bits/weight: 5 in 8 bits, 4 beats of 12 bytes" in out
    assert commands("unpack", "lut5") == 0
    assert "back.npy: 30 x 8 weights, int8, from packed/w.bin" in capsys.readouterr().out
    assert commands("pack", "w2") == 0
    out = capsys.readouterr().out
    assert "2 bits/weight: 4 in 4 bits a bit plane, 2 planes, 12 beats of 6 bytes" in out


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("lut5", "keys"),
        ("lut5", "trits"),
        ("w1", "keys"),
        ("w2", "keys"),
        ("w4", "keys"),
        ("os", "keys"),
    ],
)
def test_floats_are_quantised(commands: Commands, name: str, layout: str, per_column: bool) -> None:
    w = np.random.default_rng(5).normal(0, 0.02, (19, 6)).astype(np.float32)
    np.save("w.npy", w)
    options = ["--per-column"] if per_column else []
    assert commands("pack", name, "--layout", layout, *options) == 0
    description = json.loads(Path("packed/w.json").read_text())
    weight = configuration(name).weight
    assert weight.is_integer
    expected = quantise(w, weight, per_column=per_column)
    assert np.array_equal(np.load(f"packed/{description['weights']}"), expected.weights)
    assert np.array_equal(np.load(f"packed/{description['scales']}"), expected.scales)
    assert commands("unpack", name) == 0
    assert np.array_equal(np.load("back.npy"), expected.weights)


@pytest.mark.parametrize(
    ("name", "w", "options", "message"),
    [
        ("lut5", np.array([[0, 2]]), [], r"w\.npy: weights: must be -1\.\.1 \(ternary\), found 0"),
        ("lut5", np.array([[0, 255]], np.uint8), [], r"must be -1\.\.1 \(ternary\), found 0\.\.25"),
        ("lut5", np.array([[np.nan]]), [], r"w\.npy: weights: must be finite.* W\[0,0\] = nan"),
        ("lut5", np.array([[np.inf, 1]]), [], r"must be finite, but 1 of 2 are not.* = inf"),
        ("lut5", np.ones(3, int), [], r"w\.npy: must be a matrix of at least 1 x 1, not of shape"),
        ("lut5", np.ones((2, 0), int), [], r"must be a matrix of at least 1 x 1"),
        ("lut5", np.ones((2, 2), bool), [], r"must hold integers or floats, not bool"),
        ("lut5", np.ones((4097, 1), int), [], r"K = 4097 exceeds max_k = 4096"),
        ("lut5", np.ones((2, 2), int), ["--per-column"], r"scales per column are of floating"),
        ("w1", np.array([[-1, 0]]), [], r"must be -1 or 1 \(int1\), found 0; weights that may be"),
        ("w2", np.array([[-2, 2]]), [], r"weights: must be -2\.\.1 \(int2\), found -2\.\.2"),
        ("is", np.ones((2, 2)), [], r"w\.npy: weights: floats are made signed integers, not uint3"),
        ("os", np.full((2, 2), 16), [], r"weights: must be -16\.\.15 \(int5\), found 16\.\.16"),
        ("os", np.ones((2, 2), int), ["--output", "."], r"\. holds w\.npy; choose another dir"),
        ("os", None, [], r"w\.npy does not exist"),
    ],
)
def test_weights_that_cannot_be_packed(
    commands: Commands,
    name: str,
    w: np.ndarray | None,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if w is not None:
        np.save("w.npy", w)
    before = sorted(Path().rglob("*"))
    assert commands("pack", name, *options) == 2
    assert re.search(message, message_of(capsys))
    assert sorted(Path().rglob("*")) == before


def edited(**changes: Any) -> Callable[[], None]:
    def edit() -> None:
        path = Path("packed/w.json")
        description = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({k: v for k, v in description.items() if v is not ...}))

    return edit


def image_of(change: Callable[[bytes], bytes]) -> Callable[[], None]:
    path = Path("packed/w.bin")
    return lambda: void(path.write_bytes(change(path.read_bytes())))


def text_of(text: str) -> Callable[[], None]:
    return lambda: void(Path("packed/w.json").write_text(text))


def void(_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (image_of(lambda data: data[:-1]), r"w\.json: the image has 47 bytes but .* says 48"),
        (image_of(lambda data: b""), r"the image has 0 bytes"),
        (image_of(lambda data: bytes([data[0] ^ 1]) + data[1:]), r"its SHA-256 differs"),
        (lambda: Path("packed/w.bin").unlink(), r"packed/w\.bin does not exist; packed/w\.json"),
        (lambda: Path("packed/w.json").unlink(), r"packed/w\.json does not exist"),
        (text_of('{"format": '), r"packed/w\.json is not readable JSON: "),
        (text_of("[" * 100_000), r"packed/w\.json is not readable JSON: "),
        (text_of("[1]"), r"packed/w\.json: must be an object"),
        (text_of("{}"), r"image must be the name of a file beside it, not None"),
        (edited(image="../w.npy"), r"image must be the name of a file beside it, not '\.\./w"),
        (edited(image="w\0"), r"w\.json: image: "),
        (edited(format="other"), r"must say format: 'hwgen packed weights'"),
        (edited(version=2), r"is of version 2, this hwgen reads version 1"),
        (edited(layout="rows"), r"layout must be keys or trits, not 'rows'"),
        (edited(k="17"), r"description's k must be an integer, not '17'"),
        (edited(k=True), r"description's k must be an integer, not True"),
        (edited(n=...), r"description's n must be an integer, not missing"),
        (edited(k=0), r"K must be at least 1, not 0"),
        (edited(n=-3), r"N must be at least 1, not -3"),
        (edited(n=10**15), r"packed weights: must be .* bytes .*found 48"),
        (edited(k=4097), r"K = 4097 exceeds max_k"),
        (edited(layout="trits"), r"17 x 8 weights of two bits take 34 bytes, found 48"),
        (edited(digest="0" * 64), r"packed for another configuration: digest 000000000000\.\.\."),
    ],
)
def test_damage_is_noticed(
    commands: Commands,
    damage: Callable[[], None],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save("w.npy", weights_for(configuration("lut5"), 17, 8))
    assert commands("pack", "lut5") == 0
    damage()
    capsys.readouterr()
    assert commands("unpack", "lut5") == 2
    assert re.search(message, message_of(capsys))
    assert not Path("back.npy").exists()


def test_another_configuration_is_refused(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("w.npy", weights_for(configuration("lut5"), 17, 8))
    assert commands("pack", "lut5") == 0
    capsys.readouterr()
    assert commands("unpack", "lut2") == 2
    assert "packed for another configuration" in message_of(capsys)


def test_nothing_of_others_is_overwritten(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("w.npy", np.ones((3, 2), int))
    Path("packed").mkdir()
    Path("packed/w.bin").write_text("mine")
    assert commands("pack", "lut5") == 2
    assert "packed is not empty and holds no earlier output of hwgen" in message_of(capsys)
    assert [p.name for p in Path("packed").iterdir()] == ["w.bin"]
    assert Path("packed/w.bin").read_text() == "mine"
    assert commands("pack", "lut5", "--force") == 0
    assert commands("pack", "lut5") == 0  # its own files
    Path("back.npy").write_text("mine")
    capsys.readouterr()
    assert commands("unpack", "lut5") == 2
    assert "back.npy exists; choose another name" in message_of(capsys)
    assert Path("back.npy").read_text() == "mine"
    assert commands("unpack", "lut5", "--force") == 0
    assert np.load("back.npy").tolist() == [[1, 1]] * 3
