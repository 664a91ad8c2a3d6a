# SPDX-License-Identifier: Apache-2.0
"""Features of post-processing hardware."""

from __future__ import annotations

from dataclasses import dataclass

from hwgen.core.post.words import (
    ACTIVATIONS,
    BIAS,
    FLOATS,
    INTEGERS,
    OUTPUT_TYPES,
    OUTPUTS,
    RAW,
    ROUNDINGS,
    SINGLE,
)
from hwgen.errors import InputError, did_you_mean
from hwgen.formats.floating import FloatFormat, floating
from hwgen.formats.integer import IntegerFormat, enclosing_format, integer

_SPLIT = 34  # sums of more bits than these are multiplied in two parts
MULTIPLY_STAGES = 3
"""Registers of a floating-point multiplication."""

ADD_STAGES = 3
"""Registers of a floating-point addition."""

CONVERT_STAGES = 2
"""Registers of a conversion of an integer to floating point."""


class Stages:
    """Numbers of registers before the places of a lane; which there are depends on the features.

    Parameters
    ----------
    features : PostFeatures

    Attributes
    ----------
    split : bool
        Whether the product is the sum of two, in a stage of its own.
    total : int
        Registers before the sum of accumulator and bias.
    scaled : int
        Registers before a sum that is scaled in floating point.
    rounding : int
        Registers before the rounding.
    results : int
        Registers before the choice of a result, the latency of a lane.
    """

    def __init__(self, features: PostFeatures) -> None:
        if features.single:
            self.split = False
            self.total = 1 + ADD_STAGES * features.columns
            self.scaled = self.total + MULTIPLY_STAGES
            # The scaled number, and its integer part.
            self.rounding = self.scaled + 2
        else:
            self.split = features.total.width > _SPLIT
            self.total = 1
            self.scaled = self.total + CONVERT_STAGES + MULTIPLY_STAGES
            self.rounding = 3 + self.split
        integers = self.rounding + 1 if features.integers else self.total
        # A register before the conversion to a shorter format.
        shorter = any(fmt != SINGLE for fmt in features.floats)
        floats = self.scaled + shorter if features.floats else self.total
        self.results = max(integers, floats)


def output_format(
    output: str, accumulator: IntegerFormat | FloatFormat
) -> IntegerFormat | FloatFormat:
    """Return the format of an output's elements; of `raw` as many as the accumulator needs."""
    if output == RAW:
        return accumulator.raw_output
    return floating(output) if output in FLOATS else integer(output)


def element_bytes(output: str, accumulator: IntegerFormat | FloatFormat) -> int:
    """Return the bytes of an output's element in memory."""
    return output_format(output, accumulator).lane_width // 8


@dataclass(frozen=True)
class PostFeatures:
    """Features of post-processing hardware; all others are not built.

    Parameters
    ----------
    accumulator : IntegerFormat or FloatFormat
        Integers of 2 to 64 bits, or single precision.
    outputs : tuple of str
        Of `OUTPUTS`, at least one.
    activations : tuple of str
        Of `ACTIVATIONS`, at least one.
    roundings : tuple of str
        Of `ROUNDINGS`, at least one.
    columns : bool
        Whether there are column records.
    tensor : bool
        Whether a job can do without them, its scale in the settings.

    Raises
    ------
    InputError
        Naming what is wrong and what is allowed.
    """

    accumulator: IntegerFormat | FloatFormat
    outputs: tuple[str, ...]
    activations: tuple[str, ...] = ("none", "relu")
    roundings: tuple[str, ...] = ("half_even",)
    columns: bool = True
    tensor: bool = True

    def __post_init__(self) -> None:
        if self.accumulator.is_float:
            if self.accumulator.name != SINGLE.name:
                raise InputError(
                    f"accumulator: must be {SINGLE}, or an integer, not {self.accumulator}"
                )
        elif not 2 <= self.accumulator.width <= 64:
            raise InputError(f"accumulator: must be 2..64 bits wide, not {self.accumulator}")
        for name, chosen, offered in (
            ("outputs", self.outputs, OUTPUTS),
            ("activations", self.activations, ACTIVATIONS),
            ("roundings", self.roundings, ROUNDINGS),
        ):
            if not chosen:
                raise InputError(f"{name}: must name at least one of {', '.join(offered)}")
            for value in chosen:
                check_word(name, value, offered)
        if set(self.outputs) == {RAW} and "leaky" in self.activations:
            raise InputError(
                "activations: leaky scales negative numbers, but raw outputs are not scaled; add"
                " another output, or remove leaky"
            )
        if not (self.columns or self.tensor):
            raise InputError("columns, tensor: at least one of them must be true")

    @property
    def single(self) -> bool:
        """Whether accumulators, and with them biases and all scales, are in single precision."""
        return self.accumulator.is_float

    @property
    def scales(self) -> bool:
        """Whether something is scaled."""
        return bool(self.integers or self.floats)

    @property
    def integers(self) -> tuple[IntegerFormat, ...]:
        """Formats of the integer outputs."""
        return tuple(integer(name) for name in self.outputs if name in INTEGERS)

    @property
    def floats(self) -> tuple[FloatFormat, ...]:
        """Formats of the floating-point outputs."""
        return tuple(floating(name) for name in self.outputs if name in FLOATS)

    @property
    def output_types(self) -> tuple[str, ...]:
        """Those of `OUTPUT_TYPES` that the outputs need."""
        return tuple(
            output_type
            for output_type in OUTPUT_TYPES
            if output_type in self.outputs or (output_type == "integer" and self.integers)
        )

    @property
    def total(self) -> IntegerFormat:
        """Format of an integer accumulator with its bias, which holds every sum; up to 65 bits."""
        assert self.accumulator.is_integer
        if not self.columns:
            return self.accumulator
        return enclosing_format(self.accumulator.min + BIAS.min, self.accumulator.max + BIAS.max)

    @property
    def limit_bits(self) -> int:
        """Bits of a signed number that holds every integer output; there must be one."""
        limits = enclosing_format(
            min(fmt.min for fmt in self.integers), max(fmt.max for fmt in self.integers)
        )
        return limits.width + (not limits.signed)

    @property
    def raw(self) -> IntegerFormat | FloatFormat:
        """Format of raw outputs."""
        return output_format(RAW, self.accumulator)

    @property
    def lane_width(self) -> int:
        """Bits of a result: 64 if there are raw ones as wide, else 32."""
        return self.raw.width if RAW in self.outputs else 32

    @property
    def widest(self) -> IntegerFormat | FloatFormat:
        """Format of the outputs whose elements are the largest in memory, the first of them."""
        formats = [output_format(output, self.accumulator) for output in self.outputs]
        return max(formats, key=lambda fmt: fmt.lane_width)

    @property
    def latency(self) -> int:
        """Cycles from a word's handshake to the first cycle in which its results are valid."""
        return Stages(self).results + 1


def check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    """Check that a value is one of the known words.

    Raises
    ------
    InputError
        Naming them, and the nearest.
    """
    if value not in words:
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise InputError(f"{name}: must be one of {', '.join(words)}, not {value!r}{hint}")
