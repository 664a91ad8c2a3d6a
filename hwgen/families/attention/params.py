# SPDX-License-Identifier: Apache-2.0
"""Attention: softmax of scaled scores times values, in one pass over keys and values.

Rows of queries are held; keys and values go past them. Weights are powers of two relative to a
running maximum that is an integer, so that rescaling what was added up is a shift.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from hwgen.core.params.base import AUTO, check_rules
from hwgen.core.port import StreamPort
from hwgen.families.attention.formats import (
    BLOCK,
    QUERY_SCALE,
    SCALE,
    AttentionFormats,
    bound_of,
)
from hwgen.formats import IntegerFormat

if TYPE_CHECKING:
    from hwgen.core.operation import Operation

COMMAND = ("queries", "keys", "group", "first", "last", "moves")
"""Words of a command."""

FIRST_MOVES, LAST_MOVES = 1, 2
"""Bits of the word `moves`."""

WIDEST = 63
"""Bits of the widest number between scores and results."""

_QUEUE = 2


class AttentionConfig(AttentionFormats):
    """Attention behind AXI4-Stream ports."""

    @model_validator(mode="after")
    def _rules(self) -> Self:
        check_rules(self._broken())
        return self

    def _broken(self) -> list[str]:
        if mixed := self._mixed():
            return mixed
        broken = self._broken_floats() if self.floating else self._broken_output()
        rows, lanes, units = self.array.rows, self.array.lanes, self.array.units
        if units != AUTO and (units > rows or rows % units):
            broken.append(
                f"array.units: must divide the {rows} rows, not {units}; use auto, or one of"
                f" {', '.join(str(n) for n in range(1, rows + 1) if not rows % n)}"
            )
        elif units != AUTO and rows // units > self.steps:
            broken.append(
                f"array.units: must be at least {self.fewest_units}, not {units}: a unit takes"
                f" {rows // units} rows one after the other, but a key of {self.head} elements is"
                f" there after {self.steps} cycles"
            )
        if lanes == 1 and self.pipeline.dot == 2:
            broken.append(
                "pipeline.dot: must be 0 or 1 with one lane, not 2: the second register stands"
                " among several products"
            )
        if self.score.width + SCALE.width * (1 + self.scaled_keys) > WIDEST:
            broken.append(
                f"query: {self.query} x {self.key} with {self.head} elements gives scores of"
                f" {self.score.width} bits, which have more than {WIDEST} once they are scaled;"
                f" use {'fewer alignment_bits' if self.floating else 'narrower operands'}"
            )
        if self.total.width > WIDEST:
            broken.append(
                f"max_keys: sums of {self.max_keys} weights of {self.softmax.weight_bits} bits"
                f" times {self.value} have {self.total.width} bits, more than {WIDEST}"
            )
        return broken

    def _mixed(self) -> list[str]:
        """Return an error for each format of another kind than most."""
        formats = {name: getattr(self, name) for name in ("query", "key", "value", "output")}
        floats = [name for name, fmt in formats.items() if fmt.is_float]
        if len(floats) in (0, len(formats)):
            return []
        few = floats if 2 * len(floats) <= len(formats) else formats.keys() - floats
        kinds = ("floating point", "integers") if few is floats else ("integers", "floating point")
        return [
            f"{name}: query, key, value and output must be all integers or all floating point,"
            f" not {kinds[0]} among {kinds[1]}; {name} is {formats[name]}"
            for name in formats
            if name in few
        ]

    def _broken_floats(self) -> list[str]:
        """Return the errors of floating-point formats."""
        broken = []
        if self.scaled_keys:
            broken.append(
                "scales: must be none or block with floating point, whose rows have exponents of"
                f" their own, not {self.scales}"
            )
        if self.scales == "block":
            broken += self._broken_blocks()
        least = max(fmt.mantissa_bits for fmt in (self.query, self.key, self.value))
        if self.alignment_bits < least:
            broken.append(
                f"alignment_bits: must be at least {least}, the bits behind the leading one of"
                f" operands, not {self.alignment_bits}"
            )
        if self.quotient.width > WIDEST:
            broken.append(
                f"max_keys: sums of {self.max_keys} weighted values of {self.total.width} bits"
                f" times a reciprocal have {self.quotient.width} bits, more than {WIDEST}; use"
                " fewer alignment_bits, softmax.weight_bits or keys"
            )
        return broken

    def _broken_blocks(self) -> list[str]:
        """Return the errors of keys and values whose blocks have powers of two."""
        broken = []
        if self.head < BLOCK or self.head & (self.head - 1):
            broken.append(
                f"head: must be {BLOCK}, {2 * BLOCK}, {4 * BLOCK} or {8 * BLOCK} with scales:"
                f" block, not {self.head}"
            )
        if BLOCK % self.array.lanes:
            broken.append(
                f"array.lanes: must divide {BLOCK} with scales: block, not {self.array.lanes};"
                " take a power of two"
            )
        return broken

    def _broken_output(self) -> list[str]:
        """Return the errors of an integer format of results."""
        broken = []
        if self.scales == "block":
            broken.append(
                "scales: must be token or none with integers, not block, which is for floating"
                " point: fp8_e4m3 and fp4_e2m1"
            )
        if self.output.signed < self.value.signed:
            broken.append(f"output: must be signed as V is, {self.value}, not {self.output}")
        elif not 0 <= self.fraction <= self.softmax.weight_bits:
            broken.append(
                f"output: must hold V, {self.value}, and have up to"
                f" {self.softmax.weight_bits} bits behind the point (softmax.weight_bits), not"
                f" {self.output}"
            )
        return broken

    def identity(self) -> dict[str, Any]:
        """Return the parameters that `digest` is of.

        With single buffers, or integers, hardware is what it was before there was a choice, and so
        is its digest.
        """
        values = self.resolved()
        if not self.doubled:
            del values["array"]["buffers"]
        if not self.floating:
            del values["alignment_bits"]
        return values

    @property
    def key_scale(self) -> IntegerFormat | None:
        """Format of the scale, or the scales, of a key and of a value; None if there are none."""
        if self.scaled_keys:
            return SCALE
        return self.block_scales if self.blocks else None

    # -- timing ----------------------------------------------------------------------------

    @property
    def score_latency(self) -> int:
        """Cycles from a key's last beat to the first rows in the softmax units.

        Scores wait a cycle where units take one row after the other.
        """
        return 2 + self.pipeline.dot + (self.phases > 1)

    @property
    def unit_latency(self) -> int:
        """Cycles from a score to its weight."""
        return 3 + self.scaled_keys + self.pipeline.exponential + self.scaled_keys

    @property
    def weight_latency(self) -> int:
        """Cycles from a key's last beat to the first cycle in which its value may be taken."""
        return self.score_latency + self.phases - 1 + self.unit_latency + 1

    @property
    def weights_ahead(self) -> int:
        """Keys whose weights wait, or are on their way."""
        return -(-(self.weight_latency + self.steps) // self.steps)

    @property
    def divide_latency(self) -> int:
        """Cycles from a row's sums to its results in the queue of results."""
        return 6 + self.pipeline.reciprocal + 2 * self.floating

    @property
    def align_latency(self) -> int:
        """Cycles until a row's largest exponent is known."""
        return self.steps if self.floating else 0

    @property
    def results_ahead(self) -> int:
        """Beats of results that wait, or are on their way."""
        return self.divide_latency + _QUEUE

    @property
    def latency(self) -> int:
        """Cycles from a job's last key beat to its first result beat, if values do not wait."""
        return 1 + self.weight_latency + self.steps + self.divide_latency + 2

    # -- operations ------------------------------------------------------------------------

    @property
    def operations_per_cycle(self) -> float:
        """Arithmetic operations of a full cycle: those of the two products."""
        return 2 * self.macs_per_cycle

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Operations that it computes: `attention`."""
        from hwgen.core.operation import Operation, Scalar, Size, Tensor

        keys = ("kv_heads", "keys", "elements")
        queries = ("kv_heads", "group", "queries", "elements")
        operands = [
            Tensor("query", "query", queries, self.query, "query_scale"),
            Tensor("query_scale", "query_scale", queries[:-1], QUERY_SCALE),
            Tensor("key", "key", keys, self.key, "key_scale" if self.key_scale else ""),
            Tensor("value", "value", keys, self.value, "value_scale" if self.key_scale else ""),
        ]
        if self.key_scale is not None:
            operands += [
                Tensor(f"{name}_scale", f"{name}_scale", keys[:-1], self.key_scale)
                for name in ("key", "value")
            ]
        rows = self.array.rows
        reach = self.max_keys
        return (
            Operation(
                "attention",
                "output = softmax(query key^T scale) value, heads in groups that share keys",
                tuple(operands),
                (Tensor("output", "out", queries, self.output),),
                (
                    Size("kv_heads"),
                    Size("group", natural=min(rows, 2)),
                    Size("queries", natural=-(-rows // min(rows, 2))),
                    Size("elements", self.head, natural=self.head),
                    Size("keys", reach, natural=min(reach, 8)),
                ),
                lambda sizes: (
                    4 * sizes["kv_heads"] * sizes["group"] * sizes["queries"]
                    * sizes["elements"] * sizes["keys"]
                ),
                (
                    Scalar("causal", "1: no key behind the position of a query", 0, 0, 1, True),
                    Scalar("offset", "position of the first query", 0, -reach, reach, True),
                    Scalar("window", "only so many keys up to the position; 0: all",
                           0, 0, reach, True),
                ),
            ),
        )  # fmt: skip

    @cached_property
    def proven(self) -> dict[str, Any]:
        """Bounds proven of weights and results, for rows of 512 keys and of as many as there are.

        None where nothing is.
        """
        result: dict[str, Any] = {
            "powers": self.powers.document(),
            "reciprocals": self.reciprocals.document(),
        }
        for keys in sorted({min(512, self.max_keys), self.max_keys}):
            try:
                result[f"keys_{keys}"] = bound_of(self, keys).document()
            except ValueError:
                result[f"keys_{keys}"] = None
        return result

    # -- ports -----------------------------------------------------------------------------

    @cached_property
    def ports(self) -> tuple[StreamPort, ...]:
        """The stream ports: inputs by name, then the output."""
        lanes = self.array.lanes
        word = IntegerFormat(32, signed=True)
        slices = f"elements c0..c0+{lanes - 1}"
        ports = [
            StreamPort(
                "command",
                "in",
                word,
                len(COMMAND),
                32,
                "a job: " + ", ".join(COMMAND),
                per_job=True,
            ),
            StreamPort("query", "in", self.query, lanes, self.query.width, f"Q[row, c], {slices}"),
            StreamPort(
                "query_scale",
                "in",
                QUERY_SCALE,
                1,
                QUERY_SCALE.lane_width,
                "scale of a row of queries: a mantissa, above it a shift",
            ),
            StreamPort("key", "in", self.key, lanes, self.key.width, f"K[key, c], {slices}"),
            StreamPort("value", "in", self.value, lanes, self.value.width, f"V[key, c], {slices}"),
        ]
        if (scale := self.key_scale) is not None:
            text = f"powers of two of the blocks of {BLOCK}" if self.blocks else "scale"
            ports += [
                StreamPort(f"{name}_scale", "in", scale, 1, scale.width, f"{text} of a {name}")
                for name in ("key", "value")
            ]
        out = self.output
        width = max(8, 1 << (int(out.width) - 1).bit_length())
        ports.append(
            StreamPort("out", "out", out, lanes, width, f"O[row, c], {slices}", "the end of a job")
        )
        return tuple(ports)
