# SPDX-License-Identifier: Apache-2.0
"""The core of arrays whose columns share DSP blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields

from .core import Array, SpatialCore
from .packed_pe import PackedPE, WeightPacker, count_of, low_bits, packing_of
from .pe import Edge

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig


def shared(config: SpatialConfig) -> tuple[str, ...]:
    """Return the ports of PEs that all rows share: packed weights, and low bits of them."""
    return ("w", "low") if low_bits(config) else ("w",)


class PackedRow(Block):
    """A row of PEs with its edge.

    Members
    -------
    on, x : In
        As of `Edge`.
    w, low : In
        What all PEs of a group of columns take, a cycle later.
    clear : In(1)
        The beat is the first of a tile.
    total : Out
        What the accumulators of the row hold.
    """

    def __init__(self, config: SpatialConfig, pe: PackedPE) -> None:
        groups = packing_of(config).groups
        lanes, width = config.drain_lanes
        super().__init__(
            "row",
            {
                "on": In(1),
                "x": In(config.depth * config.activation.width),
                **{name: In(groups * pe.width(name)) for name in shared(config)},
                "clear": In(1),
                "total": Out(lanes * width),
            },
        )
        self.config, self.pe = config, pe

    def build(self, m: Module) -> None:
        config, pe = self.config, self.pe
        operand = Signal(self.width("x"))
        place(m, "edge", Edge(config), on=self.on, x=self.x, operand=operand)
        clear: Value = self.clear
        for stage in range(config.lead):
            register = Signal(name=f"clear_{stage}", reset_less=True)
            m.d.sync += register.eq(clear)
            clear = register
        totals = []
        for group in range(packing_of(config).groups):
            total = Signal(pe.width("total"), name=f"total_{group}")
            ports = {
                name: getattr(self, name).word_select(group, pe.width(name))
                for name in shared(config)
            }
            place(m, f"group_{group}", pe, x=operand, clear=clear, total=total, **ports)
            totals.append(total)
        m.d.comb += self.total.eq(Cat(*totals))


class PackedArray(Array):
    """The rows of PEs; the weights of a group of columns are packed once for all of them."""

    def rows(self, m: Module) -> Callable[[int, Value], None]:
        """See `Array`."""
        config, packing, pe = self.config, packing_of(self.config), PackedPE(self.config)
        packer, width = WeightPacker(config), config.weight.width
        edges = {
            name: Signal(packing.groups * pe.width(name), name=f"{name}_edge", reset_less=True)
            for name in shared(config)
        }
        ports = {"w": "factor", "low": "low"}
        for group in range(packing.groups):
            for term in range(config.depth):
                columns = range(group * packing.lanes, (group + 1) * packing.lanes)
                weights = Cat(*(self._weight(col, term, width) for col in columns))
                packed = {
                    name: Signal(packer.width(ports[name]), name=f"{ports[name]}_{group}_{term}")
                    for name in edges
                }
                connections = {ports[name]: value for name, value in packed.items()}
                place(m, f"packer_{group}_{term}", packer, w=weights, **connections)
                at = group * config.depth + term
                m.d.sync += [
                    edges[name].word_select(at, len(value)).eq(value)
                    for name, value in packed.items()
                ]
        row = PackedRow(config, pe)

        def place_row(r: int, total: Value) -> None:
            x = self.x.word_select(r, row.width("x"))
            place(m, f"row_{r}", row, on=self.on, clear=self.clear, x=x, total=total, **edges)

        return place_row

    def _weight(self, col: int, term: int, width: int) -> Value:
        """Return a weight of a beat, zero beyond the last column."""
        if col >= self.config.cols:
            return Const(0, width)
        return self.w.word_select(col * self.config.depth + term, width)


class PackedCore(SpatialCore):
    """Tile jobs of any K, by PEs of several columns."""

    def array(
        self, m: Module, fire: Value, starting: Value, x: Value, w: Value, leaving: dict[str, Value]
    ) -> None:
        """See `SpatialCore`."""
        place(
            m, "array", PackedArray(self.config), on=fire, clear=starting & fire, x=x, w=w,
            **leaving,
        )  # fmt: skip

    def results(
        self, m: Module, fire: Value, starting: Value, drain: Value, rows: Stream
    ) -> AnyStream:
        """Unpack packed sums, after a register that may stall."""
        config = self.config
        if not config.packed_sum:
            return rows
        drained = self.registered(m, rows)
        groups, width = config.drain_lanes
        block = SumUnpacker(config)
        sums = Cat(
            place(m, f"unpack_{group}", block, i=drained.payload.data.word_select(group, width)).o
            for group in range(groups)
        )
        payload = fields(data=sums[: config.cols * config.result.width], last=drained.payload.last)
        return Stream(payload, drained.valid, drained.ready)


class SumUnpacker(Block):
    """The sums of a group of columns.

    Members
    -------
    i : In
        The packed sum, and what each lane but the first has borrowed.
    o : Out
        The sums.
    """

    def __init__(self, config: SpatialConfig) -> None:
        lanes = packing_of(config).lanes
        super().__init__(
            "sum_unpacker", {"i": In(config.drain_lanes[1]), "o": Out(lanes * config.result.width)}
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, packing = self.config, packing_of(self.config)
        total, counts = self.i[: config.packed_sum], self.i[config.packed_sum :]
        width, count, results, below = config.result.width, count_of(config), [], None
        for lane, at in enumerate(packing.offsets):
            sum_of_lane: Value = total[at:]
            above = None
            if lane < packing.lanes - 1:
                above = counts.word_select(lane, count.width)
                sum_of_lane = Cat(total[at : at + packing.spacing], above)
                if count.signed:
                    above, sum_of_lane = above.as_signed(), sum_of_lane.as_signed()
            result = Signal(width, name=f"sum_{lane}")
            m.d.comb += result.eq(sum_of_lane if below is None else sum_of_lane - below)
            results.append(result)
            below = above
        m.d.comb += self.o.eq(Cat(*results))
