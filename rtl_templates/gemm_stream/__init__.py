# SPDX-License-Identifier: Apache-2.0
"""GEMM streaming engines: AXI4 memory in, AXI4 memory out, cores of any family between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtl_templates.hdl.generators import generate_child

from .engine import GemmStreamEngine

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.families.gemm_stream.params import GemmStreamConfig

__all__ = ["GemmStreamEngine", "generate"]


def generate(core: Core[GemmStreamConfig]) -> GemmStreamEngine:
    """Return the hardware of a core, its ports inner streams."""
    config = core.params
    child = generate_child(config.compute, residues=config.protect.datapath == "residue")
    return GemmStreamEngine(config, child)
