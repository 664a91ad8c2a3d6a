# SPDX-License-Identifier: Apache-2.0
"""How a systolic array is divided, and how long values take through it.

Generators, schedules and cycle models have one array at hand, sweeps have many at once: all
numbers may be integers or NumPy arrays of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUS_ROWS = 16
"""Rows whose results reach the column bus through one OR: those of a tile."""

TILE_COLUMNS = 16
"""Columns of a tile, where column groups allow."""


@dataclass(frozen=True)
class ArrayGeometry:
    """The parameters that an array is divided by, and what follows from them.

    Parameters
    ----------
    rows, cols, broadcast : int or ndarray
        PEs; columns that share a register of the operand that moves along the rows.
    pe, final_adder : int or ndarray
        Registers in a PE in front of its accumulator, and inside the final adders.
    digits : bool
        Whether results are put together, or rounded, on their way out.
    """

    rows: Any
    cols: Any
    broadcast: Any
    pe: Any
    final_adder: Any
    digits: bool

    @property
    def groups(self) -> Any:
        """Groups of columns; each registers the operand that moves along the rows once."""
        return -(-self.cols // self.broadcast)

    @property
    def segments(self) -> Any:
        """Runs of up to `BUS_ROWS` rows whose results reach the output through one OR."""
        return -(-self.rows // BUS_ROWS)

    @property
    def groups_per_tile(self) -> Any:
        """Column groups of a tile."""
        fit = TILE_COLUMNS // self.broadcast
        return fit + (fit < 1)

    @property
    def tiles(self) -> Any:
        """Tiles along a row."""
        return -(-self.cols // (self.broadcast * self.groups_per_tile))

    @property
    def bus_latency(self) -> Any:
        """Cycles from the slot at a row's edge to its accumulators at the foot of the array.

        Output-stationary: the registers of the PE, of the tree that collects the bus segments,
        and of the column groups.
        """
        return self.pe + (self.segments > 1) + self.groups - 1

    @property
    def drain_latency(self) -> Any:
        """Cycles from the slot at a row's edge to its results at the output buffer.

        Output-stationary: `bus_latency`, and registers in front of the adders of carries and
        inside them.
        """
        return self.bus_latency + self.digits + self.final_adder

    @property
    def in_steps(self) -> Any:
        """Whether results are put together in steps behind their buffer (output-stationary)."""
        return self.digits & (self.final_adder > 0)

    @property
    def drain_stages(self) -> Any:
        """Registers from a row's drain to the buffer of rows (output-stationary)."""
        behind = self.drain_latency - self.bus_latency
        return 1 + self.drain_latency - behind * self.in_steps

    @property
    def drain_entries(self) -> Any:
        """Rows that the buffer behind the array holds (output-stationary)."""
        return 1 + self.drain_stages

    @property
    def psum_latency(self) -> Any:
        """Cycles from a beat's slot to its partial sums at the accumulators.

        Weight- and input-stationary: one cycle a row, two for the operand registers at the edge,
        the registers of the PE and of the column groups.
        """
        return self.rows + 2 + self.pe + self.groups - 1


def block_stages(pe: Any) -> Any:
    """Return the registers of a PE that multiplies blocks: also the sum and the term of one."""
    return pe + 2


def psum_terms(row: int, rows: int) -> int:
    """Return the terms that the partial sums of a row are wide enough for, of so many rows.

    Exact in the first run of `BUS_ROWS` rows, where they grow quickly; then those of the last row
    of the run, so that its rows and often whole tiles are equal.
    """
    if row < BUS_ROWS:
        return row + 1
    return min(-(-(row + 1) // BUS_ROWS) * BUS_ROWS, rows)
