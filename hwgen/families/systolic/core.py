# SPDX-License-Identifier: Apache-2.0
"""The core of the systolic family."""

from __future__ import annotations

from collections.abc import Sequence

from hwgen.core.core import CONTRACT
from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.core_flow import CoreFlow
from hwgen.core.gemm_core import GemmCore
from hwgen.core.operation import Arrays, Job
from hwgen.core.schedule.stream import StreamProduct
from hwgen.families.systolic import cycles
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.systolic.schedule import Schedule


class SystolicCore(GemmCore[SystolicConfig]):
    """A systolic array of multiply-accumulate PEs."""

    contract = CONTRACT
    summary = "systolic array: output-, weight- or input-stationary, integers or blocks"
    params_class = SystolicConfig

    def schedule(self, job: Job) -> StreamProduct:
        """Return the beats of a product."""
        return Schedule(self.params, *job.gemm_size, job.post)

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the exact cycles of products."""
        return Cycles(cycles.gemm_cycles(self.params, [job.gemm_size for job in jobs]))

    def core_flow(self) -> CoreFlow:
        """Return the flow of beats through a core that has been reset."""
        flow = cycles.OutputStationary if self.params.output_stationary else cycles.Stationary
        return flow(self.params)
