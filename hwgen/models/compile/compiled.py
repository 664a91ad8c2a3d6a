# SPDX-License-Identifier: Apache-2.0
"""Compiled networks: an image of memory and a command list, on disk."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.lists.builder import ListBuilder
from hwgen.core.lists.commands import BYTES, listing
from hwgen.errors import InputError
from hwgen.models.compile.compiled_files import (
    DOCUMENT,
    IMAGE_FILE,
    LIST_FILE,
    VERSION,
    CompiledDecoder,
    end_of,
    write_files,
)
from hwgen.models.compile.constants import Constants
from hwgen.models.compile.lowered_operations import REGISTERS, TOKENS, Job, local
from hwgen.models.compile.lowering import Lowering, units_of
from hwgen.models.compile.placement import IMAGE, LIST, Placement
from hwgen.models.files.store import Model
from hwgen.models.graph.layered import Layered, layered
from hwgen.models.graph.units import Units
from hwgen.models.quantise.hadamard_blocks import blocks_of
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.token_scales import TokenScales

if TYPE_CHECKING:
    from hwgen.core.lists.builder import ListEngine

LISTING = "program.txt"

LIST_ALIGNMENT = 64


@dataclass(frozen=True)
class Settings:
    """What a compilation is asked for.

    Parameters
    ----------
    tokens : int
        Tokens of a prompt that are taken at once.
    context : int or None
        Positions that the cache has room for; None: the model's.
    base : int
        Address of the first byte.
    room : int or None
        Bytes of the memory.
    """

    tokens: int = 4
    context: int | None = None
    base: int = 0
    room: int | None = None


class Compilation:
    """A network on its way to a list.

    Parameters
    ----------
    model : Model
        Quantised, a decoder.
    config : ListEngine
    settings : Settings

    Attributes
    ----------
    data : bytes
        The list.
    place : Placement
    jobs : list of Job

    Raises
    ------
    InputError
        If the engine cannot do what the network needs, or something does not fit.
    """

    def __init__(self, model: Model, config: ListEngine, settings: Settings) -> None:
        self.model, self.config, self.settings = model, config, settings
        self.decoder = layered(model.description)
        self.context = context_of(self.decoder, settings)
        self.engine = GoldenEngine(model, Units([config]))
        _check_cores(self.engine, self.decoder)
        self.place = memory_of(settings, config.longest_burst * config.memory_bytes)
        try:
            self.data = self._lower(config)
        except InputError:
            self._check_room()
            raise
        self.place.check(config.memory.address_width, settings.room)

    def _lower(self, config: ListEngine) -> bytes:
        """Return the list, and place everything."""
        builder = ListBuilder(config)
        units = units_of(builder, blocks_of(self.model.description))
        core = config.units[units["attention"]].compute
        self.scales = TokenScales(self.model.description.nodes, core)
        self.constants = Constants(config, self.engine, self.decoder, self.scales, units)
        tokens = min(self.settings.tokens, self.context)
        self.lowering = Lowering(
            config, self.decoder, self.constants, builder, units, self.place, tokens, self.context
        )
        data = self.lowering.build()
        self.jobs: list[Job] = self.lowering.jobs
        self.place.place("list", len(data), LIST)
        return data

    def _check_room(self) -> None:
        """Say by how much the network does not fit, if that is why there is no list."""
        narrow, settings = self.config.memory.address_width, self.settings
        if self.place.end < 1 << narrow:
            return
        wide = self.config.resolved()
        wide["memory"]["address_width"] = 64
        self.place = Placement(settings.base, self.place.alignment)
        self._lower(type(self.config).model_validate(wide))
        self.place.check(narrow, settings.room)

    def document(self) -> dict[str, Any]:
        """Return what `DOCUMENT` holds."""
        description, start = self.model.description, self.place.base
        return {
            "hwgen_compiled": VERSION,
            "name": description.name,
            "engine": self.config.name,
            "context": self.context,
            "vocabulary": description.vocabulary,
            "layers": description.layers,
            "end": end_of(self.model),
            "tokens_at_once": self.lowering.most,
            "base": start,
            "bytes": self.place.end - start,
            "image_bytes": self.place.region(IMAGE)[1] - start,
            "list": {"address": self.place.at("list"), "descriptors": len(self.data) // BYTES},
            "registers": {name: number for name, (number, _) in REGISTERS.items()},
            "arrays": [array.document() for array in self.place.arrays.values()],
            "jobs": [asdict(job) for job in self.jobs],
        }

    def registers(self, position: int, prompt: int, count: int) -> list[int]:
        """Return the registers of a list that no token ends; see `Compiled.registers`."""
        return registers_of(self.config, None, position, prompt, count)

    def write(self, directory: Path) -> None:
        """Write the files of a compiled network."""
        text = listing(self.data, list(self.config.units))
        (directory / LISTING).write_text(text, encoding="utf-8")
        self._write_image(directory / IMAGE_FILE)
        write_files(directory, self.model, self.config, self.data, self.document())

    def _write_image(self, path: Path) -> None:
        """Write the image, an array at a time."""
        with path.open("wb") as file:
            file.truncate(self.place.region(IMAGE)[1] - self.place.base)
            put = partial(self.place.put, file)
            for name, array in self.constants.shared(self.context).items():
                put(name, array)
            for number, nodes in enumerate(self.decoder.layers):
                for node in nodes:
                    for key, array in self.constants.of(node).items():
                        put(f"{local(node)}.{key}", array, number)
            for node in self.decoder.after:
                for key, array in self.constants.of(node).items():
                    put(f"{node.name}.{key}", array)
            for place in self.place.arrays.values():
                if place.region == IMAGE and place.written:
                    put(place.name, np.full(place.bytes // 4, self.scales.word, "<u4"))


def context_of(decoder: Layered, settings: Settings) -> int:
    """Return the positions that a compilation has room for."""
    most = decoder.description.context or 0
    context = settings.context or most
    if context > most:
        raise InputError(
            f"--context: must be {most} or less, the positions of the model, not {context}"
        )
    return context


def memory_of(settings: Settings, burst_bytes: int) -> Placement:
    """Return an empty memory from the base on, for bursts of so many bytes."""
    alignment = max(LIST_ALIGNMENT, burst_bytes)
    if settings.base % alignment:
        raise InputError(
            f"--base: must be a multiple of {alignment}, the bytes of a burst, not"
            f" {settings.base:#x}"
        )
    return Placement(settings.base, alignment)


def _check_cores(engine: GoldenEngine, decoder: Layered) -> None:
    """Refuse layers whose weights need another unit than those of the first one."""
    first = decoder.layers[0]
    for nodes in decoder.layers:
        for node, alike in zip(nodes, first, strict=True):
            if node.operation == "gemm":
                ours, wanted = (engine.cores[n.inputs["weights"]].name for n in (node, alike))
                if ours != wanted:
                    raise InputError(
                        f"{node.name}: its weights need unit {ours!r}, those of the first layer"
                        f" {wanted!r}"
                    )


def registers_of(
    config: ListEngine, end: int | None, position: int, prompt: int, count: int
) -> list[int]:
    """Return the registers of a list; see `Compiled.registers`."""
    found = [0] * config.lists.registers
    nothing = (1 << config.register_width) - 1
    values = {"POSITION": position, "PROMPT": prompt, "STOP": prompt + count - 1,
              "END": nothing if end is None else end}  # fmt: skip
    for name, (number, _) in REGISTERS.items():
        found[number] = values[name]
    return found


class Compiled(CompiledDecoder):
    """A network compiled to a list, on disk.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    config : ListEngine
    document : dict
        See `Compilation.document`.
    data : bytes
        The list.
    address : int
        Where it is in memory.

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    config: ListEngine

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.address = int(document["list"]["address"])
        self.sizes[LIST_FILE] = int(document["list"]["descriptors"]) * BYTES

    def _check(self) -> None:
        super()._check()
        self.data = (self.path / LIST_FILE).read_bytes()
        tokens, data = self.arrays.get(TOKENS), self.arrays.get("list")
        if tokens is None or tokens.bytes < 4 * (self.context + 1):
            raise InputError(f"{self.path / DOCUMENT}: has no room for {self.context} tokens")
        if data is None or (data.address, data.bytes) != (self.address, len(self.data)):
            raise InputError(f"{self.path / DOCUMENT}: the list is not where it should be")

    def registers(self, position: int, prompt: int, count: int) -> list[int]:
        """Return the registers of a list that takes `prompt` tokens and appends `count`.

        Parameters
        ----------
        position : int
            Tokens that were taken before.
        prompt : int
            Tokens that are there.
        count : int
            Most tokens to append.
        """
        return registers_of(self.config, self.end, position, prompt, count)
