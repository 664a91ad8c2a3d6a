# SPDX-License-Identifier: Apache-2.0
"""Instructions of Hopper's tensor cores, their rules, and what each rule is distinguished from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from hwgen.core.golden import blocks
from hwgen.core.golden.blocks import BlockMatrix
from hwgen.formats import FloatFormat, floating, number_format
from hwgen.formats.block.accumulator import TENSOR_CORES, BlockAccumulator
from hwgen.formats.block.factors import Factor
from hwgen.formats.block.products import BlockProduct

BYTES = 32
"""Bytes of K that a step takes of a row or a column."""

Rule = Mapping[str, int]
"""Parameters of the rule of `compare.cu`; those that are missing are Hopper's."""

OPERATIONS = (
    "mma_fp16", "mma_bf16", "wgmma_e4m3_e4m3", "wgmma_e4m3_e5m2", "wgmma_e5m2_e4m3",
    "wgmma_e5m2_e5m2", "mma_int8_int8",
)  # fmt: skip
"""Instructions whose results become vectors for tests: each pair of formats once."""

EMULATED: Rule = {"halves": 2, "as_fp16": 1, "add_last": 1}
"""`mma.sync` with fp8 on Hopper: converted to fp16, two steps from +0, then added to C."""


@dataclass(frozen=True)
class Instruction:
    """An instruction with two formats of operands.

    Parameters
    ----------
    operation : str
        Its name in `compare.cu`.
    activation, weight : str
        Formats of A and B.
    rule : mapping
    core : str
        Tensor core in hwgen with these results, empty without one.
    """

    operation: str
    activation: str
    weight: str
    rule: Rule
    core: str = "hopper"

    @property
    def title(self) -> str:
        """The instruction as manuals write it, without sizes."""
        kind, _, rest = self.operation.partition("_")
        name = "wgmma" if kind == "wgmma" else "mma.sync"
        return f"{name}, k 8" if rest.endswith("k8") else name

    @property
    def is_integer(self) -> bool:
        """Whether sums are integers."""
        return number_format(self.activation).is_integer

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return number_format(self.activation).width // 8

    @property
    def accumulator(self) -> BlockAccumulator | None:
        """The accumulator in hwgen, None of integers."""
        core = TENSOR_CORES.get(self.core)
        return core.accumulator(self.activation, self.weight) if core else None


def instructions() -> tuple[Instruction, ...]:
    """Return all instructions."""
    short = {"e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2"}
    floats = [
        Instruction(f"{kind}_{name}", name, name, {})
        for name in ("fp16", "bf16")
        for kind in ("mma", "wgmma")
    ]
    halves = [Instruction(f"mma_{name}_k8", name, name, {}, "") for name in ("fp16", "bf16")]
    pairs = [(a, w) for a in short for w in short]
    fp8 = [Instruction(f"wgmma_{a}_{w}", short[a], short[w], {}) for a, w in pairs]
    emulated = [Instruction(f"mma_{a}_{w}", short[a], short[w], EMULATED, "") for a, w in pairs]
    integers = [
        Instruction(f"{kind}_{a}_{w}", a, w, {})
        for a in ("int8", "uint8")
        for w in ("int8", "uint8")
        for kind in ("mma", "wgmma")
    ]
    return (*floats, *fp8, *integers, *halves, *emulated)


@cache
def by_operation() -> Mapping[str, Instruction]:
    """Return all instructions by their names."""
    return {each.operation: each for each in instructions()}


def mutations(instruction: Instruction) -> Iterator[tuple[str, Rule]]:
    """Yield rules that differ from an instruction's in one point, which vectors must detect."""
    rule, emulated = dict(instruction.rule), bool(instruction.rule)
    if instruction.is_integer:
        yield "sums saturate", {"saturates": 1}
        return
    short = instruction.element_bytes == 1 and not emulated
    places = 13 if short else 25
    yield "one fractional bit less", {**rule, "fraction_bits": places - 1}
    yield "one fractional bit more", {**rule, "fraction_bits": places + 1}
    yield "sum rounded to nearest", {**rule, "nearest": 1}
    if emulated:
        yield "C in the first step", {**rule, "add_last": 0}
        yield "other half first", {**rule, "reversed": 1}
        yield "lower and upper half of K", {**rule, "halves": 1}
        yield "even and odd places of K", {**rule, "halves": 3}
        return
    if short:
        yield "sum of a step not cut off", {"result_bits": 23}
        yield "sum of a step one bit shorter", {"result_bits": 12}
    if instruction.activation == "bf16":
        yield "lowest exponent -126", {"lowest_exponent": -126}
        yield "lowest exponent -132", {"lowest_exponent": -132}
        yield "lowest exponent -134", {"lowest_exponent": -134}
        yield "-0 kept", {"negative_zero": 1}
        yield "overflow to the largest number", {"wraps_infinity": 1}
    yield "subnormals normalised", {"as_fp16": 2}
    yield "exponents of zeros count", {"zeros_count": 1}
    yield "NaN 7fc00000", {"nan": 0x7FC00000}
    if "fp8_e4m3" not in (instruction.activation, instruction.weight):
        yield "infinities of both signs are one", {"no_nan": 2}
    if (instruction.activation, instruction.weight) != ("fp8_e4m3", "fp8_e4m3"):
        yield "an infinity times zero is not NaN", {"no_nan": 1}


# -- the golden model --------------------------------------------------------------------------


def float_operand(fmt: FloatFormat, lines: NDArray[np.uint8], depth: int) -> BlockMatrix:
    """Return lines of bytes as an operand of the golden model, in steps of `depth` elements."""
    codes = np.ascontiguousarray(lines).view(f"<u{fmt.width // 8}")
    factor = Factor(fmt)
    return BlockMatrix(factor, factor.decode(codes.reshape(len(lines), -1, depth)))


def golden(
    instruction: Instruction,
    a: NDArray[np.uint8],
    b: NDArray[np.uint8],
    c: NDArray[np.uint32] | None = None,
    *,
    accumulator: BlockAccumulator | None = None,
    model: ModuleType = blocks,
) -> NDArray[np.uint32]:
    """Return the results of a chain of steps by hwgen's golden model, bit patterns.

    Parameters
    ----------
    instruction : Instruction
        With a tensor core in hwgen.
    a, b : ndarray of uint8, shape (m, bytes), (n, bytes)
        Rows of A and columns of B.
    c : ndarray of uint32, shape (m, n), optional
        What accumulators begin with, by default 0.
    accumulator : BlockAccumulator, optional
        Instead of the instruction's.
    model : module
        The golden model, of floating-point numbers.
    """
    if instruction.is_integer:
        names = instruction.activation, instruction.weight
        numbers = [
            lines.view(number_format(name).dtype).astype(np.int64)
            for lines, name in zip((a, b), names, strict=True)
        ]
        start = 0 if c is None else c.astype(np.int64)
        return np.asarray((numbers[0] @ numbers[1].T + start).astype(np.uint32))
    accumulator = accumulator or instruction.accumulator
    assert accumulator is not None
    formats = floating(instruction.activation), floating(instruction.weight)
    step = TENSOR_CORES[instruction.core].step(*formats)
    assert step is not None
    x, y = (
        float_operand(fmt, lines, step.depth) for fmt, lines in zip(formats, (a, b), strict=True)
    )
    steps = x.elements.shape[1]
    product = BlockProduct(x.factor, y.factor, accumulator, step.depth, 1, steps, fused=True)
    with np.errstate(all="ignore"):
        results: NDArray[np.float32] = model.block_products(product, x, y, initial=c)
    return results.view(np.uint32)
