# SPDX-License-Identifier: Apache-2.0
"""The top of an engine: registers and job queue in front, the flow of data behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import wiring

from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.channels import channels
from rtl_templates.axi.control import Control
from rtl_templates.hierarchy import place
from rtl_templates.shell import bus_members

from .flow import CONSUMERS, EVENTS, Flow
from .job import job_layout

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig


class GemmStreamEngine(wiring.Component):
    """From memory to memory around cores of any family.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component
        One core.

    Members
    -------
    control : AXI4-Lite subordinate
        The registers; see `hwgen.register_map`.
    mem : AXI4 manager
        The memory.
    interrupt : Out(1)
        Level.
    """

    def __init__(self, config: GemmStreamConfig, core: wiring.Component) -> None:
        self.config, self.core = config, core
        super().__init__(bus_members(config.buses))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, bus = self.config, self.mem
        job = job_layout(config)
        jobs: dict[str, Signal] = {}
        for name in CONSUMERS:
            jobs |= {
                f"{name}_job": Signal(job.size, name=f"{name}_job"),
                f"{name}_valid": Signal(name=f"{name}_valid"),
                f"{name}_done": Signal(name=f"{name}_done"),
            }
        between = {
            name: Signal(name=name)
            for name in ("alone", "stop", "busy", "read_error", "write_error", *EVENTS)
        }
        flush = Signal()
        control = Control(config, CONSUMERS, job, EVENTS)
        registers = {
            name: getattr(self.control, name)
            for name, _, _ in config.buses[0].signals
            if name in control.members
        }
        place(
            m, "control", control,
            **jobs, **between, **registers, flush=flush, interrupt=self.interrupt,
        )  # fmt: skip
        place(
            m, "engine", Flow(config, self.core, job),
            rst=ResetSignal() | flush, **jobs, **between, **channels(config.memory, bus),
        )  # fmt: skip
        m.d.comb += fixed_fields(bus, config.memory.data_width)
        return m
