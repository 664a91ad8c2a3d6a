# SPDX-License-Identifier: Apache-2.0
"""Files of a compiled network, read and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hwgen.core.load import load_draft
from hwgen.core.register_map import JOB_WINDOW
from hwgen.errors import InputError
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.models.compile.placement import Array
from hwgen.models.files.store import read_json

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.schedule import JobEngine

VERSION = 2
"""Of the form of `DOCUMENT`; a reader refuses others."""

DOCUMENT, ENGINE, IMAGE_FILE, LIST_FILE = "compiled.json", "engine.json", "image.bin", "program.bin"

JOBS = "jobs"
"""What `DOCUMENT` says under ``form``, where a list says nothing."""

NETWORK = "network"
"""The same of a network on arrays, which is compiled to jobs, too."""

HOST_FILE = "host.bin"
"""Constants of the host of jobs."""

SUM_BYTES = 4
"""Bytes of a sum of products in memory."""

_MOST_BYTES = 1 << 40


class CompiledFiles:
    """A compiled network on disk.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    form : str or None
        What its document says under ``form``.
    config : FamilyConfig
    document : dict
    arrays : dict of Array
        In the engine's memory, by name.
    base, bytes : int
        Address of the first byte of that memory, and its size.
    sizes : dict of int
        Bytes of the files that must be there.

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    form: ClassVar[str | None] = None
    config: Any

    def __init__(self, path: Path) -> None:
        self.path = path
        document = read_json(path / DOCUMENT)
        same = isinstance(document, dict) and document.get("hwgen_compiled") == VERSION
        if not same or document.get("form") != self.form:
            raise InputError(f"{path / DOCUMENT}: is of another version; compile the model again")
        self.document: dict[str, Any] = document
        self.config = load_draft(path / ENGINE).complete()
        try:
            self._read(document)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path / DOCUMENT}: is not complete ({error!r:.80})") from None
        self._check()

    def _read(self, document: dict[str, Any]) -> None:
        """Read the document."""
        self.arrays = arrays_of(document["arrays"])
        self.base, self.bytes = int(document["base"]), int(document["bytes"])
        self.sizes = {IMAGE_FILE: int(document["image_bytes"])}

    def _check(self) -> None:
        """Refuse files and arrays that do not belong together."""
        for name, size in self.sizes.items():
            file = self.path / name
            result = file.stat().st_size if file.exists() else -1
            if result != size:
                raise InputError(f"{file}: has {max(result, 0)} bytes, not {size}; compile again")
        if not 0 <= self.sizes[IMAGE_FILE] <= self.bytes or self.bytes > _MOST_BYTES:
            raise InputError(f"{self.path / DOCUMENT}: {self.bytes} bytes of memory cannot be")
        self._check_arrays(self.arrays, self.base, self.base + self.bytes)

    def _check_arrays(self, arrays: Mapping[str, Array], base: int, end: int) -> None:
        """Refuse arrays outside of a memory."""
        for array in arrays.values():
            numbers = (array.address, array.bytes, array.count, array.stride)
            whole = all(type(number) is int and number >= 0 for number in numbers)
            if not whole or not array.count or array.address < base:
                raise InputError(f"{self.path / DOCUMENT}: array {array.name!r:.80} cannot be")
            last = array.address + (array.count - 1) * array.stride + array.bytes
            if last > end:
                raise InputError(
                    f"{self.path / DOCUMENT}: array {array.name!r:.80} ends behind the memory: it"
                    f" ends at {last:#x}, the memory at {end:#x}"
                )

    def image(self) -> bytes:
        """Return the initial contents of the engine's memory; the rest is zero."""
        return (self.path / IMAGE_FILE).read_bytes()

    def contents(self) -> bytearray:
        """Return the engine's memory as it is at first, without the program."""
        image = self.image()
        return bytearray(image) + bytearray(self.bytes - len(image))


class CompiledDecoder(CompiledFiles):
    """A compiled network that continues texts.

    Attributes
    ----------
    context, vocabulary : int
    end : int or None
        The token that ends a text.
    """

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.context, self.vocabulary = int(document["context"]), int(document["vocabulary"])
        self.end: int | None = document["end"]

    def check_tokens(self, prompt: Sequence[int], count: int) -> None:
        """Refuse a prompt that is empty, does not fit, or has tokens that are none."""
        check_tokens(prompt, count, self.context, self.vocabulary)


class JobWords(NamedTuple):
    """A job as the program has it.

    Parameters
    ----------
    number : int
    registers : dict of int
        Contents of the job window by register.
    """

    number: int
    registers: dict[str, int]

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents of each register."""
        return [
            (JOB_WINDOW + 4 * place, value) for place, value in enumerate(self.registers.values())
        ]

    def address(self, name: str) -> int:
        """Return the address of A, W or C."""
        return self.registers[f"{name}_ADDRESS_LOW"] | self.registers[f"{name}_ADDRESS_HIGH"] << 32


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
        if not isinstance(self.config, GemmStreamConfig):
            raise InputError(f"{self.path / ENGINE}: is no engine that multiplies; compile again")
        words = len(self.config.job_interface.window)
        if self.words != words:
            raise InputError(
                f"{self.path / DOCUMENT}: jobs have {self.words} words, the engine's {words}"
            )
        super()._check()
        self._check_arrays(self.constants, 0, self.sizes[HOST_FILE])

    def digest(self) -> str:
        """Return a digest of the compiled network."""
        result = hashlib.sha256()
        for name in (DOCUMENT, ENGINE, LIST_FILE, IMAGE_FILE, HOST_FILE):
            result.update((self.path / name).read_bytes())
        return result.hexdigest()[:32]

    def program(self) -> list[JobWords]:
        """Return the jobs."""
        names = [register.name for register in self.config.job_interface.window]
        data = np.frombuffer((self.path / LIST_FILE).read_bytes(), "<u4").reshape(-1, self.words)
        return [
            JobWords(number, dict(zip(names, map(int, words), strict=True)))
            for number, words in enumerate(data)
        ]


def arrays_of(documents: Iterable[Mapping[str, Any]]) -> dict[str, Array]:
    """Return arrays by name; see `Array.document`."""
    return {each["name"]: Array(**each) for each in documents}


def check_tokens(prompt: Sequence[int], count: int, context: int, vocabulary: int) -> None:
    """Refuse a prompt that is empty, does not fit, or has tokens that are none."""
    if not prompt:
        raise InputError("there is no token to compute: the prompt is empty")
    wrong = next((token for token in prompt if not 0 <= token < vocabulary), None)
    if wrong is not None:
        raise InputError(f"token {wrong} is not one of the model's {vocabulary}")
    if len(prompt) + count > context + 1:
        raise InputError(
            f"a prompt of {len(prompt)} tokens and {count} more do not fit in the context of"
            f" {context}; use a shorter prompt, ask for fewer tokens, or compile the model with a"
            " longer --context"
        )
