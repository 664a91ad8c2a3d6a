# SPDX-License-Identifier: Apache-2.0
"""Systolic arrays: configuration and the figures derived from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from hwgen.arithmetic.digits import Encoding
from hwgen.core.loop_nest import ACT_OF_BLOCKS, WGT_OF_BLOCKS, LoopNest, Loops
from hwgen.core.params.base import Model, registers
from hwgen.core.params.block_core import BlockProductConfig
from hwgen.core.params.block_operands import is_plain
from hwgen.core.params.processing_elements import (
    CARRY_SAVE,
    HYBRID,
    MAC,
    carry_spacing_field,
    encoding_field,
    final_adder_field,
    pe_field,
    pe_table,
    remove_missing_parameters,
)
from hwgen.core.port import StreamPort
from hwgen.formats import IntegerFormat
from hwgen.formats.block.lanes import BlockLanes

BUS_ROWS = 16
"""Rows whose results reach the column bus through one OR: those of a tile."""

TILE_COLUMNS = 16
"""Columns of a tile, where column groups allow."""


@dataclass(frozen=True)
class ArrayGeometry:
    """The parameters that an array is divided by, and what follows from them.

    Parameters
    ----------
    rows, cols, broadcast : int or ndarray
        PEs; columns that share a register of the operand that moves along the rows.
    pe, final_adder : int or ndarray
        Registers in a PE in front of its accumulator, and inside the final adders.
    digits : bool
        Whether results are put together, or rounded, on their way out.
    """

    rows: Any
    cols: Any
    broadcast: Any
    pe: Any
    final_adder: Any
    digits: bool

    @property
    def groups(self) -> Any:
        """Groups of columns; each registers the operand that moves along the rows once."""
        return -(-self.cols // self.broadcast)

    @property
    def segments(self) -> Any:
        """Runs of up to `BUS_ROWS` rows whose results reach the output through one OR."""
        return -(-self.rows // BUS_ROWS)

    @property
    def groups_per_tile(self) -> Any:
        """Column groups of a tile."""
        fit = TILE_COLUMNS // self.broadcast
        return fit + (fit < 1)

    @property
    def tiles(self) -> Any:
        """Tiles along a row."""
        return -(-self.cols // (self.broadcast * self.groups_per_tile))

    @property
    def bus_latency(self) -> Any:
        """Cycles from the slot at a row's edge to its accumulators at the foot of the array.

        Output-stationary: the registers of the PE, of the tree that collects the bus segments,
        and of the column groups.
        """
        return self.pe + (self.segments > 1) + self.groups - 1

    @property
    def drain_latency(self) -> Any:
        """Cycles from the slot at a row's edge to its results at the output buffer.

        Output-stationary: `bus_latency`, and registers in front of the adders of carries and
        inside them.
        """
        return self.bus_latency + self.digits + self.final_adder

    @property
    def in_steps(self) -> Any:
        """Whether results are put together in steps behind their buffer (output-stationary)."""
        return self.digits & (self.final_adder > 0)

    @property
    def drain_stages(self) -> Any:
        """Registers from a row's drain to the buffer of rows (output-stationary)."""
        behind = self.drain_latency - self.bus_latency
        return 1 + self.drain_latency - behind * self.in_steps

    @property
    def drain_entries(self) -> Any:
        """Rows that the buffer behind the array holds (output-stationary)."""
        return 1 + self.drain_stages

    @property
    def psum_latency(self) -> Any:
        """Cycles from a beat's slot to its partial sums at the accumulators.

        Weight- and input-stationary: one cycle a row, two for the operand registers at the edge,
        the registers of the PE and of the column groups.
        """
        return self.rows + 2 + self.pe + self.groups - 1


def block_stages(pe: Any) -> Any:
    """Return the registers of a PE that multiplies blocks: also the sum and the term of one."""
    return pe + 2


