# SPDX-License-Identifier: Apache-2.0
"""The largest core of a family that fits a board, by estimates of the whole design."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from flows.board.build import estimate_board, pll_of
from flows.board.design import DIVIDERS, BoardDesign
from flows.build.design import Design
from flows.build.load import parse_config
from hwgen.board.model import BoardData
from hwgen.errors import InputError
from hwgen.reports.configuration import template
from hwgen.technologies.utilization import FITS, of

MOST_LUTS = 0.85
"""Share of the look-up tables that a proposal takes at most: place and route needs space."""


@dataclass(frozen=True)
class Proposal:
    """A configuration for a board.

    Parameters
    ----------
    text : str
        The file, commented.
    clock_mhz : float
        Frequency that the whole design reaches by estimate, a clock that the board makes.
    estimate : mapping
        Of the whole design, as `flows.board.build.estimate_board` returns it.
    size : mapping
        Parameters that say how large the core is, by dotted name.
    """

    text: str
    clock_mhz: float
    estimate: Mapping[str, Any]
    size: Mapping[str, Any]


@cache
def _sizes() -> Mapping[str, Any]:
    text = Path(__file__).with_name("sizes.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def natural_family(data: BoardData) -> str:
    """Return the family that is proposed for a board where none is named."""
    use = "memory" if data.sdram else "streams"
    return next(family for family, entry in _sizes().items() if entry.get("proposed") == use)


def propose(
    data: BoardData,
    family: str,
    name: str = "",
    on_progress: Callable[[str], None] = lambda _: None,
) -> Proposal:
    """Return the largest core of a family that fits a board.

    Parameters
    ----------
    data : BoardData
    family : str
    name : str
        Of the core; default ``FAMILY_core``.
    on_progress : callable, optional
        Gets the size that is estimated.

    Raises
    ------
    InputError
        If no size fits, the board has no memory for an engine, or the family has no sizes.
    """
    if family not in _sizes():
        raise InputError(
            f"--board: no sizes of {family} are known; families that are proposed:"
            f" {', '.join(_sizes())}"
        )
    entry, best = _sizes()[family], None
    technology, _ = of(data.device)
    target = {"target.technology": technology.name, "target.device": data.device}
    for size in entry["sizes"]:
        on_progress(", ".join(f"{key} {value}" for key, value in size.items()))
        values = {**entry.get("also", {}), **size, **target}
        design = BoardDesign(Design.of(parse_config(template(family, name, values))), data)
        estimate = estimate_board(design)
        luts = estimate["device"]["resources"]["luts"]
        if not estimate["device"][FITS] or luts["share"] > MOST_LUTS:
            break
        best = values, size, estimate
    if best is None:
        raise InputError(
            f"no {family} fits {data.name}: the smallest needs {luts['used']:,} of"
            f" {luts['available']:,} look-up tables, and {MOST_LUTS:.0%} of them are left to a core"
        )
    values, size, estimate = best
    clock_mhz = _clock(data, estimate)
    text = template(family, name, {**values, "target.clock_mhz": clock_mhz})
    return Proposal(text, clock_mhz, estimate, size)


def _clock(data: BoardData, estimate: Mapping[str, Any]) -> float:
    """Return the fastest clock of a board that a design surely reaches by estimate."""
    fmax_mhz = estimate["metrics"]["fmax_mhz"]
    if fmax_mhz is None:
        return data.clock.mhz
    device = of(data.device)[1]
    certain = 1 - (estimate["certainty"]["fmax_mhz"].get("within") or 0.0)
    share = device.fmax_share[0] if device.fmax_share else certain
    least_mhz = share * fmax_mhz
    if data.pll is not None:
        pll = pll_of(data, least_mhz)
        return data.clock.mhz if pll is None else pll.hz / 1e6
    return max(data.clock.mhz / n for n in DIVIDERS if data.clock.mhz / n <= least_mhz or n == 16)
