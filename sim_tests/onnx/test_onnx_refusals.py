# SPDX-License-Identifier: Apache-2.0
"""Refused ONNX files: exit status 2, and a message with a remedy."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from flows.demonstration.file_type import features
from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.import_model import import_model
from hwgen.models.run.tensor_engine import TensorEngine
from sim_tests.onnx.fuzz_onnx import campaign
from sim_tests.onnx.onnx_files import Net, qdq_mlp, reference
from sim_tests.support.paths import ROOT
from sim_tests.support.selection import commit_seed


def refusal(directory: Path, model: Any, **sizes: int) -> str:
    path = directory / "net.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    out = directory / "model"
    out.mkdir(exist_ok=True)
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        import_model(path, out, sizes=sizes or None)
    assert time.process_time() - start < 5
    return str(caught.value)


def initialiser(model: Any, number: int = 0) -> Any:
    return model.graph.initializer[number]


def test_unknown_operators_are_all_listed(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 4))
    for kind in ("LSTM", "Relux", "LSTM", "ArgMax"):
        x = net.op(kind, x)
    net.output(x)
    text = refusal(tmp_path, net.model())
    assert "LSTM ('LSTM_1', 'LSTM_3') is not supported; recurrent networks are not read" in text
    assert "Relux ('Relux_2') is not supported (did you mean 'Relu'?); see" in text
    assert "ArgMax ('ArgMax_4') is not supported; let the graph end before it" in text


def _branches(net: Net, condition: str, *kinds: str) -> None:
    graphs = []
    for kind in kinds:
        out = helper.make_tensor_value_info(f"{kind}/y", TensorProto.FLOAT, None)
        node = helper.make_node(kind, ["x"], [f"{kind}/y"], f"inner {kind}")
        graphs.append(helper.make_graph([node], kind, [], [out]))
    net.output(net.op("If", condition, then_branch=graphs[0], else_branch=graphs[1]))


def test_unknown_operators_inside_of_others_are_listed(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 4))
    _branches(net, net.op("Cast", net.op("ReduceSum", x, keepdims=0), to=9), "GRU", "Det")
    text = refusal(tmp_path, net.model())
    assert "If: its condition is computed from the inputs" in text
    assert "GRU ('inner GRU') is not supported" in text
    assert "Det ('inner Det') is not supported" in text
    net.output(net.op("LSTM", x))
    text = refusal(tmp_path, net.model())
    assert all(f"{name} (" in text for name in ("LSTM", "GRU", "Det"))


def test_a_branch_that_is_not_taken_may_hold_anything(tmp_path: Path) -> None:
    for taken in (True, False):
        net = Net()
        net.input("x", (1, 4))
        _branches(net, net.constant(np.array(taken)), "Relu", "Det")
        if taken:
            (tmp_path / "out").mkdir()
            net.write(tmp_path / "net.onnx")
            description = import_model(tmp_path / "net.onnx", tmp_path / "out")
            assert description.nodes[0].attributes["function"] == "relu"
        else:
            text = refusal(tmp_path, net.model())
            assert "Det ('inner Det') is not supported" in text


def test_integers_of_4_bits_are_no_result(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 4))
    zero = net.constant(np.zeros((), ml_dtypes.int4))
    net.output(net.op("QuantizeLinear", x, net.constant(np.float32(1)), zero))
    assert "quantises to int4; int8 and uint8 are supported" in refusal(tmp_path, net.model(21))


def test_restrictions_are_all_listed(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 3, 4, 4))
    net.output(net.op("Resize", x, "", net.constant(np.ones(4, np.float32)), mode="bicubic"))
    net.output(net.op("Softmax", net.op("Cast", x, to=TensorProto.DOUBLE)))
    net.output(net.op("GlobalAveragePool", x))
    text = refusal(tmp_path, net.model())
    assert (
        "node 'Resize_2', Resize: mode 'bicubic' is not supported; nearest, linear, cubic is"
        in text
    )
    assert ", Cast: float64 is not computed in; export the network in float32" in text
    assert "Softmax" not in text  # what comes behind a refused node says nothing more


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: initialiser(m).dims.append(1 << 40), "more than 268435456"),
        (lambda m: initialiser(m).dims.append(-3), "which cannot be"),
        (lambda m: initialiser(m).dims.append(3), r"needs 12 bytes, but it has 4"),
        (lambda m: initialiser(m).ClearField("raw_data"), "needs 1 elements, but float_data has 0"),
        (lambda m: setattr(initialiser(m), "data_type", 8), "is of type string, which is not read"),
        (lambda m: m.graph.node[1].input.__setitem__(0, m.graph.node[4].output[0]),
         "the graph has a cycle, or nodes in disorder"),
        (lambda m: m.graph.node.append(m.graph.node[0]), "is there already"),
        (lambda m: m.graph.node[0].input.__setitem__(0, "no/where"),
         "its input 'no/where' is made by no node, and is no input"),
        (lambda m: m.graph.output.__delitem__(0), "the graph has no output"),
        (lambda m: setattr(m.graph.output[0], "name", "y"), "output 'y': nothing makes it"),
        (lambda m: setattr(m.opset_import[0], "version", 3), "version 3 of ONNX's operators"),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[1].ClearField("value"),
         "axis 1 has no length; give it with --size x.1=N"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 25),
         "do not go with weights"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 1 << 50),
         "is too large"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change: Any, expected: str, tmp_path: Path) -> None:
    model = qdq_mlp(1).model()
    change(model)
    assert expected in refusal(tmp_path, model)


@pytest.mark.parametrize("scale", [np.nan, np.inf, 0.0, -1.0])
def test_a_scale_that_is_none_is_named(scale: float, tmp_path: Path) -> None:
    net = qdq_mlp(1)
    name = next(name for name in net.constants if name.startswith("scale"))
    net.constants[name] = np.float32(scale)
    text = refusal(tmp_path, net.model())
    assert "QuantizeLinear: y_scale must be finite and above 0; number 0 is" in text


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    data = qdq_mlp(1).model().SerializeToString()
    for length in (0, 1, 2, 30, len(data) // 2, len(data) - 1):
        text = refusal(tmp_path, data[:length])
        assert "no readable ONNX file, or is cut off" in text or "no ONNX file" in text


@pytest.mark.parametrize(
    "location", ["../weights", "/etc/passwd", "a/../../b", "", "link", "missing", "a\\..\\b"]
)
def test_data_elsewhere_are_not_read(location: str, tmp_path: Path) -> None:
    outside = tmp_path / "weights"
    outside.write_bytes(bytes(4096))
    directory = tmp_path / "inside"
    directory.mkdir()
    (directory / "link").symlink_to(outside)
    model = qdq_mlp(1).model()
    tensor = initialiser(model)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    text = refusal(directory, model)
    assert "below the model's directory" in text or "which is not there" in text


def test_data_beside_the_model_are_read(tmp_path: Path) -> None:
    net = qdq_mlp(1)
    model = net.model()
    offset = 0
    with (tmp_path / "net.data").open("wb") as file:
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            values = (("location", "net.data"), ("offset", offset), ("length", len(data)))
            for key, value in values:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
            offset += file.write(data)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "model").mkdir()
    import_model(path, tmp_path / "model")
    x = np.ones((1, 24), np.float32)
    (result,) = TensorEngine(Model(tmp_path / "model")).run({"x": x}).values()
    np.testing.assert_array_equal(result, reference(net.model(), {"x": x})[0])
    with (tmp_path / "net.data").open("r+b") as file:
        file.truncate(offset - 1)
    assert f"ends at {offset - 1}" in refusal(tmp_path, model)


def test_options_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    net.output(net.op("Relu", net.input("x", ("n", "length"))))
    path = net.write(tmp_path / "a.onnx")
    out = str(tmp_path / "out")
    assert main(["model", "import", str(path), "--output", out]) == 2
    assert "give it with --size length=N" in capsys.readouterr().err
    assert main(["model", "import", str(path), "--output", out, "--size", "lenght=3"]) == 2
    assert main(["model", "import", str(path), "--output", out, "--size", "length=0"]) == 2
    assert main(["model", "import", str(path), "--output", out, "--size", "length=3",
                 "--i2s-layout", "arm"]) == 2  # fmt: skip
    assert main(["model", "import", str(path), "--output", out, "--size", "length=3"]) == 0
    assert Model(Path(out)).description.arrays["x"] == (1, 3)
    config = str(ROOT / "configs" / "systolic.yaml")
    assert main(["model", "estimate", out, "--config", config]) == 2
    assert "no products of matrices" in capsys.readouterr().err


def test_names_are_preserved_in_the_description(tmp_path: Path) -> None:
    net = Net()
    x = net.input("../x/y", (1, 3))
    net.nodes.append(helper.make_node("Relu", [x], ["/a/../b"], "../../etc"))
    net.output("/a/../b")
    net.write(tmp_path / "net.onnx")
    (tmp_path / "model").mkdir()
    import_model(tmp_path / "net.onnx", tmp_path / "model")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "model",
        "model.json",
        "net.onnx",
        "weights.bin",
    ]
    (result,) = TensorEngine(Model(tmp_path / "model")).run({"../x/y": np.ones((1, 3))}).items()
    assert result[0] == "/a/../b"


def test_long_names_are_cut_off_and_stay_apart(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 3))
    for name in ("a" * 400 + "1", "a" * 400 + "2"):
        net.nodes.append(helper.make_node("Relu", [x], [name], name))
        net.output(name)
    net.write(tmp_path / "net.onnx")
    (tmp_path / "model").mkdir()
    description = import_model(tmp_path / "net.onnx", tmp_path / "model")
    assert len(set(description.outputs)) == 2


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    counts = campaign(tmp_path, 300, commit_seed())
    assert counts["refused"] > 100
    assert counts["run"] > 10


@pytest.mark.long
def test_many_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    assert sum(campaign(tmp_path, 5000, 2).values()) == 5000


def test_bytes_of_a_file_as_magika_takes_them(tmp_path: Path) -> None:
    settings = {"beg_size": 6, "end_size": 4, "block_size": 16, "padding_token": 256}
    path = tmp_path / "file"
    path.write_bytes(b" \n abc \n")
    assert features(path, settings).tolist() == [97, 98, 99, 256, 256, 256, 256, 97, 98, 99]
    path.write_bytes(b"  0123456789abcdefghijklmnop ")
    assert bytes(features(path, settings).astype(np.uint8)) == b"012345mnop"


def test_the_package_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = qdq_mlp(1).write(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["model", "import", str(path), "--output", str(tmp_path / "out")]) == 3
    assert "pip install 'hwgen[models]'" in capsys.readouterr().err
