# SPDX-License-Identifier: Apache-2.0
"""Cost of the GEMM streaming family: cycles from memory to memory.

A job goes through loads, cores and drain, each working on blocks in order with two halves of
buffer between them, so the times at which they are done with a block follow from one another.
The model keeps those times, block by block, for a memory that gives and takes a beat a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from cost_model.families.gemm_stream_memory import buffers, use
from hwgen.families import family
from hwgen.figures import Cycles
from hwgen.numerics.post.records import RECORD_BYTES
from hwgen.schedules.gemm_stream import Block, Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig

__all__ = ["buffers", "cycles", "cycles_of", "plan_cycles", "timed", "transferred", "use"]

Size = tuple[int, int, int]
"""M, K and N of one product."""

REQUEST = 6
"""Cycles from the request of a row to its first beat in the buffer, of an ideal memory."""

READ_TRIP, WRITE_TRIP = 2, 2
"""Cycles that a burst is in flight beside those of its beats."""

FILLED = 2
"""Cycles from a block's last word to its first beat at the cores."""

ROOM = 1
"""Cycles from a free half of results to the first one in it."""

SLACK = 16
"""Cycles that the drain is ahead of the writer at most."""

COLLECTED = 3
"""Cycles from the last beat of results to a complete block of C."""

WRITTEN = 8
"""Cycles from the last accumulator to the answer of the write, less the beats of its burst."""


