# SPDX-License-Identifier: Apache-2.0
"""The PE array: tiles of PEs, and the edges that skew and drain.

Levels are modules: PE, row (of a tile), tile, array.  Each level handles few enough bits that the
largest array elaborates in seconds, and identical tiles are emitted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.families.systolic.params import psum_terms
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.integer.recode import recode
from rtl_templates.hdl.hierarchy import Block, place

from .edges import collect, column_skew, next_tile, row_skew
from .pe_table import OUTPUT_STATIONARY_PES, STATIONARY_PES
from .tile import PE, Tile, columns_of, tile_columns, tile_rows, widened

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig


class OutputStationaryArray(Block):
    """Array of `OutputStationaryPE` with skewed edges and a drain bus.

    Members
    -------
    run : In(1)
        Advance the wave of operands by one step.
    x, y : In
        One K slice, `x` zero in a step without a beat.
    clear, drain : In(1)
        Row 0 starts a new sum with this slice, and drains the old one; the other rows follow one
        step later each.
    on : In(1)
        With digits: there is a beat.
    out : Out
        One row of results, ``1 + config.bus_latency`` cycles after the step of its row.
    """

    resettable = True

    def __init__(self, config: SystolicConfig) -> None:
        array = config.array
        super().__init__(
            "array",
            {
                "run": In(1),
                "x": In(array.rows * config.row_port.lane_width),
                "y": In(array.cols * config.column_port.lane_width),
                "clear": In(1),
                "drain": In(1),
                **self.tokens(config),
                "out": Out(array.cols * config.accumulator_bits),
            },
        )
        self.config = config

    def tokens(self, config: SystolicConfig) -> dict[str, Member]:
        """Return the flags of a slot beside `clear` and `drain`."""
        return {"on": In(1)} if config.digits else {}

    def pe(self) -> PE:
        """Return the processing element."""
        return OUTPUT_STATIONARY_PES[self.config.array.pe](self.config)

    def columns(self, m: Module) -> Value:
        """Return the operands that enter the columns."""
        return self.y

    def edges(self, m: Module) -> dict[str, Value]:
        """Return the operands and flags that enter the rows.

        Row r's operands and flags are r steps of the wave behind row 0's.  They start from
        registers that are zero in the cycle after a frozen one: the accumulators then keep
        their values without an enable, and nothing stands between register and multiplier.
        """
        waves = {"x": row_skew(m, self.config.geometry, self.x, 0, self.run)}
        for name in ("clear", "drain"):
            waves[name] = self.wave(m, name)
        if self.config.digits:
            waves["x"] = self._recoded(m, waves["x"])
        return {
            name: self.masked(m, name, wave, reset_less=name == "x") for name, wave in waves.items()
        }

    def wave(self, m: Module, name: str) -> Value:
        """Return a flag of row 0 for all rows, a step later each."""
        flag: Value = getattr(self, name)
        chain = Signal(self.config.array.rows - 1, name=f"{name}_chain")
        with m.If(self.run):
            m.d.sync += chain.eq(Cat(flag, chain))
        return Cat(flag, chain)

    def masked(self, m: Module, name: str, wave: Value, *, reset_less: bool = False) -> Signal:
        """Return a wave behind a register that is zero in the cycle after a frozen one."""
        register = Signal(len(wave), name=f"{name}_edge", reset_less=reset_less)
        m.d.sync += register.eq(Mux(self.run, wave, 0))
        return register

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        groups, cols = config.column_groups, array.cols
        runs: Value = self.run
        if groups > 1:
            later_runs = Signal(groups - 1, name="run_line")
            m.d.sync += later_runs.eq(Cat(self.run, later_runs))
            runs = Cat(self.run, later_runs)
        y = column_skew(m, "skew_y", config.geometry, self.columns(m), lambda group: group)
        signals, pe = self.edges(m), self.pe()
        collected: list[Value] = []
        for t, (left, columns) in enumerate(tile_columns(config.geometry)):
            if t:
                signals = next_tile(m, config.geometry, signals, t, None)
            column = columns_of(y, left, columns, cols)
            group = left // array.broadcast
            feet: list[Value] = []
            for band, (top, rows) in enumerate(tile_rows(config.geometry)):
                tile = Tile(config, lambda _: pe, top, rows, columns)
                below = Signal(len(column), name=f"y_{band}_{t}")
                out = Signal(columns * config.accumulator_bits, name=f"out_{band}_{t}")
                place(
                    m,
                    f"tile_{band}_{t}",
                    tile,
                    run=runs[group : group + tile.rows[0].groups],
                    **rows_of(signals, top, rows, array.rows),
                    y=column,
                    y_out=below,
                    out=out,
                )
                column = below
                feet.append(out)
            collected.append(collect(m, feet, t))
        out = Cat(*collected)
        m.d.comb += self.out.eq(
            column_skew(m, "skew_out", config.geometry, out, lambda group: groups - 1 - group)
        )

    def _recoded(self, m: Module, x: Value) -> Value:
        """Return the digits of what enters the rows."""
        fmt, recoded = self.config.row_operand, []
        on = self.wave(m, "on")
        for row in range(self.config.array.rows):
            lane = Signal(shape_of(fmt), name=f"x_{row}")
            m.d.comb += lane.eq(x.word_select(row, fmt.width))
            encoding = self.config.array.encoding
            recoded.append(recode(m, f"recode_{row}", encoding, fmt, lane, on[row]).joined)
        return Cat(*recoded)


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
        row, column = self.operand_widths(config)
        super().__init__(
            "array",
            {
                "run": In(1),
                "x": In(array.rows * row),
                "swap": In(1),
                "load": In(array.rows),
                "y": In(array.cols * column),
                "out": Out(array.cols * config.psum_width(array.rows)),
            },
        )
        self.config = config

    def operand_widths(self, config: SystolicConfig) -> tuple[int, int]:
        """Return the bits of a row and of a column of what enters the array."""
        return config.row_operand.width, config.column_operand.width

    def pe_of_terms(self, terms: int) -> PE:
        """Return the PE with sums of so many terms."""
        return STATIONARY_PES[self.config.array.pe](self.config, self.config.partial_sum(terms))

    def moving(self, m: Module) -> Value:
        """Return the operands that enter the rows.

        The tile must be active one cycle before the first operand that meets it, so operands
        are one register further behind than the flag.
        """
        return row_skew(m, self.config.geometry, self.x, 2, self.run)

    def standing(self, m: Module) -> Value:
        """Return the operands that enter the columns."""
        return self.y

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        groups, cols = config.column_groups, array.cols
        x, standing = self.moving(m), self.standing(m)
        swap, load = Signal(array.rows, name="swap_rows"), Signal(array.rows, name="load_rows")
        edge = Signal(len(standing), name="y_edge", reset_less=True)
        with m.If(self.run):
            m.d.sync += [swap.eq(Cat(self.swap, swap)), edge.eq(standing)]
            # A row loads when its register of the column bus, one a band, has its data.
            for band, (top, rows) in enumerate(tile_rows(config.geometry)):
                rows_load: Value = self.load[top : top + rows]
                for stage in range(band):
                    register = Signal(rows, name=f"load_{band}_{stage}")
                    m.d.sync += register.eq(rows_load)
                    rows_load = register
                m.d.sync += load[top : top + rows].eq(rows_load)
        y = column_skew(m, "skew_y", config.geometry, edge, lambda group: group, self.run)
        signals: dict[str, Value] = {"x": x, "swap": swap, "load": load}

        def pe_of_row(row: int) -> PE:
            return self.pe_of_terms(psum_terms(row, array.rows))

        psums = []
        for t, (left, columns) in enumerate(tile_columns(config.geometry)):
            if t:
                signals = next_tile(m, config.geometry, signals, t, self.run)
            column = columns_of(y, left, columns, cols)
            psum: Value = Const(0, columns * config.psum_width(1))
            for band, (top, rows) in enumerate(tile_rows(config.geometry)):
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
                    **rows_of(signals, top, rows, array.rows),
                    y=column,
                    psum=widened(psum, tile.width("psum"), columns, signed=config.product.signed),
                    psum_out=below,
                )
                psum = below
            psums.append(psum)
        m.d.comb += self.out.eq(
            column_skew(
                m,
                "skew_out",
                config.geometry,
                Cat(*psums),
                lambda group: groups - 1 - group,
                self.run,
            )
        )


def rows_of(signals: dict[str, Value], top: int, rows: int, total: int) -> dict[str, Value]:
    """Return the row signals of a band of rows."""
    return {
        name: value[top * (len(value) // total) : (top + rows) * (len(value) // total)]
        for name, value in signals.items()
    }
