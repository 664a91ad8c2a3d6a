# SPDX-License-Identifier: Apache-2.0
"""Lines and bars as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#57534e", "#0891b2")
WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 50, 46

_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'

_STYLE = ".chart text{font:11px system-ui,sans-serif;fill:#1c1917}.chart .grid{stroke:#e7e5e4}"


def lines(
    title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """Return lines with a logarithmic axis of powers of two across, and one from zero up.

    Parameters
    ----------
    title, across, up : str
        Of the picture and its axes.
    series : mapping
        Points of each line, of positive numbers.
    """
    every = [point for points in series.values() for point in points]
    steps = _steps(max(value for _, value in every))
    low, high = (math.log2(choose(at for at, _ in every)) for choose in (min, max))

    def x(value: float) -> float:
        return LEFT + (math.log2(value) - low) / max(high - low, 1e-9) * (WIDTH - RIGHT - LEFT)

    parts = [*_frame(title, up, steps, list(series)), _across(across)]
    for tick in sorted({at for at, _ in every}):
        ends = f'y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" {ends}/>')
        parts.append(_tick(x(tick), f"{tick:g}"))
    for colour, (name, points) in zip(_colours(series), series.items(), strict=True):
        path = " ".join(f"{x(at):.1f},{_y(value, steps):.1f}" for at, value in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{escape(name)}</title></polyline>"
        )
        for at, value in points:
            parts.append(
                f'<circle cx="{x(at):.1f}" cy="{_y(value, steps):.1f}" r="3" fill="{colour}">'
                f"<title>{escape(f'{name}, {at:g}: {value:.4g}')}</title></circle>"
            )
    return "\n".join([*parts, "</svg>"])


def bars(title: str, up: str, series: Mapping[str, Mapping[str, float]]) -> str:
    """Return groups of bars: a group for each name, a bar in it for each series.

    Parameters
    ----------
    title, up : str
        Of the picture and its axis.
    series : mapping
        Values of each series by name, all of the same names.
    """
    steps = _steps(max(value for values in series.values() for value in values.values()))
    names = list(next(iter(series.values())))
    parts = list(_frame(title, up, steps, list(series) if len(series) > 1 else []))
    room = (WIDTH - RIGHT - LEFT) / len(names)
    wide = min(40.0, 0.8 * room / len(series))
    for group, name in enumerate(names):
        middle = LEFT + (group + 0.5) * room
        parts.append(_tick(middle, name))
        for number, (colour, (label, values)) in enumerate(
            zip(_colours(series), series.items(), strict=True)
        ):
            at = middle + (number - len(series) / 2) * wide
            top = _y(values[name], steps)
            parts.append(
                f'<rect x="{at:.1f}" y="{top:.1f}" width="{wide - 2:.1f}"'
                f' height="{HEIGHT - BOTTOM - top:.1f}" fill="{colour}">'
                f"<title>{escape(f'{label}, {name}: {values[name]:.4g}')}</title></rect>"
            )
    return "\n".join([*parts, "</svg>"])


def _colours(series: Mapping[str, object]) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(len(series))]


def _steps(most: float) -> list[float]:
    """Return round numbers from zero to at least the most."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * n for n in (0.1, 0.2, 0.5, 1, 2) if most <= step * n * 5 + 1e-12)
    return [step * n for n in range(math.ceil(most / step - 1e-9) + 1)]


def _y(value: float, steps: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - value / steps[-1] * (HEIGHT - BOTTOM - TOP)


def _tick(x: float, text: str) -> str:
    base = HEIGHT - BOTTOM + 15
    return f'<text x="{x:.1f}" y="{base}" text-anchor="middle">{escape(text)}</text>'


def _across(text: str) -> str:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(text)}</text>'


def _frame(title: str, up: str, steps: Sequence[float], names: Sequence[str]) -> Iterator[str]:
    """Yield the beginning of a picture, its axis and its legend."""
    yield (
        f'<svg {_XMLNS} viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" class="chart" role="img"'
        f' aria-label="{escape(title)}"><style>{_STYLE}</style>'
    )
    yield f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>'
    for step in steps:
        at = f"{_y(step, steps):.1f}"
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{LEFT - 6}" y="{float(at) + 4:.1f}" text-anchor="end">{step:.6g}</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield (
        f'<text x="14" y="{middle}" text-anchor="middle"'
        f' transform="rotate(-90 14 {middle})">{escape(up)}</text>'
    )
    left = LEFT
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        yield f'<circle cx="{left + 4}" cy="34" r="4" fill="{colour}"/>'
        yield f'<text x="{left + 13}" y="38">{escape(name)}</text>'
        left += 30 + 7 * len(name)
