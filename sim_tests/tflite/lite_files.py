# SPDX-License-Identifier: Apache-2.0
"""Small TensorFlow Lite files with random weights, written without a library."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CODES = {
    "ADD": 0, "AVERAGE_POOL_2D": 1, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 4,
    "DEQUANTIZE": 6, "FULLY_CONNECTED": 9, "LSTM": 16, "MAX_POOL_2D": 17, "RESHAPE": 22,
    "SOFTMAX": 25, "PAD": 34, "TRANSPOSE": 39, "QUANTIZE": 114,
}  # fmt: skip
"""Numbers of operators."""

_OPTIONS = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "AVERAGE_POOL_2D": 5, "MAX_POOL_2D": 5,
            "FULLY_CONNECTED": 8, "SOFTMAX": 9, "CONCATENATION": 10, "ADD": 11, "RESHAPE": 17,
            "PAD": 22, "TRANSPOSE": 26, "DEQUANTIZE": 34, "QUANTIZE": 89}  # fmt: skip
_TYPES = {"float32": 0, "int32": 2, "int8": 9}
_FORMS = {"b": "<b", "B": "<B", "i": "<i", "I": "<I", "f": "<f"}

Field = tuple[str, Any]
Table = dict[int, Field]
"""Fields by number: a format and a value; ``t`` is a table, ``T`` a list of them, ``s`` a text."""


def written(root: Table) -> bytes:
    """Return a FlatBuffer whose tables lie behind those that point to them."""
    out = bytearray(struct.pack("<I4s", 0, b"TFL3"))
    waiting: list[tuple[int, Field]] = [(0, ("t", root))]

    def aligned(size: int) -> int:
        out.extend(bytes(-len(out) % size))
        return len(out)

    while waiting:
        at, (kind, value) = waiting.pop(0)
        if kind == "t":
            place = _table(out, value, waiting)
        elif kind == "T":
            place = aligned(4)
            out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
            waiting += [(place + 4 + 4 * i, ("t", each)) for i, each in enumerate(value)]
        else:
            data = value.encode() if kind == "s" else np.ascontiguousarray(value).tobytes()
            count = len(data) if kind == "s" else np.size(value)
            aligned(16)
            out.extend(bytes(12))
            place = len(out)
            out.extend(struct.pack("<I", count) + data + bytes(1))
        struct.pack_into("<I", out, at, place - at)
    return bytes(out)


def _table(out: bytearray, fields: Table, waiting: list[tuple[int, Field]]) -> int:
    """Write a table, and leave what its offsets point to waiting."""
    count = max(fields, default=-1) + 1
    out.extend(bytes(-len(out) % 4))
    places = len(out)
    out.extend(bytes(4 + 2 * count + (-(4 + 2 * count) % 4)))
    at = len(out)
    out.extend(struct.pack("<i", at - places))
    for number, (kind, value) in sorted(fields.items()):
        out.extend(bytes(-len(out) % 4))
        struct.pack_into("<H", out, places + 4 + 2 * number, len(out) - at)
        if kind in _FORMS:
            out.extend(struct.pack(_FORMS[kind], value))
        else:
            waiting.append((len(out), (kind, value)))
            out.extend(bytes(4))
    struct.pack_into("<HH", out, places, 4 + 2 * count, len(out) - at)
    return at


@dataclass
class LiteNet:
    """A network that grows by operators; tensors are numbers.

    Parameters
    ----------
    seed : int
    """

    seed: int
    tensors: list[Table] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    zeros: list[int] = field(default_factory=list)
    buffers: list[Table] = field(default_factory=lambda: [{}])
    operators: list[Table] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def tensor(
        self, shape: tuple[int, ...], dtype: str = "int8", scales: Any = None, zero: int = 0,
        data: Any = None, axis: int = 0,
    ) -> int:  # fmt: skip
        number = len(self.tensors)
        table: Table = {0: ("v", np.array(shape, "<i4")), 1: ("b", _TYPES[dtype]),
                        2: ("I", 0), 3: ("s", f"tensor {number}")}  # fmt: skip
        if data is not None:
            table[2] = ("I", len(self.buffers))
            raw = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            self.buffers.append({0: ("v", raw)})
        if scales is not None:
            list_of = np.atleast_1d(np.asarray(scales, "<f4"))
            zeros = np.full(len(list_of), zero, "<i8")
            table[4] = ("t", {2: ("v", list_of), 3: ("v", zeros), 6: ("i", axis)})
        self.tensors.append(table)
        self.shapes.append(shape)
        self.scales.append(float(np.float32(np.max(scales))) if scales is not None else 0.0)
        self.zeros.append(zero)
        return number

    def quantised(self, *shape: int, like: int | None = None) -> int:
        """Return a new tensor with a random scale and zero point, or those of another one."""
        if like is not None:
            return self.tensor(shape, "int8", self.scales[like], self.zeros[like])
        scale, zero = 2.0 ** self.rng.uniform(-6, 0), int(self.rng.integers(-128, 128))
        return self.tensor(shape, "int8", scale, zero)

    def op(self, name: str, inputs: list[int], output: int, options: Table | None = None) -> int:
        if name not in self.names:
            self.names.append(name)
        table: Table = {0: ("I", self.names.index(name)), 1: ("v", np.array(inputs, "<i4")),
                        2: ("v", np.array([output], "<i4"))}  # fmt: skip
        if name in _OPTIONS:
            table |= {3: ("B", _OPTIONS[name]), 4: ("t", options or {})}
        self.operators.append(table)
        return output

    def bytes(self) -> bytes:
        """Return the file."""
        codes = [{0: ("b", CODES[n]), 2: ("i", 1), 3: ("i", CODES[n])} for n in self.names]
        graph: Table = {
            0: ("T", self.tensors), 1: ("v", np.array([0], "<i4")),
            2: ("v", np.array(self.outputs, "<i4")), 3: ("T", self.operators), 4: ("s", "main"),
        }  # fmt: skip
        return written({0: ("I", 3), 1: ("T", codes), 2: ("T", [graph]), 3: ("s", "random"),
                        4: ("T", self.buffers)})  # fmt: skip

    # -- layers ------------------------------------------------------------------------------

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def _weights(self, shape: tuple[int, ...], axis: int, count: int, x: int) -> list[int]:
        scales = self.rng.uniform(0.002, 0.02, count)
        w = self.tensor(shape, "int8", scales, 0, self.rng.integers(-127, 128, shape), axis)
        channels = shape[axis]
        bias = self.tensor((channels,), "int32", scales * self.scales[x], 0,
                           self.rng.integers(-4000, 4000, channels))  # fmt: skip
        return [w, bias]

    def conv(self, x: int, *, depthwise: bool = False) -> int:
        batch, height, width, channels = self.shapes[x]
        kernel, stride = (self.pick(1, 2, 3), self.pick(1, 3)), (self.pick(1, 2), self.pick(1, 2))
        dilation, same = (self.pick(1, 2), 1) if max(stride) == 1 else (1, 1), self.pick(0, 1)
        outside = channels * self.pick(1, 2) if depthwise else self.pick(3, 8)
        lengths = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        if not same and (lengths[0] > height or lengths[1] > width):
            same = 1
        spatial = [-(-n // s) if same else (n - k) // s + 1
                   for n, k, s in zip((height, width), lengths, stride, strict=True)]  # fmt: skip
        shape = (1, *kernel, outside) if depthwise else (outside, *kernel, channels)
        weights = self._weights(shape, 3 if depthwise else 0, outside, x)
        more: Table = {3: ("i", outside // channels)} if depthwise else {}
        first = 4 if depthwise else 3
        options: Table = {
            0: ("b", 0 if same else 1), 1: ("i", stride[1]), 2: ("i", stride[0]),
            **more, first: ("b", self.pick(0, 1, 3)), first + 1: ("i", dilation[1]),
            first + 2: ("i", dilation[0]),
        }  # fmt: skip
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.op(name, [x, *weights], self.quantised(batch, *spatial, outside), options)

    def pool(self, x: int, name: str) -> int:
        batch, height, width, channels = self.shapes[x]
        kernel = (min(self.pick(1, 2, 3), height), min(self.pick(2, 3), width))
        same, stride = self.pick(0, 1), (self.pick(1, 2), self.pick(1, 2))
        spatial = [-(-n // s) if same else (n - k) // s + 1
                   for n, k, s in zip((height, width), kernel, stride, strict=True)]  # fmt: skip
        options: Table = {0: ("b", 0 if same else 1), 1: ("i", stride[1]), 2: ("i", stride[0]),
                          3: ("i", kernel[1]), 4: ("i", kernel[0]),
                          5: ("b", self.pick(0, 3))}  # fmt: skip
        return self.op(name, [x], self.quantised(batch, *spatial, channels, like=x), options)

    def matrix(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) != 2:
            flat = self.quantised(shape[0], int(np.prod(shape[1:])), like=x)
            x = self.op("RESHAPE", [x], flat, {0: ("v", np.array(self.shapes[flat], "<i4"))})
        outside = self.pick(4, 9)
        weights = self._weights((outside, self.shapes[x][1]), 0, 1, x)
        options: Table = {0: ("b", self.pick(0, 1, 3))}
        return self.op("FULLY_CONNECTED", [x, *weights], self.quantised(1, outside), options)

    def add(self, x: int) -> int:
        shape = self.shapes[x]
        y = self.quantised(*shape)
        self.tensors[y][2] = ("I", len(self.buffers))
        data = self.rng.integers(-128, 128, shape).astype(np.int8)
        self.buffers.append({0: ("v", np.frombuffer(data.tobytes(), np.uint8))})
        pair = [x, x] if self.pick(0, 1) else [x, y]
        return self.op("ADD", pair, self.quantised(*shape), {0: ("b", self.pick(0, 1, 3))})

    def pad(self, x: int) -> int:
        shape = self.shapes[x]
        sides = np.array([[0, 0], *([self.pick(0, 1), self.pick(0, 2)] for _ in shape[1:])])
        pads = self.tensor(sides.shape, "int32", data=sides)
        lengths = [int(n) for n in np.array(shape) + sides.sum(1)]
        return self.op("PAD", [x, pads], self.quantised(*lengths, like=x))

    def joined(self, x: int) -> int:
        shape = (*self.shapes[x][:-1], 2 * self.shapes[x][-1])
        return self.op("CONCATENATION", [x, x], self.quantised(*shape, like=x),
                       {0: ("i", -1), 1: ("b", 0)})  # fmt: skip

    def transposed(self, x: int) -> int:
        order = [0, *(int(i) for i in 1 + self.rng.permutation(len(self.shapes[x]) - 1))]
        axes = self.tensor((len(order),), "int32", data=order)
        shape = [self.shapes[x][axis] for axis in order]
        return self.op("TRANSPOSE", [x, axes], self.quantised(*shape, like=x))

    def again(self, x: int) -> int:
        return self.op("QUANTIZE", [x], self.quantised(*self.shapes[x]))

    def softmax(self, x: int) -> int:
        result = self.tensor(self.shapes[x], "int8", 1 / 256, -128)
        return self.op("SOFTMAX", [x], result, {0: ("f", float(self.rng.uniform(0.5, 1.5)))})


def random_net(seed: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file with a chain of random operators, and the shape of its input."""
    net = LiteNet(seed)
    shape = (1, net.pick(5, 8), net.pick(4, 7), net.pick(1, 3))
    x = net.quantised(*shape)
    spatial = [
        net.conv,
        lambda x: net.conv(x, depthwise=True),
        net.pad,
        net.transposed,
        lambda x: net.pool(x, "AVERAGE_POOL_2D"),
        lambda x: net.pool(x, "MAX_POOL_2D"),
    ]
    for _ in range(net.pick(2, 3, 4)):
        layers = [*spatial, *spatial, net.add, net.joined, net.again]
        x = layers[int(net.rng.integers(len(layers)))](x)
    x = net.matrix(net.add(x)) if net.pick(0, 1) else x
    if net.pick(0, 1):
        x = net.softmax(x)
    if net.pick(0, 0, 1):
        x = net.op("DEQUANTIZE", [x], net.tensor(net.shapes[x], "float32"))
    net.outputs = [x]
    return net.bytes(), shape


def drawn(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the input of a network."""
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
