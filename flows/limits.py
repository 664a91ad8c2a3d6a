# SPDX-License-Identifier: Apache-2.0
"""What limits the clock of configurations, from the structure of their emission, kept on disk.

It is what `hwgen.config.limits` asks: what is chosen in a configuration meets its clock by the
very paths that its estimate is made of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from cost_model import technology as technologies
from cost_model.timing import limit as timing
from flows import netlists
from flows.analyses import sources
from flows.cache import Document, digest
from flows.structures import structure_of
from hwgen.config.limits import Limit
from hwgen.errors import InputError

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

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
    ns, outside = dict(tech.timing["ns"]), tech.timing["outside"]
    kept = Document(_KIND, digest([netlists.memo(plain, _KIND).key, sources(), ns, outside])[:32])
    with suppress(InputError, *_DAMAGED):  # there is no cache, or it is damaged
        if (known := kept.read()) is not None:
            return Limit(**{**known, "instances": frozenset(known["instances"])})
    path = timing.shortest(structure_of(plain), tech)
    if path is None:
        return None
    instances = frozenset(stage.instance for stage in path.stages)
    found = Limit(path.period_ns, path.start, path.end, instances)
    with suppress(InputError):
        kept.write({**asdict(found), "instances": sorted(instances)})
    return found
