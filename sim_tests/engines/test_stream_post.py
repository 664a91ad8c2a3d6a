# SPDX-License-Identifier: Apache-2.0
"""Post-processing behind stream cores: configuration, beats, golden model, RTL, ``run --post``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_model.sweep.fitted import Fitted
from flows.build.build import Build
from flows.build.files import description
from flows.build.load import parse_config
from flows.simulation.operands import draw_matrices
from flows.simulation.post_cases import columns_of, settings_of
from flows.simulation.runner import case_names
from hwgen.cli import main
from hwgen.config.dotted import flattened
from hwgen.core.golden.post import apply
from hwgen.core.operation import RECORDS, gemm_operands
from hwgen.core.post import RECORD_BYTES, Columns, PostSettings
from hwgen.core.post.beats import HEAD_BITS
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.systolic.params import SystolicConfig
from hwgen.workloads import network_of
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.engines.test_block_engines import drawn
from sim_tests.support.cores import cycles, cycles_of, golden
from sim_tests.support.cores import plan as gemm_plan
from sim_tests.support.designs import design_of, estimate_of
from sim_tests.support.emitted import assert_clean
from sim_tests.support.mutations import Mutation
from sim_tests.support.regression import assert_regression_passes
from sim_tests.support.selection import commit_seed

OS = "family: systolic\narray: {rows: 4, cols: 5}\n"
WS = (
    "family: systolic\n"
    "array: {rows: 3, cols: 4, dataflow: weight_stationary, accumulator_depth: 7}\n"
)
IS = WS.replace("weight", "input")
LUT = (
    "family: ternary_lut\narray: {group_size: 2, tables: 3, fetch_ports: 4, accumulator_depth: 2}\n"
)
ONE = "family: systolic\narray: {rows: 1, cols: 1}\n"
W2 = (
    "family: ternary_lut\nweight: int2\nactivation: uint5\n"
    "array: {group_size: 3, tables: 2, fetch_ports: 5, accumulator_depth: 1}\n"
)
MANY = (
    "post: {outputs: [raw, int8, uint4, fp32, bf16], activations: [none, relu, leaky],"
    " roundings: [half_even, half_away, half_up, floor]}\n"
)
CUBE = "family: cube\narray: {rows: 3, cols: 2, depth: 4}\n"
TREE = "family: adder_tree\narray: {cols: 3, depth: 5}\n"
BROADCAST = "family: broadcast_2d\narray: {rows: 3, cols: 2, pe: carry_save}\n"
SERIAL = "family: cube\narray: {rows: 2, cols: 3, depth: 8, pe: serial_group, encoding: ent}\n"
LANES = "family: broadcast_2d\narray: {rows: 2, cols: 3, pe: serial_digit, encoding: booth4}\n"
CORES = {
    "os": OS + "post: {outputs: [int8, int16]}\n",
    "os_tensor": OS + "post: {outputs: [raw, fp16], columns: false}\n",
    "os_one": ONE + "post: {outputs: [int4], activations: [relu]}\n",
    "ws": WS + MANY,
    "is": IS + MANY,
    "lut": LUT + "post: {outputs: [uint8, int16], activations: [none, leaky]}\n",
    "w2": W2 + "post: {outputs: [raw]}\n",
    "cube": CUBE + MANY,
    "tree": TREE + "post: {outputs: [int8], activations: [none, relu]}\n",
    "broadcast": BROADCAST + "post: {outputs: [raw, int16], activations: [none, relu]}\n",
    "serial": SERIAL + "post: {outputs: [int8, uint4], roundings: [half_even, floor]}\n",
    "blocks": (
        "family: adder_tree\nactivation: mxfp4\nweight: mxfp4\naccumulator: fp32\n"
        "array: {cols: 3, depth: 16}\n" + MANY
    ),
    "blocks_os": (
        "family: systolic\nactivation: mxfp8_e4m3\nweight: mxfp4\naccumulator: exact\n"
        "array: {rows: 2, cols: 3}\npost: {outputs: [uint8, fp16]}\n"
    ),
    "blocks_is": (
        "family: systolic\nactivation: nvfp4\nweight: nvfp4\naccumulator: fp32\n"
        "array: {rows: 16, cols: 2, dataflow: input_stationary, accumulator_depth: 3}\n"
        "post: {outputs: [int8, fp32]}\n"
    ),
    "lanes": LANES + "post: {outputs: [int4, bf16], columns: false}\n",
}
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 25), st.integers(1, 14))


def config_of(name: str) -> Any:
    return parse_config(f"name: {name}\n{CORES[name]}")


# -- configuration ---------------------------------------------------------------------------------

REFUSED = (
    (
        OS + "post: {columns: false}",
        r"4:\d+: post\.columns: has no effect without post\.outputs; name outputs, or remove it",
    ),
    (
        "family: ternary_lut\nactivation: fp16\npost: {outputs: [int8]}",
        r"4:\d+: post\.outputs: must be empty with activation fp16, not int8; .*, not of fp32",
    ),
    (OS + "post: {outputs: [int7]}", r"4:\d+: post\.outputs.*int7.*"),
    (
        OS + "post: {outputs: [raw], activations: [leaky]}",
        r"4:\d+: post\.activations: leaky scales negative numbers, but raw outputs are not .*",
    ),
    (
        "family: gemm_stream\npost: {outputs: [raw], activations: [leaky]}",
        r"3:\d+: post\.activations: leaky scales negative numbers, but raw outputs are not .*",
    ),
    (
        "family: gemm_stream\ncompute: {family: systolic, post: {outputs: [int8]}}",
        r"3:\d+: compute\.post: belongs to the engine; remove it here",
    ),
)


@pytest.mark.parametrize("core", [OS, LUT])
def test_without_outputs_nothing_changes(core: str) -> None:
    plain: Any = parse_config("name: core\n" + core)
    empty: Any = parse_config("name: core\n" + core + "post: {outputs: []}\n")
    assert empty.resolved() == plain.resolved()
    assert empty.digest == plain.digest
    assert [port.name for port in plain.ports] == ["act", "wgt", "out"]


@pytest.mark.parametrize("name", CORES)
def test_a_configuration_survives_its_own_dump(name: str) -> None:
    config = config_of(name)
    again = type(config).model_validate(config.resolved())
    assert again == config
    assert again.ports == config.ports
    assert hash(again) == hash(config)


# -- beats -----------------------------------------------------------------------------------------


@given(name=st.sampled_from(sorted(CORES)), size=SIZES, seed=st.integers(0, 1 << 30))
@settings(max_examples=120)
def test_every_beat_of_results_meets_its_columns(
    name: str, size: tuple[int, int, int], seed: int
) -> None:
    """Beats of port ``post`` count all beats of results, with the records of their columns."""
    config, rng = config_of(name), np.random.default_rng(seed)
    chosen = settings_of(config)
    job = chosen[seed % len(chosen)]
    columns = columns_of(job, size[2], config, rng)
    plan = gemm_plan(config, *size, job)
    a, w = draw_matrices(config, size, "random", rng)
    beats = np.concatenate([beat for beat, _ in plan.pack(gemm_operands(a, w, columns))["post"]])
    words = beats.view("<u4").astype(np.int64)
    counts = words[:, HEAD_BITS // 32 - 1] + 1
    assert counts.sum() == plan.output_beats
    assert (words[:, : HEAD_BITS // 32 - 1] == list(job.registers(config.result).values())).all()
    if columns is None:
        assert len(beats) == 1
        return
    images = columns.encode()
    served = np.repeat(np.arange(len(beats)), counts)
    for m in range(size[0]):
        for n in range(size[2]):
            beat = beats[served[plan.locate("result", (m, n))], HEAD_BITS // 8 :]
            records = beat.reshape(-1, RECORD_BYTES)
            assert (records[n % config.columns_per_beat] == images[n]).all()


@pytest.mark.parametrize("name", CORES)
def test_golden_is_the_product_and_then_the_block(name: str) -> None:
    config, rng = config_of(name), np.random.default_rng(0)
    plain = type(config).model_validate({**config.resolved(), "post": {"outputs": []}})
    a, w = draw_matrices(config, (5, 9, 7), "random", rng)
    for job in settings_of(config):
        columns = columns_of(job, 7, config, rng)
        expected = apply(job, config.result, golden(plain, a, w), columns)
        result = golden(config, a, w, job, columns)
        assert result.dtype == expected.dtype
        assert result.tobytes() == expected.tobytes()


def test_jobs_that_do_not_fit_are_refused() -> None:
    config, job = config_of("os"), PostSettings("int8", columns=True)
    with pytest.raises(InputError, match=r"output: this hardware has int8, int16, not raw"):
        _ = gemm_plan(config, 2, 3, 4).processing
    records = Columns.scaled("int8", np.ones(3)).encode()
    with pytest.raises(InputError, match=r"columns: must be as many as W has, 4, not 3"):
        gemm_plan(config, 2, 3, 4, job).with_records({RECORDS: records})
    with pytest.raises(InputError, match=r"columns: settings and column records do not fit"):
        gemm_plan(config, 2, 3, 4, job).with_records({})
    plain = parse_config("name: plain\n" + OS)
    with pytest.raises(InputError, match=r"'plain' has no post-processing; build it with post"):
        _ = gemm_plan(plain, 2, 3, 4, job).processing


# -- hardware --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORES)
def test_the_regression_has_a_case_for_each_setting(name: str) -> None:
    cases = [case for case in case_names(config_of(name), 0) if case.startswith("post_")]
    assert len(cases) == len(settings_of(config_of(name)))


@pytest.mark.parametrize("number", range(4))
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_cores_of_blocks_drawn_at_random(number: int, tmp_path: Path) -> None:
    engine = drawn(np.random.default_rng([commit_seed(), number]))
    core, post = engine.compute, engine.post.model_dump(exclude={"max_lanes"})
    config = type(core).model_validate({**core.resolved(), "post": post, "max_k": 300})
    assert_regression_passes(config, tmp_path)


@pytest.mark.parametrize("name", ["os", "is", "lut"])
def test_emitted_files(name: str, tmp_path: Path) -> None:
    config = config_of(name)
    assert_clean(config, tmp_path)
    described = description(core_of(config))
    stream = next(s for s in described["streams"] if s["prefix"] == "s_axis_post")
    records = {"os": 5, "is": 1, "lut": 4}[name]
    assert stream["tdata_bits"] == 256 + 128 * records
    assert [word["name"] for word in stream["words"]][-1] == "POST_REPEAT"
    header = Build(design_of(config)).files[f"{name}_regs.h"]
    assert f"#define {name.upper()}_POST_REPEAT 7 " in header
    assert f"#define {name.upper()}_OUT_LANE_BITS {32 if name == 'is' else 16}" in header


MUTANT = {"array": {"rows": 4, "cols": 5}, "post": {"outputs": ["int8"], "activations": ["none"]}}
MUTATIONS = [
    Mutation("records kept too long", "core", r"post_served == ", "post_served == 32'd1 + ",
             MUTANT, ("post_1",)),
    Mutation("counts what nobody takes", "core", r"if \(post_fire\) post_served",
             "if (out__valid & post_valid) post_served", MUTANT, ("stalls_2", "stalls_6")),
    Mutation("results without settings", "core", r"assign post_fire = .*?;",
             "assign post_fire = out__valid & post_run;", MUTANT, ("late_settings",)),
    Mutation("a count that outlives a reset", "core",
             r"\{ (post_\w+), rst \}", r"{ \1, 1'b0 }", MUTANT, ("reset_1", "reset_3")),
]  # fmt: skip


# -- cost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os", "ws", "is", "lut"])
def test_cycles_are_exact_and_costs_estimated(name: str) -> None:
    config = config_of(name)
    sizes = [(5, 9, 7), (1, 1, 1), (20, 30, 11)]
    workloads = {"w": sizes}
    result = estimate_of(config, "nangate45", 500.0, workloads)
    metrics = result["metrics"]
    assert metrics["cycles(w)"] == cycles_of(config, sizes)
    clock = min(500, metrics["fmax_mhz"] or 500)
    bits = sum(port.lanes * port.lane_width for port in config.ports)
    assert metrics["bandwidth_gb_s"] == pytest.approx(bits / 8 * clock * 1e-3)
    assert metrics["area_mm2"] > 0


def test_sizes_of_cores_with_post_processing_vary() -> None:
    """A core's shape does not matter to the length of post-processing."""
    config = config_of("os")
    fixed = flattened(config.resolved())
    del fixed["array.rows"]
    workloads = {"w": network_of([(8, 8, 8)])}
    result = Fitted()("systolic", fixed, {"array.rows": np.array([2, 4])}, "nangate45", workloads)
    assert result["valid"].all()
    assert result["cycles(w)"][1] == cycles(config, 8, 8, 8)


