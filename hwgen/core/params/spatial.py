# SPDX-License-Identifier: Apache-2.0
"""Arrays that compute a tile of C in place, all of them fed in the same cycle.

`cube`, `adder_tree` and `broadcast_2d` are one datapath: `rows` x `cols` PEs, each of which adds
`depth` products to its element of C in every cycle.  They differ in which sizes they have.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from hwgen.arithmetic.digits import Encoding, digit_count
from hwgen.arithmetic.sparse_digits import GROUP_TERMS, SerialSum
from hwgen.core.loop_nest import ACT_OF_BLOCKS, WGT_OF_BLOCKS, LoopNest
from hwgen.core.params import spatial_timing
from hwgen.core.params.base import Model, registers
from hwgen.core.params.block_operands import BlockOperands, block_product, is_plain
from hwgen.core.params.module_limits import DATA_BITS, input_bits
from hwgen.core.params.processing_elements import (
    BIT_SERIAL,
    CARRY_SAVE,
    FUSED,
    HYBRID,
    MAC,
    SAME_WEIGHT,
    SCALABLE,
    SERIAL_CARRY_SPACING,
    SERIAL_COLUMN,
    SERIAL_DIGIT,
    SERIAL_GROUP,
    Queue,
    carry_spacing_field,
    encoding_field,
    final_adder_field,
    pe_field,
    pe_table,
    queue_field,
    remove_missing_parameters,
)
from hwgen.core.params.product_packing import PackedProductConfig, ProductPacking, packing_field
from hwgen.core.params.tensor_cores import with_tensor_core
from hwgen.core.port import StreamPort
from hwgen.formats import IntegerFormat
from hwgen.formats.block.accumulator import TENSOR_CORES
from hwgen.formats.block.lanes import BlockLanes
from hwgen.formats.block.products import DEPTHS, MODE_BITS, ScalableProduct
from hwgen.formats.block.products import SCALABLE as PRODUCTS
from hwgen.formats.registry import block_format


def size_field(default: int, description: str, unit: str) -> Any:
    """Return the field of a size of the array."""
    return Field(default, ge=1, le=64, description=description, json_schema_extra={"unit": unit})


def cols_field(default: int) -> Any:
    """Return the field `cols` of an array."""
    return size_field(default, "Columns of PEs, which hold columns of C.", "PEs")


class Pipeline(Model):
    """Registers inside a processing element."""

    pe: int = registers(
        0,
        0,
        2,
        "Registers between operands and accumulator: 1 in front of the accumulator;"
        " 2, with several products a PE, also among them (`mac`: behind the multipliers, else"
        " behind the sums of four). Of blocks: 1 behind the multipliers, 2 also behind the scales;"
        " sums and terms of blocks have registers of their own.",
    )
    final_adder: int = final_adder_field()


def _same_weight_errors(config: SpatialConfig) -> list[str]:
    """Return why digits of the same weight cannot be summed apart."""
    if config.depth > 1:
        return []
    text = (
        "array.pe: same_weight sums digits of the same weight over the depth of the array,"
        " which is 1; use carry_save or mac"
    )
    return [text]


def _serial_errors(config: SpatialConfig) -> list[str]:
    """Return the requirements of PEs that take one digit at a time."""
    pe, depth = config.array.pe, config.depth
    errors = []
    if pe != "serial_group" and depth != GROUP_TERMS:
        errors.append(
            f"array.depth: must be {GROUP_TERMS} with array.pe {pe}, not {depth}: it adds one"
            f" digit a cycle, of {GROUP_TERMS} terms; use serial_group for more of them"
        )
    if pe == "serial_group" and (depth % GROUP_TERMS or depth == GROUP_TERMS):
        errors.append(
            f"array.depth: must be a multiple of {GROUP_TERMS} from {2 * GROUP_TERMS} on with"
            f" array.pe serial_group, not {depth}: it adds a digit of each {GROUP_TERMS} terms,"
            " at least two"
        )
    if config.array.carry_spacing > 2:
        errors.append(
            f"array.carry_spacing: must be 1 or 2 with array.pe {pe}, not"
            f" {config.array.carry_spacing}: carries are shifted by two columns with the sum"
        )
    if config.pipeline.pe == 2 and depth <= GROUP_TERMS:
        errors.append(
            f"pipeline.pe: must be 0 or 1 with array.pe {pe}, not 2: the second register stands"
            " behind the sum of several digits"
        )
    return errors


PES = pe_table(
    MAC,
    CARRY_SAVE,
    replace(SAME_WEIGHT, rules=(_same_weight_errors,)),
    replace(SERIAL_DIGIT, rules=(_serial_errors,)),
    replace(SERIAL_COLUMN, rules=(_serial_errors,)),
    replace(SERIAL_GROUP, rules=(_serial_errors,)),
    HYBRID,
    BIT_SERIAL,
    SCALABLE,
    FUSED,
)
"""Processing elements of the spatial families, with their requirements."""

SERIAL = tuple(pe.name for pe in PES.values() if pe.serial)
"""PEs that take one digit at a time."""

_PE_NAMES = tuple(PES)


class SpatialArray(Model):
    """An array of PEs; a family adds the sizes that it has."""

    pe: Literal[_PE_NAMES] = pe_field(PES)  # type: ignore[valid-type]
    encoding: Encoding = encoding_field()
    carry_spacing: int = carry_spacing_field()
    queue: Queue = queue_field()
    packing: ProductPacking = packing_field()

    @model_validator(mode="before")
    @classmethod
    def _space_carries_of_short_sums_closely(cls, data: Any) -> Any:
        if isinstance(data, dict) and (pe := PES.get(str(data.get("pe")))) and pe.serial:
            return {"carry_spacing": SERIAL_CARRY_SPACING, **data}
        return data

    @property
    def serial(self) -> bool:
        """Whether PEs take one digit at a time."""
        return PES[self.pe].serial

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """Rows, depth and columns."""


class SpatialConfig(PackedProductConfig):
    """An array that computes a tile of C in place, behind AXI4-Stream ports."""

    processing_elements = PES

    array: SpatialArray
    pipeline: Pipeline = Field(default_factory=Pipeline, description="Pipelining.")

    @model_validator(mode="before")
    @classmethod
    def _of_several_formats(cls, data: Any) -> Any:
        """Take the accumulator and the lanes that a datapath of several formats can have.

        Of a tensor core, take its processing element and its depth.
        """
        if isinstance(data, dict) and str(data.get("accumulator")) in TENSOR_CORES:
            return with_tensor_core(data, cls.model_fields)
        array = data.get("array") if isinstance(data, dict) else None
        if not isinstance(array, dict) or array.get("pe") != SCALABLE.name:
            return data
        sizes = getattr(cls.model_fields["array"].annotation, "model_fields", {})
        lanes = {"depth": DEPTHS[-1]} if "depth" in sizes else {}
        return {"accumulator": "fp32", **data, "array": {**lanes, **array}}

    def broken_rules(self) -> list[str]:
        """Return the rules between fields that are broken."""
        if not is_plain(self.activation, self.weight):
            return self._block_errors() + self._block_packing_errors()
        if not self.processing_element.integers:
            return self._pe_errors()
        if broken := self._accumulator_errors():
            return broken
        broken = super().broken_rules() + self._pe_errors() + self._packing_errors()
        if self.pipeline.pe == 2 and self.depth == 1:
            broken.append(
                "pipeline.pe: must be 0 or 1 with one product a PE, not 2: the second register"
                " stands among several products"
            )
        return broken

    def too_wide(self) -> list[str]:
        """Return an error for each exceeded limit on module widths."""
        broken = []
        bits = input_bits(self.ports)
        if self.block_product is not None:
            if bits > DATA_BITS:
                broken.append(
                    f"array: must be smaller: the input ports of a core have at most"
                    f" {DATA_BITS:,} bits together, not {bits:,}"
                )
            return broken
        if bits > DATA_BITS:
            rows, depth, cols = self.array.sizes
            a, w = self.activation, self.weight
            term = rows * a.width + cols * w.width
            most = depth - -(-(bits - DATA_BITS) // term)
            broken.append(
                f"array.depth: must be at most {most} with {rows} rows of {a} and {cols} columns of"
                f" {w}, not {depth}: the input ports of a core have at most {DATA_BITS:,} bits"
                f" together, not {bits:,}"
            )
        return broken

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that the PE has, as plain JSON values."""
        values = super().resolved()
        remove_missing_parameters(self.processing_element, values)
        if self.array.packing == "none":
            values["array"].pop("packing", None)
        return values

    # -- blocks ----------------------------------------------------------------------------

    @property
    def block_depth(self) -> int:
        """Products that are summed exactly at a time; without blocks, those of a term."""
        return self.depth * self._lane_products

    @property
    def _lane_products(self) -> int:
        """Products of a lane and cycle: several of short formats in a datapath of several."""
        return PRODUCTS.get(str(self.activation), 1) if self.processing_element.formats else 1

    @cached_property
    def scalable(self) -> ScalableProduct | None:
        """The arithmetic of a datapath of several formats, None of one of the operands' alone."""
        if not self.processing_element.formats:
            return None
        products = []
        for name, count in PRODUCTS.items():
            fmt = block_format(name)
            operands = BlockOperands(fmt, fmt, self.accumulator, self.depth * count)
            products.append(block_product(operands, self.max_k))
        return ScalableProduct(tuple(products), self.depth)

    @cached_property
    def formats(self) -> tuple[Any, ...]:
        """The same hardware with operands of each format that it takes, by number."""
        if self.scalable is None:
            return super().formats
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return tuple(
            type(self).model_validate({**values, "activation": name, "weight": name})
            for name in PRODUCTS
        )

    @cached_property
    def lanes(self) -> tuple[BlockLanes, BlockLanes]:
        """Layout of rows of A and columns of W in beats, of products of blocks."""
        if self.scalable is None:
            return super().lanes
        own = [
            BlockLanes(product.a, product.length, self.depth * count)
            for product, count in zip(self.scalable.products, self.scalable.counts, strict=True)
        ]
        mode = list(PRODUCTS).index(str(self.activation))
        whole = max(lanes.width for lanes in own) + MODE_BITS
        lanes = replace(own[mode], mode=mode, mode_bits=MODE_BITS, whole=whole)
        return lanes, lanes

    @property
    def depth_field(self) -> str:
        """The parameter that says how many they are, empty if none does."""
        return "array.depth" if "depth" in type(self.array).model_fields else ""

    # -- geometry --------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Rows of PEs."""
        return self.array.sizes[0]

    @property
    def lane_count(self) -> int:
        """Multipliers of a PE."""
        return self.depth

    @property
    def depth(self) -> int:
        """Products that a PE adds at a time."""
        return self.array.sizes[1]

    @property
    def cols(self) -> int:
        """Columns of PEs."""
        return self.array.sizes[2]

    @property
    def digit_operands(self) -> tuple[IntegerFormat, IntegerFormat, int]:
        """Format of digits, format of the factors that they multiply, and products at a time."""
        return self.activation, self.weight, self.depth

    @cached_property
    def serial(self) -> SerialSum | None:
        """Sum that the PEs accumulate one digit at a time, or None if they do not."""
        if not self.array.serial:
            return None
        lanes = self.depth // GROUP_TERMS
        return SerialSum(self.weight, lanes, self.result.width, self.array.carry_spacing)

    @property
    def ignores_no_weights(self) -> bool:
        """Whether codes that are no ternary weights are taken as 0: where weights select."""
        return self.array.pe == MAC.name and self.packing is None

    @property
    def passes(self) -> int:
        """Number of times that the beats of a tile are streamed: once a digit that PEs take."""
        return digit_count(self.activation) if self.array.serial else 1

    @property
    def slots(self) -> int:
        """Cycles in which a beat is multiplied: one for each term of elements of W."""
        return self.block_product.terms if self.block_product is not None else 1

    @property
    def scale_cycles(self) -> int:
        """Cycles in which a PE `bit_serial` multiplies a sum by its scale, bit by bit.

        They are there if the scale is an integer and a block lasts as long; else a multiplier is.
        """
        product = self.block_product
        if product is None or not product.serial or not product.integer_scale:
            return 0
        cycles = product.integer_scale + 1
        return cycles if self.lanes[0].beats * self.slots >= cycles else 0

    @property
    def drain_lanes(self) -> tuple[int, int]:
        """Lanes of a row of accumulators on its way out, and bits of each."""
        if self.packing is None or self.packed_sum is None:
            return self.cols, self.accumulator_bits
        count = self.packing.count(self.max_k, self.result.width)
        return self.packing.groups, self.packed_sum + (self.packing.lanes - 1) * count.width

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle; of serial PEs with no more than a digit a group."""
        macs = self.rows * self.block_depth * self.cols
        return macs / self.passes if self.array.serial else macs / self.slots

    @property
    def natural_sizes(self) -> tuple[int, int, int]:
        """M, K and N that fill the array once, with whole blocks if there are blocks."""
        if self.block_product is None:
            return self.array.sizes
        return self.rows, max(self.block_depth, self.block_product.length), self.cols

    @property
    def lead(self) -> int:
        """Cycles from a beat's slot to the accumulators: the edge's register and the PE's."""
        if self.block_product is not None:
            return int(spatial_timing.block_lead(self.pipeline.pe)) + self.scale_cycles
        return int(spatial_timing.lead(self.pipeline.pe))

    @property
    def output_registers(self) -> int:
        """Registers with a handshake from where rows leave to the port, its buffer included."""
        adder = self.pipeline.final_adder
        if self.block_product is not None:
            return int(spatial_timing.output_registers(self.block_product.rounds_at_end, 0))
        resolved = self.digits is not None or self.packed_sum is not None
        return int(spatial_timing.output_registers(resolved, adder))

    @property
    def core_latency(self) -> int:
        """Cycles from the last input beat of a reduction to its first beat of accumulators."""
        pipeline = self.pipeline
        digits = self.digits is not None or self.packed_sum is not None
        if self.block_product is not None:
            return 2 + self.lead + self.output_registers
        if self.array.serial:
            return int(spatial_timing.serial_latency(pipeline.pe))
        return int(spatial_timing.core_latency(pipeline.pe, digits, pipeline.final_adder))

    @property
    def block_loop_nest(self) -> LoopNest | str:
        """The loops in which the array goes through a block, or why it cannot."""
        if self.array.serial:
            return (
                f"array.pe: {self.array.pe} takes a tile once for each digit, but a memory engine"
                " gives it once; use mac, carry_save or same_weight"
            )
        nest = LoopNest(
            m_lanes=self.rows,
            k_lanes=self.depth,
            n_lanes=self.cols,
            act=(("row_tiles", "act_row"), ("column_tiles", "nothing"), ("k_tiles", "beat")),
            wgt=(("row_tiles", "nothing"), ("column_tiles", "beat"), ("weight_rows", "weight_row")),
            out=(
                ("row_tiles", "result_tile"),
                ("column_tiles", "beat"),
                ("tile_rows", "result_row"),
            ),
            weight_rows=1,
            weight_terms=self.depth,
        )
        if self.block_product is None:
            return nest
        return self._nest_of_blocks(replace(nest, act=ACT_OF_BLOCKS, wgt=WGT_OF_BLOCKS))

    # -- ports -----------------------------------------------------------------------------

    @cached_property
    def core_ports(self) -> tuple[StreamPort, ...]:
        """Stream ports of the array alone: the inputs by name, then the accumulators."""
        rows, depth, cols = self.array.sizes
        a, w, c = self.activation, self.weight, self.result
        terms = f"k0..k0+{self.block_depth - 1}" if self.block_depth > 1 else "k"
        m = f"m0..m0+{rows - 1}" if rows > 1 else "m"
        n = f"n0..n0+{cols - 1}" if cols > 1 else "n"
        end = (
            "the end of a pass over the reduction"
            if self.array.serial
            else "the end of the reduction"
        )
        if self.block_product is not None:
            return self._block_ports(m, terms, n, end)
        return (
            StreamPort(
                "act", "in", a, rows * depth, a.width,
                f"A[{m}, {terms}], the terms of a row together", end,
            ),
            StreamPort(
                "wgt", "in", w, depth * cols, w.width,
                f"W[{terms}, {n}], the terms of a column together",
            ),
            StreamPort(
                "out", "out", c, cols, c.lane_width,
                f"C[m, {n}], one m a beat, {rows} beats a tile", "the end of a tile",
            ),
        )  # fmt: skip

    def _block_ports(self, m: str, terms: str, n: str, end: str) -> tuple[StreamPort, ...]:
        """Return the ports of products of blocks: a lane of an input is a row or a column."""
        (x, y), rows, cols, c = self.lanes, self.rows, self.cols, self.result
        return (
            StreamPort(
                "act", "in", self.activation, rows, x.width,
                f"A[{m}, {terms}], a lane for each row: {x.words}", end,
            ),
            StreamPort(
                "wgt", "in", self.weight, cols, y.width,
                f"W[{terms}, {n}], a lane for each column: {y.words}",
            ),
            StreamPort(
                "out", "out", c, cols, c.lane_width,
                f"C[m, {n}], one m a beat, {rows} beats a tile", "the end of a tile",
            ),
        )  # fmt: skip
