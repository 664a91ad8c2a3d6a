# SPDX-License-Identifier: Apache-2.0
"""Vector units: golden models against formulas, RTL against golden and cycle models."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pytest

from flows.bench.draws import draw
from flows.simulation.bench_jobs import draw_job
from flows.simulation.cases import JobSpec
from flows.simulation.run import run_job
from flows.simulation.stream_program import compile_stream, run_stream
from flows.tools.guard import scratch
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.vector.golden import operate
from hwgen.families.vector.operations import CODES, DATAPATHS, NAMED
from hwgen.families.vector.params import FORMATS, VectorConfig
from hwgen.families.vector.schedule import Plan, command
from sim_tests.contract.contract import Contract, Covering, Mutations, Regressions
from sim_tests.support.cores import job_cycles
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation

BETWEEN = tuple(name for name in NAMED if DATAPATHS[name].generic)
"""Operations between formats of their own."""

PLAIN = tuple(
    name for name in NAMED if name not in ("hadamard_quantise", "quantise_block", *BETWEEN)
)
"""Operations on rows of any format."""

AXES: dict[str, list[Any]] = {
    "operations": [
        ("softmax",), ("rms_norm", "argmax"), ("layer_norm", "gated"), ("rope", "add"),
        ("quantise", "dequantise"), ("add", "gated", "dequantise"), PLAIN, ("hadamard_quantise",),
    ],
    "lanes": [1, 2, 4, 8],
    "input": list(FORMATS),
    "output": ["int4", *FORMATS],
    "parameters": ["bf16", "fp16", "fp32"],
    "longest_row": [1, 9, 64],
    "softmax": ["two_pass", "online"],
    "gate": ["silu", "gelu", "relu2"],
    "function_bits": [8, 14],
    "adder": [1, 2, 3, 5],
    "multiplier": [1, 2, 4],
    "function": [1, 3, 6],
    "convert": [0, 1, 2],
}  # fmt: skip
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


STAGES = ("adder", "multiplier", "function", "convert")
"""Fields of `pipeline`."""


def made(name: str, **values: Any) -> VectorConfig:
    """Return the configuration of a point of the covering set."""
    names = list(values["operations"])
    array = {key: values[key] for key in ("lanes", "longest_row", "function_bits")}
    if "gated" in names:
        array["gate"] = values["gate"]
    if "softmax" in names:
        array["softmax"] = values["softmax"]
    if "hadamard_quantise" in names:
        array["hadamard"] = 4 if values["longest_row"] == 64 and values["lanes"] >= 4 else 2
    return VectorConfig.model_validate(
        {
            "name": name,
            **{key: values[key] for key in ("input", "output", "parameters")},
            "array": {"operations": names, **array},
            "pipeline": {key: values[key] for key in STAGES},
        }
    )


def legal(point: list[Any]) -> bool:
    """Return whether a point, or its beginning, may be."""
    values = dict(zip(AXES, point, strict=False))
    names, lanes, output = values["operations"], values.get("lanes"), values.get("output")
    if values.get("softmax", "two_pass") != "two_pass" and "softmax" not in names:
        return False
    if "rope" in names and (lanes == 1 or values.get("longest_row") == 1):
        return False
    turns = "hadamard_quantise" in names
    if turns and (lanes == 1 or values.get("longest_row") == 1):
        return False
    if turns and values.get("input", "fp32") != "fp32":
        return False
    if output is None or lanes is None:
        return True
    width = max(8, int("".join(c for c in output if c.isdigit())))
    integers = {"quantise", "hadamard_quantise"} & set(names)
    if integers and not output.startswith("int"):
        return False
    return not (integers or "argmax" in names) or lanes * width >= 32


COVERING = Covering(
    "cover", AXES, lambda name, values: made(name, **values), every=390, legal=legal
)

SMALL: dict[str, Any] = {
    "input": "fp16",
    "output": "bf16",
    "parameters": "fp32",
    "array": {"operations": ["softmax", "rms_norm", "gated", "add"], "lanes": 2, "longest_row": 9,
              "gate": "relu2", "function_bits": 8},
    "pipeline": {"adder": 2, "multiplier": 1, "function": 1},
}  # fmt: skip
ONLINE: dict[str, Any] = {
    **SMALL,
    "array": {"operations": ["softmax"], "softmax": "online", "lanes": 2, "longest_row": 9,
              "function_bits": 8},
}  # fmt: skip
BLOCKS: dict[str, Any] = {
    "input": "fp32",
    "output": "fp8_e4m3",
    "array": {"operations": ["quantise_block"], "lanes": 4, "longest_row": 9},
}
EVERY: dict[str, Any] = {
    "input": "fp32",
    "output": "int16",
    "array": {"operations": [*PLAIN, "hadamard_quantise"], "lanes": 2, "longest_row": 20,
              "softmax": "online", "gate": "gelu", "function_bits": 13, "hadamard": 2},
    "pipeline": {"adder": 1, "multiplier": 1, "function": 2},
}  # fmt: skip

SEVERAL: dict[str, Any] = {
    "input": "fp32",
    "output": "fp32",
    "parameters": "fp32",
    "array": {"operations": [*BETWEEN, "rms_norm", "gated", "argmax"], "lanes": 1,
              "longest_row": 37, "gate": "relu2"},
    "pipeline": {"adder": 3, "multiplier": 2, "function": 3, "convert": 1},
}  # fmt: skip
"""A unit whose operations have several formats; words hold up to four elements."""

STREAMED: dict[str, Any] = {
    **SEVERAL,
    "array": {"operations": [*BETWEEN, "rms_norm", "rope", "gated", "add", "argmax"], "lanes": 2,
              "longest_row": 95, "stored_row": 7, "gate": "relu2"},
}  # fmt: skip
"""A unit whose memories are shorter than rows of operations that need not store them."""

UNSTORED: dict[str, Any] = {
    "input": "int32",
    "output": "fp32",
    "parameters": "bf16",
    "array": {"operations": ["argmax", "dequantise_rows"], "lanes": 4, "longest_row": 90,
              "stored_row": 0},
}  # fmt: skip

HADAMARD: dict[str, Any] = {
    "input": "fp32",
    "output": "int8",
    "array": {"operations": ["hadamard_quantise", "quantise"], "lanes": 4, "longest_row": 12,
              "hadamard": 4, "function_bits": 8},
    "pipeline": {"adder": 2, "multiplier": 1, "function": 1},
}  # fmt: skip

LONG_FUNCTION = {"adder": 1, "multiplier": 1, "function": 8}
LONG_ADDER = {"adder": 8, "multiplier": 1, "function": 1}
LONG_MULTIPLIER = {"adder": 1, "multiplier": 8, "function": 2, "convert": 2}


def alternating(operations: tuple[str, ...], stages: dict[str, int]) -> dict[str, Any]:
    """Return a configuration whose operations use paths of very different lengths."""
    formats = {"input": "int32", "output": "int16", "parameters": "bf16"}
    if "gated" in operations:
        formats = dict.fromkeys(formats, "bf16")
    array = {"operations": list(operations), "lanes": 4, "longest_row": 9, "function_bits": 8}
    return {**formats, "array": array, "pipeline": stages}


ALTERNATING = [
    alternating(("softmax", "argmax"), LONG_FUNCTION),
    alternating(("gated", "add"), LONG_FUNCTION),
    alternating(("quantise", "layer_norm", "softmax"), LONG_FUNCTION),
    alternating(("layer_norm", "dequantise", "softmax"), LONG_ADDER),
    alternating(("rms_norm", "add", "layer_norm"), LONG_MULTIPLIER),
    alternating(("rms_norm", "add", "softmax", "layer_norm"), LONG_FUNCTION),
    alternating(("softmax", "add", "quantise"), LONG_ADDER),
]
"""An operation must not see what the one before left in paths that only one of them uses."""


def vector(**values: Any) -> VectorConfig:
    return VectorConfig.model_validate({"name": "vec", **values})


EVERY_OPERATION = VectorConfig.model_validate({"name": "every", **EVERY})


# -- golden model ------------------------------------------------------------------------------


def exact(config: VectorConfig, **operands: np.ndarray) -> dict[str, np.ndarray]:
    """Return the results of a row operation by formulas in double precision."""
    x, y = operands["x"].astype(float), operands.get("y", operands["x"]).astype(float)
    gamma = operands.get("gamma", np.ones(x.shape[1])).astype(float)
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    centred = x - x.mean(axis=1, keepdims=True)
    turns = operands.get("turns", x).astype(float)
    pair = (x[:, ::2] + 1j * x[:, 1::2]) * (turns[:, ::2] + 1j * turns[:, 1::2])
    mean_square = (x**2).mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    return {
        "softmax": exponentials / exponentials.sum(axis=1, keepdims=True),
        "rms_norm": x / np.sqrt(mean_square + 1e-5) * gamma,
        "layer_norm": centred / np.sqrt(variance + 1e-5) * gamma + operands.get("beta", 0.0),
        "rope": np.stack([pair.real, pair.imag], axis=-1).reshape(x.shape),
        "gated": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) * y,
        "add": x + y,
        "dequantise": x * operands.get("scales", 1.0),
    }


@pytest.mark.parametrize(
    "name", ["softmax", "rms_norm", "layer_norm", "rope", "gated", "add", "dequantise"]
)
def test_golden_follows_the_formulas(name: str) -> None:
    names = ["softmax", "rms_norm", "layer_norm", "rope", "gated", "add", "dequantise"]
    config = vector(
        input="fp32",
        output="fp32",
        parameters="fp32",
        array={"operations": names, "lanes": 4, "gate": "gelu_tanh"},
    )
    rng, operation = np.random.default_rng(3), core_of(config).select_operation(name)
    operands = {
        tensor.name: rng.standard_normal(
            tuple({"rows": 7, "length": 90}[str(size)] for size in tensor.shape)
        ).astype(np.float32)
        for tensor in operation.operands
    }
    actual = operate(config, operation, operands, {})["result"]
    wanted = exact(config, **operands)[name]
    assert np.abs(actual - wanted).max() < 4e-4 * max(1.0, np.abs(wanted).max())


def test_quantise_and_argmax_follow_the_formulas() -> None:
    config = vector(input="fp32", output="int8", array={"operations": ["quantise", "argmax"]})
    x = np.random.default_rng(5).standard_normal((20, 33)).astype(np.float32)
    actual = operate(config, core_of(config).select_operation("quantise"), {"x": x}, {})
    largest = np.abs(x).max(axis=1)
    assert np.allclose(actual["scales"], largest / 127, rtol=1e-6)
    assert (np.abs(actual["result"]).max(axis=1) == 127).all()
    error = np.abs(actual["result"] * actual["scales"][:, None] - x)
    assert (error <= 0.55 * actual["scales"][:, None]).all()
    positions = operate(config, core_of(config).select_operation("argmax"), {"x": x}, {})[
        "positions"
    ]
    assert np.array_equal(positions, x.argmax(axis=1))


def blocks(output: str = "fp8_e4m3", **array: Any) -> VectorConfig:
    given = {"operations": ["quantise_block"], "lanes": 8, "longest_row": 32, **array}
    return vector(input="fp32", output=output, array=given)


def rows_of_every_size() -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((64, 32)).astype(np.float32)
    x *= np.exp2(rng.integers(-140, 126, (64, 1))).astype(np.float32)
    x[0] = 0
    x[1, :2] = 448, -448
    x[3, :2] = -6, 6
    x[2] = np.float32(448) * np.float32(1 - 2**-24)
    return x


@pytest.mark.parametrize(("output", "most"), [("fp8_e4m3", 448), ("fp4_e2m1", 6)])
def test_blocks_have_the_largest_scale_below_which_nothing_overflows(
    output: str, most: int
) -> None:
    """Elements and exponents are those of MXFP8 and MXFP4, and no power of two below would do."""
    config, x = blocks(output), rows_of_every_size()
    actual = operate(config, core_of(config).select_operation("quantise_block"), {"x": x}, {})
    assert actual["scales"].dtype == np.uint8
    scale = np.ldexp(1.0, actual["scales"].astype(int) - 127)
    elements = actual["result"].astype(float)
    assert np.isfinite(elements).all()
    largest = np.abs(x.astype(float)).max(axis=1)
    usual = largest > 2.0**-110
    assert (np.abs(elements).max(axis=1)[usual] >= most / 2).all()
    error = np.abs(elements * scale[:, None] - x)
    half, least = (1 / 16, 2.0**-10) if most == 448 else (1 / 4, 0.25)
    bound = np.maximum(np.abs(x) * half, (scale * least)[:, None])
    assert (error <= bound).all()
    assert not elements[0].any()


@pytest.mark.parametrize(("output", "lanes"), [("fp8_e4m3", 4), ("fp4_e2m1", 8)])
def test_blocks_in_simulation(output: str, lanes: int) -> None:
    config, x = blocks(output, lanes=lanes), rows_of_every_size()
    x[5, 3], x[6, 7] = np.inf, np.nan
    design = design_of(config)
    job = design.core.job({"x": x}, operation="quantise_block")
    result = run_job(design, job, {"x": x}).results
    golden = operate(config, core_of(config).select_operation("quantise_block"), {"x": x}, {})
    for key, values in golden.items():
        assert np.asarray(result[key]).tobytes() == values.tobytes()
    assert (golden["scales"][5:7] == 255).all()


@pytest.mark.parametrize("size", [2, 8])
def test_blocks_are_rotated_before_they_are_quantised(size: int) -> None:
    array = {"operations": ["hadamard_quantise", "quantise"], "lanes": 8, "hadamard": size}
    config = vector(input="fp32", output="int8", array=array)
    x = np.random.default_rng(5).standard_normal((9, 40)).astype(np.float32)
    matrix: np.ndarray = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    turned = (x.astype(float).reshape(-1, size) @ matrix).reshape(x.shape)
    actual = operate(config, core_of(config).select_operation("hadamard_quantise"), {"x": x}, {})
    assert np.allclose(actual["scales"], np.abs(turned).max(axis=1) / 127, rtol=1e-6)
    error = np.abs(actual["result"] * actual["scales"][:, None] - turned)
    assert (error <= 0.55 * actual["scales"][:, None]).all()
    alone = vector(input="fp32", output="int8", array={"operations": ["quantise"]})
    plain = [
        operate(c, core_of(c).select_operation("quantise"), {"x": x}, {}) for c in (config, alone)
    ]
    for name, array_found in plain[0].items():
        assert np.array_equal(array_found, plain[1][name])
    with pytest.raises(InputError, match="multiple of"):
        operate(config, core_of(config).select_operation("hadamard_quantise"), {"x": x[:, :39]}, {})


@pytest.mark.long
@pytest.mark.parametrize("bits", range(6, 20))
def test_there_are_functions_for_every_error(bits: int) -> None:
    for gate in ("silu", "gelu", "gelu_tanh", "sigmoid"):
        array = {"operations": ["softmax", "rms_norm", "gated"], "gate": gate}
        config = vector(array={**array, "function_bits": bits})
        for name, unit in config.functions.items():
            error = unit.bound.max_abs if name == gate else unit.bound.max_relative
            assert error is not None
            assert error <= 2.0**-bits


def test_more_bits_than_fp32_gives_are_refused() -> None:
    with pytest.raises(ValueError, match="silu of fp32 is exact to 19 bits at most, not 20"):
        vector(array={"operations": ["gated"], "gate": "silu", "function_bits": 20})


def test_the_manifest_states_the_bounds_of_functions() -> None:
    proven = vector(**SMALL).proven
    assert set(proven) == {"exp", "reciprocal", "rsqrt"}
    for unit in proven.values():
        assert 0 < unit["bound"]["max_relative"] <= 2.0**-8


@pytest.mark.parametrize("fmt", FORMATS)
def test_softmax_in_one_pass_is_within_its_bound(fmt: str) -> None:
    for bits in (6, 13):
        array = {"operations": ["softmax"], "softmax": "online", "function_bits": bits}
        config = vector(input=fmt, output="fp32", array=array)
        bound = config.proven["softmax"]["bound"]
        assert config.powers.relative <= 2.0**-bits
        rng = np.random.default_rng(bits)
        for deviation in (1.0, 30.0, 3000.0):
            x = rng.standard_normal((8, 301)) * deviation
            x[4:] = np.sort(x[4:], axis=1)  # the maximum rises with every beat
            if fmt.startswith("int"):
                x = np.clip(np.rint(x), config.input.min, config.input.max)
            x = x.astype(config.input.dtype)
            actual = operate(config, core_of(config).select_operation("softmax"), {"x": x}, {})[
                "result"
            ]
            wide = x.astype(np.longdouble)
            powers = np.exp(wide - wide.max(axis=1, keepdims=True))
            wanted = powers / powers.sum(axis=1, keepdims=True)
            room = bound["result_relative"] * wanted + bound["result_absolute"]
            assert (np.abs(actual - wanted) <= room).all()


@pytest.mark.parametrize("softmax", ["two_pass", "online"])
def test_special_rows(softmax: str) -> None:
    inf, nan = np.inf, np.nan
    array = {"operations": ["softmax", "argmax"], "softmax": softmax}
    config = vector(input="fp32", output="fp32", array=array)
    x = np.array([[-inf] * 3, [0, nan, 1], [0, -inf, 0], [-0.0, 0, 0]], np.float32)
    rows = operate(config, core_of(config).select_operation("softmax"), {"x": x}, {})["result"]
    assert np.array_equal(rows[0], [0, 0, 0])  # everything is masked
    assert np.isnan(rows[1]).all()
    assert rows[2, 1] == 0
    assert np.isclose(rows[2, 0], 0.5, atol=1e-3)
    positions = operate(config, core_of(config).select_operation("argmax"), {"x": x}, {})[
        "positions"
    ]
    assert positions.tolist() == [0, 1, 0, 0]
    config = vector(input="fp32", output="int8", array={"operations": ["quantise"]})
    x = np.array([[0, 0, 0], [nan, 1, 2], [inf, 1, -1]], np.float32)
    actual = operate(config, core_of(config).select_operation("quantise"), {"x": x}, {})
    assert not actual["result"].any()
    assert actual["scales"][0] == 0
    assert np.isnan(actual["scales"][1])
    assert np.isinf(actual["scales"][2])


def tiny_rows() -> np.ndarray:
    """Return rows around and below the smallest normal number times the largest integer."""
    rng, powers = np.random.default_rng(8), np.arange(-149, -112)
    rows = rng.standard_normal((len(powers), 9)) * 2.0 ** powers[:, None]
    return np.vstack([rows, np.zeros((1, 9))]).astype(np.float32)


def test_tiny_rows_are_quantised_by_a_scale_with_a_finite_reciprocal() -> None:
    config = vector(input="fp32", output="int8", array={"operations": ["quantise"]})
    x = tiny_rows()
    actual = operate(config, core_of(config).select_operation("quantise"), {"x": x}, {})
    largest = np.abs(x.astype(float)).max(axis=1)
    wanted = np.where(largest > 0, np.maximum(largest / 127, 2.0**-126), 0)
    assert np.allclose(actual["scales"], wanted, rtol=1e-6, atol=0)
    error = np.abs(actual["result"] * actual["scales"].astype(float)[:, None] - x)
    assert (error <= 0.55 * actual["scales"][:, None]).all()


@pytest.mark.parametrize("name", ["quantise", "hadamard_quantise"])
def test_tiny_rows_in_simulation(name: str) -> None:
    array = {"operations": ["quantise", "hadamard_quantise"], "hadamard": 2}
    array |= {"lanes": 2, "longest_row": 16, "function_bits": 8}
    config = vector(input="fp32", output="int16", array=array)
    operands = {"x": tiny_rows()[:, :8]}
    design = design_of(config)
    result = run_job(design, design.core.job(operands, operation=name), operands).results
    golden = operate(config, core_of(config).select_operation(name), operands, {})
    for key, values in golden.items():
        assert np.array_equal(result[key], values)


# -- configurations ------------------------------------------------------------------------------


HADAMARD_HEAD = "input: fp32\noutput: int8\narray: {operations: [hadamard_quantise]"


def prepare(config: Any, operation: Any, operands: Any, scalars: Any) -> Plan:
    """Return the plan of a job; its operands are checked."""
    core = core_of(config)
    plan = core.schedule(core.job(operands, scalars, operation=operation.name))
    assert isinstance(plan, Plan)
    return plan


def test_operands_that_do_not_fit_are_refused() -> None:
    config = vector(**SMALL)
    x = np.ones((2, 5), np.float16)
    add = core_of(config).select_operation("add")
    with pytest.raises(InputError, match="add needs the operand y"):
        prepare(config, add, {"x": x}, {})
    with pytest.raises(InputError, match="y: must be rows x length with length = 5"):
        prepare(config, add, {"x": x, "y": x[:, :3]}, {})
    with pytest.raises(InputError, match=r"length must be 1\.\.9, not 10"):
        prepare(config, add, dict.fromkeys("xy", np.ones((2, 10), np.float16)), {})
    with pytest.raises(InputError, match="no scalar 'epsilon'; it has scale"):
        prepare(config, add, dict.fromkeys("xy", x), {"epsilon": 1.0})


@pytest.mark.long
def test_validation_designs_can_be_drawn() -> None:
    result = draw(7, 2, 20_000, names=("vector",))
    assert {config.family for config in result} == {"vector"}


@pytest.mark.parametrize("lanes", [1, 16, 64])
def test_a_beat_a_cycle(lanes: int) -> None:
    """Rows of 512 elements take 1.05 of their beats in every operation, waits included."""
    array = {"operations": [*PLAIN, "hadamard_quantise"], "lanes": max(2, lanes), "hadamard": 2}
    config = vector(input="fp32", output="int32", array=array)
    for name, path in config.datapaths.items():
        sizes = {"rows": 256, "length": 512}
        beats = 256 * -(-512 // config.array.lanes)
        passes = 2 if path.tail else 1
        taken = job_cycles(config, name, sizes)
        assert beats * passes / taken >= 0.95 or beats / taken >= 0.95


# -- hardware ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """A plan of commands that are refused, then a job that is not."""

    plan: Any
    commands: tuple[tuple[int, int, int], ...]

    @property
    def output_beats(self) -> int:
        return len(self.commands) + self.plan.output_beats

    def pack(self, operands: Any) -> dict[str, Any]:
        packed = self.plan.pack(operands)
        refused = [(command(*numbers, 1.0, 0.0), False) for numbers in self.commands]
        return {**packed, "cmd": chain(refused, packed["cmd"])}


@pytest.mark.slow
def test_commands_that_cannot_be_carried_out_are_answered() -> None:
    """An answer of ones, and the next job is as if nothing had been."""
    config = vector(**SMALL)
    spec = JobSpec("softmax", (("rows", 3), ("length", 7)))
    bench = draw_job(core_of(config), spec, np.random.default_rng(1))
    operation, operands, _ = bench.job.operation, bench.operands, bench.job.scalars
    good = prepare(config, operation, operands, {})
    add, softmax = CODES["add"], CODES["softmax"]
    bad: Any = Refused(good, ((add, 0, 5), (softmax, 2, 0), (softmax, 2, 10), (15, 1, 1),
                         (CODES["rope"], 1, 4), (add, 1, 1 << 31)))  # fmt: skip
    with scratch("vector-") as work:
        program = compile_stream(design_of(config), cycles=100)
        image, _ = run_stream(config, program, bad, bad.pack(operands), 500, work, timeout=60)
    assert (image[: len(bad.commands)] == 0xFF).all()
    actual = good.unpack(image[len(bad.commands) :])["result"]
    wanted = operate(config, operation, operands, {})["result"]
    assert np.array_equal(actual.view("u2"), wanted.view("u2"))


@pytest.mark.slow
def test_rows_that_are_no_whole_blocks_are_answered() -> None:
    config = vector(**HADAMARD)
    spec = JobSpec("hadamard_quantise", (("rows", 3), ("length", 8)))
    bench = draw_job(core_of(config), spec, np.random.default_rng(1))
    operation, operands, _ = bench.job.operation, bench.operands, bench.job.scalars
    good, code = prepare(config, operation, operands, {}), CODES["hadamard_quantise"]
    bad: Any = Refused(good, ((code, 1, 6), (code, 2, 1), (code, 1, 13)))
    with scratch("vector-") as work:
        program = compile_stream(design_of(config), cycles=100)
        image, _ = run_stream(config, program, bad, bad.pack(operands), 500, work, timeout=60)
    assert (image[: len(bad.commands)] == 0xFF).all()
    result = good.unpack(image[len(bad.commands) :])
    wanted = operate(config, operation, operands, {})
    assert all(np.array_equal(result[name], wanted[name]) for name in wanted)


@pytest.mark.slow
def test_rows_beyond_those_that_are_stored_are_answered() -> None:
    """Of operations that store rows; others take them."""
    config = vector(**STREAMED)
    spec = JobSpec("add", (("rows", 2), ("length", 95)))
    bench = draw_job(core_of(config), spec, np.random.default_rng(1))
    operation, operands = bench.job.operation, bench.operands
    good = prepare(config, operation, operands, {"scale": 1.0})
    code, quantise = CODES["rms_norm"], CODES["quantise_fp32_int8"]
    bad: Any = Refused(good, ((code, 1, 8), (quantise, 2, 95), (CODES["argmax"], 1, 96)))
    with scratch("vector-") as work:
        program = compile_stream(design_of(config), cycles=100)
        image, _ = run_stream(config, program, bad, bad.pack(operands), 900, work, timeout=60)
    assert (image[: len(bad.commands)] == 0xFF).all()
    actual = good.unpack(image[len(bad.commands) :])["result"]
    wanted = operate(config, operation, operands, {"scale": 1.0})["result"]
    assert np.array_equal(actual.view("u4"), wanted.view("u4"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["argmax", "dequantise_rows_int32_fp32", "rope", "rms_norm"])
def test_rows_that_are_not_stored_are_as_long_as_the_longest(name: str) -> None:
    """Cycles are exact: the position of a row that is not stored comes a row earlier."""
    config = vector(**STREAMED)
    operation = next(each for each in config.operations if each.name == name)
    length = next(size for size in operation.sizes if size.name == "length")
    assert length.most == (7 if name == "rms_norm" else 95)
    most = length.most // length.multiple * length.multiple
    for rows in (1, 9):
        spec = JobSpec(name, (("rows", rows), ("length", most)))
        bench = draw_job(core_of(config), spec, np.random.default_rng(rows))
        operands, scalars = bench.operands, bench.job.scalars
        result = run_job(design_of(config), bench.job, operands)
        for part, wanted in operate(config, operation, operands, scalars).items():
            assert np.array_equal(result.results[part].view("u4"), wanted.view("u4"))
        assert result.cycles == job_cycles(config, name, bench.job.sizes, scalars)


def test_memories_have_the_size_of_rows_that_are_stored() -> None:
    usual = vector(**{**STREAMED, "array": {**STREAMED["array"], "stored_row": 95}})
    short = vector(**STREAMED)
    assert usual.first_depth - short.first_depth == 44
    assert usual.second_depth - short.second_depth == 44
    assert "stored_row" not in usual.resolved()["array"]


@pytest.mark.slow
def test_a_run_of_an_operation() -> None:
    config = vector(**SMALL)
    spec = JobSpec("rms_norm", (("rows", 40), ("length", 9)))
    bench = draw_job(core_of(config), spec, np.random.default_rng(2))
    operation, operands, scalars = bench.job.operation, bench.operands, bench.job.scalars
    result = run_job(design_of(config), bench.job, operands)
    wanted = operate(config, operation, operands, scalars)
    assert np.array_equal(result.results["result"].view("u2"), wanted["result"].view("u2"))
    assert result.cycles == job_cycles(config, operation.name, bench.job.sizes, scalars)


MUTATIONS = [
    Mutation("sum not rescaled", "row_sum_2x2_18", r"\.down\(partial_down\)", ".down(18'd0)",
             ONLINE),
    Mutation("weights over another power", "core", r"\.down\(s_down\)", ".down(18'd0)", ONLINE),
    Mutation("sine of the wrong sign", "apply_lane_odd", r"\.b\(sine\)",
             ".b({~sine[31], sine[30:0]})",
             {**EVERY, "array": {"operations": ["rope"], "lanes": 2, "longest_row": 9}}),
    Mutation("partial sum not cleared", "row_sum_2x2", r"again \? ", "1'b1 ? ", SMALL),
    Mutation("lane left out of sums", "core", r"\.i_data\(second_masked\)",
             ".i_data({32'd0, second_masked[31:0]})", SMALL),
    Mutation("sum for a difference", "hadamard_4x2", r"add_1_2_o\[31\] \^ rotate",
             "add_1_2_o[31]", HADAMARD),
    Mutation("gates of another operation", "core", r"value_valid_1 & is_gate", "value_valid_1",
             ALTERNATING[1]),
    Mutation("scale of another operation", "scale_chain", r"weighed_valid_1 & _\d+_",
             "weighed_valid_1", ALTERNATING[0]),
    Mutation("all beats of a long row wait", "core", r"~ is_position_alone", "1'b1", UNSTORED),
    Mutation("blocks twice as large", "scale_chain", r"8'hfe", "8'hfd", BLOCKS),
    Mutation("scale a row late", "core", r"\.o_ready\(s_entries_ready\)", ".o_ready(1'b0)", SMALL),
]  # fmt: skip


ROWS = vector(**SMALL)

CONTRACT = Contract(
    "vector",
    "vector",
    small=(ROWS,),
    covering=COVERING,
    regressions=(
        Regressions(
            [ROWS],
            cases=[
                *(f"{name}_{part}" for name in ("softmax", "add") for part in ("shapes", "values")),
                *("rms_norm_shapes", "gated_shapes", "stalls_0", "stalls_4", "stalls_7", "reset_0"),
                *("reset_1", "back_to_back_full_rate", "back_to_back_stalled"),
                "ready_after_valid",
            ],
            seed=0,
        ),
        Regressions(
            [EVERY_OPERATION],
            cases=[
                *(f"{name}_shapes" for name in EVERY_OPERATION.datapaths),
                *(f"{name}_values" for name in ("softmax", "layer_norm", "quantise", "argmax")),
                *("stalls_4", "reset_1", "back_to_back_stalled"),
            ],
            seed=0,
        ),
        Regressions([vector(**SEVERAL)], every=12),
        Regressions([vector(**STREAMED), vector(**UNSTORED)], every=4),
        Regressions(
            [vector(**BLOCKS)],
            cases=[
                "quantise_block_shapes",
                "quantise_block_values",
                "stalls_4",
                "reset_1",
                "back_to_back_stalled",
            ],
            seed=0,
        ),
        Regressions(
            [vector(**each) for each in ALTERNATING],
            every=9,
            cases=[
                *(f"stalls_{number}" for number in (0, 2, 3, 6, 7)),
                *("reset_1", "reset_2", "back_to_back_full_rate", "back_to_back_stalled"),
            ],
            seed=0,
        ),
    ),
    shipped=("vector*.yaml",),
    shipped_every=0,
    mutations=tuple(
        Mutations(
            VectorConfig,
            (f"{first}_shapes", "stalls_0", "reset_2", "back_to_back_full_rate"),
            [each for each in MUTATIONS if each.config["array"]["operations"][0] == first],
            every=6,
        )
        for first in dict.fromkeys(each.config["array"]["operations"][0] for each in MUTATIONS)
    ),
    refused=(
        ("array: {lanes: 6}", "array.lanes: must be a power of two, not 6"),
        ("array: {operations: []}", "array.operations: must have at least 1 item, not 0"),
        ("array: {operations: [add, add]}", "array.operations: must name each operation once"),
        ("array: {operations: [rope], lanes: 1}", "array.lanes: rope turns pairs"),
        ("array: {operations: [rope], longest_row: 1}", "array.longest_row: rope turns pairs"),
        ("array: {operations: [quantise]}", "output: quantise gives integers"),
        (
            "array: {operations: [quantise_block]}",
            "output: must be fp8_e4m3 or fp4_e2m1 with array.operations",
        ),
        ("output: fp8_e4m3", r"only then, not fp8_e4m3 with \[softmax"),
        ("array: {operations: [argmax], lanes: 1}", "must have 32 bits for argmax, not 1 x 16"),
        ("array: {operations: [add], gate: silu}", "array.gate: is for gated"),
        ("array: {operations: [gated], function_bits: 20}", "array.function_bits: silu of fp32"),
        ("array: {operations: [add], softmax: online}", "array.softmax: is for softmax"),
        ("array: {operations: [sofmax]}", r"array.operations.*'softmax'"),
        ("array: {operations: [add], hadamard: 4}", "array.hadamard: is for hadamard_quantise"),
        (
            "array: {operations: [softmax], longest_row: 8, stored_row: 9}",
            "array.stored_row: must be at most array.longest_row, 8, not 9",
        ),
        (
            "array: {operations: [add, softmax], stored_row: 0}",
            "array.stored_row: must be 1 or more with softmax",
        ),
        ("array: {operations: [add], stored_row: 8}", "array.stored_row: must be 0 or left out"),
        (
            f"{HADAMARD_HEAD}, hadamard: 8}}",
            "array.hadamard: must be a power of two and at most array.la",
        ),
        (f"{HADAMARD_HEAD}, longest_row: 3}}", "array.longest_row: must hold a block of 4, not 3"),
        (
            f"{HADAMARD_HEAD}}}".replace("fp32", "bf16"),
            "input: hadamard_quantise takes fp32, not bf16",
        ),
        ("input: int4", "input: must be int8, int16, int32, fp16, bf16 or fp32"),
    ),
)
