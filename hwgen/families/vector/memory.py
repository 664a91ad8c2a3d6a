# SPDX-License-Identifier: Apache-2.0
"""Row operations of vector units from memory to memory: arrays lie as they are, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.schedule.memory import Access, CoreJob, image, numbers
from hwgen.families.vector.operations import CODES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.schedule.memory import Bytes
    from hwgen.families.vector.schedule import Plan

PACKED = "p"
"""Name of the array of beats of port ``p``, where numbers of different kinds share them."""


@dataclass(frozen=True)
class VectorMemory:
    """A row operation; see `hwgen.core.schedule.memory.MemoryPlan`."""

    plan: Plan

    @property
    def _shape(self) -> tuple[int, int]:
        sizes = self.plan.sizes
        return sizes["rows"], sizes["length"]

    @property
    def packed(self) -> bool:
        """Whether beats of port ``p`` lie in memory, since they hold two numbers for each lane."""
        config = self.plan.config
        return config.takes_p and config.p_lanes > config.array.lanes

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The job."""
        from hwgen.families.vector.schedule import command, constants

        plan, (rows, length) = self.plan, self._shape
        config, way = plan.config, plan.way
        c1, c2 = constants(config, plan.operation, length, plan.scalars)
        beat = command(CODES[plan.operation.name], rows, length, c1, c2).tobytes()
        reads = {}
        for tensor in plan.operation.operands:
            size = length * tensor.format.width // 8
            if tensor.port == "r":
                reads["r"] = Access(tensor.name, 4 * rows)
            elif tensor.port in ("x", "y"):
                reads[tensor.port] = Access(tensor.name, size, rows, size)
            elif not self.packed:
                again = 0 if tensor.shape == ("length",) else size
                reads[tensor.port] = Access(tensor.name, size, rows, again)
        if way.takes_p and self.packed:
            size = plan.steps * next(p for p in config.ports if p.name == "p").beat_bytes
            reads["p"] = Access(PACKED, size, rows, size if way.factor == "turn" else 0)
        first, *others = plan.operation.results
        size = self.result_bytes[first.name] // rows
        tail = Access(others[0].name, 4, rows, 4) if others else None
        return [CoreJob({"cmd": beat}, reads, Access(first.name, size, rows, size), tail)]

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the results."""
        rows, length = self._shape
        return {
            tensor.name: rows * (length if len(tensor.shape) > 1 else 1) * tensor.format.width // 8
            for tensor in self.plan.operation.results
        }

    def arrays(self) -> Mapping[str, Bytes]:
        """Return operands as they lie in memory."""
        plan = self.plan
        found = {
            tensor.name: image(tensor.format, plan.operands[tensor.name])
            for tensor in plan.operation.operands
            if tensor.port in ("x", "y", "r") or not self.packed
        }
        if plan.way.takes_p and self.packed:
            port = next(port for port in plan.config.ports if port.name == "p")
            beats = [block.reshape(-1) for block, _ in plan.stream(port)]
            again = plan.way.factor != "turn"
            found[PACKED] = beats[0] if again else np.concatenate(beats)
        return found

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results."""
        rows, length = self._shape
        return {
            tensor.name: numbers(
                tensor.format, images[tensor.name], (rows, length)[: len(tensor.shape)]
            )
            for tensor in self.plan.operation.results
        }
