# SPDX-License-Identifier: Apache-2.0
"""The memories of GEMM streaming engines, and what a product does with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from hwgen.core.memories import Buffer, Use
from hwgen.families.gemm_stream.schedule import Block, Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""


def buffers(config: GemmStreamConfig) -> tuple[Buffer, ...]:
    """Return the buffers of an engine, each as the memories of its RTL."""
    return tuple(
        Buffer(shape.name, shape.memories, shape.words, shape.width)
        for shape in config.buffer_shapes.values()
    )


def use(config: GemmStreamConfig, sizes: Iterable[Size]) -> Use:
    """Return what products do with the memories of an engine, by their plans.

    They leave as accumulators: no parameters of columns are read.
    """
    moved, accesses, writes = 0, Counter[str](), Counter[str]()
    for size, times in Counter(sizes).items():
        plan = Plan(config, *size)
        moved += times * plan.traffic.total
        for name, (read, written) in _accesses(plan).items():
            accesses[name] += times * (read + written)
            writes[name] += times * written
    return Use(moved, accesses, writes)


def weight_bytes(config: GemmStreamConfig, size: Size) -> int:
    """Return the bytes of the weights of a product in memory, each read once."""
    return Plan(config, *size).extent.w


def _accesses(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the words that are read, and written, by buffer, of all its memories."""
    config, walk, traffic = plan.config, plan.config.loop_nest, plan.traffic
    found = Counter[str]()
    results = 0
    for block, steps in _steps(plan):
        found["activations"] += steps * plan.beats(walk.act, block) * config.act_banks
        found["weights"] += steps * plan.beats(walk.wgt, block) * config.wgt_banks
        results += steps * plan.beats(walk.out, block)
    if config.in_blocks:  # once for all parts of a reduction
        results //= plan.blocks[1]
    # All beats are written; those of all steps of a reduction but the first are added to what was
    # there; what the last one leaves is read once more.
    written = {"results": results}
    found["results"] = results
    for name, moved, rows in (
        ("activations", traffic.activations, config.act_rows),
        ("weights", traffic.weights, config.wgt_rows),
    ):
        written[name] = -(-moved // rows.word_bytes)
    return {name: (count, written[name]) for name, count in found.items()}


def _steps(plan: Plan) -> Iterator[tuple[Block, int]]:
    """Yield a step of each shape, with how many there are of it."""
    axes = []
    for tiles, each, whole, size in zip(
        plan.tiles, plan.block_tiles, plan.block, (plan.m, plan.k, plan.n), strict=True
    ):
        full, rest = divmod(tiles, each)
        if rest == 0:
            full, rest = full - 1, each  # the last block may be ragged within its last tile
        axes.append([(whole, each, full), (size - full * whole, rest, 1)])
    for (m, mt, ms), (k, kt, ks), (n, nt, ns) in product(*axes):
        if steps := ms * ks * ns:
            yield Block(0, 0, 0, m, k, n, mt, kt, nt, True, True, True, True), steps
