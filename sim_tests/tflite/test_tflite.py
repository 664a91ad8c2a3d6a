# SPDX-License-Identifier: Apache-2.0
"""Networks of TensorFlow Lite: every bit is that of its reference kernels."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.import_model import import_model
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.tflite.operators import OPERATORS
from sim_tests.models.test_model_jobs import engine
from sim_tests.onnx.test_network_jobs import CNetwork, compiled, golden, same
from sim_tests.support.selection import commit_seed
from sim_tests.tflite.fuzz_tflite import campaign
from sim_tests.tflite.lite_files import CODES, LiteNet, drawn, random_net
from sim_tests.tflite.make_outputs import FOLDER, FRAMES, NETWORKS, RANDOM

OUTPUTS = np.load(FOLDER / "outputs.npz")
RANDOM_OUTPUTS = np.load(FOLDER / "random_outputs.npz")


def imported(source: Path, directory: Path) -> Model:
    directory.mkdir()
    import_model(source, directory)
    return Model(directory)


def frame_of(model: Model, seed: int) -> dict[str, np.ndarray]:
    (name,) = model.description.inputs
    shape = tuple(int(length) for length in model.description.arrays[name])
    return {name: drawn(seed, shape)}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_mlperf_tiny_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    model = imported(FOLDER / f"{name}.tflite", tmp_path / "model")
    for seed in range(FRAMES):
        (result,) = TensorEngine(model).run(frame_of(model, seed)).values()
        np.testing.assert_array_equal(result, OUTPUTS[name][seed])


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_networks_of_mlperf_tiny_are_those_of_the_reference(
    name: str, tmp_path: Path
) -> None:
    model = imported(FOLDER / f"{name}.tflite", tmp_path / "model")
    result, network = compiled(model, engine(), tmp_path / "compiled", base=0x4000_0000)
    frame = frame_of(model, 1)
    outputs = golden(network).run(frame)
    np.testing.assert_array_equal(next(iter(outputs.values())), OUTPUTS[name][1])
    status, in_c = CNetwork(result, network).infer(frame)
    assert status == 0
    same(in_c, outputs)


def test_random_networks_are_those_of_the_reference(tmp_path: Path) -> None:
    for seed in range(RANDOM):
        content, _ = random_net(seed)
        (tmp_path / "net.tflite").write_bytes(content)
        model = imported(tmp_path / "net.tflite", tmp_path / str(seed))
        (result,) = TensorEngine(model).run(frame_of(model, seed)).values()
        np.testing.assert_array_equal(result, RANDOM_OUTPUTS[str(seed)], err_msg=str(seed))


def test_every_operator_is_in_a_network() -> None:
    assert set(OPERATORS) - set(CODES) == {"SQUEEZE", "EXPAND_DIMS"}  # which are as RESHAPE


def refusal(content: bytes, directory: Path) -> str:
    path, out = directory / "net.tflite", directory / "out"
    path.write_bytes(content)
    out.mkdir(exist_ok=True)
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        import_model(path, out)
    assert time.process_time() - start < 5
    assert not list(out.iterdir())
    return str(caught.value)


def test_all_that_is_not_supported_is_listed(tmp_path: Path) -> None:
    net = LiteNet(1)
    x = net.quantised(1, 4, 4, 2)
    for _ in range(2):
        x = net.op("LSTM", [x], net.quantised(1, 4, 4, 2))
    net.outputs = [net.add(x)]
    text = refusal(net.bytes(), tmp_path)
    assert "LSTM (for 'tensor 1', 'tensor 2') is not supported" in text
    assert "DEPTHWISE_CONV_2D" in text
    net = LiteNet(1)
    x = net.quantised(1, 4, 4, 2)
    first = net.op("SOFTMAX", [x], net.quantised(1, 4, 4, 2), {0: ("f", 1.0)})
    second = net.op("CONCATENATION", [x], net.quantised(1, 4, 4, 2), {0: ("i", 1)})
    net.outputs = [net.op("ADD", [first, second], net.quantised(1, 4, 4, 2))]
    text = refusal(net.bytes(), tmp_path)
    assert "SOFTMAX of 'tensor 1': its result must have the scale 1/256" in text
    assert "CONCATENATION of 'tensor 2': its operands and its result must have one scale" in text
    assert "ADD" not in text  # what comes behind a refused operator says nothing more


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (1, ("b", 3), "tensor 'tensor 0': is of type uint8, which is not read; float32, "),
        (2, ("I", 9), "its data are in buffer 9 of"),
        (0, ("v", np.array([1, -4], "<i4")), "has the shape (1, -4), which cannot be"),
        (4, ("t", {2: ("v", np.array([np.nan], "<f4"))}), "scale 0 is nan; it must be finite"),
        (4, ("t", {2: ("v", np.ones(3, "<f4"))}), "3 scales and 3 zero points do not fit"),
    ],
)
def test_tensors_that_cannot_be(
    field: int, value: tuple[str, object], expected: str, tmp_path: Path
) -> None:
    net = LiteNet(1)
    x = net.quantised(1, 4)
    net.outputs = [net.again(x)]
    net.tensors[x][field] = value
    assert expected in refusal(net.bytes(), tmp_path)


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    content = random_net(3)[0]
    for length in (8, 30, len(content) // 2, len(content) - 20):
        text = refusal(content[:length], tmp_path)
        assert re.search(
            "is no readable TensorFlow Lite file, or is cut|needs|but it ends at", text
        )


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(FOLDER / "kws_ref_model.tflite"), str(tmp_path / "kws")
    assert main(["model", "import", source, "--output", out]) == 0
    assert "kws_ref_model" in capsys.readouterr().out
    assert main(["model", "import", source, "--output", out, "--force", "--size", "n=1"]) == 2
    assert "--size belongs to ONNX files" in capsys.readouterr().err


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    counts = campaign(tmp_path, 300, commit_seed())
    assert counts["refused"] > 100
    assert counts["run"] > 10


@pytest.mark.long
def test_many_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    assert sum(campaign(tmp_path, 5000, 2).values()) == 5000
