# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.families.test_attention`: jobs whose commands no plan makes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from flows.simulation.bench_jobs import BenchJob
from flows.simulation.bus.stream_bench import Bench, start_clock
from hwgen.core.operation import Job
from hwgen.core.registry import family
from hwgen.families.attention.core import cycles_of_blocks
from hwgen.families.attention.golden import attend
from hwgen.families.attention.schedule import Block, Mask, Plan, draw_operands

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family("attention")
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])


class FixedPlan(Plan):
    """A plan of one block that is given."""

    block: Block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block."""
        return (self.block,)


def job(rows: int, keys: int, said: int | None, rng: np.random.Generator) -> BenchJob:
    """Return a job of so many rows and keys, whose command says `said` rows if that is given."""
    (operation,) = CONFIG.operations
    sizes = {"kv_heads": 1, "group": 1, "queries": max(rows, 1), "elements": CONFIG.head,
             "keys": max(keys, 1)}  # fmt: skip
    arrays = draw_operands(CONFIG, operation, sizes, "random", rng)
    plan = FixedPlan(CONFIG, {**sizes, "queries": rows}, Mask())
    block = Block(0, range(1), range(rows), range(keys), 0, keys, 0)
    object.__setattr__(plan, "block", block)
    if said is not None:
        object.__setattr__(plan, "block", _Said(**vars(block), said=said))
    expected = attend(CONFIG, Mask(), arrays)[:, :, :rows]
    if not keys:
        expected = np.zeros_like(expected)
    wanted = {"output": expected} if rows else {}
    return OddJob(FAMILY(CONFIG), Job(operation, sizes), arrays, wanted, plan)


class OddJob(BenchJob):
    """A job whose plan is given."""

    def __init__(self, core: Any, job: Job, operands: Any, expected: Any, plan: FixedPlan) -> None:
        super().__init__(core, job, operands, expected)
        vars(self)["plan"] = plan


class _Said(Block):
    """A block whose command says another number of rows."""

    said: int

    def __init__(self, said: int, **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "said", said)

    @property
    def command(self) -> tuple[int, ...]:
        """The words of the command."""
        return (self.said, *super().command[1:])


@cocotb.test()
async def odd_commands(dut: Any) -> None:
    """No queries, no keys, more queries than rows: results are defined, and so are cycles."""
    rng = np.random.default_rng(1)
    rows = CONFIG.array.rows
    shapes = [
        (rows, 5, None), (0, 3, None), (2, 0, None), (0, 0, None), (rows, 4, rows + 3),
        (rows, 4, 1 << 20), (1, 7, None), (0, 1, None), (0, 2, None), (rows, 2, None),
    ]  # fmt: skip
    jobs = [job(*shape, rng) for shape in shapes]
    start_clock(dut)
    for idle in (0.0, 0.4):
        ports = {port.name: idle for port in CONFIG.ports}
        bench = Bench(dut, CONFIG, ports, 3)
        await bench.reset()
        await bench.run(jobs, 100000)
        if not idle:
            assert bench.cycles() == cycles_of_blocks(CONFIG, [shape[:2] for shape in shapes])
