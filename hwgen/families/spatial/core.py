# SPDX-License-Identifier: Apache-2.0
"""The cores `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hwgen.core.core import CONTRACT
from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.core_flow import CoreFlow
from hwgen.core.gemm_core import GemmCore
from hwgen.core.operation import Arrays, Job
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.schedule.stream import StreamProduct
from hwgen.families.spatial import cycles, serial_cycles
from hwgen.families.spatial.params import AdderTreeConfig, Broadcast2dConfig, CubeConfig
from hwgen.families.spatial.schedule import Schedule

P = TypeVar("P", bound=SpatialConfig)


class SpatialCore(GemmCore[P]):
    """A tile of C in PEs that take several terms of the reduction at a time."""

    contract = CONTRACT

    def schedule(self, job: Job) -> StreamProduct:
        """Return the beats of a product."""
        return Schedule(self.params, *job.gemm_size, job.post)

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the cycles of products: exact, of serial PEs without operands expected."""
        if operands is not None:
            pairs = [(each["activations"], each["weights"]) for each in operands]
            return Cycles(cycles.operand_cycles(self.params, pairs))
        return cycles.classified_cycles(self.params, [job.gemm_size for job in jobs])

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates of a full cycle, of serial PEs the expected ones."""
        if self.params.array.serial:
            return serial_cycles.expected_macs(self.params)
        return self.params.macs_per_cycle

    def core_flow(self) -> CoreFlow:
        """Return the flow of beats through a core that has been reset."""
        return cycles.Spatial(self.params)


class CubeCore(SpatialCore[CubeConfig]):
    """A cube of multipliers."""

    summary = "multiplier cube: rows x depth x cols products a cycle, integers or blocks"
    params_class = CubeConfig


class AdderTreeCore(SpatialCore[AdderTreeConfig]):
    """Dot products by trees of adders."""

    summary = "multipliers and adder trees: a row of A against columns of W, integers or blocks"
    params_class = AdderTreeConfig


class Broadcast2dCore(SpatialCore[Broadcast2dConfig]):
    """Outer products of broadcast vectors."""

    summary = "2D broadcast: a column of A and a row of W reach all PEs, integers or blocks"
    params_class = Broadcast2dConfig
