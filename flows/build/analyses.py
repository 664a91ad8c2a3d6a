# SPDX-License-Identifier: Apache-2.0
"""Analyses of structures, kept on disk.

What was found of a structure is kept under the digest of its modules, of the sources that find it,
and of what of a technology it depends on.  The second estimate of a design reads neither its
modules nor goes through them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, TypeVar

from cost_model.netlist.fabric import fabric as fabrics
from cost_model.estimate.analysis import Analysis
from cost_model.netlist import costs, memories
from cost_model.netlist.netlist import Netlist
from cost_model.timing import graph, limit
from cost_model.timing.delay_compression import BEND
from flows.build import structures
from flows.tools.cache import Document, digest
from hwgen.errors import InputError

if TYPE_CHECKING:
    from cost_model.netlist.fabric.fabric import Fabric
    from cost_model.estimate.technology import Technology
    from cost_model.timing.compiled import MacroSteps
    from hwgen.core.params.base import FamilyConfig

T = TypeVar("T")

_DAMAGED = (KeyError, TypeError, ValueError, AttributeError)


class KeptAnalysis(Analysis):
    """An analysis whose results are kept.

    Parameters
    ----------
    key : str
        Stands for the structure.
    load : callable
        Returns the structure.
    """

    def __init__(self, key: str, load: Callable[[], Netlist]) -> None:
        super().__init__(load)
        self.key = key

    def parts(self, macros: Collection[str] = (), fabric: Fabric | None = None) -> list[costs.Part]:
        """See `Analysis`."""
        about = None if fabric is None else fabric.model_dump(mode="json")
        find = super().parts
        return _kept(
            Document("components", digest([self.key, sources(), sorted(macros), about])[:32]),
            lambda: find(macros, fabric),
            lambda found: [[part.module, part.count, part.components] for part in found],
            lambda document: [costs.Part(*entry) for entry in document],
        )

    def memories(self) -> list[memories.MemoryUse]:
        """See `Analysis`."""
        return _kept(
            Document("memories", digest([self.key, sources()])[:32]),
            super().memories,
            lambda found: [asdict(each) for each in found],
            lambda document: [memories.MemoryUse(**each) for each in document],
        )

    def limiting_path(
        self, tech: Technology, clock_mhz: float, macros: Mapping[str, MacroSteps] | None = None
    ) -> graph.Path | None:
        """See `Analysis`."""
        made = {name: asdict(steps) for name, steps in (macros or {}).items()}
        shaping = [
            self.key, sources(), clock_mhz, made, tech.name,
            *(tech.timing.get(key) for key in ("ns", limit.MAPPED, "outside", BEND)),
        ]  # fmt: skip
        find = super().limiting_path
        return _kept(
            Document("limiting-path", digest(shaping)[:32]),
            lambda: find(tech, clock_mhz, macros),
            lambda found: [] if found is None else [asdict(found)],
            lambda document: _path(*document) if document else None,
        )


def _path(document: dict[str, Any]) -> graph.Path:
    stages = tuple(graph.Stage(**stage) for stage in document["stages"])
    return graph.Path(**{**document, "stages": stages})


def _kept(
    document: Document, find: Callable[[], T], write: Callable[[T], Any], read: Callable[[Any], T]
) -> T:
    """Return what is kept in a document, or find and keep it."""
    with suppress(InputError, *_DAMAGED):  # there is no cache, or it is damaged
        if (known := document.read()) is not None:
            return read(known)
    found = find()
    with suppress(InputError):
        document.write(write(found))
    return found


def analysis_of(config: FamilyConfig) -> Analysis:
    """Return the analysis of the structure of a configuration.

    Raises
    ------
    HwgenError
        If the structure is not kept, and the configuration cannot be emitted.
    """
    if (keys := structures.known_modules(config)) is not None:
        return KeptAnalysis(digest(keys), lambda: structures.structure_of(config))
    return analysis(structures.emitted(config)[1])


def analysis(design: Netlist) -> Analysis:
    """Return the analysis of a structure."""
    if design.key:
        return KeptAnalysis(design.key, lambda: design)
    return Analysis(lambda: design)


@cache
def sources() -> str:
    """Return a name for what finds components and paths."""
    folders = [File(str(module.__file__)).parent for module in (costs, limit)]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    paths.append(File(str(fabrics.__file__)))
    return digest([path.read_text(encoding="utf-8") for path in paths])
