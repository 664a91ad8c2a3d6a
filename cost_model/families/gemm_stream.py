# SPDX-License-Identifier: Apache-2.0
"""Cost of the GEMM streaming family: cycles from memory to memory.

A job goes through loads, cores and drain, each working on blocks in order with two halves of
buffer between them, so the times at which they are done with a block follow from one another.
The model keeps those times, block by block, for a memory that gives and takes a beat a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hwgen.families import family
from hwgen.numerics.post.records import RECORD_BYTES
from hwgen.schedules.gemm_stream import Block, Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""

REQUEST = 6
"""Cycles from the request of a row to its first beat in the buffer, of an ideal memory."""

FILLED = 2
"""Cycles from a block's last word to its first beat at the cores."""

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
    return sum(plan_cycles(Plan(config, *size)) for size in sizes)


def plan_cycles(plan: Plan) -> int:
    """Return the cycles of a plan; see `cycles`."""
    config, walk = plan.config, plan.config.walk
    lag = config.memory.outstanding
    pre = walk.weight_rows if walk.weight_rows > 1 else 0
    row_bytes = config.weight_beat * walk.weight_beats * config.weight_bytes
    asked, got = 1, 0  # the loader's last request; the last beat that came
    busy, out = 0, 0  # the cores' last input beat; their last result
    drained = 0
    free: dict[str, list[int]] = {"a": [0, 0], "w": [0, 0], "c": [0, 0]}
    full_a = full_w = 0
    tails: dict[tuple[int, int, int], int] = {}
    for block in plan.steps():
        loads = []
        if block.loads_a:
            loads.append(("a", block.m, block.k * config.activation_bytes))
        if block.loads_w:
            rows = block.k_tiles if walk.image else block.k
            size = block.n_tiles * row_bytes if walk.image else block.n * config.weight_bytes
            loads.append(("w", rows, size))
        if block.first and plan.record_bytes:
            loads.append(("p", 1, block.n * RECORD_BYTES))
        for which, rows, size in loads:
            beats, bursts = _transfer(config, size)
            if which != "p":
                asked = max(asked, free[which].pop(0))
            first = asked + 1
            got = max(got, first + REQUEST) + rows * beats
            behind = min(lag, rows * bursts) * -(-beats // bursts)
            asked = max(first + rows * bursts, got - REQUEST - behind)
            if which == "a":
                full_a = got
            elif which == "w":
                full_w = got
        asked += 1
        work = max(plan.beats(loops, block) for loops in (walk.act, walk.wgt, walk.out))
        start = max(busy + 1, full_a + FILLED, full_w + FILLED + pre)
        if block.first:
            start = max(start, free["c"].pop(0))
        busy = start + work - 1
        shape = (block.m, block.k_tiles, block.n_tiles)
        if shape not in tails:
            tails[shape] = _tail(config, block, work, pre)
        out = busy + tails[shape]
        # A half is free again when the last step that works on its block ends; weights are read
        # ahead of the activations that they meet.
        for which, loaded, end in (
            ("a", block.loads_a, busy), ("w", block.loads_w, busy - pre)
        ):  # fmt: skip
            if loaded:
                free[which].append(end)
            else:
                free[which][-1] = end
        if block.last:
            words = -(-block.n // config.post_lanes)
            beats, _ = _transfer(config, block.n * plan.result_bytes)
            drained = max(drained, out + COLLECTED) + 1 + block.m * max(1 + words, beats)
            free["c"].append(drained)
    tail, bursts = _transfer(config, block.n * plan.result_bytes)
    return drained + WRITTEN + min(tail, config.memory.max_burst)


def _transfer(config: GemmStreamConfig, size: int) -> tuple[int, int]:
    """Return the beats and the bursts of an aligned row."""
    beats = -(-size // config.memory_bytes)
    longest = min(config.memory.max_burst, 4096 // config.memory_bytes)
    return beats, -(-beats // longest)


def _tail(config: GemmStreamConfig, block: Block, work: int, pre: int) -> int:
    """Return the cycles from the last input beat of a block to its last result."""
    core, walk = config.compute, config.walk
    k = min(block.k_tiles * walk.k_lanes, core.max_k)
    module = family(core.family).part("cost")
    return int(module.cycles(core, block.m, k, block.n_tiles * walk.n_lanes)) - work - pre
