# SPDX-License-Identifier: Apache-2.0
"""Cores with the accumulator of a tensor core: results of an H100 through the hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.bench.tensor_cores.operations import OPERATIONS, by_operation
from flows.bench.tensor_cores.subset import digests
from flows.bench.tensor_cores.vectors import digest_of, drawn_product
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.run import run_product
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.registry import family
from hwgen.formats.block.accumulator import TENSOR_CORES
from sim_tests.contract.contract import Contract, Regressions
from sim_tests.support.cores import golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import mutated
from sim_tests.support.selection import commit_seed
from sim_tests.support.tensor_cores import SUBSET, measured_chains


def config_of(
    activation: str, weight: str, core: str = "hopper", name: str = "adder_tree", **array: int
) -> SpatialConfig:
    """Return a core, whose processing element and depth are those of the tensor core."""
    values = {
        "name": "core", "family": name, "activation": activation, "weight": weight,
        "accumulator": core, "array": {"cols": 2, **array}, "pipeline": {"pe": 1}, "max_k": 200,
    }  # fmt: skip
    config: Any = family(name).params_class.model_validate(values)
    return config


def matrices(config: SpatialConfig, a: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
    """Return the operands that rows and columns of bytes are."""
    operands = []
    for fmt, lines in ((config.activation, a), (config.weight, b)):
        codes = np.ascontiguousarray(lines).view(f"<u{fmt.width // 8}")
        operands.append(fmt.decode(codes) if fmt.is_float else codes.view(fmt.dtype))
    return operands[0], operands[1].T


def multiplied(
    config: SpatialConfig, a: np.ndarray, b: np.ndarray, design: Design | None = None
) -> np.ndarray:
    """Return the products of rows and columns of bytes by the hardware, as bit patterns."""
    result = run_product(design or design_of(config), *matrices(config, a, b)).result
    return np.ascontiguousarray(result).view(np.uint32)


@pytest.mark.rotate(len(OPERATIONS))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_hardware_has_the_results_of_an_h100(operation: str) -> None:
    """Chains of four steps, and operands of every distribution."""
    instruction = by_operation()[operation]
    config = config_of(instruction.activation, instruction.weight)
    chains = measured_chains(operation)
    # One job of all: each row with each column of its own chain.
    a, b = (np.concatenate([getattr(chain, side) for chain in chains]) for side in "ab")
    results = multiplied(config, a, b)
    rows, columns = chains[0].d.shape
    for number, chain in enumerate(chains):
        own = results[number * rows :, number * columns :][:rows, :columns]
        np.testing.assert_array_equal(own, chain.d)


STEPS = (
    ([(0x1A00, 0x9600)], 0),  # -2**-75 * 2**-83 is cut off, to +0
    ([(0x1A00, 0x1900)] * 16, 2),  # 16 times 2**-75 * 2**-77
    ([(0, 0x7F00), (0x3080, 0x3F80)], 0x30800000),  # 0 * 2**127 + 2**-30 * 1
)
"""Products of a step of bf16, operands as bit patterns, and their sum."""

CHANGES = {
    "-0 is kept": (r"assign negative = rounded\[31\] & \w+;", "assign negative = rounded[31];"),
    "lowest exponent -126": (r"exponent\[8:0\] : 9'h077;", "exponent[8:0] : 9'h07e;"),
    "another NaN": (r"assign o\[0\] = (\w+)\[0\] \| nan;", r"assign o[0] = \1[0];"),
    "exponents of zeros count": (
        r"(exponent_0 \} =) \w+ \? (\{ 1'h0, exponents\[8:0\] \}) : 10'h077;",
        r"\1 \2;",
    ),
}
"""A line of the adder of a core of bf16, and what a changed one has."""


@pytest.mark.slow
@pytest.mark.rotate(len(CHANGES))
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_circuit_is_detected(name: str) -> None:
    config = config_of("bf16", "bf16", cols=1)
    design = design_of(config)
    design = design.with_verilog(mutated(design.verilog, *CHANGES[name]))
    differing = 0
    pairs = [(chain.a, chain.b, chain.d) for chain in measured_chains("mma_bf16")]
    for factors, result in STEPS:
        lines = np.zeros((2, 1, 64), np.uint16)  # in the last of four steps
        lines[:, 0, -16 : len(factors) - 16 or None] = np.array(factors).T
        pairs.append((*lines.view(np.uint8), np.full((1, 1), result, np.uint32)))
    for a, b, d in pairs:
        differing += int((multiplied(config, a, b, design) != d).sum())
        assert (golden(config, *matrices(config, a, b)).view(np.uint32) == d).all()
    assert differing


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_million_results_of_an_h100(operation: str) -> None:
    """196,608 results of each pair of formats, known by their digest."""
    instruction = by_operation()[operation]
    config = config_of(instruction.activation, instruction.weight, name="cube", rows=2)
    results = multiplied(config, *drawn_product(instruction))
    assert digest_of(results) == digests(SUBSET)[operation]


def test_the_core_of_integers_is_that_of_int32() -> None:
    config = config_of("int8", "uint8")
    assert (str(config.result), config.array.pe, config.depth) == ("int32", "mac", 32)
    assert config.resolved()["accumulator"] == "hopper"
    again = parse_config(
        "name: core\nfamily: adder_tree\nweight: uint8\naccumulator: hopper\nmax_k: 200\n"
        "array: {cols: 2}\npipeline: {pe: 1}\n"
    )
    assert again.digest == config.digest
    a, w = np.full((1, 200), -128, np.int8), np.full((200, 1), 255, np.uint8)
    assert golden(config, a, w)[0, 0] == -128 * 255 * 200


CORES: list[Any] = [
    config_of("fp16", "fp16"),
    config_of("bf16", "bf16", cols=1),
    config_of("fp8_e4m3", "fp8_e5m2", name="cube", rows=2, cols=1),
    config_of("fp8_e5m2", "fp8_e5m2", "ada"),
    config_of("bf16", "bf16", "ada"),
    config_of("fp6_e3m2", "fp8_e4m3", "blackwell", cols=1),
    config_of("mxfp8_e4m3", "mxfp4", "blackwell"),
    config_of("int8", "int8", "ada"),
]
"""Every tensor core, and every sort of step."""

ENGINE = """
name: engine
family: gemm_stream
compute:
  family: adder_tree
  activation: fp8_e4m3
  weight: fp8_e5m2
  accumulator: hopper
  array: {cols: 2}
