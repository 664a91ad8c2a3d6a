# SPDX-License-Identifier: Apache-2.0
"""Memory engines around any core with stream ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.registry import family
from rtl_templates.axi.job_engine import JobEngine

from .flow import CONSUMERS, EVENTS, StreamFlow
from .job import job_layout

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig

__all__ = ["generate"]


def generate(config: StreamEngineConfig) -> JobEngine:
    """Return the engine of a configuration."""
    core = family(config.compute.family).part("rtl").generate(config.compute)
    job = job_layout(config)
    return JobEngine(config, StreamFlow(config, core, job), job, CONSUMERS, EVENTS)
