# SPDX-License-Identifier: Apache-2.0
"""``make bench-sim``: simulated cycles per second of ``hwgen run`` and of the regression.

``idle`` is the design compiled for cocotb with a testbench that only waits for clock edges: what no
cocotb testbench can exceed.  Start-up and preparation (operands, golden results, beats) are apart.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flows.bench.measure import parser, report

ROOT = Path(__file__).resolve().parents[2]

ENGINE = ROOT / "configs" / "gemm_stream.yaml"

ARRAYS = ((8, "output_stationary"), (16, "output_stationary"), (16, "weight_stationary"))

MODES = ("fast", "run", "idle", "regression")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the baseline."""
    options = parser("sim", __doc__).parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        designs = {
            "configs/gemm_stream.yaml": ENGINE,
            "configs/lut_core.yaml": ROOT / "configs" / "lut_core.yaml",
        }
        for size, dataflow in ARRAYS:
            array = f"{{rows: {size}, cols: {size}, dataflow: {dataflow}}}"
            path = Path(name) / f"{size}_{dataflow}.yaml"
            path.write_text(f"name: timed_{path.stem}\nfamily: systolic\narray: {array}\n")
            designs[f"{size} x {size} {dataflow}"] = path
        for title, path in reversed(designs.items()):
            rates, besides = {}, {}
            for mode in MODES:
                if mode == "run" and path == ENGINE:
                    continue
                done = subprocess.run(
                    [sys.executable, "-m", "flows.bench.simulations", mode, str(path), name],
                    cwd=ROOT, check=True, text=True,
                    stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                cycles, seconds, besides[mode] = map(float, done.stdout.split()[-3:])
                rates[mode] = cycles / seconds
            rows.append(
                [title]
                + [round(rates[mode] / 1000, 1) if mode in rates else "" for mode in MODES]
                + [rates["regression"] / rates["idle"], round(besides["regression"], 2)]
            )
    report(
        "thousand cycles a second of processor time, int8",
        ["core", "fast", "run, cocotb", "idle", "regression", "regression of idle",
         "start-up and preparation of the regression, s"],
        rows,
        as_json=options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
