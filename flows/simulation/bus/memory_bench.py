# SPDX-License-Identifier: Apache-2.0
"""Base of the cocotb benches of all engines: the memory, its monitor, and the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge

from flows.simulation.bus.axi_lite import LiteHost
from flows.simulation.bus.axi_memory import AxiMemory
from flows.simulation.bus.axi_monitor import AxiMonitor
from flows.simulation.bus.stream_bench import start_clock
from flows.simulation.bus.wires import reader


class MemoryBench:
    """An engine, its memory, and a host that accesses registers, all in one coroutine.

    Whoever waits does so by `tick`, which serves and observes the memory port at each clock edge.

    Parameters
    ----------
    dut : cocotb handle
    config : FamilyConfig
        Of an engine.
    image : bytearray
        Contents of the memory.
    rng : numpy Generator
        Of stalls and of the host's delays.
    outstanding : int
        Bursts that may be in flight each way.
    latency : int
        Cycles of the memory.
    idle : mapping
        Probability, for each channel, that a cycle is idle.
    """

    def __init__(
        self,
        dut: Any,
        config: Any,
        image: bytearray,
        rng: np.random.Generator,
        *,
        outstanding: int,
        latency: int,
        idle: Mapping[str, float],
    ) -> None:
        self.dut, self.image, self.rng = dut, image, rng
        self.registers = {register.name: register.offset for register in config.registers}
        start_clock(dut)
        names = {"data_width": config.memory.data_width, "active_low": True}
        self.memory = AxiMemory(
            dut, "m_axi_mem", "aresetn", image=image, seed=int(rng.integers(1 << 31)), **names
        )
        self.monitor = AxiMonitor(
            dut, "m_axi_mem", "aresetn", max_burst=config.memory.max_burst,
            outstanding=outstanding, **names,
        )  # fmt: skip
        self.memory.latency, self.memory.idle = latency, idle
        self._edge, self.interrupt = RisingEdge(dut.aclk), reader(dut, "interrupt")
        self.host = LiteHost(dut, "s_axi_control", self.tick, rng)

    async def tick(self) -> None:
        """Wait for the next clock edge and serve the memory port."""
        await self._edge
        self.monitor.step()
        self.memory.step()

    async def read(self, name: str) -> int:
        """Return a register."""
        return await self.host.read(self.registers[name])

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        response = await self.host.write(self.registers[name], value)
        assert response == 0, f"writing {name}: bresp {response}"

    async def reset(self) -> None:
        """Hold the reset for some cycles."""
        self.dut.aresetn.value = 0
        for _ in range(3):
            await self.tick()
        self.dut.aresetn.value = 1
        await self.tick()
