# SPDX-License-Identifier: Apache-2.0
"""Costs of components in a technology: the tables that ``hwgen calibrate`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from hwgen.errors import InputError, did_you_mean
from hwgen.technologies import costs_of, technologies
from hwgen.technologies import technology as installed
from hwgen.technologies.cost_table import CostTable

Quantity = Literal[
    "area_um2", "leakage_nw", "energy_fj",
    "luts", "flip_flops", "carries", "dsps", "brams", "lutrams",
]  # fmt: skip


@dataclass(frozen=True)
class Technology:
    """A calibrated technology.

    Parameters
    ----------
    name : str
    timing : mapping
        How fast structures are (`cost_model.timing`): ``ns`` of each kind of step, the part of a
        clock period ``outside`` that is gone before inputs arrive and needed behind outputs,
        ``uncertainty``, ``provenance``; empty if that is not calibrated.
    structure : mapping
        The same for components of a netlist (`cost_model.netlist.components`): ``costs``,
        ``uncertainty`` and ``provenance``; empty if they are not calibrated.
    energies : mapping
        Energies of components by simulated netlists (`cost_model.estimate.activity`):
        ``idle_fj`` and ``toggle_fj`` by component, ``constant``, ``worst``, ``glitches``,
        ``uncertainty`` and ``provenance``; empty if they were not fitted.
    """

    name: str
    timing: Mapping[str, Any] = field(default_factory=dict)
    structure: Mapping[str, Any] = field(default_factory=dict)
    energies: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values, without energies where there are none."""
        document = asdict(self)
        if not document["energies"]:
            del document["energies"]
        return document


def calibrated() -> tuple[str, ...]:
    """Return the names of the installed technologies that have a table, in alphabetical order."""
    names = []
    for name in technologies():
        with suppress(InputError):  # a file that cannot be used is told of where it is asked for
            names += [name] if is_calibrated(name) else []
    return tuple(names)


def is_calibrated(name: str) -> bool:
    """Return whether a technology is installed and has a table."""
    if name not in technologies():
        return False
    if table_of(name) is not None:
        return True
    path = costs_of(name)
    return path is not None and path.is_file()


def table_of(name: str) -> CostTable | None:
    """Return the user's table of costs that a technology is, None if it is none."""
    tech = installed(name)
    return tech if isinstance(tech, CostTable) else None


@cache
def technology(name: str) -> Technology:
    """Return a calibrated technology.

    Raises
    ------
    InputError
        If there is no table of that name, or it cannot be read.
    """
    known = is_calibrated(name)
    if known and (table := table_of(name)) is not None:
        return _of_table(table)
    path = costs_of(name) if known else None
    if path is None:
        raise InputError(
            f"no costs are known of the technology {name!r}{did_you_mean(name, calibrated())};"
            f" calibrated are {', '.join(calibrated())}; `hwgen calibrate --target {name}` adds"
            " those of another one"
        )
    return read(path)


def _of_table(table: CostTable) -> Technology:
    """Return the technology of a user's table."""
    costs = {
        "area_um2": table.area_um2.model_dump(),
        "leakage_nw": table.leakage_nw.model_dump()
        if table.leakage_nw is not None
        else dict.fromkeys(table.area_um2.model_dump(), 0.0),
        "energy_fj": table.energy_fj.model_dump(),
    }
    structure = {
        "costs": costs,
        "uncertainty": table.uncertainty.model_dump(),
        "provenance": {"table": table.source},
    }
    timing = {} if table.delays is None else table.delays.model_dump(mode="json")
    return Technology(table.name, timing, structure)


def read(path: Path) -> Technology:
    """Return the technology of a table; see `technology`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Technology(**data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a table of costs ({error})") from None


def write(path: Path, tech: Technology) -> None:
    """Write the table of a technology."""
    text = json.dumps(tech.document(), indent=1, sort_keys=True, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
