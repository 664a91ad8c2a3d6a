# SPDX-License-Identifier: Apache-2.0
"""The complete design of a board or chip: pins, reset, serial port, bridge, and the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.model import LINKS, Link
from hwgen.board.pll import Pll
from hwgen.board.sdram import SDRAM_PORTS, sdram_ports
from hwgen.core.port import StreamPort
from rtl_templates.board.bridge import Bridge, BridgeParams
from rtl_templates.board.datagrams import DatagramPort
from rtl_templates.board.pll import instance
from rtl_templates.board.spi import SpiPort
from rtl_templates.board.uart import Rate, Receiver, Transmitter

POWER_UP_CYCLES = 255
"""Cycles of the reset after power-up."""


@dataclass(frozen=True)
class TopParams:
    """Parameters of the design of a board.

    Parameters
    ----------
    bridge : BridgeParams
    clock_hz : int
        Frequency of the oscillator.
    divider : int
        Cycles of the oscillator in a cycle of the design: 1, or an even number.
    baud : int
        Bits a second, where the port itself knows them.
    led_low, button_low : bool or None
        Whether the light is lit, and the button pressed, at 0; None: there is none.
    link : {"uart", "spi", "udp"}
        The port to the host.
    power_up : bool
        Whether configuration gives registers a value; else the button alone resets the design.
    pll : Pll or None
        Makes the clock from that of the oscillator; `clock_hz` is that at its output then.
    sdram : bool
        Whether what is instantiated is a `rtl_templates.board.memory_system.MemorySystem`, not a
        core with streams.
    ratio : int
        Cycles of the SDRAM in a cycle of the design.
    ethernet : (str, int) or None
        Module of the Ethernet core, and its UDP port, where the link is one.
    """

    bridge: BridgeParams
    clock_hz: int
    divider: int
    baud: int
    led_low: bool | None
    button_low: bool | None
    link: Link = "uart"
    power_up: bool = True
    pll: Pll | None = None
    sdram: bool = False
    ratio: int = 1
    ethernet: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        if not self.power_up and (self.button_low is None or self.divider != 1):
            raise ValueError("without values at power-up a reset is needed, and no divided clock")
        if self.sdram and self.divider != 1:
            raise ValueError("the clock of an SDRAM is not divided")
        if (self.link == "udp") != (self.ethernet is not None):
            raise ValueError("a link by datagrams needs an Ethernet core, and no other does")


class BoardTop(wiring.Component):
    """The top module.

    Parameters
    ----------
    core : str
        Module of the core, or of the memory system, which is instantiated.
    ports : sequence of StreamPort
        Ports of the core; a memory system has none.
    params : TopParams

    Attributes
    ----------
    clk, rx, tx, cs, sck, mosi, miso, rxc, rx_ctl, ..., rst_n, led, button : Signal
        Pins: those of the link, `led` and `button` where the board has them.
    sdram_cke, sdram_cs_n, ..., sdram_dq_o, sdram_dq_oe, sdram_dq_i, sdram_clock : Signal
        Of a memory system: pins of the SDRAM, and the clock whose inverse it gets.
    sdram_double : Signal
        The clock of an SDRAM that has twice that of the design.
    """

    def __init__(self, core: str, ports: Sequence[StreamPort], params: TopParams) -> None:
        members: dict[str, Any] = {"clk": In(1)}
        for name, direction in LINKS[params.link].items():
            members[name] = In(1) if direction == "in" else Out(1)
        if params.led_low is not None:
            members["led"] = Out(1)
        if params.button_low is not None:
            members["button"] = In(1)
        if params.sdram:
            members["sdram_clock"] = Out(1)
            if params.ratio > 1:
                members["sdram_double"] = Out(1)
            for name, bits in sdram_ports(params.ratio).items():
                members[f"sdram_{name}"] = (In if name == "dq_i" else Out)(bits)
        super().__init__(members)
        self._core, self._ports, self._params = core, ports, params

    @property
    def pins(self) -> list[Signal]:
        """The ports of the top module."""
        return [getattr(self, name) for name in self.signature.members]

    def elaborate(self, platform: Any) -> Module:
        m, params = Module(), self._params
        self._clocks(m)
        m.submodules.bridge = bridge = Bridge(params.bridge)
        if params.link == "uart":
            self._uart(m, bridge)
        elif params.ethernet is not None:
            self._udp(m, bridge, *params.ethernet)
        else:
            self._spi(m, bridge)
        if params.led_low is not None:
            m.d.comb += self.led.eq(~bridge.connected if params.led_low else bridge.connected)
        m.submodules.core = (self._system if params.sdram else self._instance)(m, bridge)
        return m

    def _uart(self, m: Module, bridge: Bridge) -> None:
        """Add the serial port of a receiver and a transmitter."""
        rate = Rate(self._params.clock_hz // self._params.divider, self._params.baud)
        m.submodules.receiver = receiver = Receiver(rate)
        m.submodules.transmitter = transmitter = Transmitter(rate)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            bridge.rx_data.eq(receiver.data),
            bridge.rx_valid.eq(receiver.valid),
            bridge.rx_error.eq(receiver.error),
            transmitter.data.eq(bridge.tx_data),
            transmitter.valid.eq(bridge.tx_valid),
            bridge.tx_ready.eq(transmitter.ready),
        ]

    def _spi(self, m: Module, bridge: Bridge) -> None:
        """Add the port that the host clocks."""
        m.submodules.spi = port = SpiPort()
        m.d.comb += [
            port.cs.eq(self.cs),
            port.sck.eq(self.sck),
            port.mosi.eq(self.mosi),
            self.miso.eq(port.miso),
            bridge.rx_data.eq(port.data),
            bridge.rx_valid.eq(port.valid),
            bridge.rx_error.eq(port.error),
            port.tx_data.eq(bridge.tx_data),
            port.tx_valid.eq(bridge.tx_valid),
            bridge.tx_ready.eq(port.tx_ready),
        ]

    def _udp(self, m: Module, bridge: Bridge, module: str, number: int) -> None:
        """Add the Ethernet core, and the port of its datagrams."""
        m.submodules.datagrams = port = DatagramPort(number)
        received = Cat(getattr(self, f"rxd{bit}") for bit in range(4))
        sent = Cat(getattr(self, f"txd{bit}") for bit in range(4))
        m.submodules.ethernet = Instance(
            module, i_clk=ClockSignal(), i_rst=ResetSignal(),
            i_clock_rx=self.rxc, i_pad_rx_ctl=self.rx_ctl, i_pad_rx_data=received,
            o_clock_tx=self.txc, o_pad_tx_ctl=self.tx_ctl, o_pad_tx_data=sent,
            o_pad_rst_n=self.rst_n,
            o_source_valid=port.source_valid, o_source_last=port.source_last,
            i_source_ready=port.source_ready, o_source_payload_data=port.source_data,
            o_source_payload_last_be=port.source_last_be, o_source_payload_error=port.source_error,
            o_source_param_ip_address=port.source_ip, o_source_param_src_port=port.source_port,
            o_source_param_length=port.source_length,
            i_sink_valid=port.sink_valid, i_sink_last=port.sink_last, i_sink_first=0,
            o_sink_ready=port.sink_ready, i_sink_payload_data=port.sink_data,
            i_sink_payload_last_be=port.sink_last_be, i_sink_payload_error=Const(0, 4),
            i_sink_param_ip_address=port.sink_ip, i_sink_param_dst_port=port.sink_port,
            i_sink_param_src_port=port.sink_source_port, i_sink_param_length=port.sink_length,
        )  # fmt: skip
        m.d.comb += [
            bridge.rx_data.eq(port.data),
            bridge.rx_valid.eq(port.valid),
            bridge.rx_error.eq(port.error),
            port.tx_data.eq(bridge.tx_data),
            port.tx_valid.eq(bridge.tx_valid),
            bridge.tx_ready.eq(port.tx_ready),
        ]

    def _clocks(self, m: Module) -> None:
        """Add the clock of the design and its reset."""
        params = self._params
        m.domains.sync = sync = ClockDomain()
        locked = Signal()
        if params.pll is not None:
            double = self.sdram_double if params.ratio > 1 else None
            m.submodules.pll = instance(params.pll, self.clk, sync.clk, locked, double)
        elif params.divider == 1:
            m.d.comb += sync.clk.eq(self.clk)
        else:
            m.domains.oscillator = oscillator = ClockDomain(reset_less=True)
            m.d.comb += oscillator.clk.eq(self.clk)
            half = params.divider // 2
            divided = Signal()
            count = Signal(range(max(2, half)))
            with m.If(count == half - 1):
                m.d.oscillator += [count.eq(0), divided.eq(~divided)]
            with m.Else():
                m.d.oscillator += count.eq(count + 1)
            m.d.comb += sync.clk.eq(divided)
        # Configuration clears these registers, and nothing else does.
        m.domains.power_up = power_up = ClockDomain(reset_less=True)
        m.d.comb += power_up.clk.eq(sync.clk)
        pressed = Signal(2)
        if params.button_low is not None:
            level = ~self.button if params.button_low else self.button
            m.d.power_up += pressed.eq((level << 1) | pressed[1])
        reset = Signal(init=1)
        m.d.comb += sync.rst.eq(reset)
        if not params.power_up:
            m.d.power_up += reset.eq(pressed[0])
            return
        count = Signal(range(POWER_UP_CYCLES + 1), name="power_up_count")
        if params.pll is not None:
            stable = Signal(2)
            m.d.power_up += stable.eq((locked << 1) | stable[1])
            with m.If(~stable[0]):
                m.d.power_up += count.eq(0)
            with m.Elif(count != POWER_UP_CYCLES):
                m.d.power_up += count.eq(count + 1)
        else:
            with m.If(count != POWER_UP_CYCLES):
                m.d.power_up += count.eq(count + 1)
        m.d.power_up += reset.eq((count != POWER_UP_CYCLES) | pressed[0])

    def _system(self, m: Module, bridge: Bridge) -> Instance:
        """Return the memory system, its words connected to the bridge."""
        reset = Signal(name="system_reset", init=1)
        m.d.sync += reset.eq(bridge.core_reset)
        m.d.comb += self.sdram_clock.eq(ClockSignal())
        pins = {
            ("i_" if name == "dq_i" else "o_") + name: getattr(self, f"sdram_{name}")
            for name in SDRAM_PORTS
        }
        return Instance(
            self._core, i_clk=ClockSignal(), i_rst=reset,
            i_i_data=bridge.in0_data, i_i_valid=bridge.in0_valid, o_i_ready=bridge.in0_ready,
            o_o_data=bridge.out_data, o_o_valid=bridge.out_valid, i_o_ready=bridge.out_ready,
            **pins,
        )  # fmt: skip

    def _instance(self, m: Module, bridge: Bridge) -> Instance:
        """Return the core, its streams connected to the bridge."""
        resetn = Signal(name="core_resetn")
        m.d.sync += resetn.eq(~bridge.core_reset)
        wires: dict[str, Any] = {"i_aclk": ClockSignal(), "i_aresetn": resetn}
        inputs = [port for port in self._ports if port.direction == "in"]
        for number, port in enumerate(inputs):
            wires[f"i_{port.prefix}_tdata"] = getattr(bridge, f"in{number}_data")
            wires[f"i_{port.prefix}_tvalid"] = getattr(bridge, f"in{number}_valid")
            wires[f"o_{port.prefix}_tready"] = getattr(bridge, f"in{number}_ready")
            if port.last:
                wires[f"i_{port.prefix}_tlast"] = getattr(bridge, f"in{number}_last")
        (output,) = (port for port in self._ports if port.direction == "out")
        wires[f"i_{output.prefix}_tready"] = bridge.out_ready
        wires[f"o_{output.prefix}_tdata"] = bridge.out_data
        wires[f"o_{output.prefix}_tvalid"] = bridge.out_valid
        return Instance(self._core, **wires)
