# SPDX-License-Identifier: Apache-2.0
"""The core of the GEMM streaming family: a memory engine that multiplies matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.figures import Cycles
from hwgen.core.cycles.unit_job import UnitJob
from hwgen.core.lists.golden import Memory
from hwgen.core.memories import Buffer, Use
from hwgen.core.operation import RECORDS, Array, Arrays, Job
from hwgen.core.post.records import Columns
from hwgen.families.gemm_stream import golden, memory_use
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.registers import register_cycles
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import RAW_RESULTS, Plan, plan_of

Size = tuple[int, int, int]
"""M, K and N of one product."""


class GemmStreamCore(Core[GemmStreamConfig]):
    """A memory engine around cores that multiply."""

    contract = CONTRACT
    summary = "memory-to-memory engine around any core: AXI4, any matrix size, post-processing"
    params_class = GemmStreamConfig

    def schedule(self, job: Job, *, least_traffic: bool = False) -> Plan:
        """Return the sizes, blocks and traffic of a product from memory to memory."""
        post = job.post or RAW_RESULTS
        return plan_of(self.params, *job.gemm_size, post, least_traffic=least_traffic)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the product as the engine computes it."""
        columns = Columns.decode(operands[RECORDS]) if RECORDS in operands else None
        a, w = operands["activations"], operands["weights"]
        return {"result": golden.golden(self.params, a, w, job.post, columns)}

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the cycles of jobs that run one after the other, each on an idle engine.

        Counted while a job is unfinished, as the counter BUSY does, with aligned rows and a memory
        that answers in the next cycle and never pauses.
        """
        sizes = Counter(job.gemm_size for job in jobs)  # layers of a network repeat
        return Cycles(
            sum(times * job_cycles(Plan(self.params, *size)) for size, times in sizes.items())
        )

    def register_cycles(self, registers: Mapping[str, int]) -> UnitJob:
        """Return the cycles and traffic of a job, by the contents of its job window."""
        return register_cycles(self.params, registers)

    def execute(self, registers: Mapping[str, int], memory: Memory) -> None:
        """Compute the job that the contents of a job window describe, in a memory."""
        golden.execute(self.params, registers, memory)

    def buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers, each as the memories of its RTL."""
        return memory_use.buffers(self.params)

    def memory_use(self, sizes: Sequence[Size]) -> Use:
        """Return the accesses of products to the buffers and to the memory port."""
        return memory_use.use(self.params, sizes)

    def weight_bytes(self, size: Size) -> int:
        """Return the bytes of the weights of a product in memory, each read once."""
        return memory_use.weight_bytes(self.params, size)