"""

POST = """
name: core
family: adder_tree
activation: fp16
weight: fp16
accumulator: hopper
array: {cols: 2}
max_k: 100
post: {outputs: [raw, fp16], activations: [none, relu]}
"""

CORES += [parse_config(ENGINE), parse_config(POST)]
"""From memory to memory, and with post-processing, where raw results have the tensor core's NaN."""

DRAWN = [CORES[commit_seed() % len(CORES)]]

VALUES = ("values_random", "values_special")


def steps_of(core: str) -> set[str]:
    """Return the steps of a tensor core as text."""
    return {str(step) for step in TENSOR_CORES[core].steps}


def test_every_step_makes_a_core() -> None:
    for name, core in TENSOR_CORES.items():
        assert len(steps_of(name)) == len(core.steps)
        for step in core.steps:
            config = config_of(step.activations[0], step.weights[-1], name)
            assert config.depth == step.depth
            assert config.array.pe == ("fused" if step.accumulator else "mac")


HOPPER = (
    r"hopper adds fp16 x fp16 with depth 16; bf16 x bf16 with depth 16; fp8_e4m3\|fp8_e5m2 x"
    r" fp8_e4m3\|fp8_e5m2 with depth 32; int8\|uint8 x int8\|uint8 with depth 32"
)

CONTRACT = Contract(
    "spatial_tensor_cores",
    "adder_tree",
    regressions=(Regressions(CORES, chosen=DRAWN),),
    refused=(
        (
            "activation: fp16\nweight: bf16\naccumulator: hopper",
            f"accumulator: must not be hopper with fp16 x bf16: {HOPPER}",
        ),
        (
            "activation: fp16\nweight: fp16\naccumulator: hopper\narray: {depth: 8}",
            f"array.depth: must be 16 with accumulator hopper and fp16 x fp16, not 8: {HOPPER}",
        ),
        (
            "activation: fp8_e4m3\nweight: fp8_e4m3\naccumulator: ada\narray: {depth: 32}",
            "array.depth: must be 16 with accumulator ada and fp8_e4m3 x fp8_e4m3, not 32: ada",
        ),
        ("activation: int4\nweight: int4\naccumulator: hopper", "must not be hopper with int4"),
        (
            "family: broadcast_2d\nactivation: fp16\nweight: fp16\naccumulator: hopper",
            "accumulator: must not be hopper: a PE of this array takes 1 product at a time",
        ),
        (
            "family: systolic\nactivation: fp16\nweight: fp16\naccumulator: hopper",
            "accumulator: must not be hopper: a PE of this array takes 1 product at a time",
        ),
        (
            "activation: fp16\nweight: fp16\naccumulator: hopper\narray: {pe: mac}",
            "array.pe: must be fused with accumulator hopper and fp16 x fp16, not mac",
        ),
        ("accumulator: volta", "accumulator: must be exact, .* or hopper, ada or blackwell, not"),
        (
            "activation: fp16\nweight: fp16\naccumulator: aligned(25, 24)",
            r"accumulator: must be exact, .*fp32, aligned\(n\) or aligned\(n, m\)",
        ),
    ),
)
