# SPDX-License-Identifier: Apache-2.0
"""Estimates over measurements, on logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#57534e", "#0891b2")
SIDE, LEFT, TOP, GAP, BOTTOM = 240, 64, 34, 66, 46
BAND = 0.1
"""Relative error that the shaded band shows."""

_STYLE = (
    ".accuracy{background:#fff}.accuracy text{font:11px system-ui,sans-serif;fill:#1c1917}"
    ".accuracy .grid{stroke:#e7e5e4}.accuracy .same{stroke:#57534e;fill:none}"
    ".accuracy .band{fill:#e7e5e4;fill-opacity:0.6}"
)

Dot = tuple[float, float, str, str]
"""What was measured, what was estimated, both more than 0; what shares its colour; a label."""


def picture(panels: Sequence[tuple[str, Sequence[Dot]]], columns: int) -> str:
    """Return panels of dots in rows as SVG, and what the colours stand for below."""
    groups = sorted({dot[2] for _, dots in panels for dot in dots})
    rows = -(-len(panels) // columns)
    width, height = LEFT + columns * (SIDE + GAP), rows * (TOP + SIDE + BOTTOM) + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' class="accuracy" role="img" aria-label="estimates over measurements">'
        f"<style>{_STYLE}</style>"
    )
    lines = [head]
    for place, (title, dots) in enumerate(panels):
        row, column = divmod(place, columns)
        corner = (LEFT + column * (SIDE + GAP), TOP + row * (TOP + SIDE + BOTTOM))
        lines += _panel(corner, title, dots, groups) if dots else []
    at = float(LEFT)
    for number, group in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        lines.append(f'<circle cx="{at:.0f}" cy="{height - 12}" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{at + 8:.0f}" y="{height - 8}">{escape(group)}</text>')
        at += 30 + 6.5 * len(group)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(
    corner: tuple[int, int], title: str, dots: Sequence[Dot], groups: Sequence[str]
) -> Iterator[str]:
    left, top = corner
    values = [value for dot in dots for value in dot[:2]]
    low, high = math.log10(min(values) * 0.85), math.log10(max(values) * 1.18)
    base = top + SIDE

    def along(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * SIDE

    yield f'<text x="{left}" y="{top - 10}" font-weight="bold">{escape(title)}</text>'
    for tick in _ticks(low, high):
        at = along(tick)
        x, y = f"{left + at:.1f}", f"{base - at:.1f}"
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{base}"/>'
        yield f'<line class="grid" x1="{left}" x2="{left + SIDE}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{x}" y="{base + 15}" text-anchor="middle">{tick:g}</text>'
        yield f'<text x="{left - 6}" y="{y}" text-anchor="end">{tick:g}</text>'
    off = math.log10(1 + BAND) / (high - low) * SIDE
    corners = [(0, off), (SIDE - off, SIDE), (SIDE, SIDE), (SIDE, SIDE - off), (off, 0), (0, 0)]
    points = " ".join(f"{left + a:.1f},{base - b:.1f}" for a, b in corners)
    yield f'<polygon class="band" points="{points}"/>'
    yield f'<line class="same" x1="{left}" y1="{base}" x2="{left + SIDE}" y2="{top}"/>'
    for measured, estimated, group, label in dots:
        colour = COLOURS[groups.index(group) % len(COLOURS)]
        words = f"{label}: measured {measured:.4g}, estimated {estimated:.4g}"
        yield (
            f'<circle cx="{left + along(measured):.1f}" cy="{base - along(estimated):.1f}" r="3.5"'
            f' fill="{colour}" fill-opacity="0.75"><title>{escape(words)}</title></circle>'
        )
    yield (
        f'<text x="{left + SIDE / 2}" y="{base + 32}" text-anchor="middle">measured</text>'
        f'<text x="{left - 46}" y="{top + SIDE / 2}" text-anchor="middle"'
        f' transform="rotate(-90 {left - 46} {top + SIDE / 2})">estimated</text>'
    )


def _ticks(low: float, high: float) -> Iterator[float]:
    """Return round numbers on an axis: powers of ten, or more of them on a short one."""
    steps = (1.0,) if high - low > 2.5 else (1.0, 3.0) if high - low > 1 else (1.0, 2.0, 5.0)
    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in steps:
            if low <= math.log10(step * 10.0**power) <= high:
                yield step * 10.0**power
