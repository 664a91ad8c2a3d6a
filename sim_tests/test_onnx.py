# SPDX-License-Identifier: Apache-2.0
"""Networks of ONNX: their integers are those of ONNX Runtime, on the host and on hardware."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.importing import import_model
from hwgen.models.store import Model
from hwgen.models.tensor_engine import TensorEngine
from sim_tests.onnx_files import Net, qdq_cnn, qdq_mlp, qlinear_cnn, reference


def imported(directory: Path, net: Net, **sizes: int) -> Model:
    net.write(directory / "net.onnx")
    (directory / "model").mkdir()
    import_model(directory / "net.onnx", directory / "model", sizes=sizes or None)
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
@pytest.mark.parametrize(("codes", "weights"), [("uint8", "int8"), ("int8", "int8"),
                                                ("uint8", "uint8")])  # fmt: skip
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
        found = TensorEngine(model).run(given)
        expected = reference(net.model(), given)
        for one, other in zip(found.values(), expected, strict=True):
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
    expected = np.concatenate([reference(net.model(), {"x": frames[i : i + 1]})[0]
                               for i in range(3)])  # fmt: skip
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
