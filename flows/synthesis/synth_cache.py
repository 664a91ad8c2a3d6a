# SPDX-License-Identifier: Apache-2.0
"""Cache of synthesis results.

A result is stored under the digest of the Verilog, the target, the clock, the method of mapping,
the Liberty files, the versions of the tools, and the part of this package that drives them.  It is
found if none of this has changed, and only then: by `synthesized`, which has the Verilog, and by
`cached_results`, which need not have it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cost_model.memories import macros as composition
from flows.build.design import Design
from flows.synthesis import (
    cell_scripts,
    fpga,
    levels,
    liberty,
    macro_files,
    macros,
    mapping,
    outline,
    timing,
)
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.macros import prices_of
from flows.synthesis.mapping import Job, Method, map_design
from flows.synthesis.result import SynthesisResult, Trial
from flows.synthesis.sizing import buffer_trees, cell_sizing, cell_timing, netlist_timing, sizing
from flows.tools.cache import Archive, digest, text_digest
from flows.tools.guard import scratch
from flows.tools.toolchain import find, version_text
from hwgen.errors import HwgenError
from hwgen.technologies import technology

CLOCK = "aclk"
"""The clock port of every core."""

Library = Sequence[tuple[Path, str]]
"""Liberty files, and the SHA-256 of each."""


def synthesized(job: Job, method: Method, *, use_cache: bool) -> SynthesisResult:
    """Return the result of one method of mapping, from the cache if it is there.

    Raises
    ------
    ToolMissing, InputError
        If the Liberty files are missing or cannot be read.
    CheckFailed
        If a tool fails.
    """
    library, tools = _library(job.target, method.liberty_files), _tools(job.target)
    about = (text_digest(job.verilog, 64), job.top, job.clock, job.target, job.clock_mhz)
    made = _made(method, job.target, job.registers_below)
    entry = Archive(_cache_folder(job.target, about[0]), _key(about, method, library, tools, made))
    if use_cache and (cached := _Cached.read(entry)) and (files := entry.files()):
        return replace(cached.result, files=files)
    start = time.monotonic()
    with scratch("hwgen-synth-") as work:
        result = map_design(job, method, work)
    seconds = round(time.monotonic() - start, 3)
    trial = Trial(
        result.recipe,
        result.full_adders,
        result.hierarchy,
        result.area_um2,
        result.critical_path_ns,
        seconds,
    )
    result = replace(
        result,
        tools=tools,
        library={path.name: content for path, content in library},
        wall_seconds=seconds,
        trials=(trial,),
    )
    paths = [str(path.absolute()) for path, _ in library]
    entry.write(
        {
            "result": result.document(), "liberty": paths,
            "macros": [str(Path(path).absolute()) for path in method.macro_files],
            "registers_below": job.registers_below,
        },
        result.files,
    )  # fmt: skip
    return result


def cached_results(design: Design, target: str) -> list[SynthesisResult]:
    """Return the cached results of a design for a target, the latest last, without files.

    Nothing is generated or mapped.  A design that was not emitted since the generators changed has
    none.
    """
    verilog = design.verilog_digest
    if verilog is None:
        return []
    return [
        cached.result
        for entry in Archive.list(_cache_folder(target, verilog))
        if (cached := _Cached.read(entry)) and cached.is_current(entry, verilog)
    ]


@dataclass(frozen=True)
class _Cached:
    """Contents of an entry: a result, and the paths of its Liberty files."""

    result: SynthesisResult
    liberty: tuple[str, ...]
    macros: tuple[str, ...]
    registers_below: int

    @classmethod
    def read(cls, entry: Archive) -> _Cached | None:
        """Return it without the files, or None if it is absent or of another version."""
        document = entry.read()
        try:
            return cls(
                SynthesisResult.of_document(document["result"]), tuple(document["liberty"]),
                tuple(document["macros"]), document["registers_below"],
            )  # fmt: skip
        except (KeyError, TypeError):
            return None

    def is_current(self, entry: Archive, verilog: str) -> bool:
        """Return whether the result would come out again, and be kept there."""
        result = self.result
        about = (verilog, result.name, CLOCK, result.target, result.clock_target_mhz)
        method = Method(
            result.recipe,
            result.full_adders,
            result.hierarchy,  # type: ignore[arg-type]
            (),
            result.memories,  # type: ignore[arg-type]
            self.macros,
        )
        # The technology's own files may lie elsewhere today; others may have been chosen.
        for paths in {self.liberty, ()}:
            try:
                library = _library(result.target, paths)
                made = _made(method, result.target, self.registers_below)
            except HwgenError:  # they are no longer there
                continue
            key = _key(about, method, library, _tools(result.target), made)
            if Archive(entry.folder, key).name == entry.name:
                return True
        return False


def _cache_folder(target: str, verilog: str) -> str:
    return f"synth/{target}/{verilog[:32]}"


def _made(method: Method, target: str, registers_below: int) -> list[Any]:
    """Return the settings that decide which macros memories are made of, as JSON values."""
    if method.memories == "registers":
        return []
    tech = technology(target)
    assert tech.kind == "standard_cells"
    contents = [_content(path, path.stat().st_mtime_ns) for path in map(Path, method.macro_files)]
    data = tech.memories and tech.memories.model_dump_json()
    return [registers_below, contents, data, prices_of(target)]


def _key(
    about: Sequence[Any],
    method: Method,
    library: Library,
    tools: Mapping[str, str],
    made: list[Any],
) -> str:
    contents = [content for _, content in library]
    return digest([
        *about, technology(about[3]).mapping,
        method.recipe, method.full_adders, method.hierarchy, contents, tools, sources_digest(),
        made,
    ])  # fmt: skip


def _library(target: str, chosen: Sequence[str]) -> Library:
    tech = technology(target)
    if tech.kind == "fpga":
        return ()
    paths = liberty.liberty_files(tech, chosen)
    return [(path, _content(path, path.stat().st_mtime_ns)) for path in paths]


@cache
def _content(path: Path, changed: int) -> str:
    """Return the SHA-256 of a Liberty file, compressed or not, as it is since it was changed."""
    return hashlib.sha256(liberty.read(path).encode()).hexdigest()


def _tools(target: str) -> dict[str, str]:
    return tool_versions(("yosys",) if technology(target).kind == "fpga" else ("yosys", "opensta"))


def tool_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the version of each of the tools that is there."""
    tools = {name: find(name) for name in names}
    return {name: f"{version_text(tool)} ({tool.source})" for name, tool in tools.items() if tool}


@cache
def sources_digest() -> str:
    """Return a name for the part of this package that shapes a result."""
    modules = (
        buffer_trees, cell_scripts, cell_sizing, cell_timing, composition, fpga, levels, liberty,
        macro_files, macros, mapping, netlist_timing, outline, sizing, synthesis, timing,
    )  # fmt: skip
    return digest([Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules])
