# SPDX-License-Identifier: Apache-2.0
"""Configuration of the post-processing of results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.core.params.base import Model
from hwgen.core.port import POST, StreamPort
from hwgen.core.post import ACTIVATIONS, OUTPUTS, ROUNDINGS, PostFeatures
from hwgen.core.post.beats import RECORD_WORDS, WORD_BITS, WORDS
from hwgen.errors import InputError
from hwgen.formats import FloatFormat, IntegerFormat, integer

FORMATS = f"`raw` is the accumulator in 32 or 64 bits; also {', '.join(OUTPUTS[1:])}."
"""What the outputs are, for descriptions."""


class PostProcessing(Model):
    """Post-processing of accumulators on their way out; a job chooses."""

    outputs: list[Literal[OUTPUTS]] = Field(  # type: ignore[valid-type]
        [],
        description=f"Formats of C; none for accumulators as they are. {FORMATS}",
    )
    activations: list[Literal[ACTIVATIONS]] = Field(  # type: ignore[valid-type]
        ["none", "relu"],
        min_length=1,
        description=f"Activation functions, of {', '.join(ACTIVATIONS)}.",
    )
    roundings: list[Literal[ROUNDINGS]] = Field(  # type: ignore[valid-type]
        ["half_even"],
        min_length=1,
        description=f"Rounding of integer outputs, of {', '.join(ROUNDINGS)}.",
    )
    columns: bool = Field(
        True, description="Whether a job can have a bias and a scale for each column."
    )

    def __hash__(self) -> int:
        """Return a hash: configurations are keys of caches, and lists have none."""
        return hash((*self.outputs, *self.activations, *self.roundings, self.columns))

    def features(self, accumulator: IntegerFormat | FloatFormat) -> PostFeatures:
        """Return the features of the post-processing hardware for accumulators of a format.

        Raises
        ------
        InputError
            If that makes no sense; the message begins with the field.
        """
        return PostFeatures(
            accumulator,
            tuple(self.outputs),
            tuple(self.activations),
            tuple(self.roundings),
            columns=self.columns,
        )

    def broken_rules(self, accumulator: IntegerFormat | FloatFormat) -> list[str]:
        """Return the rule that the hardware would break, as families state theirs, if it does."""
        try:
            self.features(accumulator)
        except InputError as error:
            return [f"post.{error}"]
        return []


def with_post(
    core: tuple[StreamPort, ...], features: PostFeatures, columns: int
) -> tuple[StreamPort, ...]:
    """Return the stream ports of a core behind whose last port results are post-processed.

    Parameters
    ----------
    core : tuple of StreamPort
        Ports of the core, the results last.
    features : PostFeatures
        What the hardware offers.
    columns : int
        Columns of C in a beat of results.

    Returns
    -------
    tuple of StreamPort
        The inputs, ``post``, and ``out`` with elements as wide as those of the widest output.
    """
    *inputs, out = core
    records = columns * features.columns
    beat = f"words {', '.join(register.name for register in WORDS)}"
    if records:
        beat += f", then {records} column records of {RECORD_WORDS} words"
    words = len(WORDS) + records * RECORD_WORDS
    post = StreamPort(POST, "in", integer(f"uint{WORD_BITS}"), words, WORD_BITS, beat)
    fmt = features.widest
    results = StreamPort("out", "out", fmt, out.lanes, fmt.lane_width, out.beat, out.last)
    return (*inputs, post, results)
