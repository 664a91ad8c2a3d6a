# SPDX-License-Identifier: Apache-2.0
"""Golden model of an engine with a memory, which executes the jobs of a compiled network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hwgen.core.lists.golden import MemoryFault
from hwgen.families.gemm_stream.schedule import Plan
from hwgen.models.compile.compiled_files import IMAGE_FILE, JobFiles, JobWords
from hwgen.models.run.exact_products import ExactWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bytes:
    """The memory of a compiled network.

    Parameters
    ----------
    base : int
        Address of the first byte.
    data : bytearray
    """

    def __init__(self, base: int, data: bytearray) -> None:
        self.base, self.data = base, data

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""
        start = self._inside(address, count)
        return bytes(memoryview(self.data)[start : start + count])

    def write(self, address: int, data: bytes) -> None:
        """Replace bytes."""
        start = self._inside(address, len(data))
        self.data[start : start + len(data)] = data

    def _inside(self, address: int, count: int) -> int:
        start = address - self.base
        if start < 0 or start + count > len(self.data):
            raise MemoryFault(hex(address))
        return start


class GoldenJobs:
    """An engine by its golden model: a memory, and jobs on it.

    Parameters
    ----------
    compiled : JobFiles

    Attributes
    ----------
    memory : Bytes
    """

    def __init__(self, compiled: JobFiles) -> None:
        self.compiled = compiled
        self.memory = Bytes(compiled.base, compiled.contents())
        self._constant_end = compiled.base + compiled.sizes[IMAGE_FILE]
        self._cached: dict[tuple[int, ...], ExactWeights] = {}

    def store(self, address: int, data: bytes) -> None:
        """Put bytes into memory."""
        self.memory.write(address, data)

    def load(self, address: int, count: int) -> bytes:
        """Return bytes of memory."""
        return self.memory.read(address, count)

    def run(self, jobs: Sequence[JobWords], name: str, layer: int | None = None) -> None:
        """Do the jobs of a product, one after the other.

        Parameters
        ----------
        jobs : sequence of JobWords
        name : str
            Of the operation, for messages.
        layer : int, optional
            That it is in.
        """
        for job in jobs:
            self._do(job)

    def _do(self, job: JobWords) -> None:
        """Do a job."""
        registers, config = job.registers, self.compiled.config
        plan = Plan(config, registers["M"], registers["K"], registers["N"])
        a = self._rows(job, "A", plan.m, plan.activation_row_bytes).view(np.int8)
        sums = self._weights(job, plan).product(np.ascontiguousarray(a)).astype("<i4")
        address = job.address("C")
        for row, values in enumerate(sums):
            self.memory.write(address + row * registers["C_STRIDE"], values.tobytes())

    def _weights(self, job: JobWords, plan: Plan) -> ExactWeights:
        """Return the right operand of a job; one that lies in the image stays as it is."""
        key = (job.address("W"), job.registers["W_STRIDE"], plan.k, plan.n)
        if key in self._cached:
            return self._cached[key]
        image = self._rows(job, "W", plan.weight_image_rows, plan.weight_row_bytes)
        result = ExactWeights(plan.unpack_weights(image).T)
        if self.constant(job):
            self._cached[key] = result
        return result

    def constant(self, job: JobWords) -> bool:
        """Return whether the right operand of a job lies in the image."""
        return job.address("W") < self._constant_end

    def _rows(self, job: JobWords, name: str, count: int, size: int) -> NDArray[np.uint8]:
        """Return rows of A or W."""
        address, stride = job.address(name), job.registers[f"{name}_STRIDE"]
        parts = [self.memory.read(address + row * stride, size) for row in range(count)]
        return np.frombuffer(b"".join(parts), np.uint8).reshape(count, size)
