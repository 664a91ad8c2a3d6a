# SPDX-License-Identifier: Apache-2.0
"""Accumulators of the terms of blocks, and those of tensor cores; `products` has their rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hwgen.formats.floating import FloatFormat, floating

_ALIGNED = re.compile(r"aligned\(([1-9][0-9]?)(?:, ?([1-9][0-9]?))?\)")

MAX_FRACTION_BITS = 48
"""Most fractional bits of terms that are aligned."""

SINGLE = floating("fp32")

LOWEST_EXPONENT = -133
"""Lowest exponent at which terms are aligned, unless a tensor core has another."""

TENSOR_CORE_SINGLE = replace(SINGLE, nan_pattern=0x7FFFFFFF)
"""Single precision with the NaN of tensor cores."""


@dataclass(frozen=True)
class BlockAccumulator:
    """Accumulation of the terms of blocks; see `hwgen.formats.block.products`.

    Parameters
    ----------
    method : {"exact", "fp32", "aligned"}
    fraction_bits : int
        Fractional bits of ``aligned``, below the largest exponent.
    result_bits : int
        Fractional bits of a step's sum, below its own exponent.
    lowest_exponent : int
        Terms are not aligned at a lower exponent.
    tensor_core : str
        Name of the tensor core, empty without one.  With one a NaN is 0x7fffffff, and a zero is +0.
    """

    method: Literal["exact", "fp32", "aligned"]
    fraction_bits: int = 0
    result_bits: int = SINGLE.mantissa_bits
    lowest_exponent: int = LOWEST_EXPONENT
    tensor_core: str = ""

    @property
    def name(self) -> str:
        """As it stands in configurations."""
        if self.tensor_core or self.method != "aligned":
            return self.tensor_core or self.method
        second = f", {self.result_bits}" if self.result_bits < SINGLE.mantissa_bits else ""
        return f"aligned({self.fraction_bits}{second})"

    def __str__(self) -> str:
        return self.name

    @property
    def result(self) -> FloatFormat:
        """Format of results."""
        return TENSOR_CORE_SINGLE if self.tensor_core else SINGLE

    @property
    def step_format(self) -> FloatFormat:
        """Format with the fractional bits of a step's sum, the highest of those of `result`."""
        if self.result_bits == SINGLE.mantissa_bits:
            return self.result
        return FloatFormat(f"e8m{self.result_bits}", SINGLE.exponent_bits, self.result_bits)

    @staticmethod
    def named(name: str) -> BlockAccumulator:
        """Return the accumulator called `name`.

        Raises
        ------
        ValueError
            If there is none.
        """
        if name == "exact":
            return BlockAccumulator("exact")
        if name == "fp32":
            return BlockAccumulator("fp32")
        if match := _ALIGNED.fullmatch(name):
            bits, result_bits = int(match[1]), int(match[2] or SINGLE.mantissa_bits)
            if bits <= MAX_FRACTION_BITS and result_bits <= SINGLE.mantissa_bits:
                return BlockAccumulator("aligned", bits, result_bits)
        raise ValueError(
            f"must be exact, fp32, aligned(n) or aligned(n, m) with n of"
            f" 1..{MAX_FRACTION_BITS} and m of 1..{SINGLE.mantissa_bits}, or a tensor core"
            f" ({', '.join(TENSOR_CORES)}), not {name!r}"
        )


# -- tensor cores ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorCoreStep:
    """Step of a tensor core: the terms that it adds at a time.

    Parameters
    ----------
    activations, weights : tuple of str
        Formats of A and of W, each of which goes with each of the other.
    depth : int
        Products of a result.
    accumulator : BlockAccumulator, optional
        None of integers, whose sums are int32.
    """

    activations: tuple[str, ...]
    weights: tuple[str, ...]
    depth: int
    accumulator: BlockAccumulator | None = None

    def __str__(self) -> str:
        a, w = ("|".join(names) for names in (self.activations, self.weights))
        return f"{a} x {w} with depth {self.depth}"


@dataclass(frozen=True)
class TensorCore:
    """A tensor core, as the accumulator of a configuration.

    Parameters
    ----------
    name : str
    steps : tuple of TensorCoreStep
    """

    name: str
    steps: tuple[TensorCoreStep, ...]

    def __str__(self) -> str:
        return self.name

    def step(self, activation: object, weight: object) -> TensorCoreStep | None:
        """Return the step with operands of two formats, None if there is none."""
        a, w = str(activation), str(weight)
        steps = (step for step in self.steps if a in step.activations and w in step.weights)
        return next(steps, None)

    def accumulator(self, activation: object, weight: object) -> BlockAccumulator | None:
        """Return the accumulator of two formats, None of integers and of what there is no step."""
        step = self.step(activation, weight)
        return step.accumulator if step else None


_FP8 = ("fp8_e4m3", "fp8_e5m2")
_SHORT = (*_FP8, "fp6_e3m2", "fp6_e2m3", "fp4_e2m1")
_MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4")
_INT8 = ("int8", "uint8")

_Formats = tuple[str, ...]
_Step = tuple[_Formats, _Formats, int, int, int, int]
"""Formats of both operands, depth, fractional bits of terms and of sums, lowest exponent."""


def _tensor_core(name: str, *steps: _Step) -> TensorCore:
    floats = [
        TensorCoreStep(
            activations,
            weights,
            depth,
            BlockAccumulator("aligned", fraction_bits, result_bits, lowest, name),
        )
        for activations, weights, depth, fraction_bits, result_bits, lowest in steps
    ]
    return TensorCore(name, (*floats, TensorCoreStep(_INT8, _INT8, 32)))


TENSOR_CORES: Mapping[str, TensorCore] = {
    core.name: core
    for core in (
        _tensor_core(
            "hopper",
            (("fp16",), ("fp16",), 16, 25, 23, -133),
            (("bf16",), ("bf16",), 16, 25, 23, -133),
            (_FP8, _FP8, 32, 13, 13, -133),
        ),
        _tensor_core(
            "ada",
            (("fp16",), ("fp16",), 8, 24, 23, -132),
            (("bf16",), ("bf16",), 8, 24, 23, -132),
            (_FP8, _FP8, 16, 13, 13, -132),
        ),
        _tensor_core(
            "blackwell",
            (("fp16",), ("fp16",), 16, 25, 23, -133),
            (("bf16",), ("bf16",), 16, 25, 23, -133),
            (_SHORT, _SHORT, 32, 25, 23, -133),
            (_MX, _MX, 32, 25, 23, -133),
        ),
    )
}
"""Tensor cores by name: Hopper as measured, the others by published rules (MMA-Sim)."""
