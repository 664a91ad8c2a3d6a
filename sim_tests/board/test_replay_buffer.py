# SPDX-License-Identifier: Apache-2.0
"""The buffer that can undo: against a list, with random commits and undos on both sides."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.sim import Simulator

from rtl_templates.board.replay_buffer import ReplayBuffer


class Model:
    """The buffer as lists."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.read: list[int] = []
        self.committed: list[int] = []
        self.written: list[int] = []

    @property
    def free(self) -> int:
        return self.depth - len(self.read) - len(self.committed) - len(self.written)

    def step(self, signals: dict[str, int], *, read: bool) -> None:
        if signals["write"] and self.free:
            self.written.append(signals["write_data"])
        if signals["write_commit"]:
            self.committed += self.written
            self.written = []
        elif signals["write_undo"]:
            self.written = []
        position, later = self.read, []
        if read:
            later = [self.committed.pop(0)]
        if signals["read_undo"]:
            self.committed = position + later + self.committed
            self.read = []
        elif signals["read_commit"]:
            self.read = later
        else:
            self.read = position + later


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_list(seed: int) -> None:
    depth, rng = 8, random.Random(seed)
    buffer, model = ReplayBuffer(8, depth), Model(8)
    chances = {"write": 0.7, "write_commit": 0.3, "write_undo": 0.15, "read": 0.6,
               "read_commit": 0.3, "read_undo": 0.1}  # fmt: skip
    seen = 0

    async def bench(ctx: Any) -> None:
        nonlocal seen
        for _ in range(1500):
            signals = {name: int(rng.random() < chance) for name, chance in chances.items()}
            signals["write_data"] = rng.randrange(256)
            for name, value in signals.items():
                ctx.set(getattr(buffer, name), value)
            assert ctx.get(buffer.free) == model.free
            assert ctx.get(buffer.level) == len(model.committed)
            valid = bool(ctx.get(buffer.valid))
            if valid:
                seen += 1
                assert ctx.get(buffer.read_data) == model.committed[0]
            # What was committed in the cycle before may be shown a cycle later.
            model.step(signals, read=valid and bool(signals["read"]))
            await ctx.tick()

    simulator = Simulator(buffer)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen > 300
