# SPDX-License-Identifier: Apache-2.0
"""Base of the blocks between the memory port and the job queue of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.hierarchy import Block

from .channels import MemorySignature


class JobFlow(Block):
    """Loads, computation and results of jobs; its reset ends all that is in progress.

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
        Consumers of the queue, in the order in which a job goes through them.

    Members
    -------
    X_job for each X of `CONSUMERS` : In(stream)
        Descriptors of jobs; the consumer is ready when it has finished one.
    alone : In(1)
        The job to load is the oldest one.
    stop : In(1)
        Issue nothing more on the memory port.
    busy : Out(1)
        Something that was issued is not answered.
    mem : Out(MemorySignature)
        The memory port.
    """

    resettable = True

    CONSUMERS: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, config: Any, job: Any, pulses: Sequence[str]) -> None:
        self.config, self.job_layout = config, job
        super().__init__(
            name,
            {
                **{f"{each}_job": In(stream.Signature(job.size)) for each in self.CONSUMERS},
                **{"alone": In(1), "stop": In(1), "busy": Out(1)},
                **{each: Out(1) for each in pulses},
                "mem": Out(MemorySignature(config.memory)),
            },
        )
