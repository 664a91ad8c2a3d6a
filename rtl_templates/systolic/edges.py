# SPDX-License-Identifier: Apache-2.0
"""Logic around the tiles: skewing registers, delays between tiles, the collector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import DelayLines

from .tile import TILE_ROWS, tile_rows

if TYPE_CHECKING:
    from hwgen.families.systolic.params import ArrayGeometry


def next_tile(
    m: Module, geometry: ArrayGeometry, signals: dict[str, Value], index: int, run: Value | None
) -> dict[str, Value]:
    """Return the row signals behind a whole tile: one register a column group."""
    groups, enabled = geometry.groups_per_tile, run is not None
    result: dict[str, Value] = {}
    for name, value in signals.items():
        block = DelayLines(f"pass_{name}", [(len(value), groups)], enabled=enabled)
        result[name] = _delayed(m, f"pass_{name}_{index}", block, value, run)
    return result


class Collector(Block):
    """OR of what the bands of a column of tiles drain, registered before it.

    Members
    -------
    i : In
        One word a band.
    o : Out
        Their OR, one cycle later.
    """

    def __init__(self, width: int, bands: int) -> None:
        super().__init__(f"collect_{width}", {"i": In(width * bands), "o": Out(width)})
        self.data_width, self.bands = width, bands

    def build(self, m: Module) -> None:
        words = Signal(self.data_width * self.bands, reset_less=True)
        m.d.sync += words.eq(self.i)
        total: Value = words[: self.data_width]
        for band in range(1, self.bands):
            total = total | words.word_select(band, self.data_width)
        m.d.comb += self.o.eq(total)


def collect(m: Module, feet: Sequence[Value], index: int) -> Value:
    """Return the results that a column of tiles drains, collected if it has several bands."""
    if len(feet) == 1:
        return feet[0]
    out = Signal(len(feet[0]), name=f"collected_{index}")
    place(m, f"collect_{index}", Collector(len(out), len(feet)), i=Cat(*feet), o=out)
    return out


def _delayed(m: Module, name: str, delays: DelayLines, value: Value, run: Value | None) -> Value:
    out = Signal(len(value), name=f"{name}_o")
    place(m, name, delays, i=value, o=out, **({} if run is None else {"run": run}))
    return out


def row_skew(m: Module, geometry: ArrayGeometry, value: Value, first: int, run: Value) -> Value:
    """Delay lane r of `value` by ``first + r`` cycles of `run`.

    A band of rows is one triangle of registers behind a number of equal delay blocks, so that the
    modules stay few and small however many rows there are.
    """
    width = len(value) // geometry.rows
    bands = []
    for band, (top, rows) in enumerate(tile_rows(geometry)):
        lanes: Value = value[top * width : (top + rows) * width]
        block = DelayLines(f"delay_x{rows}", [(rows * width, TILE_ROWS)], enabled=True)
        for stage in range(band):
            lanes = _delayed(m, f"delay_x_{band}_{stage}", block, lanes, run)
        triangle = DelayLines(
            f"skew_x{rows}", [(width, first + row) for row in range(rows)], enabled=True
        )
        bands.append(_delayed(m, f"skew_x_{band}", triangle, lanes, run))
    return Cat(*bands)


def column_skew(
    m: Module,
    name: str,
    geometry: ArrayGeometry,
    value: Value,
    delay: Callable[[int], int],
    run: Value | None = None,
) -> Value:
    """Delay the columns of `value` by ``delay(group)`` cycles."""
    cols, broadcast, groups = geometry.cols, geometry.broadcast, geometry.groups
    if groups == 1:
        return value
    width = len(value) // cols
    lanes = [
        (width * min(broadcast, cols - group * broadcast), delay(group)) for group in range(groups)
    ]
    delays = DelayLines(name, lanes, enabled=run is not None)
    return _delayed(m, name, delays, value, run)
