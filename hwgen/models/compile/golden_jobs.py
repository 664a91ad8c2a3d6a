# SPDX-License-Identifier: Apache-2.0
"""Jobs of a compiled network: their files, and an engine that does them by its golden model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hwgen.core.register_map import JOB_WINDOW, is_engine, job_window
from hwgen.errors import InputError
from hwgen.families.gemm_stream.jobs import Plan
from hwgen.models.compile.compiled_files import (
    DOCUMENT,
    ENGINE,
    HOST_FILE,
    IMAGE_FILE,
    LIST_FILE,
    CompiledFiles,
    arrays_of,
)
from hwgen.models.compile.program import Bytes
from hwgen.models.run.exact_products import ExactWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream.jobs import JobEngine

SUM_BYTES = 4
"""Bytes of a sum in memory."""


class JobWords(NamedTuple):
    """A job as the program has it.

    Parameters
    ----------
    number : int
    held : dict of int
        Contents by register of the job window.
    """

    number: int
    held: dict[str, int]

    def writes(self) -> list[tuple[int, int]]:
        """Return what is written to the job window: offset and contents of each register."""
        return [(JOB_WINDOW + 4 * place, value) for place, value in enumerate(self.held.values())]

    def address(self, name: str) -> int:
        """Return the address of A, W or C."""
        return self.held[f"{name}_ADDRESS_LOW"] | self.held[f"{name}_ADDRESS_HIGH"] << 32


class JobFiles(CompiledFiles):
    """A network compiled to jobs, on disk.

    Attributes
    ----------
    config : JobEngine
    constants : dict of Array
        In `HOST_FILE`.
    jobs, words : int
        Jobs of the program, and registers of each.
    """

    config: JobEngine
    result_bytes = SUM_BYTES
    """Bytes of a sum in memory."""

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.constants = arrays_of(document["host_arrays"])
        self.layers = int(document["layers"])
        self.jobs, self.words = (int(document["program"][key]) for key in ("jobs", "words"))
        self.sizes[HOST_FILE] = int(document["host_bytes"])
        self.sizes[LIST_FILE] = 4 * self.jobs * self.words

    def _check(self) -> None:
        if not is_engine(self.config):
            raise InputError(f"{self.path / ENGINE}: is no engine that multiplies; compile again")
        words = len(job_window(self.config))
        if self.words != words:
            raise InputError(
                f"{self.path / DOCUMENT}: jobs have {self.words} words, the engine's {words}"
            )
        super()._check()
        self._check_arrays(self.constants, 0, self.sizes[HOST_FILE])

    def digest(self) -> str:
        """Return what tells a compiled network from others."""
        found = hashlib.sha256()
        for name in (DOCUMENT, ENGINE, LIST_FILE, IMAGE_FILE, HOST_FILE):
            found.update((self.path / name).read_bytes())
        return found.hexdigest()[:32]

    def program(self) -> list[JobWords]:
        """Return the jobs."""
        names = [register.name for register in job_window(self.config)]
        data = np.frombuffer((self.path / LIST_FILE).read_bytes(), "<u4").reshape(-1, self.words)
        return [
            JobWords(number, dict(zip(names, map(int, words), strict=True)))
            for number, words in enumerate(data)
        ]


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
        self._kept: dict[tuple[int, ...], ExactWeights] = {}

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
        held, config = job.held, self.compiled.config
        plan = Plan(config, held["M"], held["K"], held["N"])
        a = self._rows(job, "A", plan.m, plan.activation_row_bytes).view(np.int8)
        sums = self._weights(job, plan).product(np.ascontiguousarray(a)).astype("<i4")
        address = job.address("C")
        for row, values in enumerate(sums):
            self.memory.write(address + row * held["C_STRIDE"], values.tobytes())

    def _weights(self, job: JobWords, plan: Plan) -> ExactWeights:
        """Return the right operand of a job; one that lies in the image stays as it is."""
        key = (job.address("W"), job.held["W_STRIDE"], plan.k, plan.n)
        if key in self._kept:
            return self._kept[key]
        image = self._rows(job, "W", plan.weight_image_rows, plan.weight_row_bytes)
        found = ExactWeights(plan.unpack_weights(image).T)
        if self.constant(job):
            self._kept[key] = found
        return found

    def constant(self, job: JobWords) -> bool:
        """Return whether the right operand of a job lies in the image."""
        return job.address("W") < self._constant_end

    def _rows(self, job: JobWords, name: str, count: int, size: int) -> NDArray[np.uint8]:
        """Return rows of A or W."""
        address, stride = job.address(name), job.held[f"{name}_STRIDE"]
        parts = [self.memory.read(address + row * stride, size) for row in range(count)]
        return np.frombuffer(b"".join(parts), np.uint8).reshape(count, size)
