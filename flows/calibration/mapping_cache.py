# SPDX-License-Identifier: Apache-2.0
"""`flows.synthesis.standard_cells.map_core`, its results kept on disk.

A campaign of hundreds of mappings can then be stopped and taken up again, and repeated after a
change at the cost of what the change affects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from flows.synthesis import cell_scripts, liberty, timing
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.sizing import buffer_trees, cell_sizing, cell_timing, netlist_timing, sizing
from flows.synthesis.standard_cells import Mapped, map_core
from flows.tools.cache import Document, text_digest
from flows.tools.toolchain import probe, version_text
from hwgen.technologies import cell_library


def map_cached(
    verilog: str,
    top: str,
    technology: str,
    recipe: str,
    clock_ps: float,
    keep: Sequence[str] = (),
    *,
    liberty_files: Sequence[str | Path] = (),
    **options: Any,
) -> Mapped:
    """Map a core as `map_core` does, or read the result from the cache."""
    parts: list[Any] = [
        _flow(), _library(technology, tuple(map(str, liberty_files))), text_digest(verilog),
        top, technology, recipe, clock_ps, list(keep), sorted(options.items()),
    ]  # fmt: skip
    entry = Document("mapped", text_digest(json.dumps(parts)))
    with suppress(ValueError, KeyError, TypeError):
        return Mapped.of_document(entry.read())
    mapped = map_core(
        verilog, top, technology, recipe, clock_ps, keep, liberty_files=liberty_files, **options
    )
    entry.write(mapped.document())
    return mapped


@cache
def versions() -> dict[str, str]:
    """Return the versions of the tools that map and time; empty texts for those missing."""
    tools = {name: probe(name).installation for name in ("yosys", "opensta")}
    return {name: version_text(tool) if tool else "" for name, tool in tools.items()}


@cache
def _flow() -> str:
    """Return a name for the tools and for the part of this package that drives them."""
    sources = [
        Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in (
            synthesis,
            cell_scripts,
            timing,
            liberty,
            sizing,
            buffer_trees,
            cell_sizing,
            cell_timing,
            netlist_timing,
        )
    ]
    return text_digest("\n".join([*sources, str(versions())]))


@cache
def _library(technology: str, chosen: tuple[str, ...]) -> str:
    """Return a name for the cells and for what the technology says of them."""
    return text_digest(liberty.load(technology, chosen).text + cell_library(technology).mapping)
