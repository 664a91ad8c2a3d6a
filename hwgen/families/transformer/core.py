# SPDX-License-Identifier: Apache-2.0
"""The core of the transformer family: an engine of several units that executes command lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.memories import Buffer, Use
from hwgen.core.operation import Array, Arrays, Job, Plan
from hwgen.core.protocols import BufferedCore
from hwgen.core.registry import core_of
from hwgen.families.transformer.cycles import gemm_cycles, list_cycles
from hwgen.families.transformer.params import TransformerConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""


class TransformerCore(Core[TransformerConfig]):
    """Units that share a memory port and a list of commands; products run on the first unit."""

    contract = CONTRACT
    summary = "several engines behind one memory port, driven by command lists in memory"
    params_class = TransformerConfig

    @property
    def _unit(self) -> Core[Any]:
        """The unit that multiplies."""
        return core_of(self.params.job_unit)

    def schedule(self, job: Job) -> Plan:
        """Return the plan of a product on the unit that multiplies."""
        return self._unit.schedule(job)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the product as the unit that multiplies computes it."""
        return self._unit.golden(job, operands)

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the modelled cycles of products in one list."""
        least = self._unit.cycles(jobs).number
        return Cycles(gemm_cycles(self.params, self._unit, jobs), "modelled", least=least)

    def list_cycles(self, jobs: int = 1) -> int:
        """Return the cycles that a list takes beside its jobs; modelled."""
        return list_cycles(self.params, jobs)

    @property
    def _buffered(self) -> BufferedCore:
        unit = self._unit
        assert isinstance(unit, BufferedCore)
        return unit

    def buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers of the unit that multiplies."""
        return self._buffered.buffers()

    def memory_use(self, jobs: Sequence[Job]) -> Use:
        """Return the accesses of products to the memories of that unit."""
        return self._buffered.memory_use(jobs)

    def weight_bytes(self, size: Size) -> int:
        """Return the bytes of the weights of a product in memory, each read once."""
        return self._buffered.weight_bytes(size)
