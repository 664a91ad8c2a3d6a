# SPDX-License-Identifier: Apache-2.0
"""The PE array: tiles of PEs, and the edges that skew and drain.

Levels are modules: PE, row (of a tile), tile, array.  Each level handles few enough bits that the
largest array elaborates in seconds, and identical tiles are emitted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.systolic import BUS_ROWS
from rtl_templates.hierarchy import Block, place
from rtl_templates.stream import DelayLines

from .pe import Drain, OutputStationaryPE, StationaryPE

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig

PE = OutputStationaryPE | StationaryPE

TILE_ROWS = BUS_ROWS
"""Rows of a tile; its foot drains them through one OR."""

TILE_COLUMNS = 16
"""Columns of a tile, where column groups allow."""


class Row(Block):
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
        self.rows = [Row(config, pe, columns) for pe in pes]
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
            members["out"] = Out(columns * config.result.width)
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
                    ports[name] = _widened(
                        chained[name], row.width(name), self.columns, self.config
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
        width, rows = self.config.result.width, len(totals)
        drain: Value = self.drain
        foot = Drain(width, rows)
        outs = []
        delays = self.config.pipeline.pe
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


def _groups_per_tile(config: SystolicConfig) -> int:
    return max(1, TILE_COLUMNS // config.array.broadcast)


def _tile_columns(config: SystolicConfig) -> list[tuple[int, int]]:
    """Return the (first, count) of each column of tiles; each starts with a column group."""
    cols = config.array.cols
    size = config.array.broadcast * _groups_per_tile(config)
    return [(first, min(size, cols - first)) for first in range(0, cols, size)]


def _tile_rows(config: SystolicConfig) -> list[tuple[int, int]]:
    rows = config.array.rows
    return [(first, min(TILE_ROWS, rows - first)) for first in range(0, rows, TILE_ROWS)]


def _columns_of(value: Value, first: int, count: int, cols: int) -> Value:
    width = len(value) // cols
    return value[first * width : (first + count) * width]


class OutputStationaryArray(Block):
    """Array of `OutputStationaryPE` with skewed edges and a drain bus.

    Members
    -------
    run : In(1)
        Advance the wave of operands.
    x, y : In
        One K slice, `x` zero in a cycle without a beat.
    clear, drain : In(1)
        Row 0 starts a new sum with this slice, and drains the old one; the other rows follow one
        cycle later each.
    out : Out
        One row of results, ``config.drain_latency`` cycles after its row drained.
    """

    resettable = True

    def __init__(self, config: SystolicConfig) -> None:
        array = config.array
        super().__init__(
            "array",
            {
                "run": In(1),
                "x": In(array.rows * config.row_operand.width),
                "y": In(array.cols * config.column_operand.width),
                "clear": In(1),
                "drain": In(1),
                "out": Out(array.cols * config.result.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        groups, cols = config.column_groups, array.cols
        x = _row_skew(m, config, self.x, 1, self.run)
        runs: Value = self.run
        if groups > 1:
            line = Signal(groups - 1, name="run_line")
            m.d.sync += line.eq(Cat(self.run, line))
            runs = Cat(self.run, line)
        y = _column_skew(m, "skew_y", config, self.y, lambda group: group)
        # Row r's flags, like its operands, are r + 1 cycles behind the slot that carries them.
        clear, drain = Signal(array.rows, name="clear_rows"), Signal(array.rows, name="drain_rows")
        with m.If(self.run):
            m.d.sync += [clear.eq(Cat(self.clear, clear)), drain.eq(Cat(self.drain, drain))]
        # Frozen, a row sees a zero operand and no flag: its accumulators keep their values
        # without an enable.
        signals: dict[str, Value] = {
            "x": Mux(self.run, x, 0),
            "clear": Mux(self.run, clear, 0),
            "drain": Mux(self.run, drain, 0),
        }
        pe = OutputStationaryPE(config)
        collected: list[list[Value]] = [[] for _ in _tile_rows(config)]
        for t, (left, columns) in enumerate(_tile_columns(config)):
            if t:
                signals = _next_tile(m, config, signals, t, None)
            column = _columns_of(y, left, columns, cols)
            group = left // array.broadcast
            for band, (top, rows) in enumerate(_tile_rows(config)):
                tile = Tile(config, lambda _: pe, top, rows, columns)
                below = Signal(len(column), name=f"y_{band}_{t}")
                out = Signal(columns * config.result.width, name=f"out_{band}_{t}")
                place(
                    m,
                    f"tile_{band}_{t}",
                    tile,
                    run=runs[group : group + tile.rows[0].groups],
                    **_rows_of(signals, top, rows, array.rows),
                    y=column,
                    y_out=below,
                    out=out,
                )
                column = below
                collected[band].append(out)
        out = _registered_or(m, [Cat(*parts) for parts in collected])
        m.d.comb += self.out.eq(
            _column_skew(m, "skew_out", config, out, lambda group: groups - 1 - group)
        )


class StationaryArray(Block):
    """Array of `StationaryPE`: shadow loading from the top, partial sums to the bottom.

    Members
    -------
    run : In(1)
        Advance everything.
    x : In
        `rows` terms of the row operand.
    swap : In(1)
        Row 0 makes its shadow active for the beat that comes with it; rows follow.
    load : In(rows)
        Row r's shadow loads `y` (one hot).
    y : In
        One row of the stationary tile.
    out : Out
        Sums over the rows, ``config.psum_latency`` cycles after the beat.
    """

    resettable = True

    def __init__(self, config: SystolicConfig) -> None:
        array = config.array
        super().__init__(
            "array",
            {
                "run": In(1),
                "x": In(array.rows * config.row_operand.width),
                "swap": In(1),
                "load": In(array.rows),
                "y": In(array.cols * config.column_operand.width),
                "out": Out(array.cols * config.partial_sum(array.rows).width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        groups, cols = config.column_groups, array.cols
        # The tile must be active one cycle before the first operand that meets it, so operands
        # are one register further behind than the flag.
        x = _row_skew(m, config, self.x, 2, self.run)
        swap, load = Signal(array.rows, name="swap_rows"), Signal(array.rows, name="load_rows")
        edge = Signal(len(self.y), name="y_edge", reset_less=True)
        with m.If(self.run):
            m.d.sync += [swap.eq(Cat(self.swap, swap)), edge.eq(self.y)]
            # A row loads when its register of the column bus, one a band, has its data.
            for band, (top, rows) in enumerate(_tile_rows(config)):
                rows_load: Value = self.load[top : top + rows]
                for stage in range(band):
                    register = Signal(rows, name=f"load_{band}_{stage}")
                    m.d.sync += register.eq(rows_load)
                    rows_load = register
                m.d.sync += load[top : top + rows].eq(rows_load)
        y = _column_skew(m, "skew_y", config, edge, lambda group: group, self.run)
        signals: dict[str, Value] = {"x": x, "swap": swap, "load": load}

        def pe_of_row(row: int) -> StationaryPE:
            # Exact widths in the first band, where they grow quickly; then those of the last row
            # of the band, so that its rows and often whole tiles are equal.
            terms = row + 1 if row < TILE_ROWS else min(-(-(row + 1) // TILE_ROWS) * TILE_ROWS,
                                                        array.rows)  # fmt: skip
            return StationaryPE(config, config.partial_sum(terms))

        psums = []
        for t, (left, columns) in enumerate(_tile_columns(config)):
            if t:
                signals = _next_tile(m, config, signals, t, self.run)
            column = _columns_of(y, left, columns, cols)
            psum: Value = Const(0, columns * config.product.width)
            for band, (top, rows) in enumerate(_tile_rows(config)):
                if band:
                    register = Signal(len(column), name=f"y_{band}_{t}", reset_less=True)
                    with m.If(self.run):
                        m.d.sync += register.eq(column)
                    column = register
                tile = Tile(config, pe_of_row, top, rows, columns)
                below = Signal(tile.width("psum_out"), name=f"psum_{band}_{t}")
                place(
                    m,
                    f"tile_{band}_{t}",
                    tile,
                    run=self.run,
                    **_rows_of(signals, top, rows, array.rows),
                    y=column,
                    psum=_widened(psum, tile.width("psum"), columns, config),
                    psum_out=below,
                )
                psum = below
            psums.append(psum)
        m.d.comb += self.out.eq(
            _column_skew(
                m, "skew_out", config, Cat(*psums), lambda group: groups - 1 - group, self.run
            )
        )


def _widened(value: Value, width: int, columns: int, config: SystolicConfig) -> Value:
    """Extend the lanes of `value`, partial sums, to `width` bits in all."""
    if len(value) == width:
        return value
    lanes = []
    for column in range(columns):
        lane = value.word_select(column, len(value) // columns)
        sign = lane[-1] if config.product.signed else Const(0, 1)
        signs = sign.replicate(width // columns - len(lane))
        lanes.append(Cat(lane, signs))
    return Cat(*lanes)


def _rows_of(signals: dict[str, Value], top: int, rows: int, total: int) -> dict[str, Value]:
    """Return the row signals of a band of rows."""
    return {
        name: value[top * (len(value) // total) : (top + rows) * (len(value) // total)]
        for name, value in signals.items()
    }


def _next_tile(
    m: Module, config: SystolicConfig, signals: dict[str, Value], index: int, run: Value | None
) -> dict[str, Value]:
    """Return the row signals behind a whole tile: one register a column group."""
    groups = _groups_per_tile(config)
    result: dict[str, Value] = {}
    for name, value in signals.items():
        block = DelayLines(f"pass_{name}", [(len(value), groups)], enabled=run is not None)
        result[name] = _delayed(m, f"pass_{name}_{index}", block, value, run)
    return result


def _registered_or(m: Module, values: Sequence[Value]) -> Value:
    """Return the OR of `values`, registered before it if there are several."""
    if len(values) == 1:
        return values[0]
    total: Value = Const(0, len(values[0]))
    for i, value in enumerate(values):
        register = Signal(len(value), name=f"segment_{i}", reset_less=True)
        m.d.sync += register.eq(value)
        total = total | register
    return total


def _delayed(m: Module, name: str, lines: DelayLines, value: Value, run: Value | None) -> Value:
    out = Signal(len(value), name=f"{name}_o")
    place(m, name, lines, i=value, o=out, **({} if run is None else {"run": run}))
    return out


def _row_skew(m: Module, config: SystolicConfig, value: Value, first: int, run: Value) -> Value:
    """Delay lane r of `value` by ``first + r`` cycles of `run`.

    A band of rows is one triangle of registers behind a number of equal delay blocks, so that the
    modules stay few and small however many rows there are.
    """
    width = config.row_operand.width
    bands = []
    for band, (top, rows) in enumerate(_tile_rows(config)):
        lanes: Value = value[top * width : (top + rows) * width]
        block = DelayLines(f"delay_x{rows}", [(rows * width, TILE_ROWS)], enabled=True)
        for stage in range(band):
            lanes = _delayed(m, f"delay_x_{band}_{stage}", block, lanes, run)
        triangle = DelayLines(
            f"skew_x{rows}", [(width, first + row) for row in range(rows)], enabled=True
        )
        bands.append(_delayed(m, f"skew_x_{band}", triangle, lanes, run))
    return Cat(*bands)


def _column_skew(
    m: Module,
    name: str,
    config: SystolicConfig,
    value: Value,
    delay: Callable[[int], int],
    run: Value | None = None,
) -> Value:
    """Delay the columns of `value` by ``delay(group)`` cycles."""
    array = config.array
    if config.column_groups == 1:
        return value
    width = len(value) // array.cols
    lanes = [
        (width * min(array.broadcast, array.cols - group * array.broadcast), delay(group))
        for group in range(config.column_groups)
    ]
    lines = DelayLines(name, lanes, enabled=run is not None)
    return _delayed(m, name, lines, value, run)
