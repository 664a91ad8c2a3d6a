# SPDX-License-Identifier: Apache-2.0
"""Every operator of the table, alone, against ONNX Runtime or what its project defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from hwgen.models.onnx.operator_table import OPERATORS
from hwgen.models.onnx.operators import QONNX
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.supported import markdown
from sim_tests.onnx.backend_tests import PAGE, cases, operator_of, outcomes, page
from sim_tests.onnx.onnx_files import MICROSOFT, Net, reference
from sim_tests.onnx.qoperator_nets import differences
from sim_tests.onnx.test_onnx import imported
from sim_tests.support.paths import ROOT

Case = Callable[[Net], Any]


def x_of(net: Net, *shape: int) -> str:
    return net.input("x", shape or (2, 3, 4))


def c(net: Net, array: Any, dtype: str = "int64") -> str:
    return net.constant(np.asarray(array, dtype))


def one(operator: str, *shape: int, opset: int = 17, **at: Any) -> tuple[str, Case, int]:
    return operator, lambda net: net.op(operator, x_of(net, *shape), **at), opset


def two(operator: str, constant: Any = None) -> tuple[str, Case, int]:
    values = np.linspace(-2, 2.5, 12).reshape(3, 4) if constant is None else constant
    return operator, lambda net: net.op(operator, x_of(net), c(net, values, "float32")), 17


def compared(operator: str) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        return net.op("Cast", net.op(operator, x_of(net), c(net, np.full(4, 0.5), "float32")), to=1)

    return operator, make, 17


def logic(operator: str) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        x, half = x_of(net), c(net, 0.5, "float32")
        both = net.op("Greater", x, half), net.op("Less", x, c(net, 1.5, "float32"))
        return net.op("Cast", net.op(operator, *(both if operator != "Not" else both[:1])), to=1)

    return operator, make, 17


def moves(operator: str, *operands: Any, outputs: int = 1, shape: Any = (2, 3, 4), opset: int = 17,
          **at: Any) -> tuple[str, Case, int]:  # fmt: skip
    def make(net: Net) -> Any:
        given = [c(net, array) if array is not None else "" for array in operands]
        result = net.op(operator, x_of(net, *shape), *given, outputs=outputs, **at)
        return result if outputs == 1 else result[0]

    return operator, make, opset


def shaped(operator: str) -> tuple[str, Case, int]:
    """Make an operator on shapes, in a reshape that is thereby fixed."""

    def make(net: Net) -> Any:
        x = x_of(net)
        match operator:
            case "Size":
                shape = net.op("Reshape", net.op("Size", x), c(net, [1]))
            case "ConstantOfShape":
                ones = net.op(operator, c(net, [3]))
                more = net.op("Unsqueeze", net.op("ReduceSum", ones), c(net, [0]))
                return net.op("Add", x, more)
            case "Range":
                places = net.op(operator, c(net, 0), c(net, 3), c(net, 2))
                return net.op("Gather", x, places, axis=1)
            case "Constant":
                return net.op("Reshape", x, net.op(operator, value_ints=[4, 6]))
            case "Concat":
                shape = net.op(operator, net.op("Shape", x, end=1), c(net, [12]), axis=0)
            case _:
                shape = net.op("Shape", x)
        return net.op("Reshape", x, shape)

    return operator, make, 17


def gather(net: Net) -> Any:
    return net.op("Gather", x_of(net), c(net, [[1, -1], [0, 1]]), axis=2)


def gather_nd(net: Net) -> Any:
    return net.op("GatherND", x_of(net), c(net, [[0, 1], [1, 2]]))


def where(net: Net) -> Any:
    x = x_of(net)
    return net.op("Where", net.op("Greater", x, c(net, 0, "float32")), x, c(net, -3, "float32"))


def clip(net: Net) -> Any:
    return net.op("Clip", x_of(net), c(net, -0.5, "float32"), c(net, 0.7, "float32"))


def resize(mode: str, rounding: str) -> Case:
    def make(net: Net) -> Any:
        scales = c(net, [1, 1, 2, 3], "float32")
        return net.op("Resize", x_of(net, 1, 2, 3, 2), "", scales, mode="nearest",
                      coordinate_transformation_mode=mode, nearest_mode=rounding)  # fmt: skip

    return make


def sampled(
    sizes: Any, shape: tuple[int, ...], opset: int = 18, **at: Any
) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        return net.op("Resize", x_of(net, *shape), "", "", c(net, sizes), **at)

    return "Resize", make, opset


def upsampled(net: Net) -> Any:
    scales = c(net, [1, 1, 2, 2], "float32")
    return net.op("Upsample", x_of(net, 1, 2, 3, 2), scales, mode="linear")


def transposed(
    spatial: tuple[int, ...], group: int, kernel: Any, **at: Any
) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        weights = c(net, net.rng.standard_normal((4, 6 // group, *kernel)), "float32")
        bias = c(net, net.rng.standard_normal(6), "float32")
        return net.op("ConvTranspose", x_of(net, 2, 4, *spatial), weights, bias, group=group, **at)

    return "ConvTranspose", make, 17


def grouped(operator: str, opset: int, count: int, **at: Any) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        parts = [c(net, net.rng.standard_normal(count), "float32") for _ in range(2)]
        return net.op(operator, x_of(net, 2, 6, 3, 4), *parts, epsilon=1e-3, **at)

    return operator, make, opset


def branch(first: bool) -> tuple[str, Case, int]:
    """Make an If with a condition that follows from a shape, and another one inside of it."""

    def graph(name: str, nodes: list[Any]) -> Any:
        info = helper.make_tensor_value_info(f"{name}/out", TensorProto.FLOAT, None)
        constant = numpy_helper.from_array(np.array(2 + len(name), np.float32), f"{name}/c")
        return helper.make_graph(nodes, name, [], [info], [constant])

    def make(net: Net) -> Any:
        x = net.op("Relu", x_of(net))
        places = c(net, 0)
        long = net.op("Equal", net.op("Gather", net.op("Shape", x), places), c(net, 2 + first))
        inner = [graph(name, [helper.make_node("Mul", [x, f"{name}/c"], [f"{name}/out"])])
                 for name in ("a", "bb")]  # fmt: skip
        nested = helper.make_node("If", [long], ["ccc/y"], then_branch=inner[0],
                                  else_branch=inner[1])  # fmt: skip
        after = helper.make_node("Add", ["ccc/y", "ccc/c"], ["ccc/out"])
        other = graph("d", [helper.make_node("Neg", [x], ["d/out"])])
        return net.op("If", long, then_branch=graph("ccc", [nested, after]), else_branch=other)

    return "If", make, 17


def gemm_of_codes(net: Net, real: bool = False) -> Any:
    first, after = net.point(), net.point(0.2, 0.4)
    x = net.quantise(x_of(net, 2, 8), first)
    bias = net.constant(net.rng.integers(-500, 500, 6).astype(np.int32))
    result = net.op("QGemm", x, *first, net.narrow(6, 8), *net.channel_point(6), bias,
                    *(() if real else after), transB=1, domain=MICROSOFT)  # fmt: skip
    return result if real else net.op("Cast", result, to=1)


def function_of_codes(operator: str, **at: Any) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        first, after = net.point(), net.point(0.004, 0.006)
        x = net.quantise(x_of(net, 1, 4, 5, 5), first)
        operands = [x, *first, *after]
        if operator == "QLinearWhere":
            half = net.op("Greater", "x", c(net, 0.5, "float32"))
            operands = [half, x, *first, net.quantise("x", after), *after, *net.point()]
        return net.op("Cast", net.op(operator, *operands, domain=MICROSOFT, **at), to=1)

    return f"{MICROSOFT}:{operator}", make, 17


def layer_norm(net: Net) -> Any:
    gamma, beta = (c(net, net.rng.standard_normal(4), "float32") for _ in range(2))
    return net.op("LayerNormalization", x_of(net), gamma, beta, epsilon=1e-3)


def batch_norm(folded: bool) -> Case:
    def make(net: Net) -> Any:
        x = x_of(net, 2, 3, 4, 4)
        if folded:
            x = net.op("Conv", x, c(net, net.rng.standard_normal((3, 3, 3, 3)), "float32"))
        parts = [c(net, net.rng.uniform(0.5, 2, 3), "float32") for _ in range(4)]
        return net.op("BatchNormalization", x, *parts)

    return make


def conv(spatial: tuple[int, ...], group: int, bias: bool, **at: Any) -> Case:
    def make(net: Net) -> Any:
        kernel = at.get("kernel_shape", [3] * len(spatial))
        weights = c(net, net.rng.standard_normal((6, 4 // group, *kernel)), "float32")
        more = [c(net, net.rng.standard_normal(6), "float32")] if bias else []
        return net.op("Conv", x_of(net, 2, 4, *spatial), weights, *more, group=group, **at)

    return make


def gemm(net: Net) -> Any:
    w, b = (c(net, net.rng.standard_normal(s), "float32") for s in ((5, 3), (5,)))
    return net.op("Gemm", x_of(net, 3, 4), w, b, transA=1, transB=1, alpha=0.5, beta=2.0)


def matmul(net: Net) -> Any:
    x = x_of(net, 2, 3, 4)
    result = net.op("MatMul", x, c(net, net.rng.standard_normal((4, 5)), "float32"))
    turned = net.op("Transpose", x, perm=[0, 2, 1])
    return net.op("MatMul", turned, result)


def linear(operator: str) -> Case:
    def make(net: Net) -> Any:
        first, second, after = (net.point(0.02, 0.1) for _ in range(3))
        x = net.quantise(x_of(net, 1, 4, 5, 5), first)
        if operator == "QLinearGlobalAveragePool":
            result = net.op(operator, x, *first, *after, domain=MICROSOFT, channels_last=0)
        elif operator == "QLinearConcat":
            y = net.quantise("x", second)
            result = net.op(operator, *after, x, *first, y, *second, domain=MICROSOFT, axis=1)
        else:
            y = net.quantise("x", second)
            result = net.op(operator, x, *first, y, *second, *after, domain=MICROSOFT)
        return net.op("Cast", result, to=1)

    return make


def qlinear_matmul(net: Net) -> Any:
    first, after = net.point(), net.point(0.2, 0.4)
    x = net.quantise(x_of(net, 2, 8), first)
    result = net.op("QLinearMatMul", x, *first, net.narrow(8, 6), *net.channel_point(6), *after)
    return net.op("Cast", result, to=1)


def qlinear_conv(net: Net) -> Any:
    first, after = net.point(), net.point(0.2, 0.4)
    x = net.quantise(x_of(net, 1, 2, 6), first)
    result = net.op(
        "QLinearConv", x, *first, net.narrow(4, 2, 3), *net.channel_point(4), *after, pads=[2, 0]
    )
    return net.op("Cast", result, to=1)


def integer_product(operator: str) -> Case:
    def make(net: Net) -> Any:
        point = net.point()
        shape, weights = (
            ((2, 8), (8, 6)) if operator == "MatMulInteger" else ((1, 2, 5, 5), (4, 2, 2, 2))
        )
        x = net.quantise(x_of(net, *shape), point)
        zero = net.constant(np.int8(3))
        result = net.op(
            operator, x, net.narrow(*weights), point[1], zero if operator[0] == "M" else ""
        )
        return net.op("Cast", result, to=1)

    return make


def dynamic(net: Net) -> Any:
    codes, scale, zero = net.op("DynamicQuantizeLinear", x_of(net), outputs=3)
    return net.op("DequantizeLinear", codes, scale, zero)


def to_float(operator: str) -> Case:
    def make(net: Net) -> Any:
        x, scale = x_of(net, 2, 8), c(net, net.rng.uniform(0.01, 0.02, 6), "float32")
        zero = net.constant(np.zeros(6, np.int8))
        bias = c(net, net.rng.standard_normal(6), "float32")
        if operator == "DynamicQuantizeMatMul":
            return net.op(operator, x, net.narrow(8, 6), scale, zero, bias, domain=MICROSOFT)
        point = net.point()
        operands = net.quantise(x, point), net.narrow(8, 6), point[0], scale, point[1], zero, bias
        return net.op(operator, *operands, domain=MICROSOFT)

    return make


def qdq(domain: str, name: str) -> tuple[str, Case, int]:
    def make(net: Net) -> Any:
        point = net.point(0.01, 0.02)
        codes = net.op("QuantizeLinear", x_of(net), *point, domain=domain)
        return net.op("DequantizeLinear", codes, *point, domain=domain)

    return f"{domain}:{name}".lstrip(":"), make, 17


_WINDOW: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
CASES: list[tuple[str, Case, int]] = [
    *(one(operator) for operator in (
        "Identity", "Dropout", "Relu", "Elu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Erf",
        "Exp", "Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Softplus", "Sin", "Cos",
        "Reciprocal", "LogSoftmax",
    )),
    one("LeakyRelu", alpha=0.3), one("Sqrt"), one("Log"), one("Softmax", axis=1),
    one("Softmax", opset=11, axis=1), one("LogSoftmax", opset=11),
    ("Dropout", lambda net: net.op("Dropout", x_of(net), outputs=2)[0], 17),
    one("Gelu", opset=20), one("Gelu", opset=20, approximate="tanh"),
    (MICROSOFT + ":Gelu", lambda net: net.op("Gelu", x_of(net), domain=MICROSOFT), 17),
    (MICROSOFT + ":FastGelu", lambda net: net.op("FastGelu", x_of(net), domain=MICROSOFT), 17),
    *(two(operator) for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "PRelu")),
    two("Pow", [2.0]), two("Pow", [3.0]),
    *(compared(k) for k in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *(logic(operator) for operator in ("And", "Or", "Not")),
    ("Mod", lambda net: net.op("Cast", net.op("Mod", net.op("Cast", x_of(net), to=7), c(net, 3)),
                               to=1), 17),
    ("IsNaN", lambda net: net.op("Cast", net.op("IsNaN", net.op("Log", x_of(net))), to=1), 17),
    ("Cast", lambda net: net.op("Cast", net.op("Cast", x_of(net), to=6), to=1), 17),
    moves("Reshape", [0, -1]), moves("Flatten", axis=2), moves("Transpose"),
    moves("Transpose", perm=[1, 0, 2]), moves("Squeeze", shape=(1, 3, 1, 2)),
    moves("Squeeze", [-2], shape=(1, 3, 1, 2)), moves("Unsqueeze", [0, -1]),
    moves("Split", [1, 3], outputs=2, axis=2), moves("Slice", [5, 0], [-9, 3], [2, 1], [-2, 1]),
    moves("Slice", [1], [3]), moves("Expand", [2, 1, 3, 1]),
    moves("Pad", [0, 1, 0, 2, 0, 3]), moves("ReduceSum", [1], keepdims=0),
    moves("ReduceMean", axes=[0, -1]), moves("ReduceMax", axes=[1]), moves("ReduceMin", axes=[1]),
    moves("ReduceL2", axes=[2], keepdims=0),
    *(shaped(k) for k in ("Shape", "Size", "Constant", "ConstantOfShape", "Range", "Concat")),
    ("Gather", gather, 17), ("GatherND", gather_nd, 17), ("Where", where, 17), ("Clip", clip, 17),
    ("Resize", resize("asymmetric", "floor"), 17),
    ("Resize", resize("half_pixel", "round_prefer_floor"), 17),
    ("Upsample", lambda net: net.op("Upsample", x_of(net, 1, 2, 3, 2),
                                    c(net, [1, 1, 2, 2], "float32"), mode="nearest"), 9),
    sampled([1, 2, 7, 5], (1, 2, 3, 2), mode="linear"),
    sampled([1, 2, 7, 5], (1, 2, 3, 2), mode="linear",
            coordinate_transformation_mode="align_corners"),
    sampled([1, 2, 2, 4], (1, 2, 5, 4), mode="cubic", exclude_outside=1),
    sampled([1, 2, 3, 4], (1, 2, 7, 9), mode="linear", antialias=1),
    ("Upsample", upsampled, 9), transposed((5, 4), 2, (3, 2), strides=[2, 3], pads=[1, 0, 2, 1]),
    transposed((5,), 1, (3,), output_padding=[1], strides=[2], dilations=[2]),
    transposed((4, 4), 1, (2, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    moves("Pad", [0, 1, 2, 0, 1, 3], mode="reflect"), moves("Pad", [0, 2, 1, 1, 0, 1], mode="edge"),
    moves("Pad", [0, 1, 2, 0, 1, 3], mode="wrap", opset=19), moves("Pad", [0, -1, 2, 0, 1, -1]),
    grouped("GroupNormalization", 21, 6, num_groups=3),
    grouped("InstanceNormalization", 17, 6), one("LRN", 2, 5, 3, 4, size=3, alpha=0.1, beta=0.6),
    branch(True), branch(False), (MICROSOFT + ":QGemm", gemm_of_codes, 17),
    (MICROSOFT + ":QGemm", lambda net: gemm_of_codes(net, True), 17),
    *(function_of_codes(operator) for operator in (
        "QLinearSigmoid", "QLinearLeakyRelu", "QLinearWhere")),
    function_of_codes("QLinearSoftmax", axis=1, opset=13),
    function_of_codes("QLinearAveragePool", kernel_shape=[3, 2], pads=[1, 1, 0, 0]),
    one("AveragePool", 1, 2, 7, 6, ceil_mode=1, count_include_pad=1, kernel_shape=[3, 3],
        strides=[2, 2], pads=[1, 1, 1, 1], opset=19),
    ("MatMul", lambda net: net.op("MatMul", x_of(net, 4), net.op("Relu", "x")), 17),
    ("LayerNormalization", layer_norm, 17), ("BatchNormalization", batch_norm(True), 17),
    ("BatchNormalization", batch_norm(False), 17),
    one("MaxPool", 1, 2, 7, 6, **_WINDOW), one("MaxPool", 1, 2, 7, 6, ceil_mode=1, **_WINDOW),
    one("AveragePool", 1, 2, 7, 6, **_WINDOW),
    one("AveragePool", 1, 2, 7, 6, count_include_pad=1, **_WINDOW),
    one("AveragePool", 1, 2, 7, 6, kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    one("GlobalAveragePool", 1, 2, 7, 6), one("GlobalMaxPool", 1, 2, 7, 6),
    ("Conv", conv((7,), 1, True), 17), ("Conv", conv((7, 6), 2, True, **_WINDOW), 17),
    ("Conv", conv((7, 6), 1, False, dilations=[2, 1], pads=[1, 2, 3, 0]), 17),
    ("Conv", conv((7, 6), 1, False, strides=[2, 1], auto_pad="SAME_LOWER"), 17),
    ("Conv", conv((4, 4, 4), 1, True, strides=[2, 1, 1]), 17),
    ("Gemm", gemm, 17), ("MatMul", matmul, 17),
    *((f"{MICROSOFT}:{operator}", linear(operator), 17) for operator in (
        "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearGlobalAveragePool")),
    ("QLinearMatMul", qlinear_matmul, 17), ("QLinearConv", qlinear_conv, 17),
    ("MatMulInteger", integer_product("MatMulInteger"), 17),
    ("ConvInteger", integer_product("ConvInteger"), 17), ("DynamicQuantizeLinear", dynamic, 17),
    (MICROSOFT + ":MatMulIntegerToFloat", to_float("MatMulIntegerToFloat"), 17),
    (MICROSOFT + ":DynamicQuantizeMatMul", to_float("DynamicQuantizeMatMul"), 17),
    *(qdq(domain, operator) for domain in ("", MICROSOFT)
      for operator in ("QuantizeLinear", "DequantizeLinear")),
]  # fmt: skip

EXACT = (
    "Relu", "Neg", "Abs", "Floor", "Ceil", "Round", "Add", "Sub", "Mul", "Max", "Min", "MaxPool",
    "QLinear", "MatMulInteger", "ConvInteger", "Quantize", "Dequantize", "DynamicQuantizeLinear",
    "Reshape", "Transpose", "Slice", "Pad", "Gather", "Where", "Clip", "Split", "QGemm", "If",
)  # fmt: skip
"""Beginnings of the names of operators whose results are ONNX Runtime's in every bit."""


