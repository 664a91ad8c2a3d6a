# SPDX-License-Identifier: Apache-2.0
"""Networks of ONNX compiled to jobs: golden models, C and RTL give the same in every bit."""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.drivers.network_driver import names_in_c, network_driver
from flows.build.load import load_config
from flows.simulation.models.job_run import RtlJobs
from hwgen.cli import main
from hwgen.errors import CheckFailed, InputError
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.golden_jobs import GoldenJobs
from hwgen.models.compile.network_compilation import NetworkCompilation
from hwgen.models.compile.network_program import CompiledNetwork, NetworkProgram
from hwgen.models.files.store import Model
from hwgen.models.run.host_functions import FUNCTIONS as FUNCTIONS_OF_HOST
from hwgen.models.run.host_functions import power
from hwgen.models.run.tensor_engine import TensorEngine
from sim_tests.models.test_model_jobs import engine, tables
from sim_tests.onnx.onnx_files import (
    Net,
    dynamic_mlp,
    encoder,
    integer_cnn,
    qdq_cnn,
    qdq_mlp,
    qlinear_cnn,
)
from sim_tests.support.c_programs import JobsInC, built
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT

NETS: dict[str, Callable[[], Net]] = {
    "cnn": lambda: qdq_cnn(1),
    "cnn of uint8 weights": lambda: qdq_cnn(2, "int8", "uint8"),
    "QLinear": lambda: qlinear_cnn(3),
    "perceptron": lambda: qdq_mlp(4),
    "dynamic": lambda: dynamic_mlp(5),
    "integers": lambda: integer_cnn(6),
    "encoder": lambda: encoder(7),
    "floats": lambda: encoder(8, False),
}


def imported(net: Net, work: Path, name: str = "model") -> Model:
    """Return a network as `hwgen model import` reads it."""
    path = net.write(work / f"{name}.onnx")
    assert main(["model", "import", str(path), "--output", str(work / name)]) == 0
    return Model(work / name)


def quantised(model: Model, work: Path) -> Model:
    """Return a network of floats in integers."""
    inputs = drawn(model, np.random.default_rng(9))
    np.savez(work / "x.npz", **inputs)  # type: ignore[arg-type]
    arguments = ["--output", str(work / "int8"), "--calibration", str(work / "x.npz")]
    assert main(["model", "quantise", str(model.path), *arguments]) == 0
    return Model(work / "int8")


