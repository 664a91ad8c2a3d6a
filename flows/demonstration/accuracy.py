# SPDX-License-Identifier: Apache-2.0
"""Picture of the errors of estimates: ``docs/images/accuracy.svg``.

``python -m flows.demonstration.accuracy DIR`` draws it from the tables of
``docs/results-accuracy.md``; ``make docs-check`` compares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from flows.demonstration.summaries import CELLS, DOCS, SOURCE, rows_of

TABLES = ("realistic accuracy", "recalibrated accuracy")
"""Tables of the picture."""

TITLES = {
    "realistic accuracy": "designs of real sizes",
    "recalibrated accuracy": "designs drawn at random",
}
GOALS = {"area": 3.0, "fmax": 8.0, "power": 10.0}
"""Wanted mean errors in percent."""

_LEFT, _PLOT, _GAP, _TOP, _ROW, _BAR = 130, 210, 34, 76, 44, 12
_COLOURS = {"realistic accuracy": "#2563eb", "recalibrated accuracy": "#93c5fd"}
_STYLE = (
    ".accuracy{background:#fff}.accuracy text{font:12px system-ui,sans-serif;fill:#1c1917}"
    ".accuracy .head{font-weight:bold}.accuracy .grid{stroke:#e7e5e4}"
    ".accuracy .tick{font-size:11px;fill:#57534e;text-anchor:middle}"
    ".accuracy .worst{stroke:#57534e;stroke-width:1.4}.accuracy .goal{stroke:#dc2626;"
    "stroke-dasharray:4 3}"
)


@dataclass(frozen=True)
class Errors:
    """Errors of a metric at a technology in percent: the mean of their sizes, and the worst."""

    mean: float
    worst: float


def errors(source: str) -> dict[tuple[str, str, str], Errors]:
    """Return the errors in a page of tables, by table, technology and metric."""
    return {
        (table, cells[0], cells[1]): Errors(_percent(cells[3]), _percent(cells[5]))
        for table in TABLES
        for cells in rows_of(source, table)
        if cells[1] in CELLS
    }


def picture(source: str) -> str:
    """Return the picture of the tables of a page: a panel for each metric, bars by technology."""
    by_metric = errors(source)
    technologies = list(dict.fromkeys(technology for _, technology, _ in by_metric))
    base = _TOP + _ROW * len(technologies)
    width, height = _LEFT + len(CELLS) * (_PLOT + _GAP), base + 56
    label = "errors of estimates by metric and technology: mean, worst, and goal"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' class="accuracy" role="img" aria-label="{label}"><style>{_STYLE}</style>'
    )
    parts = [
        head,
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(10, 20, "Errors of estimates against synthesis: bars are means, lines the worst",
              "head"),
    ]  # fmt: skip
    parts += [
        _text(10, _TOP + _ROW * (row + 0.5), technology)
        for row, technology in enumerate(technologies)
    ]
    for column, (metric, title) in enumerate(CELLS.items()):
        left = _LEFT + column * (_PLOT + _GAP)
        parts += _panel(by_metric, technologies, metric, title, left, base)
    at = _LEFT
    for table, title in TITLES.items():
        parts.append(f'<rect x="{at}" y="{height - 20}" width="12" height="10"'
                     f' fill="{_COLOURS[table]}"/>')  # fmt: skip
        parts.append(_text(at + 17, height - 11, title))
        at += 190
    parts.append(f'<path class="goal" d="M{at} {height - 15}h24"/>')
    parts.append(_text(at + 30, height - 11, "goal of the mean"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    by_metric: dict[tuple[str, str, str], Errors],
    technologies: Sequence[str],
    metric: str,
    title: str,
    left: int,
    base: int,
) -> Iterator[str]:
    shown = [each for (_, _, name), each in by_metric.items() if name == metric]
    step = next(s for s in (2, 5, 10, 20, 50, 100) if max(abs(e.worst) for e in shown) <= 6 * s)
    most = step * -(-max(abs(each.worst) for each in shown) // step)
    scale = _PLOT / most
    yield _text(left, 46, f"{title}, %", "head")
    for tick in range(0, int(most) + 1, step):
        x = left + tick * scale
        yield f'<path class="grid" d="M{x:.1f} {_TOP - 8}V{base}"/>'
        yield _text(x, _TOP - 12, str(tick), "tick")
    for row, technology in enumerate(technologies):
        for place, table in enumerate(TABLES):
            each = by_metric.get((table, technology, metric))
            if each is None:
                continue
            y = _TOP + _ROW * row + 6 + place * (_BAR + 4)
            worst, middle = left + abs(each.worst) * scale, y + _BAR / 2
            yield (
                f'<rect x="{left}" y="{y}" width="{each.mean * scale:.1f}" height="{_BAR}"'
                f' fill="{_COLOURS[table]}"><title>{escape(technology)}, {title}, {TITLES[table]}:'
                f" mean {each.mean:g} %, worst {each.worst:+g} %</title></rect>"
            )
            yield (
                f'<path class="worst" d="M{left + each.mean * scale:.1f} {middle:g}H{worst:.1f}'
                f'M{worst:.1f} {middle - 4:g}v8"/>'
            )
    x = left + GOALS[metric] * scale
    yield f'<path class="goal" d="M{x:.1f} {_TOP - 8}V{base}"/>'


def _percent(cell: str) -> float:
    return float(cell.removesuffix("%"))


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:g}" class="{style}">{escape(text)}</text>'


if __name__ == "__main__":
    drawn = picture((DOCS / SOURCE).read_text(encoding="utf-8"))
    (Path(sys.argv[1]) / "accuracy.svg").write_text(drawn, encoding="utf-8")
