# SPDX-License-Identifier: Apache-2.0
"""The PE array: groups of columns, rows, and the edges that skew and drain.

Levels are modules: PE, group (columns that share a register of the row operand), row, array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.systolic import BUS_ROWS
from rtl_templates.hierarchy import Block, place
from rtl_templates.stream import DelayLines

from .pe import OutputStationaryPE, StationaryPE

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig

class Group(Block):
    """Columns that share the row signals.

    Parameters
    ----------
    pe : Block
        The processing element.
    columns : int
        Number of PEs.
    row : sequence of str
        Ports of the PE that all columns share; every other port is per column.
    """

    clocked = True

    def __init__(self, pe: Block, columns: int, row: Sequence[str]) -> None:
        members = pe.signature.members
        super().__init__(
            f"{pe.module_name.replace('pe', 'group', 1)}_x{columns}",
            {name: member if name in row else _repeat(member, columns)
             for name, member in members.items()},
        )
        self.pe, self.columns, self.row = pe, columns, row

    def build(self, m: Module) -> None:
        for column in range(self.columns):
            ports = {}
            for name, member in self.pe.signature.members.items():
                wire = Value.cast(getattr(self, name))
                ports[name] = wire if name in self.row else _lane(wire, column, self.columns)
            place(m, f"col_{column}", self.pe, **ports)


def _repeat(member: Any, columns: int) -> Any:
    return member.flow(_width(member) * columns)


def _width(member: Any) -> int:
    from amaranth.hdl import Shape

    return Shape.cast(member.shape).width


def _lane(wire: Value, index: int, lanes: int) -> Value:
    return wire.word_select(index, len(wire) // lanes)


class Row(Block):
    """A row of PEs: groups of columns with a register of the row signals between them.

    Parameters
    ----------
    config : SystolicConfig
    pe : Block
        The processing element.
    row : sequence of str
        Ports of the PE that the row drives.
    enabled : bool
        Whether the registers between groups advance only while `run` is high.
    flag_delay : dict
        Cycles by which a row signal is delayed before it reaches the PEs (those that act after
        the pipeline registers of the PE).

    Members
    -------
    Those of the PE; a per-column port holds all columns, `run` one bit a group unless `enabled`.
    """

    def __init__(
        self,
        config: SystolicConfig,
        pe: Block,
        row: Sequence[str],
        *,
        enabled: bool,
        flag_delay: dict[str, int],
    ) -> None:
        members: dict[str, Any] = {}
        for name, member in pe.signature.members.items():
            if name == "run":
                members[name] = In(1 if enabled else config.column_groups)
            else:
                members[name] = member if name in row else _repeat(member, config.array.cols)
        super().__init__(pe.module_name.replace("pe", "row", 1), members)
        self.config, self.pe, self.row = config, pe, row
        self.enabled, self.flag_delay = enabled, flag_delay

    def build(self, m: Module) -> None:
        cols, broadcast = self.config.array.cols, self.config.array.broadcast
        registers = []
        flags: dict[str, Value] = {}
        for name in self.row:
            flags[name] = Value.cast(getattr(self, name))
            for stage in range(self.flag_delay.get(name, 0)):
                register = Signal(flags[name].shape(), name=f"{name}_{stage}", reset_less=True)
                registers.append(register.eq(flags[name]))
                flags[name] = register
        for group, first in enumerate(range(0, cols, broadcast)):
            columns = min(broadcast, cols - first)
            block = Group(self.pe, columns, (*self.row, "run"))
            if group:
                for name in self.row:
                    register = Signal(
                        flags[name].shape(), name=f"{name}_g{group}", reset_less=True
                    )
                    registers.append(register.eq(flags[name]))
                    flags[name] = register
            ports: dict[str, Value] = {"run": self.run if self.enabled else self.run[group]}
            for name, member in self.pe.signature.members.items():
                if name in self.row:
                    ports[name] = flags[name]
                elif name != "run":
                    width = _width(member)
                    wire = Value.cast(getattr(self, name))
                    ports[name] = wire[first * width : (first + columns) * width]
            place(m, f"group_{group}", block, **ports)
        if self.enabled:
            with m.If(self.run):
                m.d.sync += registers
        else:
            m.d.sync += registers


class OutputStationaryArray(Block):
    """Array of `OutputStationaryPE` with skewed edges and a drain bus.

    Members
    -------
    run : In(1)
        Advance the wave of operands.
    x, y : In
        One K slice, zero in a cycle without a beat.
    clear, drain : In(1)
        Row 0 starts a new sum with this slice, and drains the old one; the other rows follow one
        cycle later each.
    out : Out
        One row of results, `latency` cycles after its row drained.

    Attributes
    ----------
    latency : int
        Cycles from a row's flags at its edge to its results at `out`.
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
        groups = config.column_groups
        x = _skew(m, "skew_x", config.row_operand.width, range(1, array.rows + 1), self.x, self.run)
        runs = _group_delays(m, self.run, groups, "run")
        y = _by_group(m, config, "skew_y", config.column_operand.width, self.y, lambda g: g)
        # Row r's flags, like its operands, are r + 1 cycles behind the slot that carries them.
        clear, drain = Signal(array.rows), Signal(array.rows)
        with m.If(self.run):
            m.d.sync += [
                clear.eq(Cat(self.clear, clear)),
                drain.eq(Cat(self.drain, drain)),
            ]
        block = Row(
            config,
            OutputStationaryPE(config),
            ("x", "clear", "drain"),
            enabled=False,
            flag_delay={"clear": config.pipeline.pe, "drain": config.pipeline.pe},
        )
        bus_width = array.cols * config.result.width
        collected = []
        bus: Value = Const(0, bus_width)
        for r in range(array.rows):
            y_out = Signal(len(y), name=f"y_{r}")
            bus_out = Signal(bus_width, name=f"bus_{r}")
            gate = self.run.replicate(config.row_operand.width)
            place(
                m,
                f"row_{r}",
                block,
                run=runs,
                x=x.word_select(r, config.row_operand.width) & gate,
                clear=clear[r] & self.run,
                drain=drain[r] & self.run,
                y=y,
                y_out=y_out,
                bus=bus,
                bus_out=bus_out,
            )
            y, bus = y_out, bus_out
            if (r + 1) % BUS_ROWS == 0 or r == array.rows - 1:
                collected.append(bus)
                bus = Const(0, bus_width)
        out = _registered_or(m, collected)
        m.d.comb += self.out.eq(
            _by_group(m, config, "skew_out", config.result.width, out, lambda g: groups - 1 - g)
        )


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