def drawn(model: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return inputs of a network."""
    result: dict[str, np.ndarray] = {}
    for name in model.description.inputs:
        shape = [int(n) for n in model.description.arrays[name]]
        net_name = model.description.types.get(name, "float32")
        if net_name == "float32":
            result[name] = rng.standard_normal(shape).astype(np.float32)
        else:
            result[name] = rng.integers(0, 20, shape).astype(net_name)
    return result


def compiled(
    model: Model, config: GemmStreamConfig, path: Path, **settings: Any
) -> tuple[NetworkCompilation, CompiledNetwork]:
    result = NetworkCompilation(model, config, Settings(**settings))
    path.mkdir()
    result.write(path)
    return result, CompiledNetwork(path)


def golden(network: CompiledNetwork) -> NetworkProgram:
    return NetworkProgram(network, GoldenJobs(network))


class CNetwork(JobsInC):
    """The program in C of a network."""

    def __init__(
        self,
        result: NetworkCompilation,
        network: CompiledNetwork,
        *options: str,
        cxx: bool = False,
        text: str = "",
    ) -> None:
        files = network_driver(result)
        if text:
            files[f"{network.config.name}_infer.c"] = text
        language = ["-x", "c++", "-std=c++11"] if cxx else ["-std=c99"]
        compiler = "c++" if cxx else "cc"
        super().__init__(
            network, built(files, network.path, *language, *options, compiler=compiler)
        )
        self.network = network

    def infer(self, inputs: dict[str, np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
        """Return the status and the outputs of a frame."""
        given = [np.ascontiguousarray(inputs[name]) for name in self.network.inputs]
        outputs = {}
        for name in self.network.outputs:
            shape, dtype = self.network.forms[name]
            outputs[name] = np.zeros(shape, dtype)
        pointers = []
        for arrays in (given, list(outputs.values())):
            pointers.append((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)))
        return self.call("infer", *map(ctypes.byref, pointers)), outputs


def same(result: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Hold arrays against others in every bit."""
    assert list(result) == list(wanted)
    for name, array in wanted.items():
        assert result[name].dtype == array.dtype, name
        assert result[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("net_name", NETS)
def test_the_program_in_c_gives_the_golden_outputs(net_name: str, tmp_path: Path) -> None:
    model = imported(NETS[net_name](), tmp_path)
    if net_name == "floats":
        model = quantised(model, tmp_path)
    result, network = compiled(model, engine(), tmp_path / "compiled", base=0x4000_0000)
    program, reference = golden(network), TensorEngine(model)
    in_c = CNetwork(result, network, cxx=net_name == "encoder")
    rng = np.random.default_rng(1)
    for _ in range(2):
        inputs = drawn(model, rng)
        wanted = program.run(inputs)
        status, outputs = in_c.infer(inputs)
        assert status == 0
        same(outputs, wanted)
        for name, array in reference.run(inputs).items():
            if net_name in ("encoder", "floats"):  # softmax and norms are summed in another order
                np.testing.assert_allclose(wanted[name], array, atol=0.05)
            else:
                assert array.tobytes() == wanted[name].tobytes()
    assert in_c.engine.most_waiting <= network.config.queue


# -- operations of the host ------------------------------------------------------------------------

FUNCTIONS = (
    "Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "Exp", "Softplus", "Sin", "Cos", "Neg", "Abs",
    "Floor", "Ceil", "Round", "Sign", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu",
)  # fmt: skip


def host_net() -> Net:
    """Return a network with a product, and with what else a host has."""
    net = Net(11)
    rng = net.rng

    def floats(*shape: int) -> str:
        return net.constant(rng.standard_normal(shape).astype(np.float32))

    def numbers(*values: int) -> str:
        return net.constant(np.array(values, np.int64))

    def keep(name: str, dtype: str = "float32") -> None:
        net.output(name, dtype)

    x = net.input("int", (1, 4, 6, 5))
    codes = net.input("9 codes", (1, 3, 4), "int32")
    point = net.point()
    again = net.again(x, point)
    w_point = net.channel_point(4)
    w = net.dequantise(net.narrow(4, 4, 1, 1), w_point, axis=0)
    keep(net.op("Conv", again, w))
    for name in FUNCTIONS:
        keep(net.op(name, x))
    positive = net.op("Abs", net.op("Add", x, net.constant(np.float32(0.25))))
    for name in ("Log", "Sqrt", "Reciprocal"):
        keep(net.op(name, positive))
    keep(net.op("Pow", positive, floats(5)))
    keep(net.op("Pow", x, net.constant(np.array([2, 3, 0, 1, -2], np.float32))))
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        keep(net.op(name, x, floats(4, 1, 5)))
        keep(net.op(name, codes, net.constant(np.array([[3], [-1], [7]], np.int32))), "int32")
    keep(net.op("Mod", codes, net.constant(np.array([3, -1, -7, 5], np.int32))), "int32")
    for name in ("Neg", "Abs", "Sign", "Relu"):
        keep(net.op(name, codes), "int32")
    less = net.op("Less", x, net.constant(np.float32(0)))
    both = net.op("And", less, net.op("Not", net.op("IsNaN", x)))
    keep(net.op("Where", both, x, floats(6, 1)))
    keep(net.op("Cast", both, to=6), "int32")
    large = net.op("Mul", x, net.constant(np.float32(300)))
    for net_name, dtype in ((2, "uint8"), (3, "int8"), (6, "int32"), (7, "int64")):
        keep(net.op("Cast", large, to=net_name), dtype)
    keep(net.op("Clip", x, net.constant(np.float32(-0.5)), net.constant(np.float32(0.75))))
    keep(net.op("Clip", codes, net.constant(np.int32(-5)), net.constant(np.int32(9))), "int32")
    keep(net.op("Transpose", x, perm=[3, 0, 2, 1]))
    keep(net.op("Slice", x, numbers(4, 1), numbers(-9, 5), numbers(2, 3), numbers(-2, 2)))
    keep(net.op("Expand", net.op("ReduceMean", x, numbers(0, 2)), numbers(2, 4, 3, 5)))
    keep(net.op("Pad", x, numbers(0, 1, 0, 2, 0, 0, 3, 1), net.constant(np.float32(1.5))))
    keep(net.op("Concat", x, net.op("Neg", x), floats(1, 4, 2, 5), axis=2))
    keep(net.op("Gather", x, numbers(3, -1, 0), axis=3))
    keep(net.op("GatherND", x, net.constant(np.array([[0, -1, 2], [0, 3, 5]], np.int64))))
    for name in ("ReduceMax", "ReduceMin", "ReduceMean"):
        keep(net.op(name, x, numbers(1, -1), keepdims=0))
    keep(net.op("ReduceSum", x, numbers(0, 2)))
    keep(net.op("ReduceMax", codes, numbers(1)), "int32")
    keep(net.op("ReduceSum", codes, numbers(2), keepdims=0), "int32")
    for axis in (1, -1):
        keep(net.op("Softmax", x, axis=axis))
    keep(net.op("LayerNormalization", x, floats(5), floats(5), axis=-1))
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    keep(net.op("MaxPool", x, dilations=[1, 2], **window))
    for padded in (0, 1):
        keep(net.op("AveragePool", x, count_include_pad=padded, **window))
    for codes_of in ("int8", "uint8"):
        scale = net.constant(rng.uniform(0.01, 0.03, 4).astype(np.float32))
        zeros = net.constant(np.array([net.zero(codes_of) for _ in range(4)]))
        quantised = net.op("QuantizeLinear", x, scale, zeros, axis=1)
        keep(net.op("MaxPool", quantised, **window), codes_of)
        keep(net.dequantise(quantised, (scale, zeros), axis=1))
    return net


def test_every_operation_of_the_host(tmp_path: Path) -> None:
    net = host_net()
    path = tmp_path / "net.onnx"
    net.write(path, opset=20)
    assert main(["model", "import", str(path), "--output", str(tmp_path / "model")]) == 0
    model = Model(tmp_path / "model")
    result, network = compiled(model, engine(), tmp_path / "compiled")
    assert names_in_c(network.inputs) == ["_int", "_9_codes"]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 4, 6, 5)).astype(np.float32) * 2
    x.reshape(-1)[:8] = 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 30.0, -30.0
    inputs = {"int": x, "9 codes": rng.integers(-(1 << 31), 1 << 31, (1, 3, 4), np.int32)}
    inputs["9 codes"].reshape(-1)[:5] = -(1 << 31), 0, 4, -4, (1 << 31) - 1
    wanted = golden(network).run(inputs)
    assert len(wanted) > 60
    status, outputs = CNetwork(result, network, "-O1").infer(inputs)
    assert status == 0
    for name, array in wanted.items():
        if array.dtype == np.float32:
            np.testing.assert_array_equal(np.isnan(outputs[name]), np.isnan(array), name)
            outputs[name][np.isnan(array)] = array[np.isnan(array)] = 0
    same(outputs, wanted)
    inside = x.copy()
    inputs["int"] = np.where(np.abs(inside) > 20, np.float32(0.5), inside)
    reference = TensorEngine(model).run(inputs)
    for name, array in golden(network).run(inputs).items():
        if name.startswith("Cast") and array.itemsize == 1:
            continue  # ONNX leaves open what becomes of numbers that do not fit
        np.testing.assert_allclose(array, reference[name], rtol=2e-6, atol=3e-7, err_msg=name)


