# SPDX-License-Identifier: Apache-2.0
"""Files of a compiled network, whether lists or jobs: what all have, written and read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hwgen.errors import InputError
from hwgen.models.compile.placement import Array
from hwgen.models.files.store import TOKENIZER, Model, read_json
from hwgen.models.files.tokenizer_json import tokenizer_of

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

VERSION = 1
"""Of the form of `DOCUMENT`; a reader refuses others."""

DOCUMENT, ENGINE, IMAGE_FILE, LIST_FILE = "compiled.json", "engine.json", "image.bin", "program.bin"

JOBS = "jobs"
"""What `DOCUMENT` says under ``form``, where a list says nothing."""

NETWORK = "network"
"""The same of a network on arrays, which is compiled to jobs, too."""

HOST_FILE = "host.bin"
"""Constants of the host of jobs."""

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
        from hwgen.core.load import load_config

        self.path = path
        document = read_json(path / DOCUMENT)
        same = isinstance(document, dict) and document.get("hwgen_compiled") == VERSION
        if not same or document.get("form") != self.form:
            raise InputError(f"{path / DOCUMENT}: is of another version; compile the model again")
        self.document: dict[str, Any] = document
        self.config = load_config(path / ENGINE)
        try:
            self._read(document)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path / DOCUMENT}: is not complete ({error!r:.80})") from None
        self._check()

    def _read(self, document: dict[str, Any]) -> None:
        """Take what the document says."""
        self.arrays = arrays_of(document["arrays"])
        self.base, self.bytes = int(document["base"]), int(document["bytes"])
        self.sizes = {IMAGE_FILE: int(document["image_bytes"])}

    def _check(self) -> None:
        """Refuse files and arrays that do not belong together."""
        for name, size in self.sizes.items():
            file = self.path / name
            found = file.stat().st_size if file.exists() else -1
            if found != size:
                raise InputError(f"{file}: has {max(found, 0)} bytes, not {size}; compile again")
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
        """Return what lies in the engine's memory from the first byte on; the rest is zero."""
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
            f" {context}; use a shorter prompt, or ask for fewer tokens"
        )


def end_of(model: Model) -> int | None:
    """Return the token that ends a text, None for a model without a tokenizer."""
    if not (model.path / TOKENIZER).exists():
        return None
    return tokenizer_of(model.tokenizer()).end


def write_files(
    directory: Path,
    model: Model,
    config: FamilyConfig,
    program: bytes,
    document: Mapping[str, Any],
) -> None:
    """Write what all compiled networks have beside their image.

    Parameters
    ----------
    directory : Path
    model : Model
        Whose tokenizer goes with it.
    config : FamilyConfig
        Of the engine.
    program : bytes
        The list, or the jobs.
    document : mapping
        What `DOCUMENT` holds.
    """
    (directory / LIST_FILE).write_bytes(program)
    if (model.path / TOKENIZER).exists():
        (directory / TOKENIZER).write_bytes((model.path / TOKENIZER).read_bytes())
    for name, values in ((ENGINE, config.resolved()), (DOCUMENT, document)):
        text = json.dumps(values, indent=1)
        (directory / name).write_text(text + "\n", encoding="utf-8")
