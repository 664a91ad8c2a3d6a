# SPDX-License-Identifier: Apache-2.0
"""Random networks of operators on quantised elements: every bit is that of ONNX Runtime.

``python -m sim_tests.onnx.qoperator_nets --nets 1000`` runs a campaign; the tests run a part of it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

from hwgen.models.files.store import Model
from hwgen.models.import_model import import_model
from hwgen.models.run.tensor_engine import TensorEngine
from sim_tests.onnx.onnx_files import MICROSOFT, Net, reference

Point = tuple[str, str]


@dataclass
class Chain:
    """A network that grows by random operators.

    Parameters
    ----------
    net : Net
    x : str
        Its last array, of the type `net.codes`.
    shape : tuple of int
    point : tuple of str
        Its scale and zero point.
    """

    net: Net
    x: str
    shape: tuple[int, ...]
    point: Point

    def pick(self, *choices: int) -> int:
        return int(self.net.rng.choice(choices))

    def fresh(self) -> Point:
        """Return a random scale and zero point."""
        rng, info = self.net.rng, np.iinfo(self.net.codes)
        scale = np.float32(2.0 ** rng.uniform(-9, 1))
        zero = np.dtype(self.net.codes).type(rng.integers(info.min, info.max + 1))
        return self.net.constant(scale, "scale"), self.net.constant(zero, "zero")

    def then(self, operator: str, *inputs: str, domain: str = MICROSOFT, **at: Any) -> str:
        self.x = str(self.net.op(operator, *inputs, domain=domain, **at))
        return self.x


def conv(c: Chain) -> None:
    batch, channels, *spatial = c.shape
    group = c.pick(1, channels)
    outside = group * c.pick(1, 3)
    kernel = [c.pick(1, 2, 3) for _ in spatial]
    after, bias = c.fresh(), c.net.rng.integers(-3000, 3000, outside).astype(np.int32)
    stride = c.pick(1, 2)
    c.then("QLinearConv", c.x, *c.point, c.net.narrow(outside, channels // group, *kernel),
           *c.net.channel_point(outside), *after, c.net.constant(bias), domain="", group=group,
           strides=[stride] * len(spatial), pads=[k // 2 for k in kernel] * 2)  # fmt: skip
    counts = [(n + 2 * (k // 2) - k) // stride + 1 for n, k in zip(spatial, kernel, strict=True)]
    c.shape, c.point = (batch, outside, *counts), after


def _flat(c: Chain) -> None:
    if len(c.shape) != 2:
        c.then("Flatten", c.x, domain="")
        c.shape = (c.shape[0], math.prod(c.shape[1:]))


def matmul(c: Chain) -> None:
    _flat(c)
    n, after = c.pick(3, 7, 16), c.fresh()
    c.then("QLinearMatMul", c.x, *c.point, c.net.narrow(c.shape[1], n), *c.net.channel_point(n),
           *after, domain="")  # fmt: skip
    c.shape, c.point = (c.shape[0], n), after


def gemm(c: Chain) -> None:
    _flat(c)
    n, after, turned = c.pick(3, 7, 16), c.fresh(), c.pick(0, 1)
    weights = c.net.narrow(*((n, c.shape[1]) if turned else (c.shape[1], n)))
    bias = c.net.constant(c.net.rng.integers(-3000, 3000, n).astype(np.int32))
    c.then("QGemm", c.x, *c.point, weights, *c.net.channel_point(n),
           bias if c.pick(0, 1) else "", *after, transB=turned,
           alpha=float(c.pick(1, 3)))  # fmt: skip
    c.shape, c.point = (c.shape[0], n), after


def binary(operator: str) -> Callable[[Chain], None]:
    def grow(c: Chain) -> None:
        after = c.fresh()
        other = c.net.rng.integers(-100, 100, c.shape).astype(c.net.codes)
        y, point = (c.net.constant(other), c.fresh()) if c.pick(0, 1) else (c.x, c.point)
        c.then(operator, c.x, *c.point, y, *point, *after)
        c.point = after

    return grow


def where(c: Chain) -> None:
    after, point = c.fresh(), c.fresh()
    condition = c.net.constant(c.net.rng.random(c.shape) < 0.5)
    other = c.net.constant(c.net.rng.integers(-100, 100, c.shape).astype(c.net.codes))
    c.then("QLinearWhere", condition, c.x, *c.point, other, *point, *after)
    c.point = after


def concat(c: Chain) -> None:
    after, point = c.fresh(), c.fresh()
    other = c.net.constant(c.net.rng.integers(-100, 100, c.shape).astype(c.net.codes))
    c.then("QLinearConcat", *after, c.x, *c.point, other, *point, axis=1)
    c.shape, c.point = (c.shape[0], 2 * c.shape[1], *c.shape[2:]), after


def unary(operator: str) -> Callable[[Chain], None]:
    def grow(c: Chain) -> None:
        after = c.fresh()
        at: dict[str, Any] = {}
        if operator.endswith("Relu"):
            at["alpha"] = float(c.net.rng.uniform(0.01, 0.5))
        c.then(operator, c.x, *c.point, *after, **at)
        c.point = after

    return grow


def softmax(c: Chain) -> None:
    zero = np.iinfo(c.net.codes).min
    after = c.net.constant(np.float32(1 / 256)), c.net.constant(np.dtype(c.net.codes).type(zero))
    axis = c.pick(1, len(c.shape) - 1)
    c.then("QLinearSoftmax", c.x, *c.point, *after, axis=axis, opset=c.pick(11, 13))
    c.point = after


def average(c: Chain) -> None:
    after, spatial = c.fresh(), c.shape[2:]
    kernel = [min(c.pick(1, 2, 3), n) for n in spatial]
    pads = [k // 2 for k in kernel]
    c.then("QLinearAveragePool", c.x, *c.point, *after, kernel_shape=kernel, pads=pads * 2,
           count_include_pad=c.pick(0, 1), strides=[1] * len(spatial))  # fmt: skip
    counts = [n + 2 * p - k + 1 for n, p, k in zip(spatial, pads, kernel, strict=True)]
    c.shape, c.point = (*c.shape[:2], *counts), after


def mean(c: Chain) -> None:
    after = c.fresh()
    c.then("QLinearGlobalAveragePool", c.x, *c.point, *after, channels_last=0)
    c.shape, c.point = (*c.shape[:2], *(1 for _ in c.shape[2:])), after


def largest(c: Chain) -> None:
    c.then("MaxPool", c.x, domain="", kernel_shape=[2] * (len(c.shape) - 2),
           pads=[0] * (len(c.shape) - 2) + [1] * (len(c.shape) - 2))  # fmt: skip


ANY = {
    "QLinearAdd": binary("QLinearAdd"), "QLinearMul": binary("QLinearMul"),
    "QLinearSigmoid": unary("QLinearSigmoid"), "QLinearLeakyRelu": unary("QLinearLeakyRelu"),
    "QLinearWhere": where, "QLinearConcat": concat, "QLinearSoftmax": softmax,
}  # fmt: skip
SPATIAL = {"QLinearConv": conv, "QLinearAveragePool": average, "MaxPool": largest,
           "QLinearGlobalAveragePool": mean}  # fmt: skip
FLAT = {"QLinearMatMul": matmul, "QGemm": gemm}


def make(seed: int) -> tuple[Net, dict[str, Any], list[str]]:
    """Return a network, its inputs, and the operators in it."""
    rng = np.random.default_rng(seed)
    codes = str(rng.choice(["uint8", "int8"]))
    net = Net(seed, codes, "int8")
    shape = (2, 4, *(int(n) for n in rng.integers(3, 8, int(rng.choice([1, 2])))))
    chain = Chain(net, net.input("x", shape, codes), shape, ("", ""))
    chain.point = chain.fresh()
    names = []
    for index in range(int(rng.integers(2, 6))):
        spatial = len(chain.shape) > 2
        choices = {**ANY, **(SPATIAL if spatial else {}), **(FLAT if index or not spatial else {})}
        name = str(rng.choice(sorted(choices)))
        if codes == "int8" and name == "MaxPool" and len(chain.shape) != 4:
            continue
        choices[name](chain)
        names.append(name)
    net.output(chain.x, codes)
    info = np.iinfo(codes)
    return net, {"x": rng.integers(info.min, info.max + 1, shape).astype(codes)}, names


def differences(seed: int, directory: Path) -> tuple[int, list[str]]:
    """Return the elements of a network that differ from ONNX Runtime's, and its operators."""
    net, inputs, names = make(seed)
    if not names:
        return 0, []
    try:
        (expected,) = reference(net.model(), inputs, optimise=False)
    except RuntimeException as error:  # means are of limited ratios of scales
        if "out of computation range" not in str(error):
            raise
        return 0, ["refused by ONNX Runtime"]
    (directory / "model").mkdir()
    import_model(net.write(directory / "net.onnx"), directory / "model")
    (result,) = TensorEngine(Model(directory / "model")).run(inputs).values()
    assert result.shape == expected.shape
    return int((result != expected).sum()), names


def main() -> int:
    """Run a campaign and print how many networks had each operator, and which differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start, counts, wrong = time.monotonic(), Counter[str](), 0
    for seed in range(given.seed, given.seed + given.nets):
        with tempfile.TemporaryDirectory() as directory:
            count, names = differences(seed, Path(directory))
        counts.update(names)
        if count:
            wrong += 1
            sys.stdout.write(f"seed {seed}: {count} elements differ: {', '.join(names)}\n")
    text = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    seconds = time.monotonic() - start
    sys.stdout.write(f"{given.nets} networks, {wrong} differ, {seconds:.0f} s: {text}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
