# SPDX-License-Identifier: Apache-2.0
"""Memory engines around any core with stream ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.axi.job_engine import JobEngine
from rtl_templates.hdl.generators import generate_child

from .flow import CONSUMERS, EVENTS, StreamFlow
from .job import job_layout

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.families.stream_engine.params import StreamEngineConfig

__all__ = ["generate"]


def generate(core: Core[StreamEngineConfig]) -> JobEngine:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    child = generate_child(config.compute)
    job = job_layout(config)
    return JobEngine(config, StreamFlow(config, child, job), job, CONSUMERS, EVENTS)
