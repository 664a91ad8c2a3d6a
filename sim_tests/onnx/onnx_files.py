# SPDX-License-Identifier: Apache-2.0
"""Small ONNX graphs, made by `onnx.helper`, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"
MICROSOFT = "com.microsoft"
_TENSOR_TYPES = {
    "float32": TensorProto.FLOAT,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


class Net:
    """A graph that grows by operators; a result is called by its name.

    Parameters
    ----------
    seed : int
    codes : str
        Type of quantised activations.
    weights : str
        Type of quantised weights.
    """

    def __init__(self, seed: int = 0, codes: str = "uint8", weights: str = "int8") -> None:
        self.rng = np.random.default_rng(seed)
        self.codes, self.weights = codes, weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._count = 0

    def name(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"

    def input(self, name: str, shape: Sequence[Any], dtype: str = "float32") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _TENSOR_TYPES[dtype], shape))
        return name

    def constant(self, array: Any, hint: str = "c") -> str:
        name = self.name(hint)
        self.constants[name] = np.asarray(array)
        return name

    def op(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **at: Any) -> Any:
        name = self.name(operator)
        names = [f"{name}/out{i}" if outputs > 1 else f"{name}/out" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name, domain=domain, **at))
        return names[0] if outputs == 1 else names

    def output(self, name: str, dtype: str = "float32") -> None:
        self.outputs.append(helper.make_tensor_value_info(name, _TENSOR_TYPES[dtype], None))

    def model(self, opset: int = 17) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "net",
            self.inputs,
            self.outputs,
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", opset)]
        for domain in sorted({node.domain for node in self.nodes} - {""}):
            opsets.append(helper.make_opsetid(domain, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="tests")

    def write(self, path: Path, opset: int = 17) -> Path:
        path.write_bytes(self.model(opset).SerializeToString())
        return path

    # -- quantised ---------------------------------------------------------------------------

    def scale(self, low: float = 0.02, high: float = 0.06) -> np.float32:
        return np.float32(self.rng.uniform(low, high))

    def zero(self, dtype: str | None = None) -> Any:
        dtype = dtype or self.codes
        middle = 128 if dtype == "uint8" else 0
        return np.dtype(dtype).type(self.rng.integers(middle - 20, middle + 20))

    def point(self, low: float = 0.02, high: float = 0.06) -> tuple[str, str]:
        """Return a scale and a zero point."""
        return self.constant(self.scale(low, high), "scale"), self.constant(self.zero(), "zero")

    def narrow(self, *shape: int) -> str:
        """Return weights of 7 bits, which no processor's pairs of products overflow for."""
        low = 64 if self.weights == "uint8" else -64
        return self.constant(
            self.rng.integers(low, low + 128, shape).astype(self.weights), "weights"
        )

    def quantise(self, x: str, point: tuple[str, str]) -> str:
        result: str = self.op("QuantizeLinear", x, *point)
        return result

    def dequantise(self, x: str, point: tuple[str, ...], **at: Any) -> str:
        result: str = self.op("DequantizeLinear", x, *point, **at)
        return result

    def again(self, x: str, point: tuple[str, str] | None = None) -> str:
        """Return a value quantised and dequantised."""
        point = point or self.point()
        return self.dequantise(self.quantise(x, point), point)

    def channel_point(self, count: int) -> tuple[str, str]:
        """Return the scales of output channels, and zero points of 0."""
        scales = self.rng.uniform(0.005, 0.02, count).astype(np.float32)
        zeros = np.zeros(count, self.weights)
        if self.weights == "uint8":
            zeros += 128
        return self.constant(scales, "scale"), self.constant(zeros, "zero")

    def bias(self, x_point: tuple[str, str], w_point: tuple[str, str], count: int) -> str:
        """Return a bias in int32, dequantised by the scales of its product."""
        unit = self.constants[x_point[0]] * self.constants[w_point[0]]
        scale = self.constant(np.broadcast_to(unit, count).astype(np.float32), "scale")
        zero = self.constant(np.zeros(count, np.int32), "zero")
        values = self.constant(self.rng.integers(-2000, 2000, count).astype(np.int32), "bias")
        return self.dequantise(values, (scale, zero), axis=0)


