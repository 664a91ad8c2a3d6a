# SPDX-License-Identifier: Apache-2.0
"""Processing elements of several columns, whose products share DSP blocks.

`hwgen.arithmetic.product_packing` says how products lie in the packed one, and why they, or sums of
them, can be told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.hdl.hierarchy import Block

from .sums import Addend, accumulated

if TYPE_CHECKING:
    from hwgen.arithmetic.product_packing import PackedProducts
    from hwgen.core.params.spatial import SpatialConfig
    from hwgen.formats import IntegerFormat


def low_bits(config: SpatialConfig) -> int:
    """Return the low bits of products that are made beside the DSP block."""
    packing = packing_of(config)
    return packing.step.width if config.packed_sum else packing.low_bits


def count_of(config: SpatialConfig) -> IntegerFormat:
    """Return the format of counts of what packed sums have borrowed."""
    return packing_of(config).count(config.max_k, config.result.width)


def packing_of(config: SpatialConfig) -> PackedProducts:
    """Return the packing of products."""
    assert config.packing is not None
    return config.packing


def low_product(a: Value, b: Value) -> Value:
    """Return the low bits of a product, by logic: a multiplier could become a DSP block."""
    width = len(a)
    rows: list[Value] = [
        Cat(Const(0, bit), Mux(b[bit], a[: width - bit], 0)) if bit else Mux(b[0], a, 0)
        for bit in range(width)
    ]
    while len(rows) > 1:
        pairs = [(x + y)[:width] for x, y in zip(rows[::2], rows[1::2], strict=False)]
        rows = pairs + rows[len(rows) & ~1 :]
    return rows[0]


class WeightPacker(Block):
    """The weights of a term and of neighbouring columns as one factor; all rows share it.

    Members
    -------
    w : In
        The weights.
    factor : Out
        Their sum, each `spacing` bits above the one before.
    low : Out
        Low bits of all but the first, of which low bits of products are made.
    """

    def __init__(self, config: SpatialConfig) -> None:
        packing = packing_of(config)
        members = {
            "w": In(packing.lanes * config.weight.width),
            "factor": Out(packing.factor.width),
        }
        if low := (packing.lanes - 1) * low_bits(config):
            members["low"] = Out(low)
        super().__init__("packer", members)
        self.config = config

    def build(self, m: Module) -> None:
        config, packing, known = self.config, packing_of(self.config), low_bits(self.config)
        weights = []
        for lane in range(packing.lanes):
            w = Signal(shape_of(config.weight), name=f"w_{lane}")
            m.d.comb += w.eq(self.w.word_select(lane, len(w)))
            weights.append(w)
        factor: Value = weights[0]
        for w, at in zip(weights[1:], packing.offsets[1:], strict=True):
            # What is below stays; a negative number below borrows.
            below = Signal(factor.shape(), name=f"below_{at}")
            m.d.comb += below.eq(factor)
            extended = Signal(at, name=f"field_{at}")
            m.d.comb += extended.eq(below)
            upper = w + (below >> at)
            joined = Cat(extended, upper)
            factor = joined.as_signed() if upper.shape().signed else joined
        m.d.comb += self.factor.eq(factor)
        if known:
            low = []
            for lane, w in enumerate(weights[1:], 1):
                bits = Signal(known, name=f"low_{lane}")
                m.d.comb += bits.eq(w)
                low.append(bits)
            m.d.comb += self.low.eq(Cat(*low))


class PackedPE(Block):
    """Elements of C in neighbouring columns: adds the products of a beat in every cycle.

    Members
    -------
    x : In
        The terms of a row of A.
    w, low : In
        The terms of columns of W, as of `WeightPacker`, one behind the other.
    clear : In(1)
        Start new sums with the products of ``pipeline.pe`` cycles before.
    total : Out
        The accumulators of the columns; or the packed sum, and counts of what each lane but the
        first has borrowed.
    """

    def __init__(self, config: SpatialConfig) -> None:
        packing, depth = packing_of(config), config.depth
        width = packing.lanes * config.result.width
        if config.packed_sum:
            width = config.drain_lanes[1]
        members = {
            "x": In(depth * config.activation.width),
            "w": In(depth * packing.factor.width),
            "clear": In(1),
            "total": Out(width),
        }
        if low := (packing.lanes - 1) * low_bits(config):
            members["low"] = In(depth * low)
        super().__init__("pe", members)
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        products = [self._product(m, term) for term in range(config.depth)]
        if config.packed_sum:
            m.d.comb += self.total.eq(self._packed_sums(m, *products[0]))
            return
        lanes = [self._apart(m, term, *result) for term, result in enumerate(products)]
        packing = packing_of(config)
        totals = [
            accumulated(m, config, [of_term[lane] for of_term in lanes], self.clear, f"_{lane}")
            for lane in range(packing.lanes)
        ]
        m.d.comb += self.total.eq(Cat(*totals))

    def _product(self, m: Module, term: int) -> tuple[Signal, list[Signal]]:
        """Return a packed product, and the low bits of those of the upper lanes."""
        config, packing, known = self.config, packing_of(self.config), low_bits(self.config)
        registers = config.pipeline.pe
        # Packed sums have one register between multiplier and adder, others two.
        domain = m.d.sync if registers > (not config.packed_sum) else m.d.comb
        x = Signal(shape_of(config.activation), name=f"x_{term}")
        w = Signal(shape_of(packing.factor), name=f"w_{term}")
        product = Signal(shape_of(packing.product), name=f"product_{term}", reset_less=True)
        m.d.comb += [
            x.eq(self.x.word_select(term, len(x))),
            w.eq(self.w.word_select(term, len(w))),
        ]
        domain += product.eq(x * w)
        low: list[Signal] = []
        if not known:
            return product, low
        x_low = Signal(known, name=f"x_low_{term}")
        m.d.comb += x_low.eq(x)
        for lane in range(packing.lanes - 1):
            bits = Signal(known, name=f"low_{term}_{lane + 1}", reset_less=True)
            factor = self.low.word_select(term * (packing.lanes - 1) + lane, known)
            domain += bits.eq(low_product(x_low, factor))
            low.append(bits)
        return product, low

    def _apart(self, m: Module, term: int, product: Signal, low: list[Signal]) -> list[Addend]:
        """Return the products of the lanes, and what is to be added to each."""
        packing = packing_of(self.config)
        result: list[Addend] = []
        borrowed: Value | None = None
        negative = min(least for least, _ in packing.borrowed) < 0
        for lane, at in enumerate(packing.offsets):
            correction = borrowed if packing.exact else None
            if lane == packing.lanes - 1:
                upper = product[at:]
                top = upper.as_signed() if packing.product.signed else upper
                return [*result, (top, correction)]
            field: Value = product[at : at + packing.spacing]
            if low:
                above = product[at + packing.spacing :][: len(low[lane])]
                borrowed = Signal(len(low[lane]), name=f"borrowed_{term}_{lane + 1}")
                m.d.comb += borrowed.eq(above ^ low[lane] if len(above) == 1 else above - low[lane])
                field = Cat(field, borrowed)
                field = field.as_signed() if negative else field
            result.append((field, correction))
        return result

    def _packed_sums(self, m: Module, product: Signal, low: list[Signal]) -> Value:
        """Add up packed products, and count what each lane has borrowed from those below.

        The low bits of a lane's field before and after an addition, less those of its product, are
        what it has borrowed; this is known a cycle after the sum, and added at once.
        """
        config, packing, known = self.config, packing_of(self.config), low_bits(self.config)
        total = Signal(signed(config.packed_sum), name="total_reg", reset_less=True)
        m.d.sync += total.eq(Mux(self.clear, 0, total) + product)
        counts: list[Value] = []
        for lane, at in enumerate(packing.offsets[1:], 1):
            before, added = (
                Signal(known, name=f"{name}_{lane}", reset_less=True)
                for name in ("before", "added")
            )
            step = Signal(shape_of(packing.step), name=f"step_{lane}")
            count = Signal(shape_of(count_of(config)), name=f"count_{lane}")
            stored = Signal.like(count, name=f"count_{lane}_reg", reset_less=True)
            m.d.sync += added.eq(low[lane - 1])
            with m.If(self.clear):  # what the next product is added to
                m.d.sync += [before.eq(0), stored.eq(0)]
            with m.Else():
                m.d.sync += [before.eq(total[at : at + known]), stored.eq(count)]
            m.d.comb += [step.eq(total[at : at + known] - before - added), count.eq(stored + step)]
            counts.append(count)
        return Cat(total, *counts)
