# SPDX-License-Identifier: Apache-2.0
"""The registers of the units, one access at a time."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.bus import CONTROL_ADDRESS_WIDTH, axi_lite_signals
from rtl_templates.hdl.hierarchy import Block

LITE = axi_lite_signals(CONTROL_ADDRESS_WIDTH)
"""Signals of a unit's registers, as the unit sees them."""


class UnitBus(Block):
    """Writes and reads registers of units over AXI4-Lite.

    Parameters
    ----------
    units : int

    Members
    -------
    i_unit, i_address, i_write, i_data, i_valid : In
        An access; all hold until `done`.
    done : Out(1)
        It is answered: `o_data` is what was read, `refused` whether the answer is an error.
    Ui_awaddr, ... Ui_rready for each unit i
        Its registers.
    """

    resettable = True

    def __init__(self, units: int) -> None:
        self.units = units
        members: dict[str, Member] = {
            "i_unit": In(range(max(2, units))),
            "i_address": In(CONTROL_ADDRESS_WIDTH),
            "i_write": In(1),
            "i_data": In(32),
            "i_valid": In(1),
            "done": Out(1),
            "o_data": Out(32),
            "refused": Out(1),
        }
        for i in range(units):
            for name, way, bits in LITE:
                members[f"U{i}_{name}"] = Out(bits) if way == "in" else In(bits)
        super().__init__(f"unit_bus_{units}", members)

    def _of(self, name: str) -> Array:
        return Array(getattr(self, f"U{i}_{name}") for i in range(self.units))

    def build(self, m: Module) -> None:
        unit = self.i_unit
        asks = {name: Signal(name=f"{name}_asks") for name in ("aw", "w", "ar")}
        under_way = Signal(name="under_way")
        for i in range(self.units):
            here = Signal(name=f"here_{i}")
            m.d.comb += here.eq(unit == i)
            for channel, ask in asks.items():
                m.d.comb += getattr(self, f"U{i}_{channel}valid").eq(ask & here)
            for channel in ("aw", "ar"):
                m.d.comb += getattr(self, f"U{i}_{channel}addr").eq(self.i_address)
            m.d.comb += [
                getattr(self, f"U{i}_wdata").eq(self.i_data),
                getattr(self, f"U{i}_wstrb").eq(0xF),
                getattr(self, f"U{i}_bready").eq(1),
                getattr(self, f"U{i}_rready").eq(1),
            ]
        answer = Signal(name="answer")
        m.d.comb += answer.eq(
            under_way
            & (
                (self._of("bvalid")[unit] & self.i_write)
                | (self._of("rvalid")[unit] & ~self.i_write)
            )
        )
        with m.If(self.i_valid & ~under_way & ~self.done):
            m.d.sync += [
                under_way.eq(1),
                asks["aw"].eq(self.i_write),
                asks["w"].eq(self.i_write),
                asks["ar"].eq(~self.i_write),
            ]
        for channel, ask in asks.items():
            with m.If(ask & self._of(f"{channel}ready")[unit]):
                m.d.sync += ask.eq(0)
        data, refused = Signal(32, reset_less=True), Signal(name="is_refused", reset_less=True)
        m.d.sync += self.done.eq(answer)
        with m.If(answer):
            m.d.sync += [
                under_way.eq(0),
                data.eq(self._of("rdata")[unit]),
                refused.eq(
                    (self._of("bresp")[unit][1] & self.i_write)
                    | (self._of("rresp")[unit][1] & ~self.i_write)
                ),
            ]
        m.d.comb += [self.o_data.eq(data), self.refused.eq(refused)]
