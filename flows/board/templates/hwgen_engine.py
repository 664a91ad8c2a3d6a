# SPDX-License-Identifier: Apache-2.0
"""The engine in a LiteX SoC: a master of its bus, registers by AXI4-Lite, an interrupt.

```python
from hwgen_engine import add_engine

engine = add_engine(soc, name="engine")
```

gives the SoC a region ``engine_control`` with the registers, a master for each memory port, and, if
it has a processor with interrupts, an interrupt ``engine``. ``*_litex.h`` connects the C driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import axi
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal

# begin: engine
MODULE = "engine"
DIGEST = ""
CONTROL: tuple[str, int] = ("s_axi_control", 12)
MEMORIES: dict[str, tuple[str, int, int]] = {"mem": ("m_axi_mem", 64, 32)}
OUTPUTS: tuple[str, ...] = ("interrupt",)
# end: engine
# MODULE: name of the Verilog module; DIGEST: of its configuration.
# CONTROL: prefix of the port of the registers, bits of an address.
# MEMORIES: prefix, bits of the data and of an address of each memory port, by name.
# OUTPUTS: outputs of one bit.

REGION = 4096
"""Bytes of the region of the registers."""

BUS_ADDRESS_BITS = 32
"""Bits of an address of a SoC's bus; an engine's further ones are not connected."""

_ADDRESS = ("addr", "len", "size", "burst", "id", "cache", "prot")
_CHANNELS = {
    "aw": ("out", _ADDRESS),
    "w": ("out", ("data", "strb", "last")),
    "b": ("in", ("id", "resp")),
    "ar": ("out", _ADDRESS),
    "r": ("in", ("id", "data", "resp", "last")),
}
_LITE_CHANNELS = {
    "aw": ("in", ("addr", "prot")),
    "w": ("in", ("data", "strb")),
    "b": ("out", ("resp",)),
    "ar": ("in", ("addr", "prot")),
    "r": ("out", ("data", "resp")),
}


class HwgenEngine(LiteXModule):
    """The engine with buses of LiteX.

    Parameters
    ----------
    platform : GenericPlatform
        Gets the Verilog, which lies in the directory of this file.

    Attributes
    ----------
    control : AXILiteInterface
        The registers.
    memories : dict of AXIInterface
        Masters, by name.
    outputs : dict of Signal
        Outputs of one bit, such as ``interrupt``.
    ev : EventManager
        With the event ``done``, while the output ``interrupt`` is 1.
    """

    def __init__(self, platform: Any) -> None:
        prefix, bits = CONTROL
        self.control = axi.AXILiteInterface(data_width=32, address_width=BUS_ADDRESS_BITS)
        self.memories = {}
        self.outputs = {name: Signal(name=name) for name in OUTPUTS}
        self.ev = EventManager()
        self.ev.done = EventSourceLevel(description="The engine's interrupt.")
        self.ev.finalize()
        if "interrupt" in self.outputs:
            self.comb += self.ev.done.trigger.eq(self.outputs["interrupt"])
        ports = {"i_aclk": ClockSignal(), "i_aresetn": ~ResetSignal()}
        ports |= {f"o_{name}": signal for name, signal in self.outputs.items()}
        ports |= self._connections(prefix, self.control, _LITE_CHANNELS, bits)
        for name, (prefix, data_width, address_width) in MEMORIES.items():
            width = min(address_width, BUS_ADDRESS_BITS)
            bus = axi.AXIInterface(data_width=data_width, address_width=width, id_width=1)
            self.memories[name] = bus
            ports |= self._connections(prefix, bus, _CHANNELS, address_width)
        self.specials += Instance(MODULE, **ports)
        platform.add_source(str(Path(__file__).resolve().parent / f"{MODULE}.v"))

    def _connections(
        self, prefix: str, bus: Any, channels: dict[str, tuple[str, tuple[str, ...]]], bits: int
    ) -> dict[str, Any]:
        """Return the connections of a bus, by port of the engine; addresses have `bits`."""
        ports = {}
        for channel, (direction, fields) in channels.items():
            endpoint = getattr(bus, channel)
            forth, back = ("o", "i") if direction == "out" else ("i", "o")
            for field in fields:
                signal = getattr(endpoint, field)
                if field == "addr":
                    signal = self._address(signal, bits, direction)
                ports[f"{forth}_{prefix}_{channel}{field}"] = signal
            ports[f"{forth}_{prefix}_{channel}valid"] = endpoint.valid
            ports[f"{back}_{prefix}_{channel}ready"] = endpoint.ready
        return ports

    def _address(self, signal: Any, bits: int, direction: str) -> Any:
        """Return an address of the engine's width for one of the bus."""
        if direction == "in":
            return signal[:bits]
        if bits == len(signal):
            return signal
        wide = Signal(bits)
        self.comb += signal.eq(wide[: len(signal)])
        return wide


def add_engine(
    soc: Any, name: str = "engine", *, origin: int | None = None, interrupt: bool = True
) -> HwgenEngine:
    """Add the engine to a SoC.

    Parameters
    ----------
    soc : SoC
        Of LiteX, with a bus of any standard.
    name : str
        Of the engine; its registers are the region ``NAME_control``.
    origin : int, optional
        Address of the registers; default LiteX chooses one among those of its inputs and outputs.
    interrupt : bool
        Whether a processor that has interrupts gets one.

    Returns
    -------
    HwgenEngine
    """
    engine = HwgenEngine(soc.platform)
    soc.add_module(name=name, module=engine)
    region = SoCRegion(origin=origin, size=REGION, cached=False)
    soc.bus.add_slave(f"{name}_control", engine.control, region)
    for port, bus in engine.memories.items():
        soc.bus.add_master(f"{name}_{port}", bus)
    if interrupt and soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    soc.add_constant(f"{name}_digest", DIGEST)
    return engine
