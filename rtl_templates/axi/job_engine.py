# SPDX-License-Identifier: Apache-2.0
"""The top of an engine that takes jobs: registers and job queue, and the flow of data behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import wiring

from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.channels import channels
from rtl_templates.axi.control import Control
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.shell import bus_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwgen.core.params.base import FamilyConfig


class JobEngine(wiring.Component):
    """From memory to memory.

    Parameters
    ----------
    config : FamilyConfig
        Of a family that takes jobs.
    flow : Block
        Everything between the memory port and the queue of jobs; its members are those of `Control`
        that a flow has, and the channels of the memory port.
    job : StructLayout
        Layout of a job's descriptor.
    consumers, events : sequence of str
        See `Control`.

    Members
    -------
    control : AXI4-Lite subordinate
        The registers; see `hwgen.core.register_map`.
    mem : AXI4 manager
        The memory.
    interrupt : Out(1)
        Level.
    """

    def __init__(
        self,
        config: FamilyConfig,
        flow: Block,
        job: Any,
        consumers: Sequence[str],
        events: Sequence[str],
    ) -> None:
        self.config: Any = config
        self.flow, self.job_layout = flow, job
        self.consumers, self.events = consumers, events
        super().__init__(bus_members(config.buses))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, bus = self.config, self.mem
        jobs: dict[str, Signal] = {}
        for name in self.consumers:
            jobs |= {
                f"{name}_job": Signal(self.job_layout.size, name=f"{name}_job"),
                f"{name}_valid": Signal(name=f"{name}_valid"),
                f"{name}_done": Signal(name=f"{name}_done"),
            }
        control = Control(config, self.consumers, self.job_layout, self.events)
        between = {
            name: Signal(name=name)
            for name in ("alone", "stop", "busy", *control.faults, *self.events)
        }
        flush = Signal()
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
            m, "engine", self.flow,
            rst=ResetSignal() | flush, **jobs, **between, **channels(config.memory, bus),
        )  # fmt: skip
        m.d.comb += fixed_fields(bus, config.memory.data_width)
        return m
