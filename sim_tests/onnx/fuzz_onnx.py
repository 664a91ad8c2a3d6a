# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of the import of ONNX: mutated files are read or refused, quickly, in little memory.

Half of the files have bytes changed, half have fields of the graph changed, which leaves them
readable for the `onnx` package.  What is read is run, too.

``python -m sim_tests.onnx.fuzz_onnx --files 5000`` runs a campaign; the tests run a slice of it.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.import_model import import_model
from hwgen.models.onnx.operator_table import OPERATORS
from hwgen.models.run.tensor_engine import TensorEngine
from sim_tests.models.fuzz_models import main, mutate, run_campaign
from sim_tests.onnx.onnx_files import (
    dynamic_mlp,
    encoder,
    enlarged,
    qdq_cnn,
    qdq_mlp,
    qlinear_cnn,
    qonnx_cnn,
)
from sim_tests.onnx.qoperator_nets import make as random_net

MOST_MEMORY = 1 << 30
MOST_RUN = 1 << 22  # multiply-accumulates and elements of what is run
_NUMBERS = (0, 1, -1, 2, 3, 7, 64, 255, 1 << 15, 1 << 31, (1 << 31) - 1, 1 << 40, -(1 << 63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, float("inf"), float("nan"))


def models() -> list[Any]:
    """Return the graphs that are mutated."""
    makers = (qdq_mlp, qlinear_cnn, qdq_cnn, dynamic_mlp, qonnx_cnn, encoder, enlarged)
    return [
        *(make(1).model() for make in makers),
        *(random_net(seed)[0].model() for seed in (3, 4)),
    ]


def change(model: Any, rng: np.random.Generator) -> None:
    """Change a field of a graph."""
    graph = model.graph

    def one(items: Any) -> Any:
        return items[int(rng.integers(0, len(items)))] if len(items) else None

    node, tensor = one(graph.node), one(graph.initializer)
    other = one(graph.node)
    values = [
        *(name for n in graph.node for name in (*n.input, *n.output)),
        *(t.name for t in graph.initializer),
    ]
    if node is None or tensor is None or other is None:
        return
    match int(rng.integers(0, 14)):
        case 0 if len(node.input):
            node.input[int(rng.integers(0, len(node.input)))] = one(values)
        case 1 if len(tensor.dims):
            tensor.dims[int(rng.integers(0, len(tensor.dims)))] = int(rng.choice(_NUMBERS[:9]))
        case 2 if len(tensor.dims):
            tensor.dims[int(rng.integers(0, len(tensor.dims)))] = int(rng.choice(_NUMBERS))
        case 3:
            tensor.data_type = int(rng.integers(0, 24))
        case 4:
            node.op_type = one(sorted(OPERATORS)).rpartition(":")[2]
        case 5:
            graph.node.remove(node)
        case 6 if len(node.attribute):
            attribute = one(node.attribute)
            if len(attribute.ints):
                attribute.ints[int(rng.integers(0, len(attribute.ints)))] = int(
                    rng.choice(_NUMBERS)
                )
            else:
                attribute.i, attribute.f = int(rng.choice(_NUMBERS)), float(rng.choice(_FLOATS))
        case 7:
            try:
                array = onnx.numpy_helper.to_array(tensor).copy()
            except (ValueError, TypeError, OSError, onnx.checker.ValidationError):
                return  # of what was changed before
            if array.size and array.dtype == np.float32:
                array.reshape(-1)[int(rng.integers(0, array.size))] = rng.choice(_FLOATS)
            elif array.size and array.dtype.kind in "iu":
                info = np.iinfo(array.dtype)
                value = rng.choice([info.min, info.max, 0, 1])
                array.reshape(-1)[int(rng.integers(0, array.size))] = value
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        case 8:
            tensor.raw_data = tensor.raw_data[: int(rng.integers(0, len(tensor.raw_data) + 1))]
        case 9 if len(node.input):
            del node.input[int(rng.integers(0, len(node.input)))]
        case 10:
            graph.node.add().CopyFrom(node)
        case 11:
            place = one(one(graph.input).type.tensor_type.shape.dim)
            if place is not None:
                place.dim_value = int(rng.choice(_NUMBERS))
        case 12 if len(other.output):
            other.output[0] = one(values)
        case 13:
            entry = tensor.external_data.add()
            entry.key = "location"
            entry.value = str(rng.choice(["../x", "/etc/passwd", "model.json", "a\0b", ""]))
            tensor.data_location = 1


def campaign(directory: Path, files: int, seed: int) -> Counter[str]:
    """Import mutated files, run what is read, and return how many were read and refused."""
    originals = models()

    def prepare(number: int, rng: np.random.Generator) -> Path:
        model = onnx.ModelProto()
        model.CopyFrom(originals[number % len(originals)])
        if rng.random() < 0.5:
            data = model.SerializeToString()
            data = mutate(data, rng, len(data))
        else:
            for _ in range(int(rng.integers(1, 4))):
                change(model, rng)
            data = model.SerializeToString()
        path = directory / "mutated.onnx"
        path.write_bytes(data)
        return path

    return run_campaign(files, seed, prepare, attempt, MOST_MEMORY)


def attempt(path: Path) -> str:
    """Import a file, run it if it is small, and return how that ended."""
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        return _attempt(path, Path(out))


def _attempt(path: Path, out: Path) -> str:
    try:
        description = import_model(path, out)
    except InputError:
        return "refused"
    shapes = {name: tuple(map(int, shape)) for name, shape in description.arrays.items()}
    elements = sum(math.prod(shape) for shape in shapes.values())
    if elements > MOST_RUN:
        return "read"
    inputs = {
        name: np.ones(shapes[name], description.types.get(name, "float32"))
        for name in description.inputs
    }
    try:
        TensorEngine(Model(out)).run(inputs)
    except InputError:
        return "refused when run"
    return "run"


if __name__ == "__main__":
    sys.exit(main(campaign, __doc__))
