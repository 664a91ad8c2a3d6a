# SPDX-License-Identifier: Apache-2.0
"""What lies between the memory port and the job queue of an engine, however it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from amaranth.lib.wiring import In, Member, Out

from rtl_templates.hdl.hierarchy import Block

from .channels import bus_members


class JobFlow(Block):
    """Loads, computation and results of jobs; its reset ends whatever it is at.

    Parameters
    ----------
    name : str
        Of the module.
    config : FamilyConfig
        With a memory port.
    job : StructLayout
        Layout of a job's descriptor.
    pulses : sequence of str
        Outputs of a bit each.

    Attributes
    ----------
    CONSUMERS : tuple of str
        Who takes the jobs of the queue, in the order in which a job goes through them.

    Members
    -------
    X_job, X_valid, X_done for each X of `CONSUMERS`
        Descriptor of the job of that consumer, from the queue.
    alone : In(1)
        The job to load is the oldest one.
    stop : In(1)
        Issue nothing more on the memory port.
    busy : Out(1)
        Something that was issued is not answered.
    ar_..., r_..., aw_..., w_..., b_...
        Channels of the memory port; see `rtl_templates.axi.channels.bus_members`.
    """

    resettable = True

    CONSUMERS: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, config: Any, job: Any, pulses: Sequence[str]) -> None:
        self.config, self.job_layout = config, job
        members: dict[str, Member] = {}
        for each in self.CONSUMERS:
            members |= {f"{each}_job": In(job.size), f"{each}_valid": In(1), f"{each}_done": Out(1)}
        members |= {"alone": In(1), "stop": In(1), "busy": Out(1)}
        members |= {each: Out(1) for each in pulses}
        super().__init__(name, {**members, **bus_members(config.memory)})

    def _job(self, name: str) -> dict[str, Any]:
        """Return the wires of a consumer's job."""
        return {
            "job": getattr(self, f"{name}_job"),
            "job_valid": getattr(self, f"{name}_valid"),
            "job_done": getattr(self, f"{name}_done"),
        }

    def _channel(self, *prefixes: str) -> dict[str, Any]:
        """Return the wires of channels of the memory port."""
        names = [n for n in bus_members(self.config.memory) if n.split("_")[0] in prefixes]
        return {name: getattr(self, name) for name in names}
