# SPDX-License-Identifier: Apache-2.0
"""Networks of ONNX: their integers are those of ONNX Runtime, on the host and on hardware."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from flows.build.load import parse_config
from flows.simulation.models.model_run import Record, RtlTensorEngine
from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.graph.work import work_of
from hwgen.models.import_model import import_model
from hwgen.models.onnx import file
from hwgen.models.onnx.import_onnx import import_onnx
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.quantise.tensor_quantise import quantise_tensors
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.run.units import Units
from sim_tests.onnx.onnx_files import (
    QONNX,
    Net,
    dynamic_mlp,
    encoder,
    integer_cnn,
    qdq_cnn,
    qdq_mlp,
    qlinear_cnn,
    qonnx_cnn,
    reference,
)


def imported(directory: Path, net: Net, opset: int = 17) -> Model:
    net.write(directory / "net.onnx", opset)
    (directory / "model").mkdir()
    import_model(directory / "net.onnx", directory / "model")
    return Model(directory / "model")


def image(codes: str | None, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if codes is None:
        return (rng.standard_normal(shape) * 2).astype(np.float32)
    info = np.iinfo(codes)
    return rng.integers(info.min, info.max + 1, shape).astype(codes)


CASES: list[tuple[Callable[..., Net], bool, tuple[int, ...], str]] = [
    (qdq_mlp, False, (1, 24), "x"),
    (qdq_cnn, False, (1, 4, 9, 8), "image"),
    (qlinear_cnn, True, (2, 4, 9, 8), "image"),
]


@pytest.mark.parametrize(("make", "integers", "shape", "name"), CASES)
@pytest.mark.parametrize(
    ("codes", "weights"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")]
)
def test_integers_are_those_of_onnx_runtime(
    make: Callable[..., Net],
    integers: bool,
    shape: tuple[int, ...],
    name: str,
    codes: str,
    weights: str,
    tmp_path: Path,
) -> None:
    """Products, sums, means and largest elements, with zero points on both sides, in every bit."""
    for seed in range(3):
        (tmp_path / f"{seed}").mkdir()
        net = make(seed, codes, weights)
        given = {name: image(codes if integers else None, shape, seed)}
        model = imported(tmp_path / f"{seed}", net)
        assert not {"gemm", "matmul"} & {node.operation for node in model.description.nodes}
        result = TensorEngine(model).run(given)
        expected = reference(net.model(), given)
        for one, other in zip(result.values(), expected, strict=True):
            assert len(np.unique(one)) > 3
            np.testing.assert_array_equal(one, other)


def test_a_run_writes_its_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several frames through a network for one."""
    net = qdq_mlp(1)
    imported(tmp_path, net)
    frames = image(None, (3, 24), 5)
    np.save(tmp_path / "x.npy", frames)
    arguments = ["model", "run", str(tmp_path / "model"), "--input", str(tmp_path / "x.npy")]
    assert main([*arguments, "--output", str(tmp_path / "y.npy"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["frames"] == 3
    expected = np.concatenate(
        [reference(net.model(), {"x": frames[i : i + 1]})[0] for i in range(3)]
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert main([*arguments, "--output", str(tmp_path / "y.npy")]) == 2
    assert main([*arguments, "--prompt", "a"]) == 2
    assert main([*arguments, "--engine", "golden"]) == 2


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    engine = TensorEngine(imported(tmp_path, qdq_mlp(1)))
    for given, text in (
        ({}, "the input 'x' is missing"),
        ({"y": np.zeros(3)}, "there is no input 'y'; there is x"),
        ({"x": np.zeros((2, 24))}, r"must be of shape \(1, 24\), not \(2, 24\)"),
    ):
        with pytest.raises(InputError, match=text):
            engine.run(given)


def test_sums_of_integers_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    """Zero points that are found at run time; scales and biases are floats of single elements."""
    for number, (net, given) in enumerate(
        [
            (dynamic_mlp(1), {"x": image(None, (1, 24), 1)}),
            (integer_cnn(1), {"image": image(None, (1, 4, 7, 6), 2)}),
        ]
    ):
        (tmp_path / f"{number}").mkdir()
        result = TensorEngine(imported(tmp_path / f"{number}", net)).run(given)
        expected = reference(net.model(), given)
        np.testing.assert_array_equal(next(iter(result.values())), expected[0])


def test_an_encoder_agrees_with_onnx_runtime(tmp_path: Path) -> None:
    """Sums of floats (norms, softmax) have other last bits, which may move a rounding by a step."""
    tokens = np.random.default_rng(3).integers(0, 20, (1, 6))
    for quantised, bound in ((False, 2e-5), (True, 0.1)):
        directory = tmp_path / f"{quantised}"
        directory.mkdir()
        net = encoder(3, quantised)
        model = imported(directory, net)
        kinds = [node.operation for node in model.description.nodes]
        product = "integer_gemm" if quantised else "gemm"
        assert kinds.count(product) == 6
        assert kinds.count("integer_matmul" if quantised else "matmul") == 2
        functions = [node.attributes.get("function") for node in model.description.nodes]
        assert functions.count("gelu") == 1
        assert "erf" not in functions
        result = TensorEngine(model).run({"tokens": tokens})
        expected = reference(net.model(), {"tokens": tokens})[0]
        (one,) = result.values()
        assert np.abs(one - expected).max() <= bound * np.abs(expected).max()
        assert np.mean(one != expected) < 1 if quantised else True


# -- on hardware -------------------------------------------------------------------------------

VECTOR = "{name: %s, family: vector, input: %s, output: %s, parameters: fp32, array: {%s}}"
ARRAY = "operations: [%s], lanes: 4, longest_row: 128"
HARDWARE = {
    "products": "{name: products, family: systolic, accumulator: int32, max_k: 1024,"
    " array: {rows: 4, cols: 4, dataflow: weight_stationary}}",
    "quantise": VECTOR % ("quantise", "fp32", "int8", ARRAY % "quantise"),
    "dequantise": VECTOR % ("dequantise", "int32", "fp32", ARRAY % "dequantise_rows"),
    "rows": VECTOR
    % ("rows", "fp32", "fp32", ARRAY % "softmax, layer_norm, add, gated" + ", gate: gelu"),
}


def configs(*names: str) -> list[Any]:
    return [parse_config(HARDWARE[name]) for name in names]


def quantised(directory: Path, model: Model, inputs: dict[str, Any]) -> Model:
    directory.mkdir()
    reports = quantise_tensors(model, directory, inputs, Recipe())
    assert reports
    assert max(report.error for report in reports) < 0.03
    return Model(directory)


def test_hardware_gives_the_same_integers(tmp_path: Path) -> None:
    """Whatever multiplies, zero points and scales are the same."""
    model = imported(tmp_path, qdq_cnn(1))
    given = {"image": image(None, (1, 4, 9, 8), 1)}
    engine = TensorEngine(model, Units(configs("products")))
    for one, other in zip(
        engine.run(given).values(), TensorEngine(model).run(given).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert engine.operations() == 1 + 4 + 12 + 1
    assert engine.operations({2}) == 12


def test_floats_are_quantised_before_hardware_takes_them(tmp_path: Path) -> None:
    model = imported(tmp_path, encoder(2, quantised=False))
    given = {"tokens": np.arange(6)[None]}
    units = Units(configs("products", "quantise", "dequantise", "rows"))
    with pytest.raises(InputError, match="multiplies floats; run `hwgen model quantise` first"):
        TensorEngine(model, units)
    made = quantised(tmp_path / "int8", model, given)
    with pytest.raises(InputError, match="the model needs quantise with x in fp32"):
        TensorEngine(made, Units(configs("products")))
    (expected,) = TensorEngine(model).run(given).values()
    for engine in (TensorEngine(made), TensorEngine(made, units)):
        (result,) = engine.run(given).values()
        assert np.abs(result - expected).max() < 0.05 * np.abs(expected).max()


def test_the_work_of_a_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = imported(tmp_path, qlinear_cnn(1))
    network = work_of(model.description, 1)
    sizes = [(2 * 9 * 8, 36, 8, 1), (2 * 5 * 4, 18, 3, 4), (2 * 5 * 4, 9, 1, 12), (2, 12, 10, 1)]
    result = [(*layer.product, layer.repeat) for layer in network.layers if layer.product]
    assert result == sizes
    assert network.macs == sum(m * k * n * times for m, k, n, times in sizes)
    config = tmp_path / "products.yaml"
    config.write_text(HARDWARE["products"])
    arguments = ["model", "estimate", str(model.path), "--config", str(config)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passes"]["pass"]["frames_per_s"] > 0
    assert [layer["times"] for layer in document["layers"]] == [1, 4, 12, 1]
    assert main(arguments) == 0
    assert "frames/s" in capsys.readouterr().out


@pytest.mark.long  # four designs are compiled
def test_networks_run_on_rtl(tmp_path: Path) -> None:
    """Every product, and rows where a unit has them, in every bit."""
    (tmp_path / "cnn").mkdir()
    model = imported(tmp_path / "cnn", qdq_cnn(1))
    given = {"image": image(None, (1, 4, 9, 8), 1)}
    record = Record()
    result = RtlTensorEngine(model, configs("products"), record).run(given)
    expected = reference(qdq_cnn(1).model(), given)
    np.testing.assert_array_equal(next(iter(result.values())), expected[0])
    assert record.simulated == 18
    (tmp_path / "encoder").mkdir()
    floats = imported(tmp_path / "encoder", encoder(2, quantised=False))
    tokens = {"tokens": np.arange(6)[None]}
    made = quantised(tmp_path / "int8", floats, tokens)
    hardware = configs("products", "quantise", "dequantise", "rows")
    record = Record(journal=tmp_path / "journal", digest="a")
    engine = RtlTensorEngine(made, hardware, record)
    one = next(iter(engine.run(tokens).values()))
    other = next(iter(TensorEngine(made, Units(hardware)).run(tokens).values()))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    assert record.simulated == engine.operations()
    assert set(record.cycles) == set(HARDWARE)
    again = Record(journal=tmp_path / "journal", digest="a")
    RtlTensorEngine(made, hardware, again).run(tokens)
    assert (again.simulated, again.reused) == (0, record.simulated)


# -- QONNX ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounding", "round_"),
    [("ROUND", np.rint), ("FLOOR", np.floor), ("CEIL", np.ceil), ("ROUND_TO_ZERO", np.trunc)],
)
@pytest.mark.parametrize(("bits", "signed", "narrow", "zero"), [
    (4, 1, 0, 0), (4, 1, 1, 0), (3, 0, 0, 2), (8, 0, 1, 100), (1, 1, 0, 0),
])  # fmt: skip
def test_quant_is_what_qonnx_defines(
    rounding: str, round_: Any, bits: int, signed: int, narrow: int, zero: int, tmp_path: Path
) -> None:
    net = Net(1)
    operands = [net.constant(np.asarray(n, np.float32)) for n in (0.25, zero, bits)]
    x = net.op("Quant", net.input("x", (1, 400)), *operands, domain=QONNX, signed=signed,
               narrow=narrow, rounding_mode=rounding)  # fmt: skip
    net.output(x)
    x_values = np.linspace(-50, 50, 400, dtype=np.float32)[None]
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    integers = round_(np.clip(x_values / np.float32(0.25) + np.float32(zero), low, high))
    (result,) = TensorEngine(imported(tmp_path, net)).run({"x": x_values}).values()
    np.testing.assert_array_equal(result, (integers - zero).astype(np.float32) * np.float32(0.25))


def test_a_network_of_qonnx(tmp_path: Path) -> None:
    """Its products are of integers where Quant gives integers; the integers are of its bits."""
    model = imported(tmp_path, qonnx_cnn(1))
    kinds = [node.operation for node in model.description.nodes]
    assert kinds.count("integer_gemm") == 1
    weights = model.part(model.description.tensors[next(
        node.inputs["weights"] for node in model.description.nodes
        if node.operation == "integer_gemm")].values)  # fmt: skip
    assert (weights.min(), weights.max()) == (-7, 7)
    (result,) = TensorEngine(model).run({"image": image(None, (1, 3, 8, 8), 1)}).values()
    assert len(np.unique(result)) > 5
    np.testing.assert_allclose(result / 0.2 / 0.0625, np.rint(result / 0.2 / 0.0625), atol=1e-4)


@pytest.mark.parametrize("order", ["x h a", "h a x", "a x h", "other"])
def test_a_gelu_is_recognised_in_any_order(order: str, tmp_path: Path) -> None:
    """Only where the factors are those of a GELU, and nothing else uses what is between."""
    net = Net(1)
    x = net.op("Neg", net.input("x", (2, 8)))
    half = net.constant(np.float32(0.25 if order == "other" else 0.5))
    root = net.op("Mul", x, net.constant(np.float32(0.5**0.5)))
    parts = {
        "x": x,
        "h": half,
        "a": net.op("Add", net.constant(np.float32(1)), net.op("Erf", root)),
    }
    first, second, third = (parts[key] for key in (order if order != "other" else "x h a").split())
    net.output(net.op("Mul", first, net.op("Mul", second, third)))
    model = imported(tmp_path, net)
    functions = [node.attributes.get("function") for node in model.description.nodes]
    assert ("gelu" in functions) == (order != "other")
    given = {"x": image(None, (2, 8), 1)}
    (result,) = TensorEngine(model).run(given).values()
    np.testing.assert_allclose(result, reference(net.model(), given)[0], atol=1e-6)


def test_results_that_are_not_finite_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net()
    net.output(net.op("Log", net.input("x", (1, 4))))
    imported(tmp_path, net)
    np.save(tmp_path / "x.npy", np.array([[0, 1, -1, 2]], np.float32))
    files = ["--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy"), "--force"]
    command = ["model", "run", str(tmp_path / "model"), *files]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "largest 0,3: 0.693147, 0,1: 0, 0,0: -inf, 0,2: nan" in shown.out
    assert "warning: 2 of the 4 elements of Log_1/out are infinite or no number" in shown.err
    result = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(result, [[-np.inf, 0, np.nan, np.log(2)]], rtol=1e-6)
    assert main([*command, "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"].values()
    assert output["largest"][2:] == [["0,0", "-inf"], ["0,2", "nan"]]
    assert output["not_finite"] == 2


@pytest.mark.parametrize("name", file.WIDENED)
def test_inputs_of_other_types_are_widened(name: str, tmp_path: Path) -> None:
    """The network takes an input of the wider type, and computes in it."""
    number = next(n for n, (known, _) in file.TYPES.items() if known == name)
    values = [onnx.helper.make_tensor_value_info(each, number, [3]) for each in "xyz"]
    node = onnx.helper.make_node("Add", ["x", "y"], ["z"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "sum", values[:2], values[2:]))
    onnx.save(model, tmp_path / "net.onnx")
    (tmp_path / "model").mkdir()
    import_onnx(tmp_path / "net.onnx", tmp_path / "model")
    engine = TensorEngine(Model(tmp_path / "model"))
    x = np.array([1, 2, 40000], file.WIDENED[name])
    (result,) = engine.run({"x": x, "y": x}).values()
    np.testing.assert_array_equal(result, x + x)
    assert result.dtype == file.WIDENED[name]
