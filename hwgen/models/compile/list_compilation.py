# SPDX-License-Identifier: Apache-2.0
"""Decoders compiled to a command list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.lists.commands import BYTES, listing
from hwgen.errors import InputError
from hwgen.models.compile.compilation import Compilation, Content, Settings
from hwgen.models.compile.constants import Constants
from hwgen.models.compile.decoder_list import REGISTERS, DecoderList, Job, register_values, units_of
from hwgen.models.compile.list_builder import ListBuilder
from hwgen.models.compile.placement import IMAGE, LIST, Placement
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Description, real
from hwgen.models.graph.layered import layered, local_name
from hwgen.models.run.block_rows import KEY_FORMATS, key_format, row_format
from hwgen.models.run.golden_engine import GoldenEngine, block_query_scale
from hwgen.models.run.shipped import naming_engines
from hwgen.models.run.token_scales import TokenScales
from hwgen.models.run.units import Units

if TYPE_CHECKING:
    from hwgen.models.compile.list_builder import ListEngine

LISTING = "program.txt"


class ListCompilation(Compilation):
    """A decoder compiled to a list.

    Parameters
    ----------
    model : Model
    config : ListEngine
    settings : Settings

    Attributes
    ----------
    program : bytes
        The list.
    jobs : list of Job
    """

    def __init__(self, model: Model, config: ListEngine, settings: Settings) -> None:
        super().__init__(model, settings, config.longest_burst * config.memory_bytes)
        self.config: ListEngine = config
        layered(model.description)  # a network that is no decoder is refused first
        self.engine = checked_engine(model, config)
        units = {name: core.name for name, core in self.engine.cores.items()}
        self.decoder = layered(model.description, units)
        self.context = settings.positions(self.decoder)
        try:
            self._program = self._lower(config)
        except InputError:
            self._check_size()
            raise
        self.memory.check(config.memory.address_width, settings.memory_bytes)

    def _lower(self, config: ListEngine) -> bytes:
        """Return the list, and place all arrays."""
        builder = ListBuilder(config)
        description = self.model.description
        operations = {node.operation for node in description.nodes}
        cores = self.engine.cores
        sums = {str(core.result) for name, core in cores.items() if self.engine.scales_rows(name)}
        in_blocks = any(not self.engine.scales_rows(name) for name in cores)
        units = units_of(
            builder, operations, _quantisers(description), sorted(sums), in_blocks=in_blocks,
            keys=_block_elements(description),
        )  # fmt: skip
        core = config.units[units["attention"].unit].compute
        self.query_scale, self.scales = _query_scale(description, core)
        self.constants = Constants(config, self.engine, self.decoder, self.scales, units)
        self.most = min(self.settings.tokens, self.context)
        lowering = DecoderList(
            config,
            self.decoder,
            self.constants,
            builder,
            units,
            self.memory,
            self.most,
            self.context,
        )
        data = lowering.build()
        self.jobs: list[Job] = lowering.jobs
        self.memory.place("list", len(data), LIST)
        return data

    def _check_size(self) -> None:
        """Say by how much the network does not fit, if that is why there is no list."""
        narrow, settings = self.config.memory.address_width, self.settings
        if self.memory.end < 1 << narrow:
            return
        wide = self.config.resolved()
        wide["memory"]["address_width"] = 64
        self.memory = Placement(settings.base, self.memory.alignment)
        self._lower(type(self.config).model_validate(wide))
        self.memory.check(narrow, settings.memory_bytes)

    @property
    def program(self) -> bytes:
        """The list."""
        return self._program

    def facts(self) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that is of lists."""
        return {
            **self.decoder_facts(len(self.decoder.layers), self.context, self.most),
            "list": {
                "address": self.memory.at("list"),
                "descriptors": len(self.program) // BYTES,
            },
            "registers": {name: number for name, (number, _) in REGISTERS.items()},
            "jobs": [asdict(job) for job in self.jobs],
        }

    def registers(self, position: int, prompt: int, count: int) -> list[int]:
        """Return the registers of a list that no token ends; see `CompiledList.registers`."""
        return register_values(self.config, None, position, prompt, count)

    def contents(self) -> Iterator[Content]:
        """Yield the initial contents of memory."""
        memory, constants = self.memory, self.constants
        for name, array in constants.shared(self.context).items():
            yield Content(memory, name, array)
        for number, nodes in enumerate((*self.decoder.layers, self.decoder.after)):
            for node in nodes:
                layer = number if node.layer is not None else 0
                for key, array in constants.of(node).items():
                    yield Content(memory, f"{local_name(node)}.{key}", array, layer)
        for place in memory.arrays.values():
            if place.region == IMAGE and place.written:
                filled = np.full(place.bytes // 4, self.query_scale, "<u4")
                yield Content(memory, place.name, filled)

    def write(self, directory: Path) -> None:
        """Write the files of a compiled network."""
        text = listing(self.program, list(self.config.units))
        (directory / LISTING).write_text(text, encoding="utf-8")
        super().write(directory)


def _block_elements(description: Description) -> str:
    """Return the format of the elements of keys and values in blocks, empty if there are none."""
    formats = {key_format(n) for n in description.nodes if n.operation == "attention"}
    if len(formats) > 1:
        raise InputError(
            "keys and values of all layers must be of one format, not"
            f" {', '.join(sorted(name or 'int8' for name in formats))}"
        )
    (name,) = formats
    return KEY_FORMATS[name].name if name else ""


def _query_scale(description: Description, core: Any) -> tuple[int, TokenScales | None]:
    """Return the first scale of all queries, and the scales of tokens if there are any."""
    if not core.blocks:
        scales = TokenScales(description.nodes, core)
        return scales.word, scales
    every = {block_query_scale(n, core) for n in description.nodes if n.operation == "attention"}
    if len(every) > 1:
        raise InputError("scores of all layers must have the same scale for keys in blocks")
    return every.pop(), None


def _quantisers(description: Description) -> list[tuple[int, str]]:
    """Return the blocks and formats in which rows are quantised; see `units_of`."""
    result = set()
    for node in description.nodes:
        block = int(real(node, "hadamard"))
        if node.operation == "attention" and not key_format(node):
            result |= {(0, "int8"), (block, "int8")}  # values are not rotated
        elif node.operation == "quantise" and not node.attributes.get("format"):
            result.add((block, row_format(node)))
    return sorted(result)


def checked_engine(model: Model, config: ListEngine) -> GoldenEngine:
    """Return the golden models of an engine.

    Raises
    ------
    InputError
        If it has not what the model needs; it names shipped engines that have it.
    """
    with naming_engines(model):
        return GoldenEngine(model, Units([config], of_engine=True))
