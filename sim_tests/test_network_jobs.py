# SPDX-License-Identifier: Apache-2.0
"""Networks of ONNX compiled to jobs: golden models, C and RTL give the same in every bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.emission.network_driver import network_driver
from hwgen.families.gemm_stream import GemmStreamConfig
from hwgen.models.compiled import Settings
from hwgen.models.golden_jobs import GoldenJobs
from hwgen.models.network_compilation import NetworkCompilation
from hwgen.models.network_program import CompiledNetwork, NetworkProgram
from hwgen.models.store import Model
from hwgen.models.tensor_engine import TensorEngine
from sim_tests.onnx_files import (
    Net,
    dynamic_mlp,
    encoder,
    integer_cnn,
    qdq_cnn,
    qdq_mlp,
    qlinear_cnn,
)
from sim_tests.test_model_jobs import STRICT, FakeEngine, Host, engine

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
    np.savez(work / "x.npz", **inputs)
    arguments = ["--output", str(work / "int8"), "--calibration", str(work / "x.npz")]
    assert main(["model", "quantise", str(model.path), *arguments]) == 0
    return Model(work / "int8")


def drawn(model: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return inputs of a network."""
    found: dict[str, np.ndarray] = {}
    for name in model.description.inputs:
        shape = [int(n) for n in model.description.arrays[name]]
        kind = model.description.types.get(name, "float32")
        if kind == "float32":
            found[name] = rng.standard_normal(shape).astype(np.float32)
        else:
            found[name] = rng.integers(0, 20, shape).astype(kind)
    return found


def compiled(
    model: Model, config: GemmStreamConfig, path: Path, **settings: Any
) -> tuple[NetworkCompilation, CompiledNetwork]:
    found = NetworkCompilation(model, config, Settings(**settings))
    path.mkdir()
    found.write(path)
    return found, CompiledNetwork(path)


def golden(network: CompiledNetwork) -> NetworkProgram:
    return NetworkProgram(network, GoldenJobs(network))


class CNetwork:
    """The program in C, with registers and memory of an engine by its golden model."""

    def __init__(
        self, found: NetworkCompilation, network: CompiledNetwork, *options: str, cxx: bool = False
    ) -> None:
        path, name = network.path, network.config.name
        self.network = network
        for file, text in network_driver(found).items():
            (path / file).write_text(text, encoding="utf-8")
        compiler = shutil.which("c++" if cxx else "cc")
        if compiler is None:
            pytest.skip("no C compiler is installed")
        language = ["-x", "c++", "-std=c++11"] if cxx else ["-std=c99"]
        sources = [f"{name}_infer.c", f"{name}_driver.c"]
        command = [compiler, *language, *options, *STRICT.split(), "-o", "infer.so", *sources]
        subprocess.run(command, cwd=path, check=True, timeout=120)
        self.library = ctypes.CDLL(str(path / "infer.so"))
        self.engine = FakeEngine(network, self.library)
        memory = self.engine.jobs.memory
        memory.data[:] = b"\xff" * len(memory.data)

        def load(_: Any, address: int, data: int, count: int) -> None:
            ctypes.memmove(data, memory.read(address, count), count)

        def store(_: Any, address: int, data: int, count: int) -> None:
            memory.write(address, ctypes.string_at(data, count))

        types = dict(Host._fields_)
        work = np.full(network.document["work_bytes"], 0xFF, np.uint8)
        files = [np.fromfile(path / each, np.uint8) for each in ("program.bin", "host.bin")]
        self.keep = [*files, work]
        self.host = Host(
            ctypes.pointer(self.engine.device), None, types["load"](load), types["store"](store),
            *(array.ctypes.data for array in self.keep), 9,
        )  # fmt: skip
        prepare = getattr(self.library, f"{name}_prepare")
        prepare(ctypes.byref(self.host), network.image())

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
        function = getattr(self.library, f"{self.network.config.name}_infer")
        status = function(ctypes.byref(self.host), *map(ctypes.byref, pointers))
        return int(status), outputs


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Hold arrays against others in every bit."""
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("kind", NETS)
def test_the_program_in_c_gives_the_golden_outputs(kind: str, tmp_path: Path) -> None:
    model = imported(NETS[kind](), tmp_path)
    if kind == "floats":
        model = quantised(model, tmp_path)
    found, network = compiled(model, engine(), tmp_path / "compiled", base=0x4000_0000)
    program, reference = golden(network), TensorEngine(model)
    in_c = CNetwork(found, network, cxx=kind == "encoder")
    rng = np.random.default_rng(1)
    for _ in range(2):
        inputs = drawn(model, rng)
        wanted = program.run(inputs)
        status, outputs = in_c.infer(inputs)
        assert status == 0
        same(outputs, wanted)
        for name, array in reference.run(inputs).items():
            if kind in ("encoder", "floats"):  # softmax and norms are summed in another order
                np.testing.assert_allclose(wanted[name], array, atol=0.05)
            else:
                assert array.tobytes() == wanted[name].tobytes()
    assert in_c.engine.most_waiting <= network.config.queue