# -- hwgen run -------------------------------------------------------------------------------------

ENGINE = (
    "name: engine\nfamily: gemm_stream\n"
    "compute: {family: systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}}\n"
    "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
)
POST = "output: int8\nactivation: relu\nscale: [0.01, 0.02, 0.03]\nbias: bias.npy\nzero: -3\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    np.save("a.npy", rng.integers(-128, 128, (6, 9)))
    np.save("w.npy", rng.integers(-128, 128, (9, 3)))
    np.save("bias.npy", np.array([100, -2000, 7]))
    np.savez("b.npz", np.arange(3))
    Path("core.yaml").write_text("name: core\n" + CORES["os"], encoding="utf-8")
    Path("engine.yaml").write_text(ENGINE, encoding="utf-8")
    Path("post.yaml").write_text(POST, encoding="utf-8")
    return tmp_path


def run(config: str, *options: str) -> int:
    return main(
        ["run", "--config", config, "--activations", "a.npy", "--weights", "w.npy",
         "--output", "c.npy", "--force", *options]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotate(24)
def test_core_and_engine_give_the_same(files: Path) -> None:
    columns = Columns.scaled("int8", [0.01, 0.02, 0.03], bias=np.load("bias.npy"))
    product = np.load("a.npy") @ np.load("w.npy")
    job = PostSettings("int8", "relu", columns=True, zero=-3)
    expected = apply(job, config_of("os").result, product, columns)
    for config, engine in (("core", "fast"), ("core", "cocotb"), ("engine", "fast")):
        assert run(f"{config}.yaml", "--post", "post.yaml", "--driver", engine, "--check") == 0
        result = np.load("c.npy")
        assert result.dtype == np.int8
        assert np.array_equal(result, expected)
    Path("post.json").write_text(
        '{"output": "int8", "multiplier": 3, "shift": [1, 2, 9], "maximum": 50}', encoding="utf-8"
    )
    assert run("core.yaml", "--post", "post.json", "--check") == 0
    expected = np.clip(np.rint(product * 3 / 2.0 ** np.array([1, 2, 9])), -128, 50)
    assert np.array_equal(np.load("c.npy"), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output: int7", r"post\.yaml:1:1: output: must be raw, int4, .*, not 'int7'"),
        ("activation: relu", r"post\.yaml:1:1: output: missing; add `output: \.\.\.`"),
        ("output: int8\nsacle: 2", r"post\.yaml:2:1: sacle: unknown key \(did you mean 'scale'"),
        ("output: fp16", r"post\.yaml:1:1: output: this hardware has int8, int16, not fp16"),
        ("output: int8\nbias: no.npy", r"post\.yaml:2:1: bias: .*no\.npy does not exist"),
        ("output: int8\nbias: b.npz", r"post\.yaml:2:1: bias: .*b\.npz is not a readable \.npy"),
        ("output: int8\nbias: [1, 2]", r"post\.yaml:2:1: bias: must be a number or 3, one for"),
        ("output: int8\nslope: 0.1", r"post\.yaml:2:1: slope: only activation leaky has a slope"),
        ("output: int8\nscale: 2\nshift: 1", r"post\.yaml:3:1: shift: scale is given as well"),
        ("output: int8\nscale: [1, 2, 1.0e+300]", r"post\.yaml:2:1: scale: must be finite and"),
        ("output: int8\nbias: 5000000000", r"post\.yaml:2:1: bias: must be -2147483648\.\."),
        ("output: int8\nmaximum: 128", r"post\.yaml:2:1: maximum: must be .* \(int8\), not 128"),
    ],
)
def test_files_of_settings_that_cannot_be_used(
    files: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("post.yaml").write_text(text + "\n", encoding="utf-8")
    assert run("core.yaml", "--post", "post.yaml") == 2
    assert re.search(message, error := capsys.readouterr().err), error


def test_post_needs_hardware_and_hardware_without_raw_needs_post(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("core.yaml") == 2
    assert "gives no raw results but int8, int16; say with --post" in capsys.readouterr().err
    Path("core.yaml").write_text("name: plain\n" + OS, encoding="utf-8")
    assert run("core.yaml", "--post", "post.yaml") == 2
    assert "--post: 'plain' has no post-processing; name post.outputs" in capsys.readouterr().err


CONTRACT = Contract(
    "stream_post",
    "systolic",
    regressions=(Regressions([config_of(name) for name in CORES], every=12, seed=0),),
    mutations=(Mutations(SystolicConfig, ("shapes_3", "reset_0"), MUTATIONS),),
    refused=[(text, rf"^x\.yaml:{message}$") for text, message in REFUSED],
)
