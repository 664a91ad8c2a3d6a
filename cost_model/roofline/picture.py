# SPDX-License-Identifier: Apache-2.0
"""The roofline as a picture: what is computed over operations a byte, under the roofs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#57534e", "#0891b2")
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 46

_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'

_STYLE = (
    ".roofline text{font:11px system-ui,sans-serif;fill:#1c1917}.roofline .grid{stroke:#e7e5e4}"
    ".roofline .roof{stroke:#57534e;stroke-width:1.5;fill:none}.roofline .own{stroke:#a8a29e}"
)


@dataclass(frozen=True)
class Dot:
    """A layer, or a configuration.

    Parameters
    ----------
    label : str
    ops_per_byte, tops : float
        Where it is, both more than 0.
    group : str
        What shares its colour.
    peak_tops : float or None
        What its own hardware could compute, where there is no roof for all.
    """

    label: str
    ops_per_byte: float
    tops: float
    group: str
    peak_tops: float | None = None


class _Scale:
    """A logarithmic axis from a power of ten to another one."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values) * 0.8))
        self.high = max(math.ceil(math.log10(max(values) * 1.25)), self.low + 1)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        step = max(1, (self.high - self.low) // 6)
        return (10.0**power for power in range(self.low, self.high + 1, step))


def picture(
    title: str, bandwidths: Mapping[str, float], peak_tops: float | None, dots: Sequence[Dot]
) -> str:
    """Return a roofline as SVG; an empty text if there is nothing to show.

    Parameters
    ----------
    title : str
    bandwidths : mapping
        Roofs of memories: GB/s achieved, by what they are called.
    peak_tops : float or None
        The roof of the core, if all points share it.
    dots : sequence of Dot
    """
    dots = [dot for dot in dots if dot.ops_per_byte > 0 and dot.tops > 0]
    if not dots or not bandwidths:
        return ""
    peaks = [peak_tops] if peak_tops else [dot.peak_tops for dot in dots if dot.peak_tops]
    ridges = [peak * 1e3 / gb_s for peak in peaks[:1] for gb_s in bandwidths.values()]
    x = _Scale([*(dot.ops_per_byte for dot in dots), *ridges], LEFT, WIDTH - RIGHT)
    y = _Scale([*(dot.tops for dot in dots), *peaks], HEIGHT - BOTTOM, TOP)
    lines = [
        f'<svg {_XMLNS} viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" class="roofline"',
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>',
        f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        *_axes(x, y),
        *_roofs(x, y, bandwidths, peak_tops),
        *_dots(x, y, dots),
        "</svg>",
    ]
    return "\n".join(lines)


def _axes(x: _Scale, y: _Scale) -> Iterator[str]:
    base = HEIGHT - BOTTOM
    for tick in x.ticks():
        at = f"{x(tick):.1f}"
        yield f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{base}"/>'
        yield f'<text x="{at}" y="{base + 15}" text-anchor="middle">{tick:g}</text>'
    for tick in y.ticks():
        at = f"{y(tick):.1f}"
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{LEFT - 6}" y="{float(at) + 4:.1f}" text-anchor="end">{tick:g}</text>'
    middle = (TOP + base) / 2
    yield (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        "operations a byte</text>"
    )
    yield (
        f'<text x="14" y="{middle}" text-anchor="middle"'
        f' transform="rotate(-90 14 {middle})">TOPS</text>'
    )


def _roofs(
    x: _Scale, y: _Scale, bandwidths: Mapping[str, float], peak_tops: float | None
) -> Iterator[str]:
    for name, gb_s in bandwidths.items():
        left, right = 10.0**x.low, 10.0**x.high
        top = min(peak_tops or math.inf, 10.0**y.high)
        begin = max(left, 10.0**y.low * 1e3 / gb_s)  # where the roof comes into the picture
        end = min(right, top * 1e3 / gb_s)
        if begin >= end:
            continue
        points = [(begin, begin * gb_s * 1e-3), (end, end * gb_s * 1e-3)]
        if peak_tops and end < right:
            points.append((right, peak_tops))
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        yield f'<polyline class="roof" points="{path}"><title>{escape(name)}</title></polyline>'
        across, up = (x(begin) + x(end)) / 2, (y(points[0][1]) + y(points[1][1])) / 2
        yield (
            f'<text x="{across - 8:.1f}" y="{up - 8:.1f}" text-anchor="end">{escape(name)}</text>'
        )
    if peak_tops:
        yield (
            f'<text x="{WIDTH - RIGHT - 4}" y="{y(peak_tops) - 5:.1f}" text-anchor="end">'
            f"{peak_tops:.3g} TOPS</text>"
        )


def _dots(x: _Scale, y: _Scale, dots: Sequence[Dot]) -> Iterator[str]:
    groups = list(dict.fromkeys(dot.group for dot in dots))
    for dot in dots:
        colour = COLOURS[groups.index(dot.group) % len(COLOURS)]
        at, up = f"{x(dot.ops_per_byte):.1f}", f"{y(dot.tops):.1f}"
        words = f"{dot.label}: {dot.ops_per_byte:.4g} operations a byte, {dot.tops:.4g} TOPS"
        if dot.peak_tops:
            peak = f"{y(dot.peak_tops):.1f}"
            yield f'<line class="own" x1="{at}" x2="{at}" y1="{up}" y2="{peak}"/>'
        yield (
            f'<circle cx="{at}" cy="{up}" r="4" fill="{colour}" fill-opacity="0.75">'
            f"<title>{escape(words)}</title></circle>"
        )
    for index, group in enumerate(groups):
        line = HEIGHT - BOTTOM - 12 - 15 * index
        colour = COLOURS[index % len(COLOURS)]
        yield f'<circle cx="{WIDTH - RIGHT - 10}" cy="{line - 4}" r="4" fill="{colour}"/>'
        yield f'<text x="{WIDTH - RIGHT - 20}" y="{line}" text-anchor="end">{escape(group)}</text>'


# -- of estimates and of sweeps ----------------------------------------------------------------


def of_estimate(entry: Mapping[str, Any], name: str) -> str:
    """Return the roofline of a workload of an estimate: a dot for each layer; see `picture`."""
    limits = entry["roofline"]
    memory = limits["memory"]
    dots = [
        Dot(layer["name"], layer["ops_per_byte"], layer["tops"], f"limited by {layer['limit']}")
        for layer in limits["workloads"][name]["layers"]
        if layer["ops_per_byte"] and layer["tops"]
    ]
    kind = f"{memory['kind'] or 'memory'}, {limits['gb_s']:.4g} GB/s"
    title = f"{entry['name']}, {entry['technology']}: layers of {name}"
    return picture(title, {kind: limits["gb_s"]}, limits["peak_tops"], dots)
