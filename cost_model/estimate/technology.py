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

import numpy as np

from cost_model.closed_forms.numbers import Counts, Number
from cost_model.timing.delay_compression import compress_delay
from hwgen.errors import InputError, did_you_mean
from hwgen.technologies import costs_of, technologies

Quantity = Literal[
    "area_um2", "leakage_nw", "energy_fj",
    "luts", "flip_flops", "carries", "dsps", "brams", "lutrams",
]  # fmt: skip

OUTSIDE = "outside"
"""Kind of stage: what is gone of a clock period outside of a port."""

AMOUNTS: Mapping[Quantity, str] = {
    "area_um2": "macro_um2",
    "leakage_nw": "macro_nw",
    "energy_fj": "macro_fj",
}
"""Kinds that are amounts of a quantity themselves: what is known of SRAM macros."""

MACRO_NS = "macro_ns"
"""Kind of stage that is a time in ns, of an SRAM macro."""

PORTS: Counts = {OUTSIDE: 1.0, "port": 1.0}
"""Path between a port and the register next to it, which every design of streams has."""


@dataclass(frozen=True)
class Technology:
    """A calibrated technology.

    Parameters
    ----------
    name : str
    costs : mapping
        Quantity: cost of one component of each kind
        (`cost_model.closed_forms.component_counts.COMPONENTS`).  Of standard cells ``area_um2``,
        ``leakage_nw`` and ``energy_fj``, the energy of a cycle; of FPGAs resources.
    delays_ns : mapping
        Delay of each kind of thing that a path leads through; empty if delays are not calibrated.
    ranges : mapping
        Smallest and largest value of each numeric parameter among the cores calibrated on.
    uncertainty : mapping
        Relative error by metric that held-out designs stay within, nine of ten.
    provenance : mapping
        Tools, library, clock, calibration cores, residuals.
    timing : mapping
        How fast structures are (`cost_model.timing`): ``ns`` of each kind of step, the part of a
        clock period ``outside`` that is gone before inputs arrive and needed behind outputs,
        ``uncertainty``, ``provenance``; empty if that is not calibrated.
    structure : mapping
        The same for components of a structure (`cost_model.netlist.components`): ``costs``,
        ``uncertainty`` and ``provenance``; empty if they are not calibrated.
    """

    name: str
    costs: Mapping[Quantity, Mapping[str, float]]
    delays_ns: Mapping[str, float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    uncertainty: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    timing: Mapping[str, Any] = field(default_factory=dict)
    structure: Mapping[str, Any] = field(default_factory=dict)

    def cost(self, quantity: Quantity, counts: Counts) -> Number:
        """Return the cost of components; NaN where one has no price."""
        prices = self.costs.get(quantity)
        if prices is None:
            return np.nan
        exact = dict.fromkeys(AMOUNTS.values(), 0.0) | {AMOUNTS.get(quantity, ""): 1.0}
        return _priced({**prices, **exact}, counts)

    def delay_ns(self, paths: list[Counts], clock_mhz: Number) -> Number:
        """Return the delay of the longest of the paths, NaN if it is unknown.

        Parameters
        ----------
        paths : list of mapping
            Kind to how many stages a path leads through; of `OUTSIDE`, 1 from or to a port.
        clock_mhz : number
            The clock that is asked for; a part of its period is gone outside of ports.
        """
        if not self.delays_ns:
            return np.nan
        outside = self.timing.get("outside", 0.0) * 1000 / np.asarray(clock_mhz, np.float64)
        longest: Number = 0.0
        prices = {**self.delays_ns, MACRO_NS: 1.0}
        for path in (*paths, *([PORTS] if "port" in self.delays_ns else [])):
            inside = {name: n for name, n in path.items() if name not in (OUTSIDE, MACRO_NS)}
            fixed = {name: n for name, n in path.items() if name == MACRO_NS}
            delay = compress_delay(_priced(prices, inside), self.timing) + _priced(prices, fixed)
            delay = delay + path.get(OUTSIDE, 0.0) * outside
            # Arrays grow no axes for a path that never decides.
            longest = longest if np.all(delay <= longest) else np.maximum(longest, delay)
        return longest

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self)


def _priced(prices: Mapping[str, float], counts: Counts) -> Number:
    cost: Number = 0.0
    for name, count in counts.items():
        price = prices.get(name)
        if price is None:
            cost = cost + np.where(np.asarray(count) == 0, 0.0, np.nan)
        elif price:
            cost = cost + price * count
    return cost


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
    path = costs_of(name)
    return path is not None and path.is_file()


@cache
def technology(name: str) -> Technology:
    """Return a calibrated technology.

    Raises
    ------
    InputError
        If there is no table of that name, or it cannot be read.
    """
    path = costs_of(name) if is_calibrated(name) else None
    if path is None:
        raise InputError(
            f"no costs are known of the technology {name!r}{did_you_mean(name, calibrated())};"
            f" calibrated are {', '.join(calibrated())}; `hwgen calibrate --target {name}` adds"
            " those of another one"
        )
    return read(path)


def read(path: Path) -> Technology:
    """Return the technology of a table; see `technology`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        ranges = {name: (low, high) for name, (low, high) in data.pop("ranges").items()}
        return Technology(**data, ranges=ranges)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a table of costs ({error})") from None


def write(path: Path, tech: Technology) -> None:
    """Write the table of a technology."""
    text = json.dumps(tech.document(), indent=1, sort_keys=True, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
