# SPDX-License-Identifier: Apache-2.0
"""Global placement of cells: a lower bound by springs, an upper bound by even spreading.

The method alternates two steps, as analytical placers do.  Springs between the pins of each net are
relaxed, which makes wires short and lets cells overlap; then the area is halved again and again,
and cells with it, which spreads them evenly.  Each next relaxation holds cells near their spread
positions, a little tighter every time, until both agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 40
"""Relaxations, at most."""

_ANCHOR = 0.01
"""Growth of the pull to the spread positions, a round."""

_AGREED = 0.08
"""Share by which the two lengths of wire differ when placement ends."""

_NEAR = 1e-3
"""Length below which a spring gets no stiffer, as a share of the edge."""

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Nets:
    """Nets of a design: which pins each has.

    Parameters
    ----------
    cell : ndarray of int, shape (pins,)
        Cell of each pin; from the number of cells on they are ports.
    net : ndarray of int, shape (pins,)
        Net of each pin, ascending; every net has at least two pins.
    """

    cell: Ints
    net: Ints

    @property
    def starts(self) -> Ints:
        """First pin of each net."""
        return np.flatnonzero(np.diff(self.net, prepend=-1))

    def lengths(self, x: Floats, y: Floats) -> Floats:
        """Return half the perimeter of the box around the pins of each net."""
        total = np.zeros(len(self.starts))
        for at in (x[self.cell], y[self.cell]):
            total += np.maximum.reduceat(at, self.starts) - np.minimum.reduceat(at, self.starts)
        return total


@dataclass(frozen=True)
class Placement:
    """Positions of cells and ports.

    Parameters
    ----------
    x, y : ndarray of float, shape (cells + ports,)
        In units of the edge's.
    edge : float
        Edge of the square.
    rounds : int
        Relaxations that it took.
    """

    x: Floats
    y: Floats
    edge: float
    rounds: int


def place(areas: Floats, nets: Nets, inputs: int, outputs: int, edge: float) -> Placement:
    """Place cells in a square.

    Inputs lie in their order on the left and the upper edge, outputs on the right and the lower.

    Parameters
    ----------
    areas : ndarray of float, shape (cells,)
    nets : Nets
        Ports are numbered after the cells, inputs first.
    inputs, outputs : int
        Number of ports.
    edge : float
        Edge of the square; its area is at least that of the cells.
    """
    cells = len(areas)
    ports = _ports(inputs, outputs, edge)
    start = np.full((cells, 2), edge / 2)
    at = np.concatenate([start, ports])
    for _ in range(3):  # springs get their stiffness from the positions before
        at[:cells] = _relaxed(at, nets, cells, edge, None, 0.0)
    best, least, rounds = at.copy(), np.inf, 0
    for rounds in range(1, ROUNDS + 1):
        spread = at.copy()
        spread[:cells] = spread_evenly(at[:cells], areas, edge)
        length = float(nets.lengths(spread[:, 0], spread[:, 1]).sum())
        if length < least:
            best, least = spread, length
        at[:cells] = _relaxed(at, nets, cells, edge, spread[:cells], _ANCHOR * rounds)
        if float(nets.lengths(at[:, 0], at[:, 1]).sum()) > (1 - _AGREED) * least:
            break
    return Placement(best[:, 0], best[:, 1], edge, rounds)


def _ports(inputs: int, outputs: int, edge: float) -> Floats:
    """Return positions along two edges each, the first port of both near the upper left."""
    first = np.linspace(0, 2 * edge, inputs, endpoint=False) + edge / max(inputs, 1)
    last = np.linspace(0, 2 * edge, outputs, endpoint=False) + edge / max(outputs, 1)
    # Up the left edge and along the upper one; down from the right end of the lower one.
    left = np.stack([np.maximum(first - edge, 0), np.minimum(first, edge)], axis=1)
    right = np.stack([np.minimum(last, edge), np.maximum(last - edge, 0)], axis=1)
    return np.concatenate([left, right])


def _relaxed(
    at: Floats, nets: Nets, cells: int, edge: float, anchors: Floats | None, pull: float
) -> Floats:
    """Return the positions of cells at which springs are relaxed, in both directions."""
    from scipy.sparse import coo_array, diags_array  # heavy; only placement needs it
    from scipy.sparse.linalg import cg

    result = np.empty((cells, 2))
    for axis in (0, 1):
        one, other, stiffness = _springs(at[:, axis], nets, _NEAR * edge)
        ends = np.concatenate([one, other]), np.concatenate([other, one])
        both = np.concatenate([stiffness, stiffness])
        mine = ends[0] < cells
        first, second, weight = ends[0][mine], ends[1][mine], both[mine]
        diagonal: Floats = np.bincount(first, weight, cells).astype(float) + 1e-9
        fixed = second >= cells
        pulled = weight[fixed] * at[second[fixed], axis]
        force: Floats = np.bincount(first[fixed], pulled, cells).astype(float)
        if anchors is None:
            diagonal += 1e-6 * diagonal
            force += 1e-6 * diagonal * edge / 2
        else:
            away = np.abs(at[:cells, axis] - anchors[:, axis])
            held = pull / np.maximum(away, _NEAR * edge)
            diagonal = diagonal + held
            force = force + held * anchors[:, axis]
        free = ~fixed
        matrix = diags_array(diagonal) - coo_array(
            (weight[free], (first[free], second[free])), shape=(cells, cells)
        )
        solved, _ = cg(
            matrix.tocsr(), force, x0=at[:cells, axis], rtol=_TOLERANCE, maxiter=300,
            M=diags_array(1 / diagonal),
        )  # fmt: skip
        result[:, axis] = np.clip(solved, 0, edge)
    return result


def _springs(at: Floats, nets: Nets, near: float) -> tuple[Ints, Ints, Floats]:
    """Return springs that pull as half the perimeter does: all pins to the two outermost."""
    starts = nets.starts
    counts = np.diff(np.append(starts, len(nets.net)))
    position = at[nets.cell]
    order = np.lexsort((position, nets.net))
    low, high = order[starts], order[starts + counts - 1]
    pins = np.arange(len(nets.net))
    which = np.repeat(np.arange(len(starts)), counts)
    to_low = pins[pins != low[which]]
    inner = pins[(pins != low[which]) & (pins != high[which])]
    one = np.concatenate([to_low, inner])
    other = np.concatenate([low[which[to_low]], high[which[inner]]])
    distance = np.maximum(np.abs(position[one] - position[other]), near)
    stiffness = 1.0 / ((counts[which[one]] - 1) * distance)
    return nets.cell[one], nets.cell[other], stiffness


def spread_evenly(at: Floats, areas: Floats, edge: float) -> Floats:
    """Return positions at which cells fill a square evenly, near where they are.

    Parameters
    ----------
    at : ndarray of float, shape (cells, 2)
    areas : ndarray of float, shape (cells,)
    edge : float
    """
    cells = len(areas)
    group = np.zeros(cells, dtype=np.int64)
    boxes = np.array([[0.0, 0.0, edge, edge]])  # left, low, right, high
    while len(boxes) < cells:  # until each has a box of its own
        wide = boxes[:, 2] - boxes[:, 0] >= boxes[:, 3] - boxes[:, 1]
        along = np.where(wide[group], at[:, 0], at[:, 1])
        order = np.lexsort((along, group))
        total = np.bincount(group, areas, len(boxes))
        before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
        ordered = areas[order]
        middle = np.cumsum(ordered) - ordered / 2 - before[group[order]]
        upper = np.empty(cells, dtype=bool)
        upper[order] = middle > total[group[order]] / 2
        share = np.bincount(group[~upper], areas[~upper], len(boxes)) / np.maximum(total, 1e-30)
        halves = np.repeat(boxes, 2, axis=0)
        cut_x = boxes[:, 0] + share * (boxes[:, 2] - boxes[:, 0])
        cut_y = boxes[:, 1] + share * (boxes[:, 3] - boxes[:, 1])
        halves[0::2, 2] = np.where(wide, cut_x, boxes[:, 2])
        halves[1::2, 0] = np.where(wide, cut_x, boxes[:, 0])
        halves[0::2, 3] = np.where(wide, boxes[:, 3], cut_y)
        halves[1::2, 1] = np.where(wide, boxes[:, 1], cut_y)
        group = 2 * group + upper
        used, group = np.unique(group, return_inverse=True)
        boxes = halves[used]
    return np.stack(
        [(boxes[group, 0] + boxes[group, 2]) / 2, (boxes[group, 1] + boxes[group, 3]) / 2], axis=1
    )
