# SPDX-License-Identifier: Apache-2.0
"""Networks with random weights, on which cycles of engines are compared with simulations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from flows.bench.common import ROOT
from flows.bench.random_checkpoint import Shape, write_checkpoint

_OPSET, _IR = 17, 9


class _Graph:
    """An ONNX graph under construction."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape
        self.rng = np.random.default_rng(len(name))
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int) -> str:
        length = int(np.prod(shape[1:]))
        return self.constant((self.rng.standard_normal(shape) / length**0.5).astype(np.float32))

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def conv(self, x: str, n: int, channels: int, kernel: tuple[int, ...], **more: Any) -> str:
        groups = more.get("group", 1)
        pads = [k // 2 for k in kernel] * 2
        w = self.weights(n, channels // groups, *kernel)
        return self.op("Relu", self.op("Conv", x, w, kernel_shape=kernel, pads=pads, **more))

    def linear(self, x: str, k: int, n: int) -> str:
        return self.op("Gemm", x, self.weights(n, k), transB=1)

    def matmul(self, x: str, k: int, n: int) -> str:
        return self.op("MatMul", x, self.constant(
            (self.rng.standard_normal((k, n)) / k**0.5).astype(np.float32)))  # fmt: skip

    def save(self, path: Path, result: str) -> None:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, self.name, [x], [y], self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR
        )
        onnx.save(model, str(path))


def _lenet(path: Path) -> None:
    net = _Graph("lenet", (1, 1, 28, 28))
    x = net.conv("x", 6, 1, (5, 5))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.conv(x, 16, 6, (5, 5))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Flatten", x)
    for k, n in ((784, 120), (120, 84), (84, 10)):
        x = net.linear(x, k, n)
    net.save(path, x)


def _perceptron(path: Path) -> None:
    net = _Graph("perceptron", (1, 784))
    x = "x"
    for k, n in ((784, 256), (256, 128), (128, 10)):
        x = net.op("Relu", net.linear(x, k, n))
    net.save(path, x)


def _separable(path: Path) -> None:
    net = _Graph("separable", (1, 3, 32, 32))
    x = net.conv("x", 24, 3, (3, 3), strides=[2, 2])
    for n, channels in ((40, 24), (56, 40)):
        x = net.conv(x, channels, channels, (3, 3), group=channels)
        x = net.conv(x, n, channels, (1, 1))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    net.save(path, net.linear(x, 56, 10))


def _grouped(path: Path) -> None:
    net = _Graph("grouped", (1, 16, 20, 20))
    x = net.conv("x", 32, 16, (3, 3), group=4)
    x = net.conv(x, 64, 32, (3, 3), group=8, strides=[2, 2])
    net.save(path, net.conv(x, 48, 64, (1, 1), group=2))


def _temporal(path: Path) -> None:
    net = _Graph("temporal", (1, 40, 98))
    x = net.conv("x", 64, 40, (9,))
    x = net.conv(x, 64, 64, (9,), strides=[2])
    x = net.conv(x, 96, 64, (9,), strides=[2])
    net.save(path, net.linear(net.op("Flatten", net.op("GlobalAveragePool", x)), 96, 12))


def _encoder(path: Path) -> None:
    width, heads, tokens = 96, 4, 24
    net = _Graph("encoder", (1, tokens, width))
    x = "x"
    part = width // heads
    for _ in range(2):
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)

        def normed(y: str, a: Any = ones, b: Any = zeros) -> str:
            return net.op("LayerNormalization", y, net.constant(a), net.constant(b), axis=-1)

        split = net.constant(np.array([1, tokens, heads, part], np.int64))
        joined = net.constant(np.array([1, tokens, width], np.int64))
        y = normed(x)
        q, k, v = (net.op("Reshape", net.matmul(y, width, width), split) for _ in range(3))
        q, v = (net.op("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 3, 1]))
        scaled = net.op("Mul", scores, net.constant(np.float32(part**-0.5)))
        y = net.op("MatMul", net.op("Softmax", scaled, axis=-1), v)
        y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), joined)
        x = net.op("Add", x, net.matmul(y, width, width))
        y = net.op("Relu", net.matmul(normed(x), width, 4 * width))
        x = net.op("Add", x, net.matmul(y, 4 * width, width))
    net.save(path, x)


ONNX: dict[str, Callable[[Path], None]] = {
    "perceptron": _perceptron,
    "LeNet": _lenet,
    "separable convolutions": _separable,
    "grouped convolutions": _grouped,
    "temporal convolutions": _temporal,
    "encoder": _encoder,
}
"""Networks of ONNX in floats, and what writes their files."""

TFLITE = {
    "DS-CNN": "kws_ref_model",
    "ResNet-8": "pretrainedResnet_quant",
    "MobileNet 0.25": "vww_96_int8",
    "autoencoder": "ad01_int8",
}
"""Networks of MLPerf Tiny, and their files."""

DECODERS = {
    "decoder, 2 layers of 128": Shape(2, 128, 352, 4, 2, 512),
    "decoder, 3 layers of 192": Shape(3, 192, 512, 3, 1, 1000),
    "decoder, 1 layer of 256": Shape(1, 256, 688, 8, 8, 300),
}
"""Decoders, and their shapes."""

LITE_FOLDER = ROOT / "sim_tests" / "data" / "tflite"


def network_file(name: str, directory: Path) -> Path:
    """Return the file of a network, or the directory of a checkpoint, which is written."""
    if name in TFLITE:
        return LITE_FOLDER / f"{TFLITE[name]}.tflite"
    if name in DECODERS:
        write_checkpoint(directory / "checkpoint", DECODERS[name], context=64)
        return directory / "checkpoint"
    path = directory / "network.onnx"
    ONNX[name](path)
    return path
