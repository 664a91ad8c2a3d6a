# SPDX-License-Identifier: Apache-2.0
"""The loop nests in which a core goes through a block of a product held in memories beside it.

A memory engine does not know the families.  A core that can work inside one says, by a
`LoopNest` of its configuration, which element of a block each beat of its ports holds; the
planner, the address generators and the cycle model all read that description.

A block is `rows` x `terms` of A and `terms` x `columns` of W.  The engine holds

- A as rows of beats: of `k_lanes` terms of one row, or, if `m_lanes` is more than one, of
  `k_lanes` terms of `m_lanes` rows, which then lie in memories of their own;
- W as rows of beats of `n_lanes` columns of one term, or, if `weight_terms` is more than one, of
  `weight_terms` terms, which then lie in memories of their own, or as the image that a core packs,
  or, with `weight_columns`, as A: columns of beats along the reduction, `n_lanes` of which lie in
  memories of their own;
- C as rows of beats of `n_lanes` columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Count = Literal[
    "rows", "row_tiles", "tile_rows", "k_tiles", "k_beats", "weight_rows", "column_tiles",
    "weight_beats",
]  # fmt: skip
"""How often a loop runs; see `LoopNest`."""

Stride = Literal["nothing", "beat", "act_row", "weight_row", "result_row", "result_tile"]
"""How far a loop moves; see `LoopNest`."""

Loops = tuple[tuple[Count, Stride], ...]
"""Loops around a beat, the outermost first; ``tlast`` is set at the end of the innermost."""


ACT_OF_BLOCKS: Loops = (("row_tiles", "act_row"), ("column_tiles", "nothing"), ("k_beats", "beat"))
WGT_OF_BLOCKS: Loops = (
    ("row_tiles", "nothing"), ("column_tiles", "weight_row"), ("weight_rows", "beat"),
)  # fmt: skip
"""Of a core that computes tile after tile, with `LoopNest.weight_columns`."""


@dataclass(frozen=True)
class LoopNest:
    """The order in which a core takes and gives the beats of a block.

    Parameters
    ----------
    m_lanes, k_lanes, n_lanes : int
        Rows and terms of A in a beat of port ``act``; columns of C in a beat of port ``out``.
    act, wgt, out : Loops
        Loops around the beats of a port.  Counts of a block: ``rows``; ``row_tiles`` of `m_lanes`
        rows; ``tile_rows``, which is `m_lanes`; ``k_tiles`` of `k_lanes` terms; ``k_beats`` and
        ``weight_rows``, as many for each of the ``k_tiles``; ``column_tiles`` of `n_lanes` columns;
        ``weight_beats``, `weight_beats` for each of the ``column_tiles``.  Strides: a ``beat``,
        a row of A (``act_row``), W (``weight_row``) or C (``result_row``), or `m_lanes` rows of C
        (``result_tile``).
    k_beats : int
        Beats of a row of A for each tile of terms.
    weight_rows, weight_beats : int
        Rows of beats of W that the engine holds for each tile of terms, or beats of each column;
        beats of each such row for each tile of columns.
    weight_terms : int
        Terms in a beat of port ``wgt``; the port has those of a column together.
    weight_columns : bool
        Whether W lies column by column, so that its blocks along the reduction are together.
    image : bool
        Whether W is the packed image, which has one row for each tile of terms, and not the matrix.
    max_rows, max_column_tiles : int
        Largest block, where a memory in the core bounds it.
    """

    m_lanes: int
    k_lanes: int
    n_lanes: int
    act: Loops
    wgt: Loops
    out: Loops
    weight_rows: int
    weight_beats: int = 1
    weight_terms: int = 1
    weight_columns: bool = False
    k_beats: int = 1
    image: bool = False
    max_rows: int = 1 << 24
    max_column_tiles: int = 1 << 24
