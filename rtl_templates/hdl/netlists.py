# SPDX-License-Identifier: Apache-2.0
"""Amaranth's netlists, made in less time: the same nets and the same text.

Amaranth looks at the type of each net whenever nets are put together, and follows each bit of
each cell to find combinational cycles.  Both took a third of the time to emit a core.

What Amaranth makes a netlist with refers to itself, and the garbage collector took an eighth
more to find that out, net by net: `released` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import _ir as ir
from amaranth.hdl import _nir as nir

_CELL_BITS = 1 << 16

_MOST_NAMES = 1000
"""Signals in a row of which each is just the next; of more Amaranth finds out how they end."""

_ALL_INPUTS = (
    nir.Operator, nir.Part, nir.Matches, nir.PriorityMatch, nir.AssignmentList, nir.AsyncReadPort,
)  # fmt: skip
"""Cells whose outputs may depend on any of their inputs at once."""

_NO_INPUTS = (nir.Top, nir.Instance, nir.Memory, nir.SyncReadPort, nir.SyncWritePort)
"""Cells whose outputs, if there are any, depend on no input at once."""

_emitters: ContextVar[list[Any] | None] = ContextVar("emitters", default=None)
"""What netlists and their text are made with while they are made; see `released`."""

_check_comb_cycles = nir.Netlist.check_comb_cycles


def _value(cls: Any, nets: Any = ()) -> Any:
    """Make a value of nets, which whoever calls has made as nets."""
    if isinstance(nets, nir.Net):
        nets = (nets,)
    return tuple.__new__(cls, nets)


def _from_cell(cls: Any, cell: int, bit: int) -> Any:
    """Return the net of a bit of a cell, within Amaranth's limits."""
    assert 0 <= bit < _CELL_BITS
    assert cell > 0 or (cell == 0 and bit >= 2)
    return int.__new__(cls, cell << 16 | bit)


def _resolve_value(netlist: Any, value: Any) -> Any:
    """Return the nets that a value is connected to."""
    if not value or min(value) >= 0:  # none is connected later
        return value
    connections, nets = netlist.connections, []
    for net in value:
        while net < 0:
            net = connections[net]
        nets.append(net)
    return tuple.__new__(type(value), nets)


def _check(netlist: Any) -> None:
    """Refuse combinational cycles; without any between whole cells there is none of nets."""
    inputs = _inputs(netlist)
    if inputs is None or not _orderly(inputs):
        _check_comb_cycles(netlist)


def _inputs(netlist: Any) -> list[set[int]] | None:
    """Return the cells that each cell depends on combinationally, None if that is not known."""
    connections, driver = netlist.connections, {}
    for late in connections:
        net, steps = late, 0
        while net < 0:
            net, steps = connections.get(net), steps + 1
            if net is None or steps > _MOST_NAMES:
                return None
        driver[late] = net >> 16
    result = []
    for cell in netlist.cells:
        nets = _sources(cell)
        if nets is None:
            return None
        cells = {driver.get(net, -1) if net < 0 else net >> 16 for net in nets}
        if -1 in cells:
            return None
        result.append(cells)
    return result


def _orderly(inputs: list[set[int]]) -> bool:
    """Whether no cell depends on itself."""
    todo = list(range(len(inputs)))
    begun, done = bytearray(len(inputs)), bytearray(len(inputs))
    while todo:
        cell = todo[-1]
        if begun[cell]:
            done[todo.pop()] = 1
            continue
        begun[cell] = 1
        for source in inputs[cell]:
            if not begun[source]:
                todo.append(source)
            elif not done[source]:
                return False
    return True


def _sources(cell: Any) -> Iterable[int] | None:
    """Return the nets that outputs of a cell depend on at once, None if that is not known."""
    if isinstance(cell, _ALL_INPUTS):
        return cell.input_nets()
    if isinstance(cell, nir.FlipFlop):
        return (cell.clk, cell.arst)
    return () if isinstance(cell, _NO_INPUTS) else None


@contextmanager
def released() -> Iterator[None]:
    """Let go of all of the netlists that are made within, at the end."""
    made: list[Any] = []
    token = _emitters.set(made)
    try:
        yield
    finally:
        _emitters.reset(token)
        for emitter in made:
            vars(emitter.netlist).clear()
        for emitter in made:
            vars(emitter).clear()


def _noted(emitter: type) -> None:
    """Let instances of a class that emits a netlist be known to `released`."""
    usual = emitter.__init__  # type: ignore[misc]

    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        usual(self, *arguments, **options)
        if (made := _emitters.get()) is not None:
            made.append(self)

    emitter.__init__ = begin  # type: ignore[misc]


def quicken() -> None:
    """Let Amaranth make netlists in less time, from now on."""
    _noted(ir.NetlistEmitter)
    _noted(rtlil.ModuleEmitter)
    nir.Value.__new__ = _value
    nir.Net.from_cell = classmethod(_from_cell)
    nir.Netlist.resolve_value = _resolve_value
    nir.Netlist.check_comb_cycles = _check
