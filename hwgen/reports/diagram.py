# SPDX-License-Identifier: Apache-2.0
"""The block diagram of a configuration: blocks, what flows between them, and ports, as SVG.

`cost_model.netlist.outline` reads a `Diagram` from a netlist; here it is laid out in layers from
the input ports at the left to the output ports at the right, and drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from itertools import pairwise
from typing import Any, Literal, Self

Role = Literal["array", "memory", "buffer", "control", "logic", "input", "output"]

ROLES: Mapping[str, tuple[str, str, str]] = {
    "array": ("repeated blocks", "#dbeafe", "#2563eb"),
    "memory": ("memory", "#fef3c7", "#b45309"),
    "buffer": ("buffer, register slice", "#f5f5f4", "#78716c"),
    "control": ("control", "#ede9fe", "#7c3aed"),
    "logic": ("other logic", "#d1fae5", "#047857"),
    "input": ("port", "#ffffff", "#1c1917"),
    "output": ("port", "#ffffff", "#1c1917"),
}
"""Role of a box: its entry in the legend, fill and outline."""


@dataclass(frozen=True)
class Box:
    """A block, several alike, or a port.

    Parameters
    ----------
    key : str
        Unique in the diagram.
    label : str
    role : Role
    lines : tuple of str
        What is inside.
    repeated : int
        Number of the blocks that its pattern of squares shows, 0 for none.
    title : str
        Hierarchical name and module, shown when the pointer rests on the box.
    """

    key: str
    label: str
    role: Role
    lines: tuple[str, ...] = ()
    repeated: int = 0
    title: str = ""


@dataclass(frozen=True)
class Link:
    """Data that flow from a box to another one; `bits` a cycle."""

    source: str
    target: str
    bits: int


@dataclass(frozen=True)
class Diagram:
    """The boxes of a design and the links between them."""

    title: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]

    def document(self) -> dict[str, Any]:
        """Return the diagram as plain values."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the diagram of plain values."""
        boxes = (Box(**{**box, "lines": tuple(box["lines"])}) for box in document["boxes"])
        return cls(document["title"], tuple(boxes), tuple(Link(**x) for x in document["links"]))


_CHARACTER, _LINE, _MARGIN, _COLUMN_GAP, _ROW_GAP, _SQUARE = 6.7, 15, 10, 54, 18, 7
_TITLE, _LANE = 34, 8
_MOST_ROWS, _MOST_COLUMNS, _WIDEST = 16, 16, 1120
_STYLE = (
    ".blocks{background:#fff}.blocks text{font:11px system-ui,sans-serif;fill:#1c1917}"
    ".blocks .name{font-size:12px;font-weight:bold}.blocks .bits{font-size:10px;fill:#57534e}"
    ".blocks .link{fill:none;stroke:#57534e;stroke-opacity:.75;marker-end:url(#blocks-tip)}"
    ".blocks .back{stroke-dasharray:5 3;stroke:#9f1239}.blocks .note{fill:#9f1239}"
)
_TIP = (
    '<defs><marker id="blocks-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9"'
    ' markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"'
    ' fill="#57534e"/></marker></defs>'
)


def draw(diagram: Diagram) -> str:
    """Return a diagram as SVG, without a newline at its end.

    Data flow to the right, or down where that is too wide for a page.
    """
    layout = layout_of(diagram)
    used = dict.fromkeys(box.role for box in diagram.boxes)
    legend = {ROLES[role][0]: role for role in ROLES if role in used}
    at, items = _MARGIN, []
    for text, role in legend.items():
        items.append((at, text, role))
        at += round(34 + _CHARACTER * len(text))
    back = "dashed: back to an earlier block" if layout.back else ""
    title = _CHARACTER * 1.15 * len(diagram.title)
    width = round(max(layout.width, at + _CHARACTER * len(back), title + 2 * _MARGIN))
    height = layout.height
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" class="blocks" role="img"'
            f' aria-label="{escape(diagram.title)}"><style>{_STYLE}</style>{_TIP}'
        ),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="name" x="{_MARGIN}" y="20">{escape(diagram.title)}</text>',
        *layout.draw_links(),
        *(_box(box, *layout.frame(box.key)) for box in diagram.boxes),
        *layout.draw_bits(),
    ]
    for x, text, role in items:
        _, fill, stroke = ROLES[role]
        lines.append(
            f'<rect x="{x}" y="{height - 20}" width="12" height="10" fill="{fill}"'
            f' stroke="{stroke}"/><text x="{x + 17}" y="{height - 11}">{text}</text>'
        )
    if back:
        lines.append(f'<text class="note" x="{at}" y="{height - 11}">{back}</text>')
    return "\n".join([*lines, "</svg>"])


