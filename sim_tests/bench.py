# SPDX-License-Identifier: Apache-2.0
"""Simulations that ``make bench-sim`` times; prints cycles and seconds of simulation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hwgen.families.systolic import SystolicConfig
from sim_tests.regression import cases
from sim_tests.runner import compile_design, simulate

_TOTAL = re.compile(r"TESTS=\d+ \D*\d+ \D*\d+ \D*\d+\s+([\d.]+)\s+([\d.]+)")
_PERIOD_NS = 2


def main(mode: str, size: str, dataflow: str, directory: str) -> None:
    """Run one simulation: `mode` is ``idle``, ``run`` or ``regression``."""
    config = SystolicConfig.model_validate(
        {"name": "timed", "array": {"rows": int(size), "cols": int(size), "dataflow": dataflow}}
    )
    work = Path(directory) / f"{mode}-{size}-{dataflow}"
    work.mkdir(parents=True)
    rng = np.random.default_rng(0)
    operands = {key: str(work / f"{key}.npy") for key in ("activations", "weights")}
    for path in operands.values():
        np.save(path, rng.integers(-128, 128, (256, 256), np.int8))
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "idle": ("sim_tests.cocotb_idle", {"cycles": 200_000}),
        "run": ("sim_tests.cocotb_run", {**operands, "beats": str(work / "beats.bin")}),
        "regression": (
            "sim_tests.cocotb_regression",
            {"seed": 0, "cases": [case.name for case in cases(config, 0)]},
        ),
    }
    module, plan = modes[mode]
    lines: list[str] = []
    outcomes = simulate(config, compile_design(config), module, plan, work, on_line=lines.append)
    if not all(outcome.passed for outcome in outcomes):
        raise SystemExit(f"{mode} failed; log in {work}")
    total = next(found for line in lines if (found := _TOTAL.search(line)))
    sys.stdout.write(f"{float(total[1]) / _PERIOD_NS} {total[2]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