def cycles(config: GemmStreamConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]``, one job on an idle engine.

    Counted while the job is unfinished, as the counter BUSY does, with aligned rows and a memory
    that answers in the next cycle and never pauses.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: GemmStreamConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of jobs that run one after the other, each on an idle engine."""
    jobs = Counter(sizes)  # layers of a network repeat
    return sum(times * plan_cycles(Plan(config, *size)) for size, times in jobs.items())


def timed(config: GemmStreamConfig, sizes: Iterable[Size]) -> Cycles:
    """Return the cycles of jobs, a model of an ideal memory."""
    return Cycles(cycles_of(config, sizes), "modelled")


def plan_cycles(plan: Plan) -> int:
    """Return the cycles of a plan; see `cycles`."""
    config, walk = plan.config, plan.config.loop_nest
    lag = config.memory.outstanding
    bus = config.memory_bytes, min(config.memory.max_burst * config.memory_bytes, 4096)
    pre = walk.weight_rows if walk.weight_rows > 1 else 0
    strides = {
        "a": plan.activation_row_bytes,
        "w": plan.weight_row_bytes,
        "c": plan.n * plan.result_bytes,
    }
    words = {
        "a": config.act_lanes * config.activation_bytes,
        "w": config.wgt_lanes * config.weight_bytes,
        "p": config.post_lanes * config.record_groups * RECORD_BYTES,
    }
    asked, got = 1, 0  # the loader's last request; the last beat that came
    busy, out = 0, 0  # the cores' last input beat; their last result
    drained = written = 0
    halves = {"a": 1 + plan.a_whole, "w": 1 + plan.w_whole}
    free: dict[str, list[int]] = {"a": [0, 0], "w": [0, 0], "c": [0, 0]}
    full_a = full_w = 0
    counts: dict[tuple[int, int, int], list[int]] = {}  # beats of each port, by shape of a block
    tails: dict[tuple[int, int, int], int] = {}
    for block in plan.steps():
        for which, rows, size, start in _loads(plan, block):
            if which != "p":
                asked = max(asked, *(free[which].pop(0) for _ in range(halves[which])))
            stride = strides.get(which, 0)
            beats, bursts = transferred(*bus, start % bus[1], stride, rows, size, words[which])
            beats = max(beats, -(-(beats + READ_TRIP * bursts) // lag))
            first = asked + 1
            got = max(got, first + REQUEST) + beats
            behind = min(lag, bursts) * -(-beats // bursts)
            asked = max(first + bursts, got - REQUEST - behind)
            if which == "a":
                full_a = got
            elif which == "w":
                full_w = got
        asked += 1
        shape = (block.m, block.k_tiles, block.n_tiles)
        if shape not in counts:
            counts[shape] = [plan.beats(loops, block) for loops in (walk.act, walk.wgt, walk.out)]
            tails[shape] = _tail(config, block, max(counts[shape]), pre)
        fed, _, results = counts[shape]
        work = max(counts[shape])
        begin = max(busy + 1, full_a + FILLED, full_w + FILLED + pre)
        busy = begin + work - 1
        out = busy + tails[shape]
        if block.first:
            late = max(0, free["c"].pop(0) + ROOM + results - 1 - out)
            busy, out = busy + late, out + late
        # A half is free again when the last beat of the last step that works on its block has
        # left: weights are read ahead of the activations that they meet, and an activation while
        # the one before is at work.
        ahead = work // fed
        for which, loaded, end in (
            ("a", block.loads_a, busy - ahead + 1), ("w", block.loads_w, busy - pre)
        ):  # fmt: skip
            if not loaded:
                del free[which][-halves[which] :]
            free[which] += [end] * halves[which]
        if block.last:
            parts = 1 + -(-block.n // config.post_lanes)
            start = block.row * strides["c"] + block.column * plan.result_bytes
            size = block.n * plan.result_bytes
            beats, bursts = transferred(*bus, start % bus[1], strides["c"], block.m, size, 0)
            beats = max(beats, -(-(beats + WRITE_TRIP * bursts) // lag))
            begin = max(drained, out + COLLECTED) + 1
            drained = begin + block.m * parts
            written = max(written, begin) + max(beats, block.m * parts)
            drained = max(drained, written - SLACK)
            free["c"].append(drained)
    tail, _ = transferred(*bus, 0, 0, 1, size, 0)
    return written + WRITTEN + min(tail, config.memory.max_burst)


def _loads(plan: Plan, block: Block) -> Iterator[tuple[str, int, int, int]]:
    """Give what a block loads: the operand, its rows, bytes of each, and of the first the address.

    Addresses count from the start of the operand.
    """
    config, walk = plan.config, plan.config.loop_nest
    if block.loads_a:
        start = block.row * plan.activation_row_bytes + block.term * config.activation_bytes
        yield "a", block.m, block.k * config.activation_bytes, start
    if block.loads_w:
        rows, first, size, left, column = block.k, block.term, block.n, block.column, 1
        if walk.image:
            rows, first = block.k_tiles, block.term // config.k_lanes
            size, left = block.n_tiles, block.column // config.n_lanes
            column = config.weight_beat * walk.weight_beats
        column *= config.weight_bytes
        yield "w", rows, size * column, first * plan.weight_row_bytes + left * column
    if block.first and plan.record_bytes:
        yield "p", 1, block.n * RECORD_BYTES, block.column * RECORD_BYTES


@lru_cache(maxsize=1 << 14)
def transferred(
    bus: int, longest: int, start: int, stride: int, rows: int, size: int, word: int
) -> tuple[int, int]:
    """Return the cycles that rows take on the bus, and their bursts.

    Parameters
    ----------
    bus, longest : int
        Bytes of a beat, of the longest burst.
    start, stride : int
        Byte address of the first row, of which counts only what is beyond the longest burst's
        last boundary; bytes from one row to the next.
    rows, size : int
        How many rows; bytes of each.
    word : int
        Bytes of a word of the buffer that they go to; a row whose last beat ends in a word of its
        own pauses the bus for a cycle.  0 for writes.
    """
    at = (start + stride * np.arange(rows)) % longest
    beats = (at % bus + size + bus - 1) // bus
    bursts = (at + size + longest - 1) // longest
    pauses = 0
    if word:
        tail = np.where(beats == 1, size, (at + size - 1) % bus + 1)
        pauses = int(((size - tail) % word + tail > word).sum())
    return int(beats.sum()) + pauses, int(bursts.sum())


def _tail(config: GemmStreamConfig, block: Block, work: int, pre: int) -> int:
    """Return the cycles from the last input beat of a block to its last result."""
    core, walk = config.compute, config.loop_nest
    k = min(block.k_tiles * walk.k_lanes, core.max_k)
    module = family(core.family).part("cost")
    return int(module.cycles(core, block.m, k, block.n_tiles * walk.n_lanes)) - work - pre
