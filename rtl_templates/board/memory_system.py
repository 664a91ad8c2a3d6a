# SPDX-License-Identifier: Apache-2.0
"""An engine on memory with an SDRAM, and the way of a host to both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hwgen.board.sdram import SDRAM_PORTS, SdramChip, sdram_ports
from hwgen.core.bus import BusPort
from rtl_templates.axi.bus import axi4, fixed_fields
from rtl_templates.axi.channels import channels_of
from rtl_templates.axi.share import MemoryShare
from rtl_templates.board.gateway import WORD, MemoryGateway
from rtl_templates.board.sdram import SdramController, SdramParams
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory


@dataclass(frozen=True)
class SystemParams:
    """Parameters of the system around an engine.

    Parameters
    ----------
    core : str
        Module of the engine, which is instantiated.
    buses : tuple of BusPort
        Its ports: one AXI4, one AXI4-Lite, and outputs, one of them ``interrupt``.
    memory : Memory
        Its memory port.
    chip : SdramChip
    clock_hz : float
        Frequency of the engine.
    ratio : int
        Cycles of the SDRAM in one of the engine; with 1 its clock is the inverted one.
    capture : int
        As of `SdramParams`.

    Raises
    ------
    ValueError
        If the memory port does not suit the chip.
    """

    core: str
    buses: tuple[BusPort, ...]
    memory: Memory
    chip: SdramChip
    clock_hz: float
    ratio: int = 1
    capture: int = -1

    def __post_init__(self) -> None:
        _ = self.sdram

    @property
    def sdram(self) -> SdramParams:
        """Parameters of the controller."""
        memory = self.memory
        return SdramParams(
            self.chip, self.clock_hz, memory.data_width, memory.address_width,
            capture=self.capture, ratio=self.ratio,
        )  # fmt: skip

    def bus(self, protocol: str) -> BusPort:
        """Return the only bus of a protocol."""
        (bus,) = (bus for bus in self.buses if bus.protocol == protocol)
        return bus


class MemorySystem(Block):
    """Engine, SDRAM controller, and gateway of the host, behind one memory port.

    Parameters
    ----------
    params : SystemParams

    Members
    -------
    i, o : In(stream), Out(stream)
        Words of commands and of answers, as `MemoryGateway` has them.
    cke, cs_n, ras_n, cas_n, we_n, ba, a, dqm, dq_o, dq_oe, dq_i
        Pins of the SDRAM.
    """

    resettable = True

    def __init__(self, params: SystemParams) -> None:
        ports = sdram_ports(params.ratio)
        pins = {name: (In if name == "dq_i" else Out)(bits) for name, bits in ports.items()}
        streams = {"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD))}
        super().__init__("system", {**streams, **pins})
        self._params = params

    def build(self, m: Module) -> None:
        params, memory = self._params, self._params.memory
        m.submodules.controller = controller = SdramController(params.sdram)
        for name in SDRAM_PORTS:
            pin, inner = getattr(self, name), getattr(controller, name)
            m.d.comb += inner.eq(pin) if name == "dq_i" else pin.eq(inner)
        m.d.comb += fixed_fields(controller.bus, memory.data_width)
        bus: Any = axi4(memory.data_width, memory.address_width).create(path=("engine",))
        interrupt = Signal()
        gateway = place(
            m, "gateway", MemoryGateway(memory), i=self.i, o=self.o,
            memory_ready=controller.ready, interrupt=interrupt,
        )  # fmt: skip
        # One access of the gateway may be in flight beside the bursts of the engine.
        share = MemoryShare(memory, 2, memory.outstanding + 1)
        place(
            m, "share", share, M0=gateway.mem, M1=channels_of(bus),
            mem=channels_of(controller.bus),
        )  # fmt: skip
        m.submodules.engine = self._engine(m, bus, gateway.control, interrupt)

    def _engine(self, m: Module, bus: Any, control: Any, interrupt: Signal) -> Instance:
        """Return the engine."""
        resetn = Signal(name="engine_resetn")
        m.d.comb += resetn.eq(~ResetSignal())
        wires: dict[str, Any] = {"i_aclk": ClockSignal(), "i_aresetn": resetn}
        for protocol, target in (("axi4", bus), ("axi_lite", control)):
            port = self._params.bus(protocol)
            for name, direction, _ in port.signals:
                wires[f"{direction[0]}_{port.prefix}_{name}"] = getattr(target, name)
        wires["o_interrupt"] = interrupt
        return Instance(self._params.core, **wires)