@pytest.mark.parametrize(
    ("name", "make", "opset"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_an_operator_is_that_of_onnx_runtime(
    name: str, make: Case, opset: int, tmp_path: Path
) -> None:
    net = Net(3)
    net.output(make(net))
    net.write(tmp_path / "net.onnx", opset)
    shape = net.inputs[0].type.tensor_type.shape.dim
    values = np.random.default_rng(5).standard_normal([d.dim_value for d in shape]) * 1.5
    x = {"x": values.astype(np.float32)}
    model = imported(tmp_path, net, opset)
    (result,) = TensorEngine(model).run(x).values()
    (expected,) = reference(net.model(opset), x)
    assert result.shape == expected.shape
    if name.rpartition(":")[2].startswith(EXACT):
        exact = not name.endswith("IntegerToFloat")
        if exact:
            np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_every_operator_is_tested() -> None:
    tested = {case[0] for case in CASES}
    qonnx = {
        domain + operator for domain in QONNX for operator in ("Quant", "BipolarQuant", "Trunc")
    }
    assert set(OPERATORS) - tested == qonnx  # which test_onnx.py has


def test_the_page_of_operators_is_current() -> None:
    page = ROOT / "docs" / "supported-operators.md"
    assert page.read_text(encoding="utf-8") == markdown(), "run make docs"


@pytest.mark.parametrize("seed", range(1, 25))
def test_networks_of_quantised_operators_are_those_of_onnx_runtime(
    seed: int, tmp_path: Path
) -> None:
    assert differences(seed, tmp_path)[0] == 0


@pytest.mark.slow
@pytest.mark.rotate(6)
@pytest.mark.parametrize("part", range(8))
def test_the_tests_that_onnx_has(part: int) -> None:
    tests = [case for case in cases() if operator_of(case) is not None]
    result = outcomes(tests[part::8])
    assert [text for each in result.values() for text in each.failed] == []
    assert sum(each.passed for each in result.values()) > 70


@pytest.mark.long
def test_the_page_of_the_tests_that_onnx_has_is_current() -> None:
    text = "\n".join(page(outcomes(cases()))) + "\n"
    assert (ROOT / PAGE).read_text(encoding="utf-8") == text, "run make onnx-tests"
