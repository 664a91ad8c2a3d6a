# SPDX-License-Identifier: Apache-2.0
"""Errors of estimates by parts of the domain, as tables and pictures for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.bench.cost_picture import picture
from flows.calibration import structural
from flows.calibration.results import ranges
from hwgen.core.operation import multiplies

if TYPE_CHECKING:
    from flows.bench.cost_points import Point
    from hwgen.core.params.base import FamilyConfig

WIDTHS = ((2, 4), (5, 8), (9, 12), (13, 16))
"""Bits of the wider operand that are shown together."""

SHOWN = ("area", "fmax", "power")
UNITS = {"area": "mm²", "fmax": "MHz", "power": "W"}

WITHIN, BEYOND = "within the sizes calibrated on", "beyond them"
ALIKE, MIXED = "operands of the same width", "operands of two widths"
MACROS, POST = "with SRAM macros", "with post-processing"
BLOCKS = "formats with scales for blocks"
OF_BLOCKS = "blocks: "
"""What is in front of the name of a format with scales for blocks."""
NARROW = "accumulator narrower than a product"


@cache
def _calibrated() -> dict[str, tuple[float, float]]:
    return ranges(structural.designs())


def traits(config: FamilyConfig, *, macros: bool) -> tuple[str, ...]:
    """Return in which parts of the domain a design lies."""
    own, known = ranges([config]), _calibrated()
    beyond = any(
        key not in known or not known[key][0] <= low <= known[key][1]
        for key, (low, _) in own.items()
    )
    reach = BEYOND if beyond else WITHIN
    if not multiplies(config):
        return config.family, reach
    a, w = config.activation.width, config.weight.width
    widest = next(f"{low}..{high} bits" for low, high in WIDTHS if max(a, w) <= high)
    found = [config.family, widest, ALIKE if a == w else MIXED, reach]
    blocks = [form.name for form in (config.activation, config.weight) if form.is_block]
    if blocks:
        found += [BLOCKS, *(f"{OF_BLOCKS}{name}" for name in dict.fromkeys(blocks))]
    if getattr(config.result, "width", 64) < a + w:
        found.append(NARROW)
    if config.post_features is not None:
        found.append(POST)
    return (*found, MACROS) if macros else tuple(found)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *rows)]


def parts(points: Sequence[Point], metrics: Sequence[str]) -> Iterator[str]:
    """Return tables of the errors by parts of the domain, and of the worst designs."""
    technologies = list(dict.fromkeys(p.technology for p in points))
    names = list(dict.fromkeys(trait for p in points for trait in p.traits))
    usual = [f"{low}..{high} bits" for low, high in WIDTHS]
    formats = sorted(name for name in names if name.startswith(OF_BLOCKS))
    last = [ALIKE, MIXED, WITHIN, BEYOND, BLOCKS, *formats, NARROW, POST, MACROS]
    families = sorted(name for name in names if name not in (*usual, *last))
    for metric in metrics:
        rows = []
        for name in (*families, *usual, *last):
            cells = [_errors(points, metric, tech, name) for tech in technologies]
            if any(cells):
                rows.append((name, *(cell or "-" for cell in cells)))
        yield ""
        yield from table((f"{metric}: MAPE, bias (designs)", *technologies), rows)
    yield ""
    rows = []
    for tech in technologies:
        mine = [p for p in points if p.technology == tech]
        for metric in metrics:
            known = [p for p in mine if p.error(metric) is not None]
            for p in sorted(known, key=lambda p: -abs(_error(p, metric)))[:3]:
                rows.append((tech, metric, f"{100 * _error(p, metric):+.1f} %", _told(p.values)))
    yield from table(("technology", "metric", "worst", "design"), rows)
    spent = ", ".join(
        f"{tech} {sum(p.seconds for p in points if p.technology == tech) / 60:.0f}"
        for tech in technologies
    )
    yield f"\nMinutes that the syntheses took: {spent}."


def _error(point: Point, metric: str) -> float:
    error = point.error(metric)
    return 0.0 if error is None else error


def _errors(points: Sequence[Point], metric: str, tech: str, trait: str) -> str:
    errors = [e for p in points
              if p.technology == tech and trait in p.traits
              and (e := p.error(metric)) is not None]  # fmt: skip
    if not errors:
        return ""
    mean, bias = 100 * np.abs(errors).mean(), 100 * np.mean(errors)
    return f"{mean:.1f} %, {bias:+.1f} % ({len(errors)})"


def _told(values: Any) -> str:
    return ", ".join(
        str(value) if key == "family" else f"{key} {value}" for key, value in values.items()
    )


def pictures(points: Sequence[Point]) -> str:
    """Return estimates over measurements: a row of panels by technology for each metric."""

    def dots(metric: str, tech: str) -> list[tuple[float, float, str, str]]:
        return [
            (measured, estimated, str(p.values["family"]), _told(p.values))
            for p in points
            if p.technology == tech
            and (measured := p.measured.get(metric)) and (estimated := p.estimated.get(metric))
        ]  # fmt: skip

    names = list(dict.fromkeys(p.technology for p in points))
    panels = [(f"{tech}: {metric}, {UNITS[metric]}", dots(metric, tech))
              for metric in SHOWN for tech in names]  # fmt: skip
    return picture(panels, len(names))
