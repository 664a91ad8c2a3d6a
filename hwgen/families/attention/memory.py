# SPDX-License-Identifier: Apache-2.0
"""Attention from memory to memory: arrays lie as they are, rows filled up to whole beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.schedule.memory import Access, CoreJob
from hwgen.families.attention.params import COMMAND
from hwgen.families.stream_engine.registers import SIZE_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.port import StreamPort
    from hwgen.core.schedule.memory import Bytes
    from hwgen.families.attention.schedule import Block, Plan


@dataclass(frozen=True)
class AttentionMemory:
    """An attention; see `hwgen.core.schedule.memory.MemoryPlan`."""

    plan: Plan

    @property
    def _ports(self) -> dict[str, StreamPort]:
        return {port.name: port for port in self.plan.config.ports}

    def _row(self, name: str) -> int:
        """Return the bytes of a row of an array: beats of a vector, or one scale."""
        port = self._ports[name]
        return port.beat_bytes * (1 if name.endswith("_scale") else self.plan.config.steps)

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """A job for each block."""
        return [self._job(block) for block in self.plan.blocks]

    def _job(self, block: Block) -> CoreJob:
        words = np.array(block.command, "<i4").tobytes()
        reads = {
            name: self._of_keys(name, block)
            if name.startswith(("key", "value"))
            else self._of_queries(name, name, block)
            for name, port in self._ports.items()
            if port.direction == "in"
            and not port.per_job
            and (len(block.keys) or name.startswith("query"))
        }
        return CoreJob({"command": words}, reads, self._of_queries("out", "output", block))

    def _of_keys(self, name: str, block: Block) -> Access:
        """Return the rows of keys or values, in as few as possible: they are whole beats."""
        size, keys, count = self._row(name), self.plan.sizes["keys"], len(block.keys)
        first = block.head * keys + block.keys.start
        rows = next(
            n for n in range(1, count + 1) if count % n == 0 and size * count // n < 1 << SIZE_BITS
        )
        together = size * count // rows
        return Access(name, together, rows, together, offset=first * size)

    def _of_queries(self, port: str, array: str, block: Block) -> Access:
        """Return the rows of queries or results: heads of a query, and then the next query."""
        size, sizes = self._row(port), self.plan.sizes
        queries = sizes["queries"]
        first = (block.head * sizes["group"] + block.heads.start) * queries + block.queries.start
        return Access(
            array, size, len(block.heads), queries * size, len(block.queries), size, first * size
        )

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the results."""
        sizes = self.plan.sizes
        rows = sizes["kv_heads"] * sizes["group"] * sizes["queries"]
        return {"output": rows * self._row("out")}

    def arrays(self) -> Mapping[str, Bytes]:
        """Return operands as they lie in memory."""
        found = {}
        for name, operand in self.plan.operands.items():
            port = self._ports[name]
            if name.endswith("_scale"):
                rows = operand.reshape(-1, 1)
            else:
                vectors = operand.reshape(-1, operand.shape[-1])
                width = self.plan.config.steps * port.lanes
                rows = np.zeros((len(vectors), width), vectors.dtype)
                rows[:, : vectors.shape[1]] = vectors
            found[name] = port.pack(rows.reshape(-1, port.lanes)).reshape(-1)
        return found

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results."""
        sizes, port = self.plan.sizes, self._ports["out"]
        shape = [sizes[name] for name in ("kv_heads", "group", "queries")]
        values = port.unpack(images["output"].reshape(-1, port.beat_bytes))
        return {"output": values.reshape(*shape, -1)[..., : sizes["elements"]]}


def words_of(beat: Bytes) -> dict[str, int]:
    """Return the words of a command by name."""
    return dict(zip(COMMAND, np.ascontiguousarray(beat).view("<i4").tolist(), strict=True))