def test_functions_are_those_of_the_library() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-9, 9, 3000), rng.uniform(-80, 80, 2000)])
    x = np.concatenate([x, rng.standard_normal(2000) * 2.0 ** rng.uniform(-40, 3, 2000)])
    erf = np.vectorize(math.erf)
    rest = np.vectorize(math.erfc)
    for name, wanted in (
        ("tanh", np.tanh(x)), ("erf", erf(x)), ("gelu", 0.5 * x * rest(-x / math.sqrt(2))),
        ("softplus", np.logaddexp(0, x)), ("sin", np.sin(x)), ("cos", np.cos(x)),
        ("sigmoid", 1 / (1 + np.exp(-x))),
    ):  # fmt: skip
        result = FUNCTIONS_OF_HOST[name](x)
        np.testing.assert_allclose(result, wanted, rtol=1e-11, atol=1e-38, err_msg=name)
    positive = np.abs(x[x != 0])
    np.testing.assert_allclose(
        FUNCTIONS_OF_HOST["log"](positive), np.log(positive), rtol=1e-14, atol=1e-16
    )
    y = rng.uniform(-8, 8, len(positive))
    inside = np.abs(y * np.log(positive)) < 80
    result = power(positive, y)[inside]
    np.testing.assert_allclose(result, (positive**y)[inside], rtol=1e-13)
    with np.errstate(all="ignore"):
        signs = power(np.array([-2.0, -2.0, -2.0, 0.0, 0.0]), np.array([3.0, 2.5, -2.0, 0.0, 2.0]))
    np.testing.assert_allclose(signs, [-8.0, np.nan, 0.25, 1.0, 0.0])


