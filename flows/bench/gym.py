# SPDX-License-Identifier: Apache-2.0
"""Steps a second of the environments on tables: ``make bench-gym``.

One environment, as `gymnasium.make` returns it, with its checks and without; and many at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from flows.bench.common import Row, markdown, parser, report, run, text, write_sections
from hwgen.gym import ENVIRONMENTS

SECONDS = 1.5
MANY = 4096


def speed(env: Any, actions: Sequence[Any], points: int, *, resets: bool) -> float:
    """Return points a second of processor time."""
    env.reset(seed=0)
    start, done = time.process_time(), 0
    while time.process_time() - start < SECONDS:
        for action in actions:
            env.step(action)
            if resets:
                env.reset()
        done += points * len(actions)
    return done / (time.process_time() - start)


def rows() -> Iterator[Row]:
    """Yield the speeds of each environment."""
    for name in ENVIRONMENTS:
        checked = gymnasium.make(name)
        bare: Any = checked.unwrapped
        many = gymnasium.make_vec(name, num_envs=MANY, vectorization_mode="vector_entry_point")
        bare.action_space.seed(0)
        single = [bare.action_space.sample() for _ in range(1000)]
        many.action_space.seed(0)
        batches = [many.action_space.sample() for _ in range(20)]
        yield {
            "environment": name,
            "points": f"{bare.table.size:,}",
            "gymnasium.make": speed(checked, single, 1, resets=True),
            "unwrapped": speed(bare, single, 1, resets=True),
            f"{MANY:,} at once": speed(many, batches, MANY, resets=False),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the table into a page if one is named."""
    options = parser("gym", __doc__)
    options.add_argument("--write", type=Path, help="page to write the table into")
    chosen = options.parse_args(arguments)
    measured = list(rows())
    report("steps a second", measured, as_json=chosen.json)
    if chosen.write:
        cells = [[text(c, ",.2g") if isinstance(c, str) else f"{float(f'{c:.2g}'):,.0f}"
                  for c in row.values()] for row in measured]  # fmt: skip
        write_sections(chosen.write, {"gym": markdown(list(measured[0]), cells, 1)})
    return 0


if __name__ == "__main__":
    run(main)
