# SPDX-License-Identifier: Apache-2.0
"""Tiles of PEs: rows of PEs, one above the other, and how an array divides into tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.systolic.params import BUS_ROWS
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.drain import ColumnDrain

if TYPE_CHECKING:
    from hwgen.families.systolic.params import ArrayGeometry, SystolicConfig

PE = Any
"""A processing element: a `Block` with what `OutputStationaryPE` has as attributes."""

TILE_ROWS = BUS_ROWS
"""Rows of a tile; its foot drains them through one OR."""


class TileRow(Block):
    """A row of a tile; the row signals are registered after every `broadcast` columns.

    Parameters
    ----------
    config : SystolicConfig
    pe : Block
        The processing element.
    columns : int
        Number of PEs.

    Members
    -------
    Those of the PE: a row signal once, every other port for all columns.  `run` has one bit for
    each group of `broadcast` columns if the PE runs freely, else one.
    """

    def __init__(self, config: SystolicConfig, pe: PE, columns: int) -> None:
        self.groups = -(-columns // config.array.broadcast)
        members: dict[str, Any] = {}
        for name, member in pe.members.items():
            if name == "run":
                members[name] = In(self.groups if pe.free_running else 1)
            elif name in pe.row_signals:
                members[name] = member
            else:
                members[name] = member.flow(pe.width(name) * columns)
        super().__init__(f"{pe.module_name.replace('pe', 'row', 1)}_x{columns}", members)
        self.config, self.pe, self.columns = config, pe, columns

    def build(self, m: Module) -> None:
        broadcast, pe = self.config.array.broadcast, self.pe
        signals = {name: Value.cast(getattr(self, name)) for name in pe.row_signals}
        registers = []

        def register(name: str, suffix: str) -> None:
            stage = Signal(signals[name].shape(), name=f"{name}_{suffix}", reset_less=True)
            registers.append(stage.eq(signals[name]))
            signals[name] = stage

        for name, delay in pe.flag_delays.items():
            for stage in range(delay):
                register(name, f"stage_{stage}")
        for column in range(self.columns):
            if column and column % broadcast == 0:
                for name in pe.row_signals:
                    register(name, f"group_{column // broadcast}")
            ports = dict(signals)
            for name in pe.members:
                if name == "run":
                    ports[name] = self.run[column // broadcast if pe.free_running else 0]
                elif name not in pe.row_signals:
                    ports[name] = Value.cast(getattr(self, name)).word_select(
                        column, pe.width(name)
                    )
            place(m, f"col_{column}", pe, **ports)
        if pe.free_running:
            m.d.sync += registers
        else:
            with m.If(self.run):
                m.d.sync += registers


class Tile(Block):
    """Rows of PEs, one above the other.

    Parameters
    ----------
    config : SystolicConfig
    make_pe : callable
        Returns the PE of an array row.
    first, rows : int
        Rows of the array that the tile holds.
    columns : int
        Columns of the tile.

    Members
    -------
    Those of the row: a row signal for all rows, the input of a chain (from above) and its output
    (to below), what all rows share.  Accumulators stay inside: `drain` (one bit a row) puts those
    of a row on `out`.
    """

    def __init__(
        self,
        config: SystolicConfig,
        make_pe: Callable[[int], PE],
        first: int,
        rows: int,
        columns: int,
    ) -> None:
        pes = [make_pe(first + row) for row in range(rows)]
        self.rows = [TileRow(config, pe, columns) for pe in pes]
        kinds = {pe.module_name for pe in pes}
        members: dict[str, Any] = {}
        for name, member in self.rows[0].members.items():
            if name in pes[0].chains.values():  # leaves from the last row
                width = self.rows[-1].width(name)
            else:
                width = self.rows[0].width(name) * (rows if name in pes[0].row_signals else 1)
            members[name] = member.flow(width)
        if "total" in members:
            del members["total"]
            members["drain"] = In(rows)
            members["out"] = Out(columns * config.accumulator_bits)
        # Rows whose sums are equally wide make equal tiles, wherever they stand.
        kind = pes[0].module_name if len(kinds) == 1 else f"pe_from_{first}"
        super().__init__(f"{kind.replace('pe', 'tile', 1)}_{rows}x{columns}", members)
        self.config, self.pe, self.columns = config, pes[0], columns

    def build(self, m: Module) -> None:
        totals: list[Signal] = []
        chained = {name: Value.cast(getattr(self, name)) for name in self.pe.chains}
        for index, row in enumerate(self.rows):
            ports: dict[str, Value] = {}
            for name in row.members:
                if name in self.pe.row_signals:
                    ports[name] = Value.cast(getattr(self, name)).word_select(
                        index, row.width(name)
                    )
                elif name in self.pe.chains:
                    ports[name] = widened(
                        chained[name],
                        row.width(name),
                        self.columns,
                        signed=self.config.product.signed,
                    )
                elif name in self.pe.chains.values():
                    ports[name] = Signal(row.width(name), name=f"{name}_{index}")
                elif name == "total":
                    ports[name] = Signal(row.width(name), name=f"total_{index}")
                    totals.append(ports[name])
                else:
                    ports[name] = getattr(self, name)
            place(m, f"row_{index}", row, **ports)
            chained = {name: ports[out] for name, out in self.pe.chains.items()}
        for name, out in self.pe.chains.items():
            m.d.comb += getattr(self, out).eq(chained[name])
        if totals:
            self._drain(m, totals)

    def _drain(self, m: Module, totals: list[Signal]) -> None:
        width, rows = self.config.accumulator_bits, len(totals)
        drain: Value = self.drain
        foot = ColumnDrain(width, rows)
        outs = []
        delays = self.config.stages
        for column in range(self.columns):
            if column and column % self.config.array.broadcast == 0:
                delays += 1
            while delays:
                register = Signal(rows, name=f"drain_{column}_{delays}", reset_less=True)
                m.d.sync += register.eq(drain)
                drain, delays = register, delays - 1
            out = Signal(width, name=f"out_{column}")
            lanes = Cat(total.word_select(column, width) for total in totals)
            place(m, f"drain_{column}", foot, totals=lanes, drain=drain, out=out)
            outs.append(out)
        m.d.comb += self.out.eq(Cat(*outs))


def widened(value: Value, width: int, columns: int, *, signed: bool) -> Value:
    """Extend the lanes of `value`, partial sums, to `width` bits in all."""
    if len(value) == width:
        return value
    lanes = []
    for column in range(columns):
        lane = value.word_select(column, len(value) // columns)
        sign = lane[-1] if signed else Const(0, 1)
        signs = sign.replicate(width // columns - len(lane))
        lanes.append(Cat(lane, signs))
    return Cat(*lanes)


def tile_columns(geometry: ArrayGeometry) -> list[tuple[int, int]]:
    """Return the (first, count) of each column of tiles; each starts with a column group."""
    cols, size = geometry.cols, geometry.broadcast * geometry.groups_per_tile
    return [(first, min(size, cols - first)) for first in range(0, cols, size)]


def tile_rows(geometry: ArrayGeometry) -> list[tuple[int, int]]:
    """Return the (first, count) of each band of tiles."""
    rows = geometry.rows
    return [(first, min(TILE_ROWS, rows - first)) for first in range(0, rows, TILE_ROWS)]


def columns_of(value: Value, first: int, count: int, cols: int) -> Value:
    """Return `count` columns of a vector that holds `cols` of them."""
    width = len(value) // cols
    return value[first * width : (first + count) * width]