def psum_terms(row: int, rows: int) -> int:
    """Return the terms that the partial sums of a row are wide enough for, of so many rows.

    Exact in the first run of `BUS_ROWS` rows, where they grow quickly; then those of the last row
    of the run, so that its rows and often whole tiles are equal.
    """
    if row < BUS_ROWS:
        return row + 1
    return min(-(-(row + 1) // BUS_ROWS) * BUS_ROWS, rows)


SHORTEST_BLOCK = 2
"""Elements of the shortest block whose scale is still there when its products are summed."""

PES = pe_table(
    replace(MAC, summary="a multiplier and an accumulating adder"),
    replace(
        CARRY_SAVE,
        summary="multiples by digits of A and the accumulator in one tree of full adders whose last"
        " carries wait (output-stationary)",
        dataflows=("output_stationary",),
    ),
    HYBRID,
)
"""Processing elements of systolic arrays, with their requirements."""

_PE_NAMES = tuple(PES)

Dataflow = Literal["output_stationary", "weight_stationary", "input_stationary"]


class Array(Model):
    """The array of processing elements."""

    rows: int = Field(
        16,
        ge=1,
        le=256,
        description="Rows of PEs. They hold rows of C if output-stationary, else terms of the"
        " reduction.",
        json_schema_extra={"unit": "PEs"},
    )
    cols: int = Field(
        16,
        ge=1,
        le=256,
        description="Columns of PEs. They hold columns of C, or rows of C if input-stationary.",
        json_schema_extra={"unit": "PEs"},
    )
    dataflow: Dataflow = Field(
        "output_stationary", description="Which operand stays in the PEs during a tile job."
    )
    pe: Literal[_PE_NAMES] = pe_field(PES)  # type: ignore[valid-type]
    encoding: Encoding = encoding_field()
    carry_spacing: int = carry_spacing_field()
    broadcast: int = Field(
        16,
        ge=1,
        le=256,
        description="Columns that share one register of the operand moving along a row;"
        " 1 registers it in every PE, as in a textbook array.",
        json_schema_extra={"unit": "PEs"},
    )
    accumulator_depth: int = Field(
        256,
        ge=1,
        le=65536,
        description="Result rows that the accumulator memory holds while the reduction runs over"
        " several tiles (weight- and input-stationary).",
        json_schema_extra={"unit": "rows"},
    )


class Pipeline(Model):
    """Registers inside a processing element."""

    pe: int = registers(
        0,
        0,
        2,
        "Registers of the multiply-accumulate path: 1 after the multiplier,"
        " 2 before and after it. Of blocks: 1 behind the multipliers, 2 also behind the scales;"
        " sums and terms of blocks have registers of their own.",
    )
    final_adder: int = final_adder_field()


class SystolicConfig(BlockProductConfig):
    """A systolic array of multiply-accumulate PEs behind AXI4-Stream ports."""

    processing_elements = PES

    family: Literal["systolic"] = Field("systolic", description="Family of the accelerator.")
    array: Array = Field(default_factory=Array, description="The array of processing elements.")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken."""
        blocks = not is_plain(self.activation, self.weight)
        broken = self._broken_as_blocks() if blocks else self._broken_as_integers()
        if self.output_stationary and "accumulator_depth" in self.array.model_fields_set:
            broken.append(
                "array.accumulator_depth: only weight_stationary and input_stationary have an"
                " accumulator memory; remove it, or change array.dataflow"
            )
        return broken

    def _broken_as_integers(self) -> list[str]:
        if not self.processing_element.integers:
            return self._pe_errors()
        if broken := self._accumulator_errors():
            return broken
        return super().broken_rules() + self._pe_errors()

    def _broken_as_blocks(self) -> list[str]:
        if broken := self._block_errors():
            return broken
        operands = f"{self.activation} x {self.weight}"
        length, shortest = self.lanes[0].length, SHORTEST_BLOCK + (self.pipeline.pe > 0)
        product = self.block_product
        assert product is not None
        if not self.output_stationary:
            if product.offset is not None:
                broken.append(
                    f"array.dataflow: must be output_stationary with {operands}, not"
                    f" {self.array.dataflow}: with a minimum the elements of the other operand are"
                    " summed, too, but its slices are elements of one block"
                )
            if self.array.rows != length:
                broken.append(
                    f"array.rows: must be {length}, a block, with {operands} and"
                    f" {self.array.dataflow}, not {self.array.rows}: the sums of a column are those"
                    " of a block; or take output_stationary"
                )
        elif 1 < length < shortest:
            broken.append(
                f"weight: must have blocks of {shortest} or more with {operands} and pipeline.pe"
                f" {self.pipeline.pe}, not of {length}: scales wait for the sum of a block while"
                " the next one passes"
            )
        return broken

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that the dataflow has, as plain JSON values."""
        values = super().resolved()
        if self.output_stationary:
            del values["array"]["accumulator_depth"]
        remove_missing_parameters(self.processing_element, values)
        return values

    # -- geometry --------------------------------------------------------------------------

    @property
    def dataflow(self) -> str:
        """Operand that stays in the PEs."""
        return self.array.dataflow

    @property
    def output_stationary(self) -> bool:
        """Whether the accumulators stay in the PEs."""
        return self.array.dataflow == "output_stationary"

    @property
    def input_stationary(self) -> bool:
        """Whether A stays in the PEs."""
        return self.array.dataflow == "input_stationary"

    @property
    def block_depth(self) -> int:
        """Products that are summed exactly at a time; without blocks, those of a term."""
        return 1 if self.output_stationary else self.array.rows

    @property
    def depth_field(self) -> str:
        """The parameter that says how many they are, empty if none does."""
        return "" if self.output_stationary else "array.rows"

    @cached_property
    def lanes(self) -> tuple[BlockLanes, BlockLanes]:
        """Layout of rows of A and columns of W in beats, of products of blocks.

        The operand that stays in the PEs comes slice by slice, as both do if C stays there.
        """
        product = self.block_product
        assert product is not None
        depths = [self.block_depth, 1]
        a, w = reversed(depths) if self.input_stationary else depths
        return BlockLanes(product.a, product.length, a), BlockLanes(product.w, product.length, w)

    def partial_sum(self, terms: int) -> Any:
        """Format of a sum of up to `terms` products, of blocks of the integers that they are."""
        if self.block_product is not None:
            return self.block_product.sum_of(terms)
        return super().partial_sum(terms)

    def psum_width(self, terms: int) -> int:
        """Bits of a partial sum on its way down, of blocks with its flags."""
        flags = self.block_product.flags_of_sum if self.block_product is not None else 0
        return int(self.partial_sum(terms).width) + flags

    @property
    def digit_operands(self) -> tuple[IntegerFormat, IntegerFormat, int]:
        """Format of digits, format of the factors that they multiply, and products at a time."""
        return self.row_operand, self.column_operand, 1

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of a full cycle."""
        return self.array.rows * self.array.cols

    @property
    def natural_sizes(self) -> tuple[int, int, int]:
        """M, K and N that fill the array once, with whole blocks if there are blocks."""
        rows, cols = self.array.rows, self.array.cols
        k = max(rows, self.block_product.length) if self.block_product else rows
        return (cols, k, rows) if self.input_stationary else (rows, k, cols)

    @property
    def stages(self) -> int:
        """Registers from the operands of a PE to its accumulator."""
        if self.block_product is not None and self.output_stationary:
            return int(block_stages(self.pipeline.pe))
        return self.pipeline.pe

    @property
    def rounds_at_end(self) -> bool:
        """Whether totals of blocks are rounded on their way out."""
        return self.block_product is not None and self.block_product.rounds_at_end

    @cached_property
    def geometry(self) -> ArrayGeometry:
        """Division of the array, and the latency of values in it."""
        array, pipeline = self.array, self.pipeline
        return ArrayGeometry(
            array.rows, array.cols, array.broadcast, self.stages, pipeline.final_adder,
            self.digits is not None or (self.rounds_at_end and self.output_stationary),
        )  # fmt: skip

    @property
    def column_groups(self) -> int:
        """Groups of columns; each registers the operand that moves along the rows once."""
        return int(self.geometry.groups)

    @property
    def bus_latency(self) -> int:
        """Cycles from the slot at a row's edge to its accumulators at the foot of the array."""
        return int(self.geometry.bus_latency)

    @property
    def drain_latency(self) -> int:
        """Cycles from the slot at a row's edge to its results at the output buffer."""
        return int(self.geometry.drain_latency)

    @property
    def psum_latency(self) -> int:
        """Cycles from a beat's slot to its partial sums at the accumulators."""
        return int(self.geometry.psum_latency)

    @property
    def array_latency(self) -> int:
        """Cycles from a beat's slot to its sums at the foot of the array, of blocks.

        The second register of `pipeline.pe` is behind their scales.
        """
        return self.psum_latency - (self.pipeline.pe > 1)

    @property
    def core_latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first beat of accumulators.

        One in the input buffer, one in the output buffer, and in between the path through the
        array; see `drain_latency` and `psum_latency`.
        """
        return 4 + (self.drain_latency if self.output_stationary else self.psum_latency)

    @property
    def row_operand(self) -> Any:
        """Format of the operand that moves along the rows (W if input-stationary, else A)."""
        return self.weight if self.input_stationary else self.activation

    @property
    def column_operand(self) -> Any:
        """Format of the operand that enters from the top (A if input-stationary, else W)."""
        return self.activation if self.input_stationary else self.weight

    @property
    def block_loop_nest(self) -> LoopNest | str:
        """The loops in which the array goes through a block, or why it cannot."""
        rows, cols = self.array.rows, self.array.cols
        blocks = self.block_product is not None
        if self.output_stationary:
            nest = LoopNest(
                m_lanes=rows,
                k_lanes=1,
                n_lanes=cols,
                act=(("row_tiles", "act_row"), ("column_tiles", "nothing"), ("k_tiles", "beat")),
                wgt=(
                    ("row_tiles", "nothing"),
                    ("column_tiles", "beat"),
                    ("weight_rows", "weight_row"),
                ),
                out=(
                    ("row_tiles", "result_tile"),
                    ("column_tiles", "beat"),
                    ("tile_rows", "result_row"),
                ),
                weight_rows=1,
            )
            if not blocks:
                return nest
            return self._nest_of_blocks(replace(nest, act=ACT_OF_BLOCKS, wgt=WGT_OF_BLOCKS))
        if self.input_stationary:
            return (
                "array.dataflow: must be output_stationary or weight_stationary in a memory"
                " engine; an input-stationary array computes the transposed product"
            )
        nest = LoopNest(
            m_lanes=1,
            k_lanes=rows,
            n_lanes=cols,
            act=(("column_tiles", "nothing"), ("k_tiles", "beat"), ("rows", "act_row")),
            wgt=(("column_tiles", "beat"), ("weight_rows", "weight_row")),
            out=(("column_tiles", "beat"), ("rows", "result_row")),
            weight_rows=rows,
            max_rows=self.array.accumulator_depth,
        )
        if not blocks:
            return nest
        act: Loops = (("column_tiles", "nothing"), ("k_beats", "beat"), ("rows", "act_row"))
        wgt: Loops = (("column_tiles", "weight_row"), ("weight_rows", "beat"))
        return self._nest_of_blocks(replace(nest, act=act, wgt=wgt))

    # -- ports -----------------------------------------------------------------------------

    @property
    def row_lanes(self) -> BlockLanes:
        """Layout in beats of the operand that moves along the rows, of products of blocks."""
        return self.lanes[self.input_stationary]

    @property
    def column_lanes(self) -> BlockLanes:
        """Layout in beats of the operand that enters from the top, of products of blocks."""
        return self.lanes[not self.input_stationary]

    @cached_property
    def row_port(self) -> StreamPort:
        """Input port of the operand that moves along the rows."""
        name = "wgt" if self.input_stationary else "act"
        beat = {
            "output_stationary": "A[m0..m0+rows-1, k], one k a beat",
            "weight_stationary": "A[m, k0..k0+rows-1], one m a beat",
            "input_stationary": "W[k0..k0+rows-1, n], one n a beat",
        }[self.array.dataflow]
        last = {
            "output_stationary": "the end of the reduction",
            "weight_stationary": "the last m of each pass; a pass uses one tile of W",
            "input_stationary": "the last n of each pass; a pass uses one tile of A",
        }[self.array.dataflow]
        fmt = self.row_operand
        if self.block_product is not None:
            lane, lanes = self.row_lanes, self.array.rows if self.output_stationary else 1
            each = "a lane for each row" if self.output_stationary else "in a lane"
            beat += f", {each}: {lane.words}"
            return StreamPort(name, "in", fmt, lanes, lane.width, beat, last)
        return StreamPort(name, "in", fmt, self.array.rows, fmt.width, beat, last)

    @cached_property
    def column_port(self) -> StreamPort:
        """Input port of the operand that enters the array from the top."""
        name = "act" if self.input_stationary else "wgt"
        beat = {
            "output_stationary": "W[k, n0..n0+cols-1], one k a beat",
            "weight_stationary": "W[k, n0..n0+cols-1], one k a beat, rows beats a tile",
            "input_stationary": "A[m0..m0+cols-1, k], one k a beat, rows beats a tile",
        }[self.array.dataflow]
        last = "" if self.output_stationary else "the last beat of the last tile of a reduction"
        fmt = self.column_operand
        if self.block_product is not None:
            lane = self.column_lanes
            beat += f", a lane for each column: {lane.words}"
            return StreamPort(name, "in", fmt, self.array.cols, lane.width, beat, last)
        return StreamPort(name, "in", fmt, self.array.cols, fmt.width, beat, last)

    @cached_property
    def output_port(self) -> StreamPort:
        """Output port of the accumulators."""
        beat = {
            "output_stationary": "C[m, n0..n0+cols-1], one m a beat, rows beats a tile",
            "weight_stationary": "C[m, n0..n0+cols-1], one m a beat",
            "input_stationary": "C[m0..m0+cols-1, n], one n a beat",
        }[self.array.dataflow]
        last = {
            "output_stationary": "the last row of a tile",
            "weight_stationary": "the last m, of the totals of the whole reduction",
            "input_stationary": "the last n, of the totals of the whole reduction",
        }[self.array.dataflow]
        fmt = self.result
        return StreamPort("out", "out", fmt, self.array.cols, fmt.lane_width, beat, last)

    @property
    def columns_per_beat(self) -> int:
        """Columns of C in a beat of results."""
        return 1 if self.input_stationary else self.array.cols

    @property
    def core_ports(self) -> tuple[StreamPort, ...]:
        """Stream ports of the array alone: the inputs by name, then the accumulators."""
        inputs = sorted((self.row_port, self.column_port), key=lambda port: port.name)
        return (*inputs, self.output_port)
