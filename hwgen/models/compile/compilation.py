# SPDX-License-Identifier: Apache-2.0
"""Compilation of a model for an engine: memory, program, and the files of both.

`ListCompilation` builds a command list, `JobCompilation` jobs of a decoder, `NetworkCompilation`
jobs of any other network.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import Job, plan_of, weight_stride
from hwgen.models.compile.compiled_files import (
    DOCUMENT,
    ENGINE,
    HOST_FILE,
    IMAGE_FILE,
    LIST_FILE,
    SUM_BYTES,
    VERSION,
)
from hwgen.models.compile.placement import IMAGE, Placement
from hwgen.models.files.store import TOKENIZER, Model
from hwgen.models.graph.layered import Layered
from hwgen.progress import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.families.gemm_stream.schedule import JobEngine, Plan

LIST_ALIGNMENT = 64
HOST_ALIGNMENT = 64


@dataclass(frozen=True)
class Settings:
    """Settings of a compilation.

    Parameters
    ----------
    tokens : int
        Tokens of a prompt that are read at once.
    context : int or None
        Positions of the cache; None: the model's.
    base : int
        Address of the first byte.
    memory_bytes : int or None
        Bytes of the memory.
    """

    tokens: int = 4
    context: int | None = None
    base: int = 0
    memory_bytes: int | None = None

    def positions(self, decoder: Layered) -> int:
        """Return the positions of the cache."""
        most = decoder.description.context or 0
        context = self.context or most
        if context > most:
            raise InputError(
                f"--context: must be {most} or less, the positions of the model, not {context}"
            )
        return context

    def memory(self, burst_bytes: int) -> Placement:
        """Return an empty memory from the base on, for bursts of so many bytes."""
        alignment = max(LIST_ALIGNMENT, burst_bytes)
        if self.base % alignment:
            raise InputError(
                f"--base: must be a multiple of {alignment}, the bytes of a burst, not"
                f" {self.base:#x}"
            )
        return Placement(self.base, alignment)


class Content(NamedTuple):
    """Initial content of an array.

    Parameters
    ----------
    memory : Placement
        Memory that the array is in.
    name : str
    array : ndarray
    layer : int
        Which one, of an array that each layer has.
    """

    memory: Placement
    name: str
    array: NDArray[Any]
    layer: int = 0


class Compilation(ABC):
    """A model compiled for an engine.

    Parameters
    ----------
    model : Model
        Quantised.
    settings : Settings
    burst_bytes : int
        Bytes of the longest burst of the engine.

    Attributes
    ----------
    config : FamilyConfig
        Of the engine.
    memory : Placement
        The engine's.

    Raises
    ------
    InputError
        If the engine lacks something that the model needs, or something does not fit.
    """

    form: ClassVar[str | None] = None
    """Value of ``form`` in the document; a list has none."""

    config: FamilyConfig

    def __init__(self, model: Model, settings: Settings, burst_bytes: int) -> None:
        self.model, self.settings = model, settings
        self.memory = settings.memory(burst_bytes)

    @property
    @abstractmethod
    def program(self) -> bytes:
        """Contents of `LIST_FILE`."""

    @abstractmethod
    def contents(self) -> Iterator[Content]:
        """Yield the initial contents of memories, an array at a time."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that other compilations do not have."""

    def images(self) -> dict[str, tuple[Placement, int]]:
        """Return memory and bytes of each file of initial contents."""
        image = any(array.region == IMAGE for array in self.memory.arrays.values())
        end = self.memory.region(IMAGE)[1] if image else self.memory.base
        return {IMAGE_FILE: (self.memory, end - self.memory.base)}

    def document(self) -> dict[str, Any]:
        """Return the contents of `DOCUMENT`."""
        description, memory = self.model.description, self.memory
        return {
            "hwgen_compiled": VERSION,
            **({} if self.form is None else {"form": self.form}),
            "name": description.name,
            "engine": self.config.name,
            "layers": description.layers,
            "base": memory.base,
            "bytes": memory.end - memory.base,
            "image_bytes": self.images()[IMAGE_FILE][1],
            "arrays": [array.document() for array in memory.arrays.values()],
            **self.facts(),
        }

    def decoder_facts(self, layers: int, context: int, most: int) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that is of decoders."""
        end = None
        if self.model.has_tokenizer:
            end = self.model.tokenizer().get("end")
        vocabulary = self.model.description.vocabulary or 0
        if end is not None and (type(end) is not int or not 0 <= end < vocabulary):
            path = self.model.path / TOKENIZER
            raise InputError(f"{path}: end must be a token's number, not {end!r:.40}")
        return {
            "layers": layers,
            "context": context,
            "vocabulary": vocabulary,
            "end": end,
            "tokens_at_once": most,
        }

    def write(self, directory: Path) -> None:
        """Write the files of a compiled network."""
        images = self.images()
        files = {}
        for name, (memory, size) in images.items():
            files[id(memory)] = file = (directory / name).open("wb")
            file.truncate(size)
        try:
            arrays = sum(
                place.count for memory, _ in images.values() for place in memory.arrays.values()
            )
            for memory, name, array, layer in steps("arrays", self.contents(), arrays):
                memory.put(files[id(memory)], name, array, layer)
        finally:
            for file in files.values():
                file.close()
        (directory / LIST_FILE).write_bytes(self.program)
        if self.model.has_tokenizer:
            (directory / TOKENIZER).write_bytes((self.model.path / TOKENIZER).read_bytes())
        documents: dict[str, Mapping[str, Any]] = {
            ENGINE: self.config.resolved(), DOCUMENT: self.document(),
        }  # fmt: skip
        for name, values in documents.items():
            text = json.dumps(values, indent=1)
            (directory / name).write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Entry:
    """A job of the program.

    Parameters
    ----------
    name : str
        Of the operation.
    facts : mapping
        Which of its jobs it is, as `DOCUMENT` has it.
    job : Job
    """

    name: str
    facts: Mapping[str, int | None]
    job: Job


class JobsCompilation(Compilation):
    """A model compiled to jobs of an engine of products, and steps of its host.

    Attributes
    ----------
    host, work : Placement
        Constants of the host, and the arrays that it works on, each from 0 on.
    entries : tuple of Entry
    """

    host: Placement
    work: Placement
    entries: tuple[Entry, ...]

    def __init__(self, model: Model, config: JobEngine, settings: Settings) -> None:
        super().__init__(model, settings, config.longest_burst_bytes)
        self.config: JobEngine = config
        self._plans: dict[tuple[int, int, int], Plan] = {}

    def plan(self, m: int, k: int, n: int) -> Plan:
        """Return the plan of jobs of a shape."""
        if (m, k, n) not in self._plans:
            self._plans[m, k, n] = plan_of(self.config, m, k, n)
        return self._plans[m, k, n]

    def weight_bytes(self, plan: Plan) -> int:
        """Return the bytes of the right operand of a job, in memory."""
        return plan.weight_image_rows * weight_stride(plan)

    def packed(self, matrices: NDArray[Any]) -> NDArray[Any]:
        """Return right operands of shape (jobs, k, n) as the engine reads them."""
        plan = self.plan(1, *matrices.shape[1:])
        stride, parts = weight_stride(plan), []
        for matrix in matrices.astype(self.config.weight.dtype):
            rows = plan.pack_weights(np.ascontiguousarray(matrix))
            parts.append(np.pad(rows, ((0, 0), (0, stride - rows.shape[1]))))
        return np.concatenate(parts)

    @property
    def program(self) -> bytes:
        """Contents of the job window of each job."""
        words = [[value for _, value in entry.job.writes()] for entry in self.entries]
        return np.array(words, "<u4").tobytes()

    def images(self) -> dict[str, tuple[Placement, int]]:
        """Return memory and bytes of each file of initial contents."""
        return {**super().images(), HOST_FILE: (self.host, self.host.end)}

    def facts(self) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that is of jobs and their host."""
        return {
            "host_bytes": self.host.end,
            "work_bytes": self.work.end,
            "program": {"jobs": len(self.entries), "words": len(self.config.job_interface.window)},
            "host_arrays": [array.document() for array in self.host.arrays.values()],
            "work_arrays": [array.document() for array in self.work.arrays.values()],
            "jobs": [{"operation": entry.name, **entry.facts} for entry in self.entries],
        }


def engine_problem(config: JobEngine, low: int, high: int, length: int, most: int) -> str:
    """Return why an engine cannot multiply by weights of a range, empty if it can.

    Parameters
    ----------
    config : JobEngine
    low, high : int
        Least and largest weight.
    length : int
        Products of a sum.
    most : int
        Largest magnitude of an activation.
    """
    largest = most * max(-low, high) * length
    if str(config.activation) != "int8":
        return f"compute.activation: must be int8, not {config.activation}"
    if config.weight.min > low or config.weight.max < high:
        return f"compute.weight: must hold {low}..{high}, not {config.weight}"
    if config.result.width > 8 * SUM_BYTES or largest > config.result.max:
        return (
            f"compute.accumulator: must hold sums up to {largest:,d} in at most"
            f" {8 * SUM_BYTES} bits, not {config.result}"
        )
    if config.max_k < length:
        return f"compute.max_k: must be at least {length}, not {config.max_k}"
    return ""