def test_roots_are_rounded_as_they_must_be(tmp_path: Path) -> None:
    net = Net(1)
    x = net.input("x", (1, 20000))
    net.output(net.op("Sqrt", x))
    net.output(
        net.op("MatMulInteger", net.input("codes", (1, 3), "int8"), net.narrow(3, 2)), "int32"
    )
    result, network = compiled(imported(net, tmp_path), engine(), tmp_path / "compiled")
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 0x7F800000, (1, 20000), np.int64).astype(np.int32)
    squares = (rng.integers(1 << 22, 1 << 23, 10000).astype(np.float64) / (1 << 11)) ** 2
    values = bits.view(np.float32)
    values[0, 10000:] = squares.astype(np.float32)
    values[0, :3] = 0.0, 4.0, np.inf
    status, outputs = CNetwork(result, network).infer(
        {"x": values, "codes": np.array([[1, -2, 3]], np.int8)}
    )
    assert status == 0
    np.testing.assert_array_equal(next(iter(outputs.values())), np.sqrt(values))


def test_no_compiler_fuses_what_is_rounded_twice(tmp_path: Path) -> None:
    if " fma " not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("this processor has no fused multiplications")
    model = imported(encoder(7), tmp_path)
    result, network = compiled(model, engine(), tmp_path / "compiled")
    inputs = drawn(model, np.random.default_rng(5))
    status, outputs = CNetwork(result, network, "-O3", "-mfma", "-fno-builtin").infer(inputs)
    assert status == 0
    same(outputs, golden(network).run(inputs))


def test_what_cannot_be_looked_up_or_quantised_is_said(tmp_path: Path) -> None:
    model = imported(encoder(7), tmp_path, "encoder")
    result, network = compiled(model, engine(), tmp_path / "one")
    inputs = drawn(model, np.random.default_rng(5))
    inputs["tokens"][0, 2] = 20
    assert CNetwork(result, network).infer(inputs)[0] == -100
    with pytest.raises(InputError, match=r"Gather.*are not within the 20"):
        golden(network).run(inputs)
    model = imported(dynamic_mlp(5), tmp_path, "dynamic")
    result, network = compiled(model, engine(), tmp_path / "two")
    inputs = drawn(model, np.random.default_rng(5))
    inputs["x"][0, 3] = np.inf
    assert CNetwork(result, network).infer(inputs)[0] == -101
    with pytest.raises(InputError, match="no finite number"):
        golden(network).run(inputs)


def test_a_mutated_program_is_noticed(tmp_path: Path) -> None:
    """Changes of the emitted C, each of which must show in the outputs."""
    model = imported(qdq_cnn(1), tmp_path)
    result, network = compiled(model, engine(), tmp_path / "compiled")
    inputs = drawn(model, np.random.default_rng(1))
    wanted = golden(network).run(inputs)
    text = network_driver(result)["engine_infer.c"]
    for before, after in (
        ("found -= (uint32_t)x_zero", "found += (uint32_t)x_zero"),
        ("form->before[axis];", "form->before[axis] + 1;"),
        ("x[place] > most", "x[place] < most"),
        ("x < low ? low : x;", "x < low ? x : x;"),
    ):
        assert before in text
        changed = text.replace(before, after)
        status, outputs = CNetwork(result, network, text=changed).infer(inputs)
        name = network.outputs[0]
        assert status or outputs[name].tobytes() != wanted[name].tobytes(), before


