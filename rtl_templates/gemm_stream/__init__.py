# SPDX-License-Identifier: Apache-2.0
"""GEMM streaming engines: AXI4 memory in, AXI4 memory out, cores of any family between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.registry import family

from .engine import GemmStreamEngine

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

__all__ = ["GemmStreamEngine", "generate"]


def generate(config: GemmStreamConfig) -> GemmStreamEngine:
    """Return the engine of a configuration."""
    core = family(config.compute.family).part("rtl").generate(config.compute)
    return GemmStreamEngine(config, core)
