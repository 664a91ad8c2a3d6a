# SPDX-License-Identifier: Apache-2.0
"""Ternary-LUT cores of floating-point numbers: golden model, RTL, cycles, bad input."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from flows.simulation.operands import PATTERNS, draw_matrices
from flows.simulation.run import run_product
from hwgen.cli import main
from hwgen.core.files.packing import pack
from hwgen.errors import InputError
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.families.ternary_lut.schedule import Schedule
from hwgen.formats import differences, entries, floating
from sim_tests.contract.contract import Contract, Covering, Mutations, Regressions
from sim_tests.support.cores import cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import module_text
from sim_tests.support.mutations import Mutation

# What takes time is Verilator's compiler: many adders only where an axis needs them.
FORMATS = [
    ("fp16", "fp32"),
    ("bf16", "bf16"),
    ("fp8_e4m3", "fp8_e4m3"),
    ("fp16", "fp16"),
    ("bf16", "fp32"),
]
AXES: dict[str, list[Any]] = {
    "formats": FORMATS,
    "reduce": [0, 1, 2, 4],
    "accumulate": [0, 1, 2, 4],
    "method": [("lut", 2), ("select", 1), ("multiply", 1), ("lut", 3)],
    "tables": [1, 2, 3, 5],
    "depth": [1, 2, 8],
    "table": [1, 2, 4],
    "fetch_ports": [1, 2],
    "fetch": ["binary", "one_hot"],
}
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""

NARROW = ("fp8_e4m3", "fp8_e4m3")
LARGE_POINTS = [
    {"formats": ("fp8_e5m2", "fp32"), "method": ("lut", 4), "tables": 2, "table": 3},
    {"formats": NARROW, "method": ("lut", 5), "tables": 1, "table": 4, "fetch_ports": 2},
    {"formats": NARROW, "method": ("lut", 1), "tables": 8, "fetch_ports": 5, "accumulate": 1},
]
LARGEST_POINTS = [
    {"formats": NARROW, "method": ("lut", mu), "tables": 1, "fetch_ports": 2, "table": stages}
    for mu, stages in ((6, 2), (7, 4))
]


def configuration(name: str, values: dict[str, Any]) -> TernaryLutConfig:
    return core(name, values, alignment="none", fetch=values.get("fetch", "binary"))


def core(name: str, values: dict[str, Any], **array: Any) -> TernaryLutConfig:
    """Return the core of a point of a covering set, with more parameters of its array."""
    activation, accumulator = values["formats"]
    method, group_size = values["method"]
    return TernaryLutConfig.model_validate(
        {
            "name": name,
            "activation": activation,
            "accumulator": accumulator,
            "array": {
                "method": method,
                "group_size": group_size,
                "tables": values["tables"],
                "fetch_ports": values.get("fetch_ports", 1),
                "accumulator_depth": values.get("depth", 4),
                **array,
            },
            "pipeline": {
                "table": values.get("table", 1),
                "reduce": values.get("reduce", 0),
                "accumulate": values.get("accumulate", 0),
            },
        }
    )


COVERING = Covering("float", AXES, configuration, every=90)
LARGE = [configuration(f"large_{i}", values) for i, values in enumerate(LARGE_POINTS)]
LARGEST = [configuration(f"largest_{i}", values) for i, values in enumerate(LARGEST_POINTS)]
CONFIGS = [*COVERING.configs, *LARGE]


def named(config: TernaryLutConfig) -> str:
    return config.name


def sized(activation: str = "fp16", **fields: Any) -> TernaryLutConfig:
    array = {"group_size": 2, "tables": 3, "fetch_ports": 2, "alignment": "none"}
    array |= fields.pop("array", {})
    return TernaryLutConfig.model_validate(
        {"name": "sized", "activation": activation, "array": array, **fields}
    )


# -- golden model ----------------------------------------------------------------------------------


def reference(config: TernaryLutConfig, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return C by scalar additions of NumPy and ml_dtypes, one after the other."""
    scalar, wide = config.activation.dtype.type, config.result.dtype.type
    tables, mu = config.array.tables, config.array.group_size

    def group(x: list[Any], weights: list[int]) -> Any:
        """From the first non-zero weight to the last, with the first one's sign outside."""
        result = [(value, weight) for value, weight in zip(x, weights, strict=True) if weight]
        if config.array.method == "multiply":
            return x[0] * scalar(weights[0])
        if not result:
            return scalar(0)
        total, sign = result[0]
        for value, weight in result[1:]:
            total = total + (value if weight == sign else -value)
        return total if sign > 0 else -total

    def tree(values: list[Any]) -> Any:
        """Add up a balanced tree: the largest power of two on the left, odd ones moved up."""
        if len(values) == 1:
            return values[0]
        half = 1 << ((len(values) - 1).bit_length() - 1)
        return tree(values[:half]) + tree(values[half:])

    c = np.zeros((a.shape[0], w.shape[1]), config.result.dtype)
    pad = -a.shape[1] % config.terms
    a = np.concatenate([a, np.zeros((a.shape[0], pad), a.dtype)], axis=1)
    w = np.concatenate([w, np.zeros((pad, w.shape[1]), w.dtype)])
    for m, n in np.ndindex(c.shape):
        total = wide(0)
        for k in range(0, a.shape[1], config.terms):
            starts = range(k, k + tables * mu, mu)
            x = [[scalar(v) for v in a[m, s : s + mu]] for s in starts]
            weights = [w[s : s + mu, n].tolist() for s in starts]
            total = total + wide(tree([group(*pair) for pair in zip(x, weights, strict=True)]))
        c[m, n] = total
    return c


