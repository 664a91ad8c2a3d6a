# SPDX-License-Identifier: Apache-2.0
"""Edges and processing elements of systolic arrays for operands in blocks.

An edge decodes an element a slot.  The parts of a scale come with the elements of its block, so it
is whole with the last of them; from there on it goes with the elements, and stays on its way until
the next one is whole.  A PE sums the products of a block while they come, whatever the array waits
for, and by the time it needs the scales, at most as many slots have passed as the next block has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.block.edge import operand_members, registers_of, shared_numbers
from rtl_templates.arithmetic.block.elements import ElementDecoder, ElementForm, ScaleDecoder
from rtl_templates.arithmetic.block.pe import BlockPe
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig
    from hwgen.formats.block.lanes import BlockLanes


def bundle(config: SystolicConfig, lanes: BlockLanes) -> dict[str, int]:
    """Return the bits of what an edge gives, the lowest first; see `operand_members`."""
    product = config.block_product
    assert product is not None
    return {
        name: Shape.cast(member.shape).width
        for name, member in operand_members(product, lanes, Out).items()
    }


def parts_of(widths: Mapping[str, int], value: Value) -> dict[str, Value]:
    """Return the parts of a bundle."""
    parts, start = {}, 0
    for name, width in widths.items():
        parts[name] = value[start : start + width]
        start += width
    return parts


class BlockEdge(Block):
    """Decodes a row or a column, an element a slot.

    Members
    -------
    i : In
        The lane.
    o : Out
        A `bundle`: of this slot, or, behind registers, of the one before.
    run : In(1)
        Advance; there if the edge keeps anything, as are:
    on, first, ends : In(1)
        There is a beat; it is the first of a block, its last.
    """

    def __init__(
        self, config: SystolicConfig, lanes: BlockLanes, name: str, *, registered: bool
    ) -> None:
        product = config.block_product
        assert product is not None
        self.widths = bundle(config, lanes)
        self.sums = "sum" in self.widths
        self.keeps = self.sums or lanes.factor.scale is not None
        members = {"i": In(lanes.width), "o": Out(sum(self.widths.values()))}
        if self.keeps or registered:
            members["run"] = In(1)
        if self.keeps:
            members |= {"on": In(1), "ends": In(1)}
        if self.sums:
            members["first"] = In(1)
        super().__init__(f"edge_{name}", members)
        self.lanes, self.product, self.registered = lanes, product, registered
        self.form = ElementForm.of(lanes, product)

    def build(self, m: Module) -> None:
        lanes, factor = self.lanes, self.lanes.factor
        code, shared = self.i[: factor.width], self.i[factor.width :][: lanes.scale_part]
        signals: dict[str, Value] = {"elements": Signal(self.form.width, name="element")}
        ports: dict[str, Value] = {"i": code, "o": signals["elements"]}
        if factor.special_width:
            ports["special"] = self.i[factor.width + lanes.scale_part :]
        if factor.has_nan:
            signals["nans"] = ports["nan"] = Signal(name="nan")
        place(m, "decode", ElementDecoder(self.form), **ports)
        if self.registered:
            for name, value in signals.items():
                register = Signal(len(value), name=f"{name}_reg", reset_less=True)
                with m.If(self.run):
                    m.d.sync += register.eq(value)
                signals[name] = register
        of_block: dict[str, Value] = {}
        if factor.scale is not None:
            of_block |= self._scales(m, shared)
        if self.sums:
            of_block |= self._sums(m, ports["o"])
        for name, value in of_block.items():
            stored = Signal(len(value), name=f"{name}_reg", reset_less=True)
            whole = self.on & self.ends
            with m.If(self.run & whole):
                m.d.sync += stored.eq(value)
            signals[name] = stored if self.registered else Mux(whole, value, stored)
        m.d.comb += self.o.eq(Cat(*(signals[name] for name in self.widths)))

    def _scales(self, m: Module, part: Value) -> dict[str, Value]:
        """Return the numbers of a block, decoded, of which this slot has the last part."""
        lanes = self.lanes
        earlier = Signal((lanes.beats - 1) * lanes.scale_part, name="parts", reset_less=True)
        whole = Cat(earlier, part)
        with m.If(self.run & self.on):
            m.d.sync += earlier.eq(whole[lanes.scale_part :])
        decoded: dict[str, Value] = {}
        for kind, prefix, number, first in shared_numbers(lanes.factor):
            decoder = ScaleDecoder(number)
            ports = {
                name: Signal(decoder.width(name), name=f"{prefix}{name}")
                for name in decoder.members
                if name != "i"
            }
            own = whole[first : first + number.scale.width]
            place(m, f"decode_{kind}", decoder, i=own, **ports)
            decoded |= {f"{prefix}{name}": signal for name, signal in ports.items()}
        return decoded

    def _sums(self, m: Module, element: Value) -> dict[str, Value]:
        """Return the sum of a block's elements, this one included, and what is infinite."""
        offset = self.product.offset
        assert offset is not None
        number, _, infinite = self.form.parts(element)
        total = Signal(offset.sum.width, name="sum_so_far", reset_less=True)
        seen = Signal(2, name="infinite_so_far", reset_less=True)
        so_far = named(m, "so_far", Mux(self.first, 0, total))
        operands = [HeapOperand(number), HeapOperand(so_far)]
        added = sum_of(m, "heap", operands, offset.sum.width)
        signals = Cat(infinite & ~number[-1], infinite & number[-1])
        flags = named(m, "infinite", Mux(self.first, 0, seen) | signals)
        with m.If(self.run & self.on):
            m.d.sync += [total.eq(added), seen.eq(flags)]
        values = {"sum": added}
        return values | ({"sum_infinite": flags} if "sum_infinite" in self.widths else {})


