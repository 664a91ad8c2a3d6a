# SPDX-License-Identifier: Apache-2.0
"""Amaranth's netlists, made in less time, are the same, and cycles in them are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amaranth.hdl import Module, Signal, _nir
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl import netlists
from rtl_templates.hdl.hierarchy import Block, emit_block


class _Built(Block):
    """A block of two inputs and a result, filled by a function."""

    def __init__(self, fill: Callable[[Module, Block], None]) -> None:
        super().__init__("built", {"a": In(4), "b": In(4), "y": Out(4)})
        self.fill = fill

    def build(self, m: Module) -> None:
        self.fill(m, self)


def _crossed(m: Module, block: Block) -> None:
    """Each half of a signal depends on the other half of another: between cells, not bits."""
    one, other = Signal(4), Signal(4)
    m.d.comb += [
        one[:2].eq(block.a[:2] & block.b[:2]),  # type: ignore[attr-defined]
        other[:2].eq(one[:2] + 1),
        one[2:].eq(other[:2] ^ block.a[2:]),  # type: ignore[attr-defined]
        other[2:].eq(one[2:]),
        block.y.eq(other),  # type: ignore[attr-defined]
    ]


def _cycle(m: Module, block: Block) -> None:
    one, other = Signal(4), Signal(4)
    m.d.comb += [one.eq(other + block.a), other.eq(~one)]  # type: ignore[attr-defined]
    m.d.comb += block.y.eq(one)  # type: ignore[attr-defined]


def _names(m: Module, block: Block) -> None:
    one, other = Signal(4), Signal(4)
    m.d.comb += [one.eq(other), other.eq(one), block.y.eq(one)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("fill", [_cycle, _names])
def test_a_combinational_cycle_is_refused(fill: Callable[[Module, Block], None]) -> None:
    with pytest.raises(_nir.CombinationalCycle):
        list(emit_block(_Built(fill), "p"))


def test_bits_that_depend_on_other_bits_are_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    usual = netlists._check_comb_cycles

    def check(netlist: _nir.Netlist) -> None:
        asked.append(netlist)
        usual(netlist)

    monkeypatch.setattr(netlists, "_check_comb_cycles", check)
    result = list(emit_block(_Built(_crossed), "p"))
    assert len(asked) == 1
    # The same text, made as Amaranth makes it.
    monkeypatch.setattr(_nir.Value, "__new__", _usual_value)
    monkeypatch.setattr(_nir.Netlist, "resolve_value", _usual_resolve)
    assert list(emit_block(_Built(_crossed), "p")) == result


def _usual_value(cls: type, nets: object = ()) -> object:
    some = (nets,) if isinstance(nets, _nir.Net) else nets
    return tuple.__new__(cls, (_nir.Net.ensure(net) for net in some))  # type: ignore[attr-defined]


def _usual_resolve(netlist: _nir.Netlist, value: _nir.Value) -> object:
    return _nir.Value(netlist.resolve_net(net) for net in value)


def test_a_cell_has_as_many_bits_as_amaranth_numbers() -> None:
    assert _nir.Net.from_cell(3, 5) == 3 << 16 | 5
    for cell, bit in ((1, 1 << 16), (-1, 0), (0, 1)):
        with pytest.raises(AssertionError):
            _nir.Net.from_cell(cell, bit)
