# SPDX-License-Identifier: Apache-2.0
"""What limits the clock of configurations, from the structure of their emission, kept on disk.

It is what `hwgen.core.clock_limit` asks: what is chosen in a configuration meets its clock by the
very paths that its estimate is made of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from cost_model.memories import memories
from cost_model.estimate import technology as technologies
from cost_model.timing import limit as timing
from cost_model.timing.delay_compression import BEND
from flows.build import netlists
from flows.build.analyses import analysis_of, sources
from flows.tools.cache import Document, digest
from hwgen.core.clock_limit import Limit
from hwgen.errors import InputError

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

_KIND = "limit"
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError)


def limit(config: FamilyConfig) -> Limit | None:
    """Return what limits the clock of a configuration in its technology; None if not known.

    Raises
    ------
    HwgenError
        If it cannot be emitted.
    """
    technology = config.target.technology
    if not technologies.is_calibrated(technology):
        return None
    tech = technologies.technology(technology)
    if not tech.timing:
        return None
    # Hardware depends neither on its name nor on its target.
    plain = config.model_copy(update={"name": "core", "target": type(config.target)()})
    analysed = analysis_of(plain)
    uses = analysed.memories()
    below = config.memories.registers_below
    macros = memories.macros_of(uses, technology, tech, below)
    steps = partial(memories.steps_of, uses, macros, technology)
    floor_ns = memories.shortest_period_ns(macros.values())
    shaping = [
        netlists.memo(plain, _KIND).key, sources(), dict(tech.timing["ns"]), tech.timing["outside"],
        tech.timing.get(BEND), floor_ns,
        *({name: asdict(s) for name, s in steps(ns).items()} for ns in (0.0, 1.0)),
    ]  # fmt: skip
    kept = Document(_KIND, digest(shaping)[:32])
    with suppress(InputError, *_DAMAGED):  # there is no cache, or it is damaged
        if (known := kept.read()) is not None:
            return Limit(**{**known, "instances": frozenset(known["instances"])})
    path = timing.shortest(analysed.design, tech, steps)
    if path is None:
        return None
    found = Limit(
        path.period_ns, path.start, path.end, frozenset(stage.instance for stage in path.stages)
    )
    if floor_ns > path.period_ns:
        slowest = max(macros, key=lambda name: macros[name].macro.min_period_ns or 0.0)
        own = f"a macro of {slowest}"
        found = Limit(floor_ns, own, own, frozenset())
    with suppress(InputError):
        kept.write({**asdict(found), "instances": sorted(found.instances)})
    return found
