# SPDX-License-Identifier: Apache-2.0
"""Cycles of systolic arrays: exact, and the flow of beats for an engine around them.

The counts follow from the cores' sequencers (`rtl_templates.systolic.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hwgen.core.cycles.core_flow import Queue, Slices
from hwgen.core.cycles.counting import Number, as_integer, ceil_div
from hwgen.families.systolic.schedule import Schedule
from hwgen.lazy import np

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""


def gemm_cycles(config: SystolicConfig, sizes: Iterable[Size]) -> int:
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
    way out, where post-processing delays it further.
    """
    array, plans = config.array, [Schedule(config, *size) for size in sizes]
    latency = config.drain_latency if config.output_stationary else config.psum_latency
    result = count_cycles(
        config, array.rows, array.cols, array.accumulator_depth, latency,
        [(plan.m, plan.slices, plan.n) for plan in plans],
    )  # fmt: skip
    return as_integer(result) + config.post_latency


def count_slices(config: SystolicConfig, k: int) -> int:
    """Return the slices of a reduction: of blocks whole ones."""
    if config.block_product is None:
        return k
    length = config.block_product.length
    return -(-k // length) * length


def count_cycles(
    config: SystolicConfig,
    rows: Number,
    cols: Number,
    depth: Number,
    latency: Number,
    sizes: Sequence[Size],
) -> Number:
    """Return the cycles of arrays of the configuration's kind."""
    slots: Number = 0
    if config.output_stationary:
        for (m, k, n), repeats in Counter(sizes).items():
            slots = slots + repeats * ceil_div(m, rows) * ceil_div(n, cols) * np.maximum(k, rows)
        k = sizes[0][1]
        last_drain = 1 + slots - np.maximum(k, rows) + k
        return last_drain + rows + latency + 2
    for (m, k, n), repeats in Counter(sizes).items():
        x, y = (n, m) if config.input_stationary else (m, n)
        block, xs, remainder = count_passes(x, k, rows, depth)
        passes = repeats * ceil_div(k, rows) * ceil_div(y, cols)
        slots = slots + passes * ((xs - 1) * np.maximum(block, rows) + np.maximum(remainder, rows))
    m, k, n = sizes[-1]
    _, _, remainder = count_passes(n if config.input_stationary else m, k, rows, depth)
    last_beat = rows + slots - np.maximum(remainder, rows) + remainder
    # Behind the partial sums: their register, the totals, the output buffer.
    return last_beat + latency + 4


def count_passes(x: int, k: int, rows: Number, depth: Number) -> tuple[Number, Number, Number]:
    """Return the beats of a pass, the passes over `x`, and the beats of the last of them."""
    # One tile that covers the whole reduction accumulates nothing, so no memory bounds it.
    block = np.where(k <= rows, x, np.minimum(x, depth))
    passes = ceil_div(x, block)
    return block, passes, x - (passes - 1) * block


class OutputStationary:
    """Slots, drains at least as many cycles apart as there are rows, and credits for rows."""

    def __init__(self, config: SystolicConfig) -> None:
        self._rows = config.array.rows
        self._act, self._wgt = Queue(), Queue()
        self._starting, self._finished, self._draining = True, False, 0
        self._credits = config.geometry.drain_entries
        self._line, self._stages = 0, config.geometry.drain_stages
        self._buffered = 0  # rows in the buffer behind the array
        steps = config.final_addition.registers if config.final_addition else 0
        self._slices = Slices(steps + 1) if config.geometry.in_steps else None

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, pop: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        x, y, draining = self._act, self._wgt, self._draining
        valid, slices = self._buffered > 0, self._slices
        if slices is None:
            gives, popped = valid, valid and pop
        else:
            gives = slices.full > 0
            popped = slices.pass_cycle(valid, pop) and valid
        bus_free = draining <= 1
        drain = self._finished and bus_free
        drains = drain or draining > 1
        ready = self._credits > 0 or popped
        run = ready or not drains
        commit = drains and ready
        waits = self._starting and self._finished and not bus_free
        fire = run and x.count > 0 and y.count > 0 and not waits
        last = bool(x.lasts & 1)
        if run:
            self._finished = (self._finished and not drain) or (fire and last)
            self._draining = self._rows if drain else draining - (draining > 0)
            if fire:
                self._starting = last
        self._buffered += (self._line & 1) - popped
        self._line = self._line >> 1 | commit << (self._stages - 1)
        self._credits += popped - commit
        act_room = x.pass_cycle(act, act_last, fire)
        wgt_room = y.pass_cycle(wgt, False, fire)
        return act_room, wgt_room, gives

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        slices = self._slices.state() if self._slices else ()
        x, y = self._act, self._wgt
        return (
            x.count, x.lasts, y.count, self._starting, self._finished, self._draining,
            self._credits, self._line, self._buffered, *slices,
        )  # fmt: skip

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        x, y = self._act, self._wgt
        (
            x.count, x.lasts, y.count, starting, finished, self._draining, self._credits,
            self._line, self._buffered, *slices,
        ) = state  # fmt: skip
        self._starting, self._finished = bool(starting), bool(finished)
        if self._slices:
            self._slices.restore(tuple(slices))


class Stationary:
    """Passes; the next tile loads in the shadow of the current one, and all advance together."""

    def __init__(self, config: SystolicConfig) -> None:
        self._rows = config.array.rows
        self._act, self._wgt = Queue(), Queue()
        self._loaded = self._ends = self._passing = self._ending = False
        self._position = 0
        # From the slot to the accumulators, and two registers until totals are results.
        self._line, self._stages = 0, config.psum_latency + 2
        self._results = 0  # in the output buffer

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, pop: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        x, y = self._act, self._wgt
        ready, done, gives = self._results < 2, self._line & 1, self._results > 0
        run = ready or not done
        fire = load = False
        if run:
            there = x.count > 0
            swap = there and self._loaded and not self._passing
            fire = there and (self._passing or self._loaded)
            load = y.count > 0 and (not self._loaded or swap)
            closes = self._ends if swap else self._ending
            if fire:
                self._passing = not x.lasts & 1
            if swap:
                self._loaded, self._ending = False, self._ends
            if load:
                self._position += 1
                if self._position == self._rows:
                    self._position = 0
                    self._loaded, self._ends = True, bool(y.lasts & 1)
            self._line = self._line >> 1 | (fire and closes) << (self._stages - 1)
            self._results += done
        self._results -= gives and pop
        act_room = x.pass_cycle(act, act_last, fire)
        wgt_room = y.pass_cycle(wgt, wgt_last, load)
        return act_room, wgt_room, gives

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        x, y = self._act, self._wgt
        return (
            x.count, x.lasts, y.count, y.lasts, self._loaded, self._ends, self._passing,
            self._ending, self._position, self._line, self._results,
        )  # fmt: skip

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        x, y = self._act, self._wgt
        (
            x.count, x.lasts, y.count, y.lasts, loaded, ends, passing, ending, self._position,
            self._line, self._results,
        ) = state  # fmt: skip
        self._loaded, self._ends = bool(loaded), bool(ends)
        self._passing, self._ending = bool(passing), bool(ending)