class BlockOutputStationaryPE(Block):
    """A PE that keeps one element of C while blocks stream past; see `OutputStationaryPE`.

    Members
    -------
    x : In
        What the edge of the row gives.
    valid, clear : In(1)
        The slot ends a block; the block is the first of a tile.
    on, first : In(1)
        There is a beat; it is the first of a block; there if a block has several.
    run : In(1)
        Let the column operand move down.
    y, y_out : In, Out
        What the edge of the column gives, and its register.
    total : Out
        The accumulator.
    """

    chains: ClassVar = {"y": "y_out"}
    free_running = True

    def __init__(self, config: SystolicConfig) -> None:
        self.x_widths = bundle(config, config.row_lanes)
        self.y_widths = bundle(config, config.column_lanes)
        self.tokens: tuple[str, ...] = ("valid", "clear")
        # They act behind the registers of the product, and of the sum and the term.
        self.flag_delays = dict.fromkeys(self.tokens, config.stages)
        if config.lanes[0].beats > 1:
            self.tokens += ("on", "first")
            self.flag_delays |= dict.fromkeys(("on", "first"), registers_of(config)[0])
        self.row_signals = ("x", *self.tokens)
        y = sum(self.y_widths.values())
        super().__init__(
            "pe",
            {
                "x": In(sum(self.x_widths.values())),
                **{name: In(1) for name in self.tokens},
                "run": In(1),
                "y": In(y),
                "y_out": Out(y),
                "total": Out(config.accumulator_bits),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        y = Signal(len(self.y), name="y_reg", reset_less=True)
        with m.If(self.run):
            m.d.sync += y.eq(self.y)
        m.d.comb += self.y_out.eq(y)
        tokens: dict[str, Value] = {"on": Const(1, 1), "first": Const(1, 1)}
        tokens |= {name: getattr(self, name) for name in self.tokens}
        x_parts, y_parts = parts_of(self.x_widths, self.x), parts_of(self.y_widths, y)
        of_a, of_w = (x_parts, y_parts) if not self.config.input_stationary else (y_parts, x_parts)
        place(
            m, "product", BlockPe(self.config, "product"), total=self.total, **tokens,
            **{f"a_{name}": value for name, value in of_a.items()},
            **{f"w_{name}": value for name, value in of_w.items()},
        )  # fmt: skip
