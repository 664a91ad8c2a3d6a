# SPDX-License-Identifier: Apache-2.0
"""Weight- and input-stationary arrays for operands in blocks, and their core.

A column of PEs holds the elements of a block, so its sum is complete, and exact, at the foot of the
array.  There it is multiplied by the scales: those of the moving operand come with the beat and
wait as long as its sum takes, those of the stationary one are put together while its tile loads,
and replace the ones before when the first sum of their pass is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.block.accumulators import (
    exponent_width,
    flagged,
    rounded_row,
    term_converter,
)
from rtl_templates.arithmetic.block.edge import shared_numbers
from rtl_templates.arithmetic.block.elements import ElementDecoder, ElementForm, ScaleDecoder
from rtl_templates.arithmetic.block.term import block_term, element_product
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.integer.accumulators import Accumulators
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.arithmetic.registry import term_total
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import DelayLines

from .array import StationaryArray
from .core import StationaryCore
from .edges import row_skew
from .pe import KeepingPE

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig
    from hwgen.formats.block.factors import Factor
    from hwgen.formats.block.products import BlockProduct


def element_width(product: BlockProduct, factor: Factor) -> int:
    """Return the bits of a decoded element, and of whether it is a NaN if it can be one."""
    return ElementForm(factor, product.splits).width + factor.has_nan


def decoded(m: Module, product: BlockProduct, factor: Factor, name: str, bits: Value) -> Value:
    """Return the decoded element of a code with the choice of the special number behind it."""
    form = ElementForm(factor, product.splits)
    element = Signal(form.width, name=f"{name}_element")
    ports: dict[str, Value] = {"i": bits[: factor.width], "o": element}
    if factor.special_width:
        ports["special"] = bits[factor.width :]
    if factor.has_nan:
        ports["nan"] = Signal(name=f"{name}_nan")
    place(m, f"decode_{name}", ElementDecoder(form), **ports)
    return Cat(element, ports["nan"]) if factor.has_nan else element


class BlockStationaryPE(KeepingPE):
    """A PE that keeps an element while exact sums of a block move down.

    Members
    -------
    x, y : In
        Decoded elements of the row and the column operand.
    psum, psum_out : In, Out
        Flags of the products so far, as `BlockProduct.flags_of_sum` counts them, and their sum.
    """

    def __init__(self, config: SystolicConfig, terms: int) -> None:
        product = config.block_product
        assert product is not None
        operands = (config.row_lanes.factor, config.column_lanes.factor)
        x, y = (element_width(product, factor) for factor in operands)
        super().__init__(config, x, y, config.psum_width(terms))
        self.product, self.format = product, product.sum_of(terms)

    def build(self, m: Module) -> None:
        product, config = self.product, self.config
        active, total = self.element(m)
        x, y = Value.cast(self.x), Value.cast(active)
        a, w = (y, x) if config.input_stationary else (x, y)
        forms = [ElementForm(f, product.splits) for f in (product.a, product.w)]
        widths = [form.width for form in forms]
        value, signals = element_product(m, product, forms, a[: widths[0]], w[: widths[1]], 0)
        nan = signals[0]
        for bits, width in zip((a, w), widths, strict=True):
            nan = nan | bits[width:].any()
        element = Signal(shape_of(product.sum_of(1)), name="product", reset_less=True)
        flags = Signal(product.flags_of_sum, name="flags", reset_less=True)
        both = [element.eq(value), flags.eq(flags_of(product, nan, signals[1:]))]
        with m.If(self.run):
            m.d.sync += total.eq(self._added(m, element, flags))
            if config.pipeline.pe:
                m.d.sync += both
        if not config.pipeline.pe:
            m.d.comb += both
        m.d.comb += self.psum_out.eq(total)

    def _added(self, m: Module, value: Signal, flags: Signal) -> Value:
        """Return the flags and the sum that leave the PE."""
        count, above = len(flags), Value.cast(self.psum)
        psum = above[count:].as_signed() if self.format.signed else above[count:]
        operands = [HeapOperand(psum), HeapOperand(value)]
        if self.product.splits:  # the rest of the two's complement
            operands.append(HeapOperand(value[-1]))
        total = sum_of(m, "sum", operands, self.format.width)
        return Cat(flags | above[:count], total) if count else total


def flags_of(product: BlockProduct, nan: Value, infinite: Value) -> Value:
    """Return the flags that there can be: NaN, and each infinity."""
    return Cat(
        *([nan] if product.has_nan_elements else []),
        *([infinite] if product.has_infinities else []),
    )


class BlockStationaryArray(StationaryArray):
    """Array of `BlockStationaryPE`; see `StationaryArray`.

    Members
    -------
    x, y : In
        Codes, each with the choice of the special number behind it.
    """

    def operand_widths(self, config: SystolicConfig) -> tuple[int, int]:
        """Return the bits of a row and of a column of what enters the array."""
        factors = config.row_lanes.factor, config.column_lanes.factor
        row, column = (factor.width + factor.special_width for factor in factors)
        return row, column

    def pe_of_terms(self, terms: int) -> BlockStationaryPE:
        """Return the PE with sums of so many terms."""
        return BlockStationaryPE(self.config, terms)

    def moving(self, m: Module) -> Value:
        """Return the operands of the rows: decoded behind the skew, before the last register."""
        config, product = self.config, self.config.block_product
        assert product is not None
        codes = row_skew(m, config.geometry, self.x, 1, self.run)
        width = len(codes) // config.array.rows
        rows = [
            decoded(m, product, config.row_lanes.factor, f"x_{row}",
                    codes[row * width : (row + 1) * width])
            for row in range(config.array.rows)
        ]  # fmt: skip
        edge = Signal(sum(map(len, rows)), name="x_edge", reset_less=True)
        with m.If(self.run):
            m.d.sync += edge.eq(Cat(*rows))
        return edge

    def standing(self, m: Module) -> Value:
        """Return the operands that enter the columns."""
        config, product = self.config, self.config.block_product
        assert product is not None
        width = len(self.y) // config.array.cols
        lanes = [
            decoded(m, product, config.column_lanes.factor, f"y_{col}",
                    self.y[col * width : (col + 1) * width])
            for col in range(config.array.cols)
        ]  # fmt: skip
        return Cat(*lanes)


class BlockFoot(Block):
    """Makes terms of the sums of a block; combinational but for scales on their way.

    Members
    -------
    run : In(1)
    load, swap : In(1)
        A slice of the stationary tile comes in; a pass begins.
    row, columns : In
        Scale of the beat; a part of the scale of each column.  There if the operand has one.
    psums, terms : In, Out
        Sums with their flags, and terms: as `accumulate_term` takes them.
    """

    resettable = True

    def __init__(self, config: SystolicConfig) -> None:
        product = config.block_product
        assert product is not None
        row, column = config.row_lanes, config.column_lanes
        cols = config.array.cols
        members = {"run": In(1), "psums": In(cols * config.psum_width(config.array.rows))}
        if row.scale_part:
            members["row"] = In(row.scale_part)
        if column.scale_part:
            members |= {"load": In(1), "swap": In(1), "columns": In(cols * column.scale_part)}
        members["terms"] = Out(cols * term_width(product))
        super().__init__("foot", members)
        self.config, self.product = config, product

    def build(self, m: Module) -> None:
        config, product = self.config, self.product
        row_side, column_side = "wa" if config.input_stationary else "aw"
        shared: dict[str, Value] = {}
        if "row" in self.members:
            lines = DelayLines(
                "wait_row", [(len(self.row), config.array_latency - 1)], enabled=True
            )
            row = Signal(len(self.row), name="row_scale")
            place(m, "wait_row", lines, i=self.row, o=row, run=self.run)
            shared |= self._decoded(m, row_side, config.row_lanes.factor, row, "row")
        columns = self._column_scales(m) if "columns" in self.members else []
        width, count = len(self.psums) // config.array.cols, product.flags_of_sum
        terms = []
        for col in range(config.array.cols):
            own = dict(shared)
            if columns:
                factor = config.column_lanes.factor
                own |= self._decoded(m, column_side, factor, columns[col], f"column_{col}")
            psum = self.psums.word_select(col, width)
            total = psum[count:].as_signed() if product.sum.signed else psum[count:]
            nan = psum[0] if product.has_nan_elements else Const(0, 1)
            infinite = (
                psum[product.has_nan_elements : count] if product.has_infinities else Const(0, 2)
            )
            term = block_term(m, product, own, 0, total, Cat(nan, infinite), f"{col}")
            terms.append(Cat(*term))
        term_bits = Cat(*terms)
        if config.pipeline.pe > 1:
            register = Signal(len(term_bits), name="scaled", reset_less=True)
            with m.If(self.run):
                m.d.sync += register.eq(term_bits)
            term_bits = register
        m.d.comb += self.terms.eq(self._converted(m, term_bits))

    def _decoded(
        self, m: Module, side: str, factor: Factor, bits: Value, name: str
    ) -> dict[str, Value]:
        """Return a scale, decoded, behind a register."""
        ((_, _, number, _),) = shared_numbers(factor)
        decoder = ScaleDecoder(number)
        ports = {
            part: Signal(decoder.width(part), name=f"{name}_{part}")
            for part in decoder.members
            if part != "i"
        }
        place(m, f"decode_{name}", decoder, i=bits[: number.scale.width], **ports)
        signals: dict[str, Value] = {}
        for part, signal in ports.items():
            register = Signal(len(signal), name=f"{name}_{part}_reg", reset_less=True)
            enable = self.run if name == "row" else self.run & self._begins
            with m.If(enable):
                m.d.sync += register.eq(signal)
            signals[f"{side}_{part}"] = register
        return signals

    def _column_scales(self, m: Module) -> list[Value]:
        """Return the scale of each column for the pass whose first sums come next.

        Slices wait so long that the scales of the next tile are not whole before those of this one
        are taken over: a pass takes as many slots as a tile has rows.
        """
        config, lanes = self.config, self.config.column_lanes
        behind = config.array_latency - config.array.rows
        tokens = Cat(self.load, self.swap, self.columns)
        later = Signal(len(tokens), name="slice")
        lines = DelayLines("wait_columns", [(len(tokens), behind)], enabled=True)
        place(m, "wait_columns", lines, i=tokens, o=later, run=self.run)
        load, swap, parts = later[0], later[1], later[2:]
        rest = config.array_latency - 1 - behind
        begins = Signal(rest, name="swap_line")
        with m.If(self.run):
            m.d.sync += begins.eq(Cat(swap, begins))
        self._begins = begins[-1]
        scales: list[Value] = []
        for col in range(config.array.cols):
            whole = Signal(lanes.beats * lanes.scale_part, name=f"parts_{col}", reset_less=True)
            part = parts.word_select(col, lanes.scale_part)
            pending = Signal(lanes.factor.scale_width, name=f"pending_{col}", reset_less=True)
            with m.If(self.run & load):
                m.d.sync += whole.eq(Cat(whole, part)[lanes.scale_part :])
            with m.If(self.run & swap):
                m.d.sync += pending.eq(whole)
            scales.append(pending)
        return scales

    def _converted(self, m: Module, terms: Value) -> Value:
        """Return terms as accumulators take them: for ``fp32`` rounded."""
        product = self.product
        if product.accumulator.method != "fp32":
            return terms
        converter, bits = term_converter(product), exponent_width(product)
        results = []
        cols = self.config.array.cols
        for col in range(cols):
            term = terms.word_select(col, len(terms) // cols)
            integer, rest = term[: product.term.width], term[product.term.width :]
            rounded = Signal(product.result.width, name=f"rounded_{col}")
            ports = {"exponent": rest[:bits]} if bits else {}
            place(
                m, f"convert_{col}", converter, i=integer, special=Const(0, 1), o=rounded, **ports
            )
            results.append(flagged(m, product, rounded, *rest[bits:]))
        return Cat(*results)


def term_width(product: BlockProduct) -> int:
    """Return the bits of a term as accumulators take it."""
    if product.accumulator.method == "fp32":
        return product.result.width
    return product.term.width + exponent_width(product) + 3


class BlockAccumulators(Accumulators):
    """Accumulates terms of blocks; see `Accumulators`."""

    def widths(self) -> tuple[int, int]:
        """Return the bits of a term, and of a total."""
        return term_width(self.config.block_product), self.config.accumulator_bits

    def added(self, m: Module, column: int, old: Value, psum: Value) -> Value:
        """Return the next total."""
        product: BlockProduct = self.config.block_product
        after = Signal(len(old), name=f"after_{column}")
        if product.accumulator.method == "fp32":
            place(m, f"add_{column}", FloatAdder(product.result), a=old, b=psum, o=after)
            return after
        bits, width = exponent_width(product), product.term.width
        step = term_total(product)
        ports = {"exponents": psum[width : width + bits]} if bits else {}
        place(
            m, f"add_{column}", step, old=old, integers=psum[:width], flags=psum[width + bits :],
            o=after, **ports,
        )  # fmt: skip
        return after


class BlockStationaryCore(StationaryCore):
    """Passes of any length, a block of the reduction each; see `StationaryCore`."""

    def partial_sums(
        self, m: Module, run: Value, swap: Value, load: Value, fire: Value, x: Value, y: Value
    ) -> Value:
        """Place the array and its foot; return terms."""
        config, product = self.config, self.config.block_product
        row, column, cols = config.row_lanes, config.column_lanes, config.array.cols
        elements = row.depth * row.factor.width
        special = x[elements + row.scale_part :]
        codes = [
            Cat(x.word_select(i, row.factor.width) if row.factor.width else Const(0, 0), special)
            for i in range(row.depth)
        ]
        lanes = [y.word_select(col, column.width) for col in range(cols)]
        chosen = column.factor.width, column.factor.width + column.scale_part
        psums = Signal(cols * config.psum_width(config.array.rows), name="psums")
        place(
            m, "array", BlockStationaryArray(config), run=run, x=Cat(*codes), swap=swap, load=load,
            y=Cat(*(Cat(lane[: chosen[0]], lane[chosen[1] :]) for lane in lanes)), out=psums,
        )  # fmt: skip
        ports: dict[str, Value] = {}
        if row.scale_part:
            ports["row"] = x[elements : elements + row.scale_part]
        if column.scale_part:
            parts = Cat(*(lane[chosen[0] : chosen[1]] for lane in lanes))
            ports |= {"load": named(m, "loads", load.any()), "swap": fire & swap, "columns": parts}
        terms = Signal(cols * term_width(product), name="terms")
        place(m, "foot", BlockFoot(config), run=run, psums=psums, terms=terms, **ports)
        return terms

    def accumulators(self) -> Accumulators:
        """Return the accumulators of terms."""
        config = self.config
        return BlockAccumulators(
            config, config.partial_sum(config.array.rows), config.array.cols,
            config.array.accumulator_depth, single_cycle_passes=config.array.rows == 1,
        )  # fmt: skip

    def round_totals(self, m: Module, totals: Value) -> Value:
        """Round exact totals."""
        if not self.config.rounds_at_end:
            return totals
        return rounded_row(m, self.config.block_product, totals, self.config.array.cols)
