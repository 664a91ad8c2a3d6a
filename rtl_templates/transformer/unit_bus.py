# SPDX-License-Identifier: Apache-2.0
"""Access to the registers of the units, one at a time."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import CONTROL_ADDRESS_WIDTH
from rtl_templates.axi.bus import axi_lite
from rtl_templates.hdl.hierarchy import Block


class UnitBus(Block):
    """Writes and reads registers of units over AXI4-Lite.

    Parameters
    ----------
    units : int

    Members
    -------
    i : In(stream)
        Accesses: ``unit``, ``address``, ``write`` and ``data``.  The bus is ready when the access
        is answered.
    data : Out(32)
        The word that was read, when the access is answered.
    refused : Out(1)
        The answer is an error.
    U0, U1, ... : In(BusSignature)
        Registers of the units.
    """

    resettable = True

    def __init__(self, units: int) -> None:
        self.units = units
        access = {
            "unit": (max(2, units) - 1).bit_length(),
            "address": CONTROL_ADDRESS_WIDTH,
            "write": 1,
            "data": 32,
        }
        super().__init__(
            f"unit_bus_{units}",
            {
                "i": In(stream.Signature(data.StructLayout(access))),
                "data": Out(32),
                "refused": Out(1),
                **{f"U{i}": In(axi_lite(CONTROL_ADDRESS_WIDTH)) for i in range(units)},
            },
        )

    def build(self, m: Module) -> None:
        access, unit = self.i.payload, self.i.payload.unit
        buses = [getattr(self, f"U{i}") for i in range(self.units)]

        def selected(name: str) -> Signal:
            return Array(getattr(bus, name) for bus in buses)[unit]

        requests = {name: Signal(name=f"{name}_request") for name in ("aw", "w", "ar")}
        in_progress = Signal(name="in_progress")
        for i, bus in enumerate(buses):
            here = Signal(name=f"here_{i}")
            m.d.comb += here.eq(unit == i)
            for channel, request in requests.items():
                m.d.comb += getattr(bus, f"{channel}valid").eq(request & here)
            m.d.comb += [
                bus.awaddr.eq(access.address),
                bus.araddr.eq(access.address),
                bus.wdata.eq(access.data),
                bus.wstrb.eq(0xF),
                bus.bready.eq(1),
                bus.rready.eq(1),
            ]
        answer = Signal(name="answer")
        m.d.comb += answer.eq(
            in_progress
            & ((selected("bvalid") & access.write) | (selected("rvalid") & ~access.write))
        )
        with m.If(self.i.valid & ~in_progress & ~self.i.ready):
            m.d.sync += [
                in_progress.eq(1),
                requests["aw"].eq(access.write),
                requests["w"].eq(access.write),
                requests["ar"].eq(~access.write),
            ]
        for channel, request in requests.items():
            with m.If(request & selected(f"{channel}ready")):
                m.d.sync += request.eq(0)
        word, refused = Signal(32, reset_less=True), Signal(name="is_refused", reset_less=True)
        m.d.sync += self.i.ready.eq(answer)
        with m.If(answer):
            m.d.sync += [
                in_progress.eq(0),
                word.eq(selected("rdata")),
                refused.eq(
                    (selected("bresp")[1] & access.write) | (selected("rresp")[1] & ~access.write)
                ),
            ]
        m.d.comb += [self.data.eq(word), self.refused.eq(refused)]
