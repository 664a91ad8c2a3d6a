# SPDX-License-Identifier: Apache-2.0
"""The parameters of the memory port of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from hwgen.config.base import Model
from hwgen.core.bus import BusPort, burst_beats, engine_buses


class Memory(Model):
    """The AXI4 port to the memory."""

    data_width: Literal[32, 64, 128, 256, 512] = Field(
        128, description="Width of the data.", json_schema_extra={"unit": "bits"}
    )
    address_width: int = Field(
        40, ge=16, le=64, description="Width of an address.", json_schema_extra={"unit": "bits"}
    )
    max_burst: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = Field(
        32, description="Longest burst.", json_schema_extra={"unit": "beats"}
    )
    outstanding: int = Field(
        8,
        ge=1,
        le=64,
        description="Bursts in flight, each way; their data hides the memory's latency.",
        json_schema_extra={"unit": "bursts"},
    )
    registered: bool = Field(
        False,
        description="Registers on every channel of the port, both ways, so that no path leads"
        " through it; with several units, between each of them and the port that they share.",
    )

    @property
    def register_cycles(self) -> int:
        """Cycles that the registers add to a read, and to the response to a write."""
        return 2 * self.registered


class OnMemory:
    """Common properties of configurations of engines that work on memory; first of the bases."""

    if TYPE_CHECKING:
        memory: Memory

    @property
    def ports(self) -> tuple[()]:
        """Stream ports: none."""
        return ()

    @property
    def buses(self) -> tuple[BusPort, ...]:
        """The registers, the memory, the interrupt."""
        return engine_buses(self.memory.data_width, self.memory.address_width)

    @property
    def memory_bytes(self) -> int:
        """Bytes of a beat of the memory port."""
        return self.memory.data_width // 8

    @property
    def longest_burst(self) -> int:
        """Beats of the longest burst; bursts end where an address is a multiple of it."""
        return burst_beats(self.memory.data_width, self.memory.max_burst)
