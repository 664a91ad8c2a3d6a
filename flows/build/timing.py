# SPDX-License-Identifier: Apache-2.0
"""The clock limit of designs, from the paths that estimates use, cached.

`hwgen.core.resolve` queries it while ``auto`` is resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from cost_model.estimate import technology as technologies
from cost_model.memories import memories
from cost_model.timing import limit as timing
from cost_model.timing.delay_compression import COMPRESSION
from flows.build.analysis import sources_digest
from flows.build.design import Design
from flows.tools.cache import Document, digest
from hwgen.core.core import Core
from hwgen.core.resolve import Limit


class Trials:
    """Designs of a choice of registers; the last one is that of the chosen core."""

    def __init__(self) -> None:
        self._last: Design | None = None

    def limit(self, core: Core[Any]) -> Limit | None:
        """Return the clock limit of a core in its technology, None if unknown."""
        self._last = Design(core)
        return clock_limit(self._last, core.params.target.technology)

    def design_of(self, core: Core[Any]) -> Design:
        """Return the design of a core, the last one if that is of this core."""
        return self._last if self._last is not None and self._last.core is core else Design(core)


def limit(core: Core[Any]) -> Limit | None:
    """Return the clock limit of a core in its technology, None if unknown."""
    return Trials().limit(core)


def clock_limit(design: Design, technology: str) -> Limit | None:
    """Return the clock limit of a design, None if its technology has no delays.

    Raises
    ------
    HwgenError
        If it cannot be emitted.
    """
    if not technologies.is_calibrated(technology):
        return None
    tech = technologies.technology(technology)
    if not tech.timing:
        return None
    uses = design.analysis.memories()
    below = design.params.memories.registers_below
    macros = memories.macros_of(uses, technology, tech, below)
    steps = partial(memories.steps_of, uses, macros, technology)
    floor_ns = memories.shortest_period_ns(macros.values())
    margin = float(tech.timing.get("margin", 0.0))
    shaping = [
        design.hardware_digest, sources_digest(), dict(tech.timing["ns"]), tech.timing["outside"],
        tech.timing.get(COMPRESSION), floor_ns, margin,
        *({name: asdict(s) for name, s in steps(ns).items()} for ns in (0.0, 1.0)),
    ]  # fmt: skip
    record = Document("limit", digest(shaping)[:32])
    if (cached := record.load(_limit)) is not None:
        return cached
    path = timing.shortest(design.netlist, tech, steps)
    if path is None:
        return None
    instances = frozenset(stage.instance for stage in path.stages)
    roles = frozenset(role for name in instances for role in design.netlist.roles(name))
    computed = Limit(path.period_ns, path.start, path.end, instances, roles, margin)
    if floor_ns > path.period_ns:
        slowest = max(macros, key=lambda name: macros[name].macro.min_period_ns or 0.0)
        macro = f"a macro of {slowest}"
        computed = Limit(floor_ns, macro, macro, frozenset())
    names = {name: sorted(getattr(computed, name)) for name in _SETS}
    record.write({**asdict(computed), **names})
    return computed


def _limit(document: Mapping[str, Any]) -> Limit:
    return Limit(**{**document, **{name: frozenset(document[name]) for name in _SETS}})


_SETS = ("instances", "roles")
