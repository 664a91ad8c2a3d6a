# SPDX-License-Identifier: Apache-2.0
"""The demonstration: training, quantisation, agreement of RTL and golden model, the picture."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.demonstration import demo, digits
from flows.demonstration import on_engine as demo_engine
from flows.demonstration.digits import Digits, Integers, Network
from flows.simulation.bus.job_host import open_engine
from flows.simulation.placed_products import Placed
from flows.simulation.run import JobRun
from flows.simulation.verilator.verilator import FEW_CYCLES
from hwgen.cli import main
from hwgen.core.golden.post import apply
from hwgen.errors import CheckFailed, InputError
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.formats import TERNARY, IntegerFormat, integer
from hwgen.formats.registry import number_format
from sim_tests.support.cores import cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT

SMALL = """\
name: demo_small
family: systolic
activation: uint8
weight: int6
array: {rows: 4, cols: 4, dataflow: %s}
"""
TERNARY_SMALL = """\
name: demo_ternary
family: ternary_lut
activation: int8
array: {method: %s, group_size: %d, tables: 4, fetch_ports: 6}
"""
ENGINE = """\
name: demo_engine
family: gemm_stream
compute: {family: %s}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
memory: {data_width: 64}
post: {outputs: [%s], roundings: [half_up], activations: [none, relu], max_lanes: 2}
"""
CORES = {
    "systolic": "systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}",
    "unsigned": "systolic, activation: uint8, weight: int5, array: {rows: 3, cols: 5}",
    "ternary": "ternary_lut, array: {group_size: 2, tables: 3, fetch_ports: 4}",
}
WIDE = integer("int64")


@pytest.fixture(scope="module")
def data() -> Digits:
    return digits.load()


@pytest.fixture(scope="module")
def network(data: Digits) -> Network:
    return digits.train(data)


@pytest.fixture(scope="module")
def ternary(data: Digits) -> Network:
    return digits.train(data, digits.HIDDEN_TERNARY, ternary=True)


def ternary_small(method: str = "lut", group_size: int = 3) -> Any:
    return parse_config(TERNARY_SMALL % (method, group_size), "small.yaml")


def small(dataflow: str = "output_stationary") -> Any:
    return parse_config(SMALL % dataflow, "small.yaml")


def engine(core: str) -> Any:
    output = "uint8" if core == "unsigned" else "int8"
    return parse_config(ENGINE % (CORES[core], output), "engine.yaml")


def multiply(a: Integers, w: Integers) -> Integers:
    return a.astype(np.int64) @ w.astype(np.int64)


def golden_run(design: Design, a: Integers, w: Integers, **_: object) -> JobRun:
    """Stand in for the simulation."""
    config = design.params
    (m, k), n = a.shape, w.shape[1]
    return JobRun({"result": golden(config, a, w)}, cycles(config, m, k, n))


# -- data and training ---------------------------------------------------------------------------


def test_the_split_is_whole_and_has_every_digit(data: Digits) -> None:
    assert len(data.test_labels) == 360
    assert len(data.test_labels) + len(data.train_labels) == 1797
    assert set(data.test_labels) == set(data.train_labels) == set(range(10))
    assert data.train_pixels.min() == 0
    assert data.train_pixels.max() == digits.PIXEL_MAX


def test_training_is_deterministic_and_accurate(data: Digits, network: Network) -> None:
    again = digits.train(data)
    for one, other in zip(network.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert digits.accuracy(network.classify(data.test_pixels), data.test_labels) >= 0.97


def test_ternary_training_is_deterministic_and_accurate(data: Digits, ternary: Network) -> None:
    again = digits.train(data, digits.HIDDEN_TERNARY, ternary=True)
    for one, other in zip(ternary.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert digits.accuracy(ternary.classify(data.test_pixels), data.test_labels) >= 0.97


def test_trained_ternary_weights_are_ternary(ternary: Network) -> None:
    assert [weight.shape for weight in ternary.weights] == [(64, 64), (64, 10)]
    for weight in ternary.weights:
        for column in weight.T:
            scale = np.abs(column).max()
            assert scale > 0
            assert set(column / scale) <= {-1, 0, 1}


def test_ternarise_uses_the_mean_magnitude_of_each_column() -> None:
    weight = np.array([[3.0, 0, 0.5], [-1, 0, 0], [-0.25, 0, 0], [0.75, 0, 0]])
    expected = [[1.25, 0, 0.125], [-1.25, 0, 0], [0, 0, 0], [1.25, 0, 0]]
    np.testing.assert_array_equal(digits.ternarise(weight), expected)


@pytest.mark.parametrize(
    ("weight", "wanted"),
    [("int2", True), ("uint2", True), ("int3", True), ("int4", False), ("uint8", False)],
)
def test_the_weight_format_decides_the_training(weight: str, wanted: bool) -> None:
    assert digits.wants_ternary(integer(weight)) == wanted


def test_ternary_formats_want_ternary_training() -> None:
    assert digits.wants_ternary(TERNARY)
    assert not digits.wants_ternary(number_format("fp16"))
    assert not digits.wants_ternary(IntegerFormat(1, signed=False))


# -- quantisation --------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["int4", "uint4", "int8", "uint8", "uint16"])
@pytest.mark.parametrize("weight", ["int4", "uint4", "int8", "uint8", "int16"])
def test_quantised_accuracy(data: Digits, network: Network, activation: str, weight: str) -> None:
    formats = integer(activation), integer(weight)
    quantised = digits.quantise(network, data.train_pixels, *formats, WIDE)

    def product(a: Integers, w: Integers) -> Integers:
        for operand, fmt in zip((a, w), formats, strict=True):
            assert fmt.min <= operand.min() <= operand.max() <= fmt.max
        return multiply(a, w)

    answers = quantised.classify(data.test_pixels, product)
    floor = 0.97 if min(fmt.width for fmt in formats) >= 8 else 0.95
    assert digits.accuracy(answers, data.test_labels) >= floor


def test_eight_bits_follow_floating_point(data: Digits, network: Network) -> None:
    fmt = integer("int8")
    quantised = digits.quantise(network, data.train_pixels, fmt, fmt, WIDE)
    answers = quantised.classify(data.test_pixels, multiply)
    assert np.mean(answers == network.classify(data.test_pixels)) >= 0.99


@pytest.mark.parametrize("activation", ["int4", "uint4", "int8", "uint8", "int16"])
@pytest.mark.parametrize(
    "weight", [TERNARY, *map(integer, ("int2", "uint2", "int3", "int8"))], ids=str
)
def test_ternary_accuracy(
    data: Digits, ternary: Network, activation: str, weight: IntegerFormat
) -> None:
    quantised = digits.quantise(ternary, data.train_pixels, integer(activation), weight, WIDE)
    for layer in quantised.layers:
        signed = layer.weight.astype(np.int64) - layer.offset
        assert len(np.unique(np.abs(signed))) == 2  # zero, and one magnitude
        assert weight.min <= layer.weight.min() <= layer.weight.max() <= weight.max
    answers = quantised.classify(data.test_pixels, multiply)
    assert digits.accuracy(answers, data.test_labels) >= 0.97


def engine_of(text: str) -> GemmStreamConfig:
    config = parse_config(text)
    assert isinstance(config, GemmStreamConfig)
    return config


def test_requantisation_rounds_and_clamps() -> None:
    zero = np.zeros(1, np.int64)
    layer = digits.Layer(np.ones((1, 1), int), 0, zero, zero + 3, 2)  # times 3/4
    totals = np.array([[-100], [0], [1], [2], [3], [9], [10], [1000]])
    assert layer.requantise(totals, 7)[:, 0].tolist() == [0, 0, 1, 2, 2, 7, 7, 7]


@pytest.mark.parametrize("activation", ["int4", "int8", "uint8", "int16"])
def test_an_engine_requantises_like_the_network(
    data: Digits, network: Network, activation: str
) -> None:
    formats = integer(activation), integer("int6")
    quantised = digits.quantise(network, data.train_pixels, *formats, WIDE)
    config = engine_of(
        ENGINE % (f"systolic, activation: {activation}, array: {{rows: 4, cols: 4}}", activation)
    )
    layer, accumulator = quantised.layers[0], integer("int40")
    rng = np.random.default_rng(0)
    acc = (
        rng.integers(-(1 << 24), 1 << 24, (1000, len(layer.bias)))
        >> rng.integers(0, 20, 1000)[:, None]
    )
    hidden, _ = demo_engine.settings_of(config)
    expected = layer.requantise(acc + layer.bias, quantised.activation.max)
    result = apply(hidden, accumulator, acc, demo_engine.columns_of(layer))
    np.testing.assert_array_equal(result, expected)
    half = replace(layer, bias=0 * layer.bias, multiplier=0 * layer.multiplier + 1, shift=1)
    ties = np.repeat(np.arange(-9, 9)[:, None], len(layer.bias), axis=1)
    result = apply(hidden, accumulator, ties, demo_engine.columns_of(half))
    np.testing.assert_array_equal(result, half.requantise(ties, quantised.activation.max))


@pytest.mark.parametrize(
    ("activation", "weight", "text"),
    [
        (integer("int3"), integer("int8"), "activation: the network cannot use int3"),
        (integer("int8"), IntegerFormat(1, signed=False), "weight: the network cannot use uint1"),
        (number_format("fp16"), integer("int8"), "activation: the network cannot use fp16"),
    ],
)
def test_useless_formats_are_refused(
    data: Digits, network: Network, activation: Any, weight: Any, text: str
) -> None:
    with pytest.raises(InputError, match=f"{text}; .* at least 4 bits"):
        digits.quantise(network, data.train_pixels, activation, weight, WIDE)


def test_a_narrow_accumulator_is_refused(data: Digits, network: Network) -> None:
    eight = integer("int8")
    with pytest.raises(InputError, match=r"sums of layer 1 reach -\d+\.\.\d+, but int12 holds"):
        digits.quantise(network, data.train_pixels, eight, eight, IntegerFormat(12, True))


# -- the RTL -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dataflow", ["output_stationary", "weight_stationary", "input_stationary"])
def test_rtl_equals_the_golden_model(data: Digits, network: Network, dataflow: str) -> None:
    config = small(dataflow)
    quantised = digits.quantise(
        network, data.train_pixels, config.activation, config.weight, config.result
    )
    pixels = data.test_pixels[:30]
    answers, layers = demo.classify(design_of(config), quantised, pixels, quiet=True)
    np.testing.assert_array_equal(answers, quantised.classify(pixels, multiply))
    assert [(layer.m, layer.k, layer.n) for layer in layers] == [(30, 64, 32), (30, 32, 10)]
    assert all(layer.cycles == layer.model_cycles for layer in layers)
    assert all(0 < layer.utilisation <= 1 for layer in layers)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "group_size"), [("lut", 3), ("select", 1), ("multiply", 1)])
def test_ternary_rtl_equals_the_golden_model(
    data: Digits, ternary: Network, method: str, group_size: int
) -> None:
    config = ternary_small(method, group_size)
    quantised = digits.quantise(
        ternary, data.train_pixels, config.activation, config.weight, config.result
    )
    pixels = data.test_pixels[:20]
    answers, layers = demo.classify(design_of(config), quantised, pixels, quiet=True)
    np.testing.assert_array_equal(answers, quantised.classify(pixels, multiply))
    assert [(layer.m, layer.k, layer.n) for layer in layers] == [(20, 64, 64), (20, 64, 10)]
    assert all(layer.cycles == layer.model_cycles for layer in layers)


@pytest.mark.slow
@pytest.mark.parametrize("core", ["systolic", "ternary"])
@pytest.mark.rotate(6)
def test_an_engine_does_the_whole_inference(
    data: Digits, network: Network, ternary: Network, core: str
) -> None:
    config, trained = engine(core), ternary if core == "ternary" else network
    quantised = digits.quantise(
        trained, data.train_pixels, config.activation, config.weight, config.result
    )
    pixels = data.test_pixels[:15]
    host = open_engine(design_of(config), cycles=FEW_CYCLES, read_latency=1, write_latency=1)
    with host.model:
        answers, expected, layers = demo_engine.classify(host, quantised, pixels)
        first, second = demo_engine.jobs_of(config, quantised, pixels)
        stood = host.results(first)
    np.testing.assert_array_equal(answers, expected)
    np.testing.assert_array_equal(stood, first.expected)
    assert second.job.a_address == first.job.c_address
    assert second.a is None
    assert digits.accuracy(answers, quantised.classify(pixels, multiply)) > 0.8
    for layer in layers:
        assert layer.cycles == pytest.approx(layer.model_cycles, rel=0.05)
        assert layer.moved is not None
        assert layer.moved >= layer.m * layer.k + layer.m * layer.n


class GoldenHost:
    """Stand in for an engine and its host; `error` is added to one result."""

    def __init__(self, config: Any, error: int = 0, state: str = "done") -> None:
        self.config, self.error, self.state = config, error, state
        self.model: Any = nullcontext()
        self.time = 0

    def put(self, placed: Placed) -> None:
        pass

    def counters(self) -> dict[str, int]:
        self.time += 100_000
        return {"BUSY": self.time, "READS": self.time // 2, "WRITES": self.time // 4}

    def submit(self, job: Any) -> int:
        return 0

    def wait(self, number: int, limit: int, on_progress: Any = None) -> str:
        on_progress(self.time)
        return self.state

    def results(self, placed: Placed) -> Integers:
        assert placed.expected is not None
        result = placed.expected.copy()
        result[1, 2] += self.error
        return result


def test_a_wrong_byte_of_an_engine_is_reported(data: Digits, network: Network) -> None:
    config = engine("systolic")
    quantised = digits.quantise(
        network, data.train_pixels, config.activation, config.weight, config.result
    )
    host: Any = GoldenHost(config, error=1)
    with pytest.raises(CheckFailed, match=r"layer 1: 1 of 96 .* first result\[1,2\]: expected"):
        demo_engine.classify(host, quantised, data.test_pixels[:3])
    host = GoldenHost(config, state="read_error")
    with pytest.raises(CheckFailed, match="layer 1 ended with read_error"):
        demo_engine.classify(host, quantised, data.test_pixels[:3])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("[half_up]", "[half_even]", "rounding: this hardware has half_even, not half_up"),
        ("[none, relu]", "[none]", "activation: this hardware has none, not relu"),
        ("outputs: [int8]", "outputs: [raw]", "output: this hardware has raw, not int8"),
        ("max_lanes: 2", "columns: false", "columns: this hardware has no column records"),
        ("systolic,", "systolic, weight: uint4,", "compute.weight: must be signed .* not uint4"),
        (
            "systolic,",
            "systolic, activation: int12,",
            "output: must be one of raw, .*, not 'int12'",
        ),
    ],
)
def test_an_engine_that_lacks_something_is_refused(old: str, new: str, text: str) -> None:
    description = ENGINE % (CORES["systolic"], "int8")
    assert old in description
    with pytest.raises(InputError, match=text):
        demo_engine.settings_of(engine_of(description.replace(old, new)))


def test_a_wrong_result_is_reported() -> None:
    def wrong(*arguments: Any, **options: Any) -> JobRun:
        result = golden_run(*arguments, **options)
        result.result[1, 2] += 5
        return result

    with pytest.raises(CheckFailed, match=r"1 of 9 .* first result\[1,2\]: expected 4, got 9"):
        demo.run_layer(Design.of(small()), np.ones((3, 4), int), np.ones((4, 3), int), run=wrong)


def test_a_wrong_number_of_cycles_is_reported() -> None:
    def slow(*arguments: Any, **options: Any) -> JobRun:
        result = golden_run(*arguments, **options)
        return replace(result, cycles=result.cycles + 1)

    with pytest.raises(CheckFailed, match="the cycle model says"):
        demo.run_layer(Design.of(small()), np.ones((3, 4), int), np.ones((4, 3), int), run=slow)


@pytest.mark.parametrize(
    ("method", "group_size", "bits"),
    [("lut", 1, 2), ("lut", 2, 2), ("lut", 5, 1.6), ("select", 1, 2), ("multiply", 1, 2)],
)
def test_bits_of_a_ternary_weight(method: str, group_size: int, bits: float) -> None:
    assert demo.weight_bits(ternary_small(method, group_size)) == pytest.approx(bits)


def test_bits_of_an_integer_weight() -> None:
    assert demo.weight_bits(small()) == 6


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run_product", golden_run)
    monkeypatch.setattr(demo, "compile_design", lambda config: None)


@pytest.mark.usefixtures("no_simulation")
def test_the_command_builds_reports_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, output = tmp_path / "small.yaml", tmp_path / "out"
    config.write_text(SMALL % "output_stationary")
    arguments = ["--config", str(config), "--output", str(output)]
    for _ in range(2):  # also over its own earlier output
        assert main(arguments, demo.command) == 0
    text = capsys.readouterr().out
    assert "360 handwritten digits" in text
    assert "360 x 64 x 32" in text
    assert "bit for bit" in text
    assert "ternary" not in text
    assert (output / "demo_small.v").is_file()
    picture = (output / demo.PICTURE).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert 20_000 < len(picture) < 200_000


@pytest.mark.usefixtures("no_simulation")
def test_the_default_is_a_ternary_core(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ROOT / demo.DEFAULT_CONFIG
    assert main(["--config", str(config), "--output", str(tmp_path)], demo.command) == 0
    text = capsys.readouterr().out
    assert "int8 x ternary" in text
    assert "360 x 64 x 64" in text
    assert "4736 ternary weights: 2.00 bits each in the core's stream, 25.0 % of int8." in text


@pytest.mark.parametrize(
    ("core", "text"),
    [
        ("unsigned", "uint8 x int5"),
        ("ternary", "2.00 bits each in memory, 25.0 % of int8."),
    ],
)
@pytest.mark.rotate(8)
def test_the_command_runs_engines(
    core: str,
    text: str,
    network: Network,
    ternary: Network,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained = {False: network, True: ternary}
    monkeypatch.setattr(digits, "train", lambda *_, ternary=False: trained[ternary])
    monkeypatch.setattr(demo, "open_engine", lambda design, **_: GoldenHost(design.params))
    config = tmp_path / "engine.yaml"
    output = "uint8" if core == "unsigned" else "int8"
    config.write_text(ENGINE % (CORES[core], output))
    arguments = ["--config", str(config), "--output", str(tmp_path / "out")]
    assert main(arguments, demo.command) == 0
    printed = capsys.readouterr().out
    assert text in printed
    assert "bytes moved" in printed
    assert "2 jobs in the queue, 200000 cycles" in printed
    right = [line.split()[-3] for line in printed.splitlines() if line.startswith(("RTL", "gold"))]
    assert all(int(count) >= 0.97 * 360 for count in right), right
    if core == "unsigned":
        monkeypatch.setattr(demo, "open_engine", lambda design, **_: GoldenHost(design.params, 3))
        assert main(arguments, demo.command) == 1
        assert "layer 1: 1 of" in capsys.readouterr().err
    config.write_text(config.read_text().replace("half_up", "floor"))
    assert main(arguments, demo.command) == 2
    assert "rounding: this hardware has floor, not half_up" in capsys.readouterr().err


@pytest.mark.usefixtures("no_simulation")
def test_a_mismatch_ends_with_status_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*arguments: Any, **options: Any) -> JobRun:
        result = golden_run(*arguments, **options)
        result.result[0, 0] += 1
        return result

    monkeypatch.setattr(demo, "run_product", wrong)
    config = tmp_path / "small.yaml"
    config.write_text(SMALL % "weight_stationary")
    arguments = ["--config", str(config), "--output", str(tmp_path / "out")]
    assert main(arguments, demo.command) == 1
    assert "360 x 64 x 32: 1 of 11520 results of the RTL differ" in capsys.readouterr().err
    assert not (tmp_path / "out" / demo.PICTURE).exists()


def test_a_configuration_that_does_not_fit_ends_with_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "small.yaml"
    config.write_text((SMALL % "output_stationary").replace("uint8", "uint3"))
    arguments = ["--config", str(config), "--output", str(tmp_path / "out")]
    assert main(arguments, demo.command) == 2
    assert "activation: the network cannot use uint3" in capsys.readouterr().err
