# SPDX-License-Identifier: Apache-2.0
"""``make bench-sim``: simulated cycles per second of the regression and of ``hwgen run``.

The baseline is the same compiled design with a testbench that only waits for clock edges.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from flows.bench.measure import report

SIZES = ((8, "output_stationary"), (16, "output_stationary"), (16, "weight_stationary"))


def main() -> None:
    """Measure, and print ratios to the baseline."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for size, dataflow in SIZES:
            rates = {}
            for mode in ("idle", "run", "regression"):
                done = subprocess.run(
                    [sys.executable, "-m", "sim_tests.bench", mode, str(size), dataflow, name],
                    cwd=Path(__file__).resolve().parents[2], check=True, text=True,
                    stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                cycles, seconds = map(float, done.stdout.split()[-2:])
                rates[mode] = cycles / seconds
            rows.append(
                [f"{size} x {size} {dataflow}"]
                + [round(rates[mode] / 1000, 1) for mode in rates]
                + [rates["run"] / rates["idle"], rates["regression"] / rates["idle"]]
            )
    report(
        "thousand cycles a second, int8",
        ["array", "idle", "hwgen run", "regression", "run of idle", "regression of idle"],
        rows,
    )


if __name__ == "__main__":
    main()
