# SPDX-License-Identifier: Apache-2.0
"""Analyses of netlists, cached.

A result is stored under the digest of the modules, of the sources that compute it, and of what it
depends on of a technology.  The second estimate of a design does not even read its modules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path as File
from typing import Any

from cost_model.estimate.analysis import Analysis
from cost_model.estimate.technology import Technology
from cost_model.netlist import costs, memories
from cost_model.netlist.fabric import fabric as fabrics
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.netlist import Netlist
from cost_model.timing import graph, limit
from cost_model.timing.compiled import MacroSteps
from cost_model.timing.delay_compression import COMPRESSION
from flows.tools.cache import Document, digest


class CachedAnalysis(Analysis):
    """An analysis whose results are cached.

    Parameters
    ----------
    key : str
        Identifies the netlist.
    load : callable
        Returns the netlist.
    """

    def __init__(self, key: str, load: Callable[[], Netlist]) -> None:
        super().__init__(load)
        self.key = key

    def parts(self, macros: Collection[str] = (), fabric: Fabric | None = None) -> list[costs.Part]:
        """See `Analysis`."""
        about = None if fabric is None else fabric.model_dump(mode="json")
        compute = super().parts
        return Document(
            "components", digest([self.key, sources_digest(), sorted(macros), about])[:32]
        ).recall(
            lambda: compute(macros, fabric),
            lambda parts: [[part.module, part.count, part.components] for part in parts],
            lambda document: [costs.Part(*entry) for entry in document],
        )

    def memories(self) -> list[memories.MemoryUse]:
        """See `Analysis`."""
        return Document("memories", digest([self.key, sources_digest()])[:32]).recall(
            super().memories,
            lambda uses: [asdict(use) for use in uses],
            lambda document: [memories.MemoryUse(**entry) for entry in document],
        )

    def units(self) -> dict[str, dict[str, int]]:
        """See `Analysis`."""
        compute = super().units
        return Document("unit-counts", digest([self.key, sources_digest()])[:32]).recall(compute)

    def limiting_path(
        self, tech: Technology, clock_mhz: float, macros: Mapping[str, MacroSteps] | None = None
    ) -> graph.Path | None:
        """See `Analysis`."""
        steps_of = {name: asdict(steps) for name, steps in (macros or {}).items()}
        outside = None if limit.MAPPED in tech.timing else clock_mhz  # FPGAs' paths have no clock
        shaping = [
            self.key, sources_digest(), outside, steps_of, tech.name,
            *(tech.timing.get(key) for key in ("ns", limit.MAPPED, "outside", COMPRESSION)),
        ]  # fmt: skip
        compute = super().limiting_path
        (path,) = Document("limiting-path", digest(shaping)[:32]).recall(
            lambda: (compute(tech, clock_mhz, macros),),
            lambda paths: [None if path is None else asdict(path) for path in paths],
            lambda document: (None if document[0] is None else _path(document[0]),),
        )
        return path


def _path(document: dict[str, Any]) -> graph.Path:
    stages = tuple(graph.Stage(**stage) for stage in document["stages"])
    return graph.Path(**{**document, "stages": stages})


def analyse(netlist: Netlist) -> Analysis:
    """Return the analysis of a netlist, cached if it has a key."""
    if netlist.key:
        return CachedAnalysis(netlist.key, lambda: netlist)
    return Analysis(lambda: netlist)


@cache
def sources_digest() -> str:
    """Return a digest of the sources that compute components and paths."""
    folders = [File(str(module.__file__)).parent for module in (costs, limit)]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    paths.append(File(str(fabrics.__file__)))
    return digest([path.read_text(encoding="utf-8") for path in paths])