@pytest.mark.parametrize("config", CONFIGS, ids=named)
def test_golden_adds_in_the_order_of_the_contract(config: TernaryLutConfig) -> None:
    rng = np.random.default_rng(3)
    size = (3, 2 * config.terms + 1, 5)
    for kind in PATTERNS:
        a, w = draw_matrices(config, size, kind, rng)
        with np.errstate(all="ignore"):
            expected = reference(config, a, w)
        result = golden(config, a, w)
        assert result.dtype == config.result.dtype
        bits = config.result.encode(expected)  # every NaN is the canonical one
        wrong = differences(result, config.result.decode(bits))
        assert not len(wrong), (kind, wrong[0], result[tuple(wrong[0])], expected[tuple(wrong[0])])


def test_golden_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    config = sized()
    a, w = draw_matrices(config, (9, 20, 7), "random", np.random.default_rng(0))
    whole = golden(config, a, w)
    monkeypatch.setattr("hwgen.families.ternary_lut.golden._ELEMENTS", 1)
    assert not len(differences(golden(config, a, w), whole))


def test_order_of_the_additions() -> None:
    """Terms that one order of additions loses are retained in another."""
    config = sized(array={"group_size": 1, "tables": 4, "fetch_ports": 1}, accumulator="fp16")
    a = np.array([[2048, 1, 1, 1]], np.float16)  # 2048 + 1 is rounded to 2048
    w = np.ones((4, 1), np.int8)
    assert golden(config, a, w).tolist() == [[2050]]  # (2048 + 1) + (1 + 1)
    one_by_one = sized(array={"group_size": 1, "tables": 1, "fetch_ports": 1}, accumulator="fp16")
    assert golden(one_by_one, a, w).tolist() == [[2048]]


@pytest.mark.parametrize("method", ["lut", "select", "multiply"])
def test_zeros_infinities_and_nans(method: str) -> None:
    config = sized(array={"group_size": 1, "tables": 1, "fetch_ports": 1, "method": method})
    a = np.array([[-0.0], [np.inf], [-np.inf], [np.nan]], np.float16)
    zero = np.nan if method == "multiply" else 0.0
    for weight, expected in ((1, [0.0, np.inf, -np.inf, np.nan]), (0, [0.0, zero, zero, np.nan])):
        if weight == 0 and method != "multiply":
            expected[-1] = 0.0  # an activation that is not selected does not matter
        result = golden(config, a, np.array([[weight]], np.int8))
        canonical = np.array(expected, np.float32)[:, None]
        assert not len(differences(result, canonical)), (weight, result, expected)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3"])
def test_wider_arrays_of_exact_values_are_accepted(name: str) -> None:
    config = sized(name)
    a, w = draw_matrices(config, (4, 9, 3), "special", np.random.default_rng(2))
    for dtype in (np.float32, np.float64):
        assert not len(differences(golden(config, a.astype(dtype), w), golden(config, a, w)))


# -- RTL -------------------------------------------------------------------------------------------


