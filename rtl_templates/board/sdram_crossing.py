# SPDX-License-Identifier: Apache-2.0
"""The controller of an SDRAM at twice the clock of its port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hwgen.board.sdram import SDRAM_PORTS
from rtl_templates.axi.bus import axi4
from rtl_templates.board.sdram import SdramController, SdramParams

FAST = "fast"
"""Domain of the controller; each second edge of its clock is one of ``sync``."""

RATIO = 2
"""Cycles of the controller in a cycle of the port."""

_REQUESTS = {
    "aw": ("id", "addr", "len", "size", "burst"),
    "w": ("data", "strb", "last"),
    "ar": ("id", "addr", "len", "size", "burst"),
}
_ANSWERS = {"b": ("id", "resp"), "r": ("id", "data", "resp", "last")}
_STORED_BEATS = 4  # of which each channel stores so many, to go on in every cycle


class FastSdramController(wiring.Component):
    """A controller whose chip has twice the clock of the port: as many words go over its pins.

    The clocks have common edges.  A beat crosses in the last cycle of ``fast`` before an edge of
    ``sync``: both sides then see valid and ready, and move on at the same edge.  Paths between
    the clocks have a cycle of ``fast``: a FIFO of each channel cuts those of ``sync``.

    Parameters
    ----------
    params : SdramParams
        Its frequency is that of the chip.

    Attributes
    ----------
    bus, ready : as of `SdramController`, in the domain ``sync``
    cke, cs_n, ras_n, cas_n, we_n, ba, a, dqm, dq_o, dq_oe, dq_i : as there, in the domain ``fast``
        That domain must exist; its reset is made here.
    """

    def __init__(self, params: SdramParams) -> None:
        pins = {name: (In if name == "dq_i" else Out)(bits) for name, bits in SDRAM_PORTS.items()}
        super().__init__(
            {"bus": In(axi4(params.data_width, params.address_width)), "ready": Out(1), **pins}
        )
        self._params = params

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        controller = SdramController(self._params)
        m.submodules.controller = DomainRenamer(FAST)(controller)
        for name in SDRAM_PORTS:
            outer, inner = getattr(self, name), getattr(controller, name)
            m.d.comb += inner.eq(outer) if name == "dq_i" else outer.eq(inner)
        m.d.sync += self.ready.eq(controller.ready)
        last = self._last(m)
        for channel, names in _REQUESTS.items():
            outer, inner = self._ends(channel, names, controller.bus)
            fifo = self._fifo(m, channel, outer)
            m.d.comb += [
                outer[1].eq(fifo.w_rdy), fifo.w_en.eq(outer[0]), fifo.w_data.eq(outer[2]),
                inner[2].eq(fifo.r_data), inner[0].eq(fifo.r_rdy & last),
                fifo.r_en.eq(inner[1] & last),
            ]  # fmt: skip
        for channel, names in _ANSWERS.items():
            outer, inner = self._ends(channel, names, controller.bus)
            fifo = self._fifo(m, channel, outer)
            m.d.comb += [
                inner[1].eq(fifo.w_rdy & last), fifo.w_en.eq(inner[0] & last),
                fifo.w_data.eq(inner[2]),
                outer[2].eq(fifo.r_data), outer[0].eq(fifo.r_rdy), fifo.r_en.eq(outer[1]),
            ]  # fmt: skip
        return m

    def _last(self, m: Module) -> Signal:
        """Return whether a cycle of ``fast`` ends with an edge of ``sync``; reset that domain."""
        toggle, before, last = Signal(), Signal(), Signal()
        m.d.sync += toggle.eq(~toggle)
        m.d[FAST] += [before.eq(toggle), last.eq(toggle ^ before)]
        # A register, so that all registers of the domain begin at the same edge.
        reset = Signal(init=1, reset_less=True, name="fast_reset")
        m.d[FAST] += reset.eq(ResetSignal())
        m.d.comb += ResetSignal(FAST).eq(reset)
        return last

    def _ends(
        self, channel: str, names: tuple[str, ...], bus: Any
    ) -> tuple[tuple[Value, Value, Value], tuple[Value, Value, Value]]:
        """Return valid, ready and payload of a channel, outside and at the controller."""

        def end(side: Any) -> tuple[Value, Value, Value]:
            payload = Cat(getattr(side, f"{channel}{name}") for name in names)
            return getattr(side, f"{channel}valid"), getattr(side, f"{channel}ready"), payload

        return end(self.bus), end(bus)

    def _fifo(self, m: Module, channel: str, end: tuple[Value, Value, Value]) -> SyncFIFOBuffered:
        fifo = SyncFIFOBuffered(width=len(end[2]), depth=_STORED_BEATS)
        m.submodules[f"{channel}_beats"] = fifo
        return fifo