class StationaryArray(Block):
    """Array of `StationaryPE`: shadow loading from the top, partial sums to the bottom.

    Members
    -------
    run : In(1)
        Advance everything.
    x : In
        `rows` terms of the row operand, zero in a cycle without a beat.
    swap : In(1)
        Row 0 makes its shadow active for the beat that comes with it; rows follow.
    load : In(rows)
        Row r's shadow loads `y` (one hot).
    y : In
        One row of the stationary tile.
    out : Out
        Sums over the rows, `latency` cycles after the beat.
    """

    resettable = True

    def __init__(self, config: SystolicConfig) -> None:
        array = config.array
        self.psum = config.partial_sum(array.rows)
        super().__init__(
            "array",
            {
                "run": In(1),
                "x": In(array.rows * config.row_operand.width),
                "swap": In(1),
                "load": In(array.rows),
                "y": In(array.cols * config.column_operand.width),
                "out": Out(array.cols * self.psum.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        groups = config.column_groups
        # The tile must be active one cycle before the first operand that meets it, so operands
        # are one register further behind than the flag.
        x = _skew(m, "skew_x", config.row_operand.width, range(2, array.rows + 2), self.x, self.run)
        swap, load = Signal(array.rows), Signal(array.rows)
        y = Signal(len(self.y), name="y_edge", reset_less=True)
        with m.If(self.run):
            m.d.sync += [swap.eq(Cat(self.swap, swap)), load.eq(self.load), y.eq(self.y)]
        column: Value = _by_group(
            m, config, "skew_y", config.column_operand.width, y, lambda g: g, self.run
        )
        psum: Value = Const(0, array.cols * config.product.width)
        for r in range(array.rows):
            if r and r % BUS_ROWS == 0:
                # Long columns: the load runs ahead of nothing, so a register per segment is free.
                register = Signal(len(column), name=f"y_{r}", reset_less=True)
                ahead = Signal(array.rows - r, name=f"load_{r}")
                with m.If(self.run):
                    m.d.sync += [register.eq(column), ahead.eq(load[-(array.rows - r) :])]
                column, load = register, ahead
            pe = StationaryPE(config, r + 1)
            block = Row(config, pe, ("x", "swap", "load"), enabled=True, flag_delay={})
            below = Signal(array.cols * config.partial_sum(r + 1).width, name=f"psum_{r}")
            place(
                m,
                f"row_{r}",
                block,
                run=self.run,
                x=x.word_select(r, config.row_operand.width),
                swap=swap[r],
                load=load[r - (array.rows - len(load))],
                y=column,
                psum=psum,
                psum_out=below,
            )
            psum = below
        m.d.comb += self.out.eq(
            _by_group(
                m, config, "skew_out", self.psum.width, psum, lambda g: groups - 1 - g, self.run
            )
        )


def _skew(
    m: Module, name: str, width: int, delays: Sequence[int], value: Value, run: Value | None
) -> Value:
    """Delay lane i of `value` by ``delays[i]`` cycles, counted in cycles of `run` if given."""
    if not any(delays):
        return value
    out = Signal(len(value), name=f"{name}_out")
    lines = DelayLines(name, width, delays, enabled=run is not None)
    place(m, name, lines, i=value, o=out, **({} if run is None else {"run": run}))
    return out


def _by_group(
    m: Module,
    config: SystolicConfig,
    name: str,
    width: int,
    value: Value,
    delay: Any,
    run: Value | None = None,
) -> Value:
    """Delay the columns of `value` by ``delay(group)`` cycles."""
    array = config.array
    delays = [delay(c // array.broadcast) for c in range(array.cols)]
    return _skew(m, name, width, delays, value, run)


def _group_delays(m: Module, value: Value, groups: int, name: str) -> Value:
    """Return `groups` copies of a bit, copy g delayed by g cycles."""
    if groups == 1:
        return value
    line = Signal(groups - 1, name=f"{name}_line")
    m.d.sync += line.eq(Cat(value, line))
    return Cat(value, line)