def test_the_covering_set_is_complete() -> None:
    for name in ("fp16", "bf16"):
        result = {c.pipeline.reduce for c in CONFIGS if c.activation.name == name}
        assert result == {0, 1, 2, 4}
    sizes = {c.array.group_size for c in CONFIGS if c.array.method == "lut"}
    assert sizes == {1, 2, 3, 4, 5}


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "accumulate"), [(1, 3), (3, 2), (4, 3)])
def test_passes_wait_for_their_totals(groups: int, accumulate: int) -> None:
    """A pass of g groups takes max(g, accumulate + 1) cycles, the last of a reduction g."""
    config = sized(
        "fp8_e4m3",
        accumulator="fp8_e4m3",
        array={"tables": 1, "fetch_ports": 1, "accumulator_depth": 4},
        pipeline={"accumulate": accumulate},
    )
    m, k, n = 5, 40, groups
    a, w = draw_matrices(config, (m, k, n), "random", np.random.default_rng(0))
    result = run_product(design_of(config), a, w)
    assert not len(differences(result.result, golden(config, a, w)))
    passes = m * ((k // 2 - 1) * max(groups, accumulate + 1) + groups)
    assert result.cycles == cycles(config, m, k, n)
    assert result.cycles == passes + 1 + config.latency


@pytest.mark.parametrize("group_size", range(1, 8))
@pytest.mark.rotate(6)
def test_a_table_costs_one_adder_an_entry(group_size: int) -> None:
    for stages in (1, 2, 4) if group_size < 6 else (4,):
        array = {"group_size": group_size, "tables": 1, "fetch_ports": 1}
        config = sized(array=array, pipeline={"table": stages})
        table = module_text(design_of(config).verilog, "sized_table")
        adders = re.findall(r"^ *sized_add_fp16_(\d)", table, re.M)
        assert len(adders) == entries(group_size) - group_size
        assert not adders or max(map(int, adders)) == -(-(stages - 1) // (group_size - 1))


# -- mutations -------------------------------------------------------------------------------------

SMALL = {
    "activation": "fp8_e5m2",
    "accumulator": "fp8_e5m2",
    "array": {
        "group_size": 2,
        "tables": 3,
        "fetch_ports": 2,
        "accumulator_depth": 4,
        "fetch": "binary",
        "alignment": "none",
    },
    "pipeline": {"accumulate": 2},
}


MUTATIONS = [
    Mutation("sign ignored", "fetch", r"\^ key\[3\]", "", SMALL),
    Mutation("tree in another order", "column",
             r"\.b\(read_1_value\)((?s:.*))\.b\(read_2_value\)",
             r".b(read_2_value)\1.b(read_1_value)", SMALL),
    Mutation("another activation added", "table", r"\.b\(x\[15:8\]\)", ".b(x[7:0])", SMALL),
    Mutation("total used too early", "core", r"missing <= 2'h0;\s*else if \((\w+)\) missing <= ",
             r"missing <= 2'h0; else if (\1) missing <= 2'h1 & ", SMALL),
    Mutation("wait for the first row only", "core", r"(fire \? )waits",
             r"\1(begins ? waits : missing - |missing)", SMALL,
             tuple(f"stalls_{i}" for i in range(9))),
    Mutation("total not restarted", "column", r"starts \? \d+'[hd]0+ : ", "", SMALL),
    Mutation("total written a cycle early", "core", r"added_1 <= added_0", "added_1 <= flags_0",
             {**SMALL, "pipeline": {"accumulate": 2, "reduce": 1}}),
]  # fmt: skip


# -- commands --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_run_of_a_format_without_a_file_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files hold bf16 as float32; what bf16 does not hold is refused."""
    monkeypatch.chdir(tmp_path)
    text = "name: x\nfamily: ternary_lut\nactivation: bf16\naccumulator: bf16\n"
    Path("x.yaml").write_text(
        text + "array: {group_size: 2, tables: 1, fetch_ports: 1, alignment: none}\n"
    )
    config = load_config(Path("x.yaml"))
    assert isinstance(config, TernaryLutConfig)
    a, w = draw_matrices(config, (3, 5, 2), "special", np.random.default_rng(0))
    np.save("w.npy", w)
    command = ["run", "--config", "x.yaml", "--activations", "a.npy", "--weights", "w.npy",
               "--output", "c.npy", "--check"]  # fmt: skip
    np.save("a.npy", a.astype(np.float32))
    assert main(command) == 0
    c = np.load("c.npy")
    assert c.dtype == np.float32
    exact = floating("bf16").decode(floating("bf16").encode(c))
    assert not len(differences(exact, golden(config, a, w)))
    for array, message in (
        (np.full((3, 5), 0.1, np.float32), r"must be bf16 numbers, but 15 of 15 are none, first 0"),
        (np.ones((3, 5), np.int8), r"must be floating-point numbers, not int8; convert them"),
        (a, r"must hold integers or floats, not \|V2; save bf16 and 8-bit floats as float32"),
    ):
        np.save("a.npy", array)
        assert main([*command, "--force"]) == 2
        assert re.search(message, capsys.readouterr().err)


# -- bad input -------------------------------------------------------------------------------------


def test_the_default_accumulator_is_wide() -> None:
    config = parse_config("name: x\nfamily: ternary_lut\nactivation: bf16\n", "x.yaml")
    assert isinstance(config, TernaryLutConfig)
    assert config.result == floating("fp32")
    resolved = config.resolved()
    assert resolved["accumulator"] == "fp32"
    assert "overflow" not in resolved
    assert TernaryLutConfig.model_validate(resolved) == config


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(value: float) -> None:
    """As activations they are data; a scale cannot be made of them."""
    with pytest.raises(InputError, match=r"^weights: must be finite, but 1 of 2 are not, first W"):
        pack(sized(), np.array([[1.0, value]]))


def test_packed_weights_of_the_baseline() -> None:
    config = sized(array={"group_size": 1, "method": "multiply"})
    w = np.random.default_rng(0).integers(-1, 2, (7, 5))
    plan = Schedule(config, 1, 7, 5)
    image = plan.pack_weights(w)
    assert np.array_equal(plan.unpack_weights(image), w)
    for high, message in ((0x38, "-1, 0 and 1$"), (0x40, r"-1\.\.1 \(ternary\), found -1\.\.2")):
        image.reshape(-1)[1] = high  # 0.5 and 2.0
        with pytest.raises(InputError, match=f"^packed weights: must be {message}"):
            plan.unpack_weights(image)


CONTRACT = Contract(
    "lut_float",
    "ternary_lut",
    covering=COVERING,
    regressions=(
        Regressions(LARGE, every=27),
        Regressions(LARGEST, long=True),
    ),
    clean=CONFIGS[::9],
    clean_every=8,
    mutations=(
        Mutations(
            TernaryLutConfig,
            ("shapes_0", "shapes_7", "values_random", "stalls_4", "back_to_back_full_rate"),
            MUTATIONS,
            every=27,
        ),
    ),
    refused=(
        (
            "activation: fp16\naccumulator: exact",
            r"x\.yaml:4:1: accumulator: must be fp32 or fp16 with activation fp16, not exact; su",
        ),
        (
            "activation: bf16\naccumulator: int32",
            r".* fp32 or bf16 with activation bf16, not int32; sums of floating-point",
        ),
        ("activation: bf16\naccumulator: fp16", r".*: must be fp32 or bf16 with .*, not fp16; "),
        (
            "accumulator: fp32",
            r"x\.yaml:3:1: accumulator: must be exact or an integer with activation int8, not fp32",
        ),
        (
            "activation: fp16\noverflow: saturate",
            r"x\.yaml:4:1: overflow: must be wrap with activation fp16; a floating-point sum",
        ),
        (
            "pipeline: {accumulate: 1}",
            r"x\.yaml:3:12: pipeline\.accumulate: must be 0 with activation int8; integers are",
        ),
        (
            "activation: fp16\npipeline: {accumulate: 5}",
            r".*accumulate: must be auto or 0\.\.4, not 5",
        ),
        (
            "activation: fp16\narray: {reduction: compressors, alignment: none}",
            r"x\.yaml:4:9: array\.reduction: must be adders with activation fp16 and align",
        ),
        (
            "activation: fp32",
            r".*: activation: must be int2\.\.int16, .*, fp16, bf16, fp8_e5m2 or fp8_e4m3, not 'f",
        ),
        (
            "activation: fp16\nweight: int8",
            r"x\.yaml:4:1: weight: must be ternary or int1\.\.int4, not",
        ),
    ),
)
