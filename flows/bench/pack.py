# SPDX-License-Identifier: Apache-2.0
"""``make bench-pack``: packing matrices into the blocks that a core's streams repeat.

The baseline is one copy of the matrix in memory (`numpy.copy`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from flows.bench.measure import parser, report
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.systolic.schedule import Schedule

SIZE = 4096


def least(action: Callable[[], object], repeat: int = 5) -> float:
    """Return the least wall time of some repetitions, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to a copy."""
    options = parser("pack", __doc__).parse_args(arguments)
    rng = np.random.default_rng(0)
    rows = []
    for dataflow in ("output_stationary", "weight_stationary", "input_stationary"):
        for name in ("int8", "int4", "int5"):
            config = SystolicConfig.model_validate(
                {
                    "name": "array",
                    "activation": name,
                    "weight": name,
                    "array": {"rows": 16, "cols": 16, "dataflow": dataflow},
                }
            )
            fmt = config.weight
            matrix = rng.integers(fmt.min, fmt.max, (SIZE, SIZE), np.int8, endpoint=True)
            plan = Schedule(config, SIZE, SIZE, SIZE)
            copy = least(lambda matrix=matrix: matrix.copy())  # type: ignore[misc]
            for operand, pack in (("A", plan.pack_activations), ("W", plan.pack_weights)):
                seconds = least(lambda pack=pack, matrix=matrix: pack(matrix), 2)  # type: ignore[misc]
                rows.append([f"{dataflow} {name} {operand}", seconds, seconds / copy])
    title = f"packing {SIZE} x {SIZE}, 16 x 16 array"
    report(title, ["what", "wall s", "of a copy"], rows, as_json=options.json)


if __name__ == "__main__":
    main()