def qdq_cnn(seed: int = 0, codes: str = "uint8", weights: str = "int8") -> Net:
    """Return a network with a plain, a grouped and a depthwise convolution, in QDQ form."""
    net = Net(seed, codes, weights)
    point = net.point()
    x = net.again(net.input("image", ("batch", 4, 9, 8)), point)
    for channels, before, group, kernel, stride in (
        (8, 4, 1, 3, 1),
        (12, 8, 4, 3, 2),
        (12, 12, 12, 3, 1),
        (16, 12, 1, 1, 1),
    ):
        w_point = net.channel_point(channels)
        w = net.dequantise(net.narrow(channels, before // group, kernel, kernel), w_point, axis=0)
        bias = net.bias(point, w_point, channels)
        pads = [kernel // 2] * 4
        result = net.op("Conv", x, w, bias, group=group, strides=[stride] * 2, pads=pads)
        point = net.point(0.1, 0.2)
        x = net.again(result, point)
        if group == 1 and kernel == 3:
            other = net.again(net.op("MaxPool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1]), point)
            sums = net.op("Add", x, other)
            point = net.point(0.1, 0.3)
            x = net.again(sums, point)
    x = net.again(net.op("GlobalAveragePool", x), net.point())
    x = net.op("Flatten", x)
    net.output(x)
    return net


def qlinear_cnn(seed: int = 0, codes: str = "uint8", weights: str = "int8") -> Net:
    """Return the same in operators on integers, from integers to integers."""
    net = Net(seed, codes, weights)
    point = net.point()
    x = net.input("image", (2, 4, 9, 8), codes)
    for channels, before, group, kernel, stride in (
        (8, 4, 1, 3, 1),
        (12, 8, 4, 3, 2),
        (12, 12, 12, 3, 1),
    ):
        w_point = net.channel_point(channels)
        bias = net.constant(net.rng.integers(-2000, 2000, channels).astype(np.int32))
        after = net.point(0.1, 0.2)
        x = net.op(
            "QLinearConv", x, *point, net.narrow(channels, before // group, kernel, kernel),
            *w_point, *after, bias, group=group, strides=[stride] * 2, pads=[kernel // 2] * 4,
        )  # fmt: skip
        point = after
    after = net.point(0.1, 0.3)
    x = net.op("QLinearAdd", x, *point, x, *point, *after, domain=MICROSOFT)
    point, after = after, net.point(0.5, 1.0)
    x = net.op("QLinearMul", x, *point, x, *point, *after, domain=MICROSOFT)
    point, after = after, net.point(0.3, 0.9)
    x = net.op("QLinearGlobalAveragePool", x, *point, *after, domain=MICROSOFT, channels_last=0)
    point = after
    x = net.op("Flatten", x)
    w_point, after = net.channel_point(10), net.point(0.3, 0.9)
    x = net.op("QLinearMatMul", x, *point, net.narrow(12, 10), *w_point, *after)
    net.output(x, codes)
    return net


def qdq_mlp(seed: int = 0, codes: str = "uint8", weights: str = "int8", relu: bool = True) -> Net:
    """Return a perceptron of Gemm and MatMul in QDQ form."""
    net = Net(seed, codes, weights)
    point = net.point()
    x = net.again(net.input("x", ("batch", 24)), point)
    w_point = net.channel_point(20)
    w = net.dequantise(net.narrow(20, 24), w_point, axis=0)
    x = net.op("Gemm", x, w, net.bias(point, w_point, 20), transB=1)
    point = net.point(0.1, 0.2)
    if relu:
        x = net.op("Relu", x)
        low = np.iinfo(codes).min
        point = net.constant(net.scale(0.1, 0.2)), net.constant(np.dtype(codes).type(low))
    x = net.again(x, point)
    w_point = net.channel_point(10)
    x = net.op("MatMul", x, net.dequantise(net.narrow(20, 10), w_point, axis=1))
    x = net.again(x, net.point(0.1, 0.3))
    net.output(x)
    return net


def reference(model: Any, inputs: dict[str, Any], *, optimise: bool = True) -> list[Any]:
    """Return the results of ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    result: list[Any] = session.run(None, inputs)
    return result


def encoder(seed: int = 0, quantised: bool = True) -> Net:
    """Return a transformer encoder layer: QDQ form around its products, or floats."""
    net = Net(seed, "int8", "int8")
    tokens, width, heads = 6, 16, 2
    table = net.constant((net.rng.standard_normal((20, width))).astype(np.float32))
    x = net.op("Gather", table, net.input("tokens", ("batch", tokens), "int64"))

    def maybe(value: str, size: float = 0.04) -> str:
        return (
            net.again(value, (net.constant(np.float32(size)), net.constant(np.int8(3))))
            if (quantised)
            else value
        )

    def product(value: str, inside: int, outside: int) -> str:
        if quantised:
            point = net.channel_point(outside)
            w = net.dequantise(net.narrow(inside, outside), point, axis=1)
        else:
            w = net.constant((net.rng.standard_normal((inside, outside)) / 4).astype(np.float32))
        bias = net.constant(net.rng.standard_normal(outside).astype(np.float32))
        result: str = net.op("Add", net.op("MatMul", value, w), bias)
        return result

    def norm(value: str) -> str:
        gamma = net.constant((1 + 0.1 * net.rng.standard_normal(width)).astype(np.float32))
        beta = net.constant((0.1 * net.rng.standard_normal(width)).astype(np.float32))
        result: str = net.op("LayerNormalization", value, gamma, beta, axis=-1)
        return result

    def split(value: str, order: list[int]) -> str:
        shape = net.constant(np.array([0, tokens, heads, width // heads], np.int64))
        result: str = net.op("Transpose", net.op("Reshape", value, shape), perm=order)
        return result

    rows = maybe(norm(x))
    query, value = (split(maybe(product(rows, width, width)), [0, 2, 1, 3]) for _ in range(2))
    key = split(maybe(product(rows, width, width)), [0, 2, 3, 1])
    scores = net.op("Mul", net.op("MatMul", query, key), net.constant(np.float32(8**-0.5)))
    weights = maybe(net.op("Softmax", scores, axis=-1), 1 / 128)
    mixed = net.op("Transpose", net.op("MatMul", weights, value), perm=[0, 2, 1, 3])
    shape = net.constant(np.array([0, 0, width], np.int64))
    x = net.op("Add", x, product(maybe(net.op("Reshape", mixed, shape)), width, width))
    hidden = product(maybe(norm(x)), width, 24)
    root = net.op("Div", hidden, net.constant(np.float32(2**0.5)))
    half = net.op("Mul", hidden, net.constant(np.float32(0.5)))
    one = net.op("Add", net.op("Erf", root), net.constant(np.float32(1)))
    gelu = net.op("Mul", half, one)
    net.output(net.op("Add", x, product(maybe(gelu), 24, width)))
    return net


def dynamic_mlp(seed: int = 0) -> Net:
    """Return a perceptron whose activations are quantised by their own range."""
    net = Net(seed)
    x = net.input("x", ("batch", 24))
    for inside, outside in ((24, 20), (20, 10)):
        codes, scale, zero = net.op("DynamicQuantizeLinear", x, outputs=3)
        w_scale = net.constant(net.rng.uniform(0.005, 0.02, outside).astype(np.float32))
        sums = net.op("MatMulInteger", codes, net.narrow(inside, outside), zero)
        factor = net.op("Mul", scale, w_scale)
        x = net.op("Mul", net.op("Cast", sums, to=TensorProto.FLOAT), factor)
        x = net.op(
            "Relu",
            net.op("Add", x, net.constant(net.rng.standard_normal(outside).astype(np.float32))),
        )
    net.output(x)
    return net


def integer_cnn(seed: int = 0) -> Net:
    """Return a grouped and padded ConvInteger with a zero point that is found at run time."""
    net = Net(seed)
    codes, _, zero = net.op("DynamicQuantizeLinear", net.input("image", (1, 4, 7, 6)), outputs=3)
    sums = net.op("ConvInteger", codes, net.narrow(6, 2, 3, 3), zero, group=2, pads=[1, 1, 1, 1])
    net.output(sums, "int32")
    return net


def qonnx_cnn(seed: int = 0, bits: int = 4, rounding: str = "ROUND") -> Net:
    """Return a network of QONNX's Quant, BipolarQuant and Trunc."""
    net = Net(seed)

    def quant(value: str, scale: Any, width: int, **at: Any) -> str:
        operands = [
            net.constant(np.asarray(scale, np.float32)),
            net.constant(np.float32(0)),
            net.constant(np.float32(width)),
        ]
        result: str = net.op("Quant", value, *operands, domain=QONNX, rounding_mode=rounding, **at)
        return result

    x = quant(net.input("image", (1, 3, 8, 8)), 0.03, 8, signed=1, narrow=0)
    w = net.constant(net.rng.standard_normal((6, 3, 3, 3)).astype(np.float32))
    scales = net.rng.uniform(0.1, 0.3, (6, 1, 1, 1))
    x = net.op("Conv", x, quant(w, scales, bits, signed=1, narrow=1), pads=[1, 1, 1, 1])
    x = quant(net.op("Relu", x), 0.25, bits, signed=0, narrow=0)
    x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    trunc = [net.constant(np.float32(n)) for n in (0.0625, 0, bits + 2, bits)]
    x = net.op("Trunc", x, *trunc, domain=QONNX, rounding_mode="FLOOR")
    x = net.op("Flatten", x)
    w = net.constant(net.rng.standard_normal((96, 10)).astype(np.float32))
    signs = net.op("BipolarQuant", w, net.constant(np.float32(0.2)), domain=QONNX)
    net.output(net.op("MatMul", x, signs))
    return net


def enlarged(seed: int = 0) -> Net:
    """Return a network that grows its images, normalises them, and has a branch that is taken."""
    net = Net(seed)
    x = net.input("image", (1, 4, 5, 4))
    w = net.constant(net.rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    x = net.op("ConvTranspose", x, w, group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    line = [net.constant(net.rng.standard_normal(6).astype(np.float32)) for _ in range(2)]
    x = net.op("InstanceNormalization", x, *line)
    sizes = net.constant(np.array([1, 6, 7, 9], np.int64))
    x = net.op("Resize", x, "", "", sizes, mode="linear")
    pads = net.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    x = net.op("LRN", net.op("Pad", x, pads, mode="reflect"), size=3)
    graphs = []
    for kind in ("Relu", "Neg"):
        out = helper.make_tensor_value_info(f"{kind}/y", TensorProto.FLOAT, None)
        graphs.append(
            helper.make_graph([helper.make_node(kind, [x], [f"{kind}/y"])], kind, [], [out])
        )
    taken = net.constant(np.array(True))
    net.output(net.op("If", taken, then_branch=graphs[0], else_branch=graphs[1]))
    return net