# -- what is refused -------------------------------------------------------------------------------


def test_all_that_cannot_be_compiled_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(1)
    x, codes = net.input("x", (1, 8)), net.input("codes", (1, 8), "int32")
    net.output(net.op("MatMul", x, net.constant(np.ones((8, 3), np.float32))))
    net.output(net.op("Div", codes, codes), "int32")
    net.output(net.op("Pow", codes, net.constant(np.int32(2))), "int32")
    path = net.write(tmp_path / "net.onnx")
    config = tmp_path / "engine.yaml"
    config.write_text(json.dumps(engine().resolved()))
    assert main(["model", "import", str(path), "--output", str(tmp_path / "model")]) == 0
    arguments = ["model", "compile", str(tmp_path / "model"), "--config", str(config), "--output",
                 str(tmp_path / "out")]  # fmt: skip
    assert main(arguments) == 2
    said = capsys.readouterr().err
    for text in (
        "net cannot be compiled", "MatMul_", "multiplies floats; run `hwgen model quantise` first",
        "Div_", "divide of int32 by what is not constant, or 0; cast to float32 before it",
        "Pow_", "power of int32; cast to float32 before it and back behind it",
    ):  # fmt: skip
        assert text in said
    assert not (tmp_path / "out").exists()
    for option in (["--context", "8"], ["--at-once", "2"]):
        assert main([*arguments, *option]) == 2
        assert "belongs to decoders" in capsys.readouterr().err