def _pattern(repeated: int) -> tuple[int, int]:
    """Return the rows and columns of a pattern of squares, as near to a square as they divide."""
    if repeated < 2:
        return 0, 0
    rows = next(n for n in range(math.isqrt(repeated), 0, -1) if repeated % n == 0)
    return min(rows, _MOST_ROWS), min(repeated // rows, _MOST_COLUMNS)


def _size(box: Box) -> tuple[int, int]:
    """Return the width and height of a box."""
    rows, columns = _pattern(box.repeated)
    widest = max(len(box.label) * 1.15, *map(len, box.lines), 4)
    width = max(widest * _CHARACTER, columns * _SQUARE) + 20
    height = 26 + _LINE * len(box.lines) + (rows * _SQUARE + 6 if rows else 0)
    return round(width), height


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    _, fill, stroke = ROLES[box.role]
    radius = 12 if box.role in ("input", "output") else 4
    head = (
        f'<g class="box {box.role}"><title>{escape(box.title or box.label)}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"'
        f' fill="{fill}" stroke="{stroke}" stroke-width="1.3"/>'
        f'<text class="name" x="{x + 10:g}" y="{y + 17:g}">{escape(box.label)}</text>'
    )
    parts = [head]
    for index, line in enumerate(box.lines):
        parts.append(f'<text x="{x + 10:g}" y="{y + 32 + _LINE * index:g}">{escape(line)}</text>')
    rows, columns = _pattern(box.repeated)
    top = y + 22 + _LINE * len(box.lines)
    path = "".join(
        f"M{x + 10 + _SQUARE * column:g} {top + _SQUARE * row:g}h5v5h-5z"
        for row in range(rows)
        for column in range(columns)
    )
    if path:
        parts.append(f'<path d="{path}" fill="{stroke}" fill-opacity=".55"/>')
    return "".join([*parts, "</g>"])


def layout_of(diagram: Diagram) -> Layout:
    """Return the layout of a diagram: to the right, or down where that is too wide for a page."""
    layout = Layout(diagram, down=False)
    return layout if layout.width <= _WIDEST else Layout(diagram, down=True)


class Layout:
    """Positions of boxes in layers, and of links between them.

    Parameters
    ----------
    diagram : Diagram
    down : bool
        Whether data flow down, not to the right.

    Attributes
    ----------
    frames : dict
        Key of a box to its start and its side along and across the flow, and its sizes likewise.
    back : set of Link
        Links that lead to an earlier layer or to the same one.
    """

    def __init__(self, diagram: Diagram, *, down: bool) -> None:
        self.diagram, self.down = diagram, down
        self.boxes = {box.key: box for box in diagram.boxes}
        self.layer = self._layers()
        self.back = {link for link in diagram.links
                     if self.layer[link.source] >= self.layer[link.target]}  # fmt: skip
        # A chain of one point in each layer that a link crosses keeps its line off the boxes.
        self.chains: dict[Link, list[str]] = {}
        columns: list[list[str]] = [[] for _ in range(max(self.layer.values(), default=0) + 1)]
        for key, layer in self.layer.items():
            columns[layer].append(key)
        for number, link in enumerate(diagram.links):
            if link in self.back:
                continue
            between = range(self.layer[link.source] + 1, self.layer[link.target])
            self.chains[link] = [link.source, *(f"{number}@{at}" for at in between), link.target]
            for at in between:
                columns[at].append(f"{number}@{at}")
        self.columns = self._order(columns)
        self.frames: dict[str, tuple[float, float, float, float]] = {}
        self._position()

    def _layers(self) -> dict[str, int]:
        """Return the layer of every box: the longest path from an input, cycles opened."""
        after: dict[str, list[str]] = {key: [] for key in self.boxes}
        for link in sorted(self.diagram.links, key=lambda link: -link.bits):
            after[link.source].append(link.target)
        state: dict[str, int] = {}
        order: list[str] = []
        ahead: dict[str, list[str]] = {key: [] for key in self.boxes}

        def visit(key: str) -> None:
            state[key] = 1
            for target in after[key]:
                if state.get(target) == 1:
                    continue  # would close a cycle
                ahead[key].append(target)
                if target not in state:
                    visit(target)
            state[key] = 2
            order.append(key)

        first = sorted(self.boxes.values(), key=lambda box: box.role != "input")
        for box in first:
            if box.key not in state:
                visit(box.key)
        layer = dict.fromkeys(self.boxes, 0)
        for key in reversed(order):
            for target in ahead[key]:
                layer[target] = max(layer[target], layer[key] + 1)
        # What feeds something moves next to it, but inputs stay at the left.
        for key in order:
            if ahead[key] and self.boxes[key].role != "input":
                layer[key] = min(layer[target] for target in ahead[key]) - 1
        last = max(layer.values(), default=0)
        for key, box in self.boxes.items():
            if box.role == "output":
                layer[key] = last
        return layer

    def _order(self, columns: list[list[str]]) -> list[list[str]]:
        """Return the keys of each layer in an order with few crossings."""
        near: dict[str, list[str]] = {}
        for chain in self.chains.values():
            for one, other in pairwise(chain):
                near.setdefault(one, []).append(other)
                near.setdefault(other, []).append(one)
        layer = {key: index for index, column in enumerate(columns) for key in column}
        rank: dict[str, float] = {}

        def number(column: list[str]) -> None:
            rank.update((key, index - len(column) / 2) for index, key in enumerate(column))

        for column in columns:
            number(column)
        for step in range(12):
            side = -1 if step % 2 == 0 else 1
            for at in range(len(columns))[::-side]:
                middles = {}
                for key in columns[at]:
                    ranks = [rank[each] for each in near.get(key, ()) if layer[each] == at + side]
                    middles[key] = sum(ranks) / len(ranks) if ranks else rank[key]
                columns[at] = sorted(columns[at], key=middles.__getitem__)
                number(columns[at])
        return columns

    def _position(self) -> None:
        """Set the frame of every box: along the flow, across it, and the sizes in these terms."""
        sizes = {}
        for column in self.columns:
            for key in column:
                width, height = _size(self.boxes[key]) if key in self.boxes else (8, 8)
                sizes[key] = (height, width) if self.down else (width, height)
        gap, between = (_ROW_GAP + 6, 30) if self.down else (_COLUMN_GAP, _ROW_GAP)
        across = [sum(sizes[key][1] + between for key in column) for column in self.columns]
        widest = max(across, default=0)
        along: float = _TITLE if self.down else _MARGIN
        for column, extent in zip(self.columns, across, strict=True):
            deepest = max((sizes[key][0] for key in column), default=0)
            side = (widest - extent) / 2 + (_MARGIN if self.down else _TITLE)
            for key in column:
                depth, breadth = sizes[key]
                depth = depth if key in self.boxes else deepest
                start = along if self.down else along + (deepest - depth) / 2
                self.frames[key] = (start, side, depth, breadth)
                side += breadth + between
            along += deepest + gap
        lanes = _LANE * len(self.back)
        if self.down:
            self.base = round(widest + _MARGIN)
            self.width, self.height = self.base + lanes, round(along - gap) + 40
        else:
            self.base = round(widest + _TITLE)
            self.width, self.height = round(along - gap + _MARGIN), self.base + lanes + 34

    def frame(self, key: str) -> tuple[float, float, float, float]:
        """Return x, y, width and height of a box."""
        along, across, depth, breadth = self.frames[key]
        return (across, along, breadth, depth) if self.down else (along, across, depth, breadth)

    def _port(self, link: Link, key: str, *, out: bool) -> float:
        """Return the position across the flow at which a link leaves or reaches a box."""
        _, side, _, breadth = self.frames[key]
        chains = [c for c in self.chains.items() if key == (c[1][0] if out else c[1][-1])]
        chains.sort(key=lambda c: self.frames[c[1][1] if out else c[1][-2]][1])
        index = [each for each, _ in chains].index(link)
        return side + breadth * (index + 1) / (len(chains) + 1)

    def _point(self, along: float, across: float) -> str:
        return f"{across:.1f} {along:.1f}" if self.down else f"{along:.1f} {across:.1f}"

    def draw_links(self) -> Iterator[str]:
        """Yield the lines; the wider the data, the thicker."""
        for link, chain in self.chains.items():
            points = []
            for index, key in enumerate(chain):
                along, side, depth, breadth = self.frames[key]
                middle = side + breadth / 2
                if index:
                    here = self._port(link, key, out=False) if key in self.boxes else middle
                    points.append((along, here))
                if index < len(chain) - 1:
                    here = self._port(link, key, out=True) if key in self.boxes else middle
                    points.append((along + depth, here))
            path = f"M{self._point(*points[0])}"
            for (u0, v0), (u1, v1) in pairwise(points):
                half = (u0 + u1) / 2
                ends = (self._point(half, v0), self._point(half, v1), self._point(u1, v1))
                path += f"L{ends[2]}" if abs(v0 - v1) < 0.5 else f"C{' '.join(ends)}"
            yield self._line(link, path, "link")
        for index, link in enumerate(
            sorted(self.back, key=lambda link: (link.source, link.target))
        ):
            u0, v0, depth0, breadth0 = self.frames[link.source]
            u1, v1, depth1, breadth1 = self.frames[link.target]
            lane = self.base + _LANE * index
            start, end = u0 + depth0 * 0.7, u1 + depth1 * 0.3
            path = "L".join(
                self._point(u, v)
                for u, v in (
                    (start, v0 + breadth0),
                    (start, lane),
                    (end, lane),
                    (end, v1 + breadth1),
                )
            )
            yield self._line(link, f"M{path}", "link back")

    def _line(self, link: Link, path: str, style: str) -> str:
        source, target = (escape(self.boxes[key].label) for key in (link.source, link.target))
        thick = 1 + 0.28 * math.log2(max(1, link.bits))
        return (
            f'<path class="{style}" stroke-width="{thick:.1f}" d="{path}">'
            f"<title>{source} to {target}: {link.bits:,} bits</title></path>"
        )

    def draw_bits(self) -> Iterator[str]:
        """Yield the width of each link, at its end."""
        for link in self.chains:
            along, side = self.frames[link.target][0], self._port(link, link.target, out=False)
            x, y, anchor = (side + 5, along - 7, "start") if self.down else (
                along - 10, side - 4, "end"
            )  # fmt: skip
            yield (
                f'<text class="bits" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                f"{link.bits:,}</text>"
            )
