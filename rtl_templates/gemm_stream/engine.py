# SPDX-License-Identifier: Apache-2.0
"""The top of an engine around cores that multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.lib import wiring

from rtl_templates.axi.job_engine import JobEngine

from .flow import CONSUMERS, EVENTS, Flow
from .job import job_layout

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class GemmStreamEngine(JobEngine):
    """From memory to memory around cores of any family; see `JobEngine`.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component
        One core.
    """

    def __init__(self, config: GemmStreamConfig, core: wiring.Component) -> None:
        job = job_layout(config)
        super().__init__(config, Flow(config, core, job), job, CONSUMERS, EVENTS)
