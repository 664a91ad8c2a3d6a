# SPDX-License-Identifier: Apache-2.0
"""Cost of the systolic family: exact cycles.

The counts follow from the cores' sequencers (`rtl_templates.systolic.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hwgen.schedules.systolic import Schedule

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""


def cycles(config: SystolicConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]`` at full-rate streams.

    Counted from the cycle of the first input beat to that of the last output beat, both included.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: SystolicConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products that follow each other without a pause.

    Parameters
    ----------
    config : SystolicConfig
    sizes : iterable of (m, k, n)
        At least one.

    Notes
    -----
    Output-stationary: slots of a tile follow those of the tile before, but drains, at the slot
    after each tile, are at least `rows` apart, so a tile takes ``max(K, rows)`` slots; the first
    is not held up.  After the last drain starts, `rows` rows drain.

    Weight- and input-stationary: the first tile loads for `rows` cycles; a pass takes as long as
    its beats, or as the next tile's loading (`rows`) if that is longer; the last pass is not
    held up.

    Both: a beat spends one cycle in the buffer of its port on the way in, a result one on the
    way out.
    """
    plans = [Schedule(config, *size) for size in sizes]
    rows = config.array.rows
    if config.output_stationary:
        tiles = sum(plan.blocks[0] * plan.blocks[2] * max(plan.k, rows) for plan in plans)
        first_slot = 1
        last_drain = first_slot + tiles - max(plans[0].k, rows) + plans[0].k
        return last_drain + rows + config.drain_latency + 2
    passes = 0
    for plan in plans:
        xs, ks, ys = plan.blocks
        remainder = plan.outputs_per_column - (xs - 1) * plan.x_block
        passes += ks * ys * ((xs - 1) * max(plan.x_block, rows) + max(remainder, rows))
    first_slot = rows + 1
    last_beat = first_slot + passes - max(remainder, rows) + remainder - 1
    # Behind the partial sums: their register, the totals, the output buffer.
    return last_beat + config.psum_latency + 4
