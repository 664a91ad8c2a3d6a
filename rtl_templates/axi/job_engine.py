# SPDX-License-Identifier: Apache-2.0
"""Top of an engine that executes jobs: registers, job queue, and the flow of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hwgen.core.register_map import FAULT_EVENTS
from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.channels import channels_of, registered
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
        Of a family that executes jobs.
    flow : JobFlow
        Everything between the memory port and the queue of jobs.
    job : StructLayout
        Layout of a job's descriptor.
    consumers, events : sequence of str
        See `Control`.

    Attributes
    ----------
    observed : bool
        Whether the job window can be read, and events are counted; not in a unit of an engine that
        executes lists, of which nobody reads these registers.  To be set before elaboration.

    Members
    -------
    control : AXI4-Lite subordinate
        The registers; see `hwgen.core.register_map`.
    mem : AXI4 manager
        The memory.
    interrupt : Out(1)
        Level.
    fault_noticed, fault_corrected : In(1)
        Of an engine that is protected: what its fault counters count.
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
        self.observed = True
        self._faults = FAULT_EVENTS if config.protect.any else ()
        super().__init__({**bus_members(config.buses), **{name: In(1) for name in self._faults}})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, bus = self.config, self.mem
        flush = Signal()
        control = Control(
            config, self.consumers, self.job_layout, self.events, observed=self.observed
        )
        pulses = {name: Signal(name=name) for name in ("busy", *control.faults, *self.events)}
        queue = place(
            m, "control", control, bus=self.control, interrupt=self.interrupt, flush=flush,
            **pulses, **{name: getattr(self, name) for name in self._faults},
        )  # fmt: skip
        channels = channels_of(bus)
        if config.memory.registered:
            channels = registered(m, "mem", channels)
        jobs = {f"{name}_job": getattr(queue, f"{name}_job") for name in self.consumers}
        place(
            m, "engine", self.flow, rst=ResetSignal() | flush, alone=queue.alone, stop=queue.stop,
            mem=channels, **jobs, **pulses,
        )  # fmt: skip
        m.d.comb += fixed_fields(bus, config.memory.data_width)
        return m
