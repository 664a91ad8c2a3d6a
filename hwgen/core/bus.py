# SPDX-License-Identifier: Apache-2.0
"""Memory-mapped buses and single wires of a core's top module.

A bus is described once, by a `BusPort` that the family's configuration derives in its attribute
``buses``; the RTL skin and the manifest both read that description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Signal = tuple[str, str, int]
"""A signal of a bus: name without the prefix, direction seen from the core, bits."""

REGISTER_WIDTH = 32
"""Bits of the data of an AXI4-Lite bus."""

CONTROL_ADDRESS_WIDTH = 12
"""Bits of an address of a register of an engine."""

PAGE = 4096
"""Bytes; no burst crosses a multiple of it."""

LONGEST_BURST = 256
"""Beats."""

_LEAST_STORE = 8  # beats: what keeps bursts of one beat flowing through the registers


def burst_beats(data_width: int, max_burst: int) -> int:
    """Return the beats of the longest burst, a power of two: fewer where `PAGE` holds fewer."""
    return min(max_burst, PAGE // (data_width // 8))


def writer_beats(data_width: int, max_burst: int) -> int:
    """Return the beats that a writer of bursts keeps behind the one that it offers."""
    return max(2 * burst_beats(data_width, max_burst), _LEAST_STORE)


@dataclass(frozen=True)
class BusPort:
    """A bus of a core, or a wire that leaves it.

    Parameters
    ----------
    protocol : {"axi4", "axi_lite", "output"}
        AXI4 as the manager, AXI4-Lite as the subordinate, or an output of one bit.
    name : str
        Name of the core's member: ``mem`` becomes ``m_axi_mem_*``, ``control``
        ``s_axi_control_*``; an output keeps its name.
    data_width : int
        Bits of the data; 32 for AXI4-Lite, 1 for an output.
    address_width : int
        Bits of an address; 0 for an output.
    """

    protocol: Literal["axi4", "axi_lite", "output"]
    name: str
    data_width: int = 1
    address_width: int = 0

    @property
    def direction(self) -> Literal["manager", "subordinate", "out"]:
        """Role of the core on the bus."""
        if self.protocol == "output":
            return "out"
        return "manager" if self.protocol == "axi4" else "subordinate"

    @property
    def prefix(self) -> str:
        """Prefix of the bus' signals in the Verilog; an output's whole name."""
        if self.protocol == "output":
            return self.name
        return f"{'m' if self.protocol == 'axi4' else 's'}_axi_{self.name}"

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Signals of the bus in order; none for an output."""
        if self.protocol == "axi4":
            return axi4_signals(self.data_width, self.address_width)
        return axi_lite_signals(self.address_width) if self.protocol == "axi_lite" else ()

    @property
    def flat(self) -> tuple[Signal, ...]:
        """Ports of the top module: full name, direction, bits."""
        if self.protocol == "output":
            return ((self.name, "out", self.data_width),)
        return tuple(
            (f"{self.prefix}_{name}", direction, bits) for name, direction, bits in self.signals
        )


def engine_buses(data_width: int, address_width: int) -> tuple[BusPort, ...]:
    """Return the buses of an engine: its registers, the memory, the interrupt."""
    return (
        BusPort("axi_lite", "control", REGISTER_WIDTH, CONTROL_ADDRESS_WIDTH),
        BusPort("axi4", "mem", data_width, address_width),
        BusPort("output", "interrupt"),
    )


def axi4_signals(data_width: int, address_width: int) -> tuple[Signal, ...]:
    """Return the signals of an AXI4 manager."""
    strobes = data_width // 8
    return (
        *_address("aw", address_width),
        ("wdata", "out", data_width), ("wstrb", "out", strobes), ("wlast", "out", 1),
        ("wvalid", "out", 1), ("wready", "in", 1),
        ("bid", "in", 1), ("bresp", "in", 2), ("bvalid", "in", 1), ("bready", "out", 1),
        *_address("ar", address_width),
        ("rid", "in", 1), ("rdata", "in", data_width), ("rresp", "in", 2), ("rlast", "in", 1),
        ("rvalid", "in", 1), ("rready", "out", 1),
    )  # fmt: skip


def _address(channel: str, address_width: int) -> tuple[Signal, ...]:
    fields = {"id": 1, "addr": address_width, "len": 8, "size": 3, "burst": 2, "cache": 4,
              "prot": 3, "valid": 1}  # fmt: skip
    signals = [(f"{channel}{name}", "out", bits) for name, bits in fields.items()]
    return (*signals, (f"{channel}ready", "in", 1))


def axi_lite_signals(address_width: int) -> tuple[Signal, ...]:
    """Return the signals of an AXI4-Lite subordinate."""
    strobes = REGISTER_WIDTH // 8
    return (
        ("awaddr", "in", address_width), ("awprot", "in", 3), ("awvalid", "in", 1),
        ("awready", "out", 1),
        ("wdata", "in", REGISTER_WIDTH), ("wstrb", "in", strobes), ("wvalid", "in", 1),
        ("wready", "out", 1),
        ("bresp", "out", 2), ("bvalid", "out", 1), ("bready", "in", 1),
        ("araddr", "in", address_width), ("arprot", "in", 3), ("arvalid", "in", 1),
        ("arready", "out", 1),
        ("rdata", "out", REGISTER_WIDTH), ("rresp", "out", 2), ("rvalid", "out", 1),
        ("rready", "in", 1),
    )  # fmt: skip