def test_engines_that_cannot_do_it(tmp_path: Path) -> None:
    model = imported(encoder(7), tmp_path)
    for config, text in (
        (engine(post={"outputs": ["int8"]}), "post.outputs: must have raw"),
        (engine({"weight": "int4"}), r"compute\.weight: must hold -6\d\.\.6\d, not int4"),
        (engine({"accumulator": "int16"}), r"compute\.accumulator: must hold sums up to .* in"),
        (engine({"max_k": 8}), r"compute\.max_k: must be at least 16, not 8"),
        (engine({"activation": "int4"}), r"compute\.activation: must be int8, not int4"),
        (tables(), "multiplies by activations, but engine takes weights packed"),
    ):
        with pytest.raises(InputError, match=text):
            NetworkCompilation(model, config, Settings())
    with pytest.raises(InputError, match="more than the 100 of the memory"):
        NetworkCompilation(model, engine(), Settings(memory_bytes=100))


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = imported(qlinear_cnn(3), tmp_path)
    config, out = tmp_path / "engine.yaml", tmp_path / "out"
    config.write_text(json.dumps(engine().resolved()))
    arguments = ["model", "compile", str(model.path), "--config", str(config), "--output", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for text in ("host image", "frame: ", "without the host", "jobs,"):
        assert text in printed
    frame = json.loads((out / "layers.json").read_text())["frame"]
    assert frame["cycles"] == sum(row["cycles"] or 0 for row in frame["operations"])
    jobs = {row["operation"]: row["jobs"] for row in frame["operations"] if row["jobs"]}
    assert max(jobs.values()) > 1  # a convolution in groups
    inputs = drawn(model, np.random.default_rng(1))
    given = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    run = ["model", "run", str(out), *given]
    assert main([*run, "--output", str(tmp_path / "y.npy")]) == 0
    wanted = next(iter(TensorEngine(model).run(inputs).values()))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
    for wrong in (["--engine", "float"], ["--unit", str(config)], ["--layers", "0"]):
        assert main([*run, *wrong]) == 2
    assert main(["model", "run", str(out), "--prompt", "a"]) == 2


def test_compiled_files_that_do_not_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "compiled"
    document = compiled(imported(qdq_mlp(4), tmp_path), engine(), path)[1].document
    steps = document["steps"]
    product = next(step for step in steps if step["product"])
    for change, text in (
        ({"form": "jobs"}, "is of another version"),
        ({"steps": [{}]}, "is not complete"),
        ({"steps": steps[1:]}, "reads what nothing makes"),
        ({"steps": [{**steps[0], "operation": "x"}, *steps[1:]]}, "is no operation of the host"),
        ({"steps": [{**steps[0], "product": product["product"]}, *steps[1:]]}, "not there"),
        ({"outputs": ["y"]}, "nothing makes its outputs"),
        ({"operands": {}}, "cannot be"),
        ({"program": {"jobs": 1, "words": 3}}, "have 3 words"),
    ):
        (path / "compiled.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(InputError, match=text):
            CompiledNetwork(path)


# -- hardware --------------------------------------------------------------------------------------


@pytest.mark.rotate(4)
def test_hardware_does_the_jobs(tmp_path: Path) -> None:
    """A whole encoder on the RTL, whose sums the golden model's must equal."""
    model = imported(encoder(7), tmp_path)
    network = compiled(model, engine(), tmp_path / "compiled")[1]
    inputs = drawn(model, np.random.default_rng(4))
    wanted = golden(network).run(inputs)
    with closing(RtlJobs(network)) as rtl:
        same(NetworkProgram(network, rtl).run(inputs), wanted)
        assert rtl.record.simulated == network.products_of() == 8
        assert rtl.record.cycles["engine"] > 0
        job = network.program()[0]
        rtl._model.store(job.address("W"), b"\x55" * 64)
        with pytest.raises(CheckFailed, match="of its sums differs"):
            NetworkProgram(network, rtl).run(inputs)


@pytest.mark.long
@pytest.mark.parametrize("net_name", ["cnn", "QLinear", "floats"])
def test_hardware_does_jobs_of_other_networks(net_name: str, tmp_path: Path) -> None:
    model = imported(NETS[net_name](), tmp_path)
    if net_name == "floats":
        model = quantised(model, tmp_path)
    network = compiled(model, engine(queue=4), tmp_path / "compiled")[1]
    inputs = drawn(model, np.random.default_rng(4))
    with closing(RtlJobs(network, stalls=0.2, read_latency=7)) as rtl:
        same(NetworkProgram(network, rtl).run(inputs), golden(network).run(inputs))


@pytest.mark.long
def test_mutated_hardware_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = imported(qdq_mlp(4), tmp_path)
    network = compiled(model, engine(), tmp_path / "compiled")[1]
    inputs = drawn(model, np.random.default_rng(4))
    text = design_of(network.config).verilog
    stores = re.findall(r"\$signed\(\w+\) \* \$signed\(\w+\)", text)
    assert stores
    changed = text.replace(stores[0], stores[0].replace("*", "+"), 1)
    monkeypatch.setattr(Design, "verilog", changed)
    with closing(RtlJobs(network)) as rtl, pytest.raises(CheckFailed, match="differs"):
        NetworkProgram(network, rtl).run(inputs)


MAGIKA = ROOT / "build/onnx/magika/models/standard_v3_3/model.onnx"


@pytest.mark.long
@pytest.mark.skipif(not MAGIKA.exists(), reason="`make demo-onnx` fetches it")
def test_a_network_of_others(tmp_path: Path) -> None:
    """Magika in integers, whole: the program in C against the golden models."""
    path = tmp_path / "float"
    assert main(["model", "import", str(MAGIKA), "--output", str(path)]) == 0
    model = Model(path)
    name = model.description.inputs[0]
    shape = [int(n) for n in model.description.arrays[name]]
    inputs = {name: np.random.default_rng(1).integers(0, 257, shape).astype(np.float32)}
    np.save(tmp_path / "x.npy", inputs[name])
    arguments = ["--output", str(tmp_path / "int8"), "--calibration", str(tmp_path / "x.npy")]
    assert main(["model", "quantise", str(path), *arguments]) == 0
    config = cast(GemmStreamConfig, load_config(ROOT / "configs/gemm_stream.yaml"))
    result, network = compiled(Model(tmp_path / "int8"), config, tmp_path / "compiled")
    inputs[name] = inputs[name].astype(network.forms[name][1])
    status, outputs = CNetwork(result, network, "-O2").infer(inputs)
    assert status == 0
    same(outputs, golden(network).run(inputs))
