# SPDX-License-Identifier: Apache-2.0
"""Energy of processing elements on the same topology, from simulations of their netlists.

A quarter of the arrays of `flows.bench.elements`, with as many registers as were best there, at one
clock: energy hardly depends on it.  Activations are normally distributed, weights uniformly.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from flows.bench.elements import SIGMA, TECHNOLOGY
from hwgen.cli import main as command

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "systolic": {"rows": 8, "cols": 8},
    "cube": {"rows": 4, "cols": 4, "depth": 8},
    "adder_tree": {"cols": 8, "depth": 8},
    "broadcast_2d": {"rows": 8, "cols": 8},
}
"""The arrays, by family."""

REGISTERS = {
    ("systolic", "mac"): 1,
    ("systolic", "carry_save"): 0,
    ("cube", "mac"): 2,
    ("cube", "carry_save"): 2,
    ("adder_tree", "mac"): 2,
    ("adder_tree", "carry_save"): 2,
    ("broadcast_2d", "mac"): 1,
    ("broadcast_2d", "carry_save"): 0,
    ("broadcast_2d", "serial_group"): 1,
}
"""``pipeline.pe`` of what is measured, by family and PE."""

CLOCK_MHZ = 500
SIZE = (32, 256, 32)
"""M, K and N."""


def measure(family: str, pe: str, technology: str, directory: Path) -> dict[str, Any]:
    """Return what `hwgen synth --activity` says of an array."""
    config, data = directory / f"{family}_{pe}.json", directory / "operands.npz"
    array = {**TOPOLOGIES[family], "pe": pe}
    config.write_text(json.dumps({
        "name": "bench", "family": family, "accumulator": "int32", "array": array,
        "pipeline": {"pe": REGISTERS[family, pe]},
    }))  # fmt: skip
    rng, (m, k, n) = np.random.default_rng(0), SIZE
    a = np.clip(np.rint(rng.normal(0, SIGMA, (m, k))), -128, 127).astype(np.int8)
    np.savez(data, activations=a, weights=rng.integers(-128, 128, (k, n), np.int8))
    arguments = ["synth", "--config", config, "--target", technology, "--clock-mhz", CLOCK_MHZ,
                 "--activity", data, "--json"]  # fmt: skip
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = command([str(argument) for argument in arguments])
    if status:
        raise SystemExit(status)
    document: dict[str, Any] = json.loads(printed.getvalue())
    return {"family": family, "pe": pe, "area_um2": document["area_um2"], **document["power"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.elements_power",
        description="Energy of PEs on the same topology, from simulations of their netlists.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line an array")
    parser.add_argument("--family", action="append", choices=[*TOPOLOGIES], help="only this one")
    parser.add_argument("--technology", default=TECHNOLOGY, help="instead of %(default)s")
    options = parser.parse_args(arguments)
    table = Table(title=f"int8, accumulators of 32 bits, {options.technology}, sigma {SIGMA:g}")
    for heading in ("family", "pe", "fJ an operation", "sequential", "combinational", "less"):
        table.add_column(heading, justify="left" if heading in ("family", "pe") else "right")
    mac = 0.0
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as name:
        for family, pe in REGISTERS:
            if options.family and family not in options.family:
                continue
            document = measure(family, pe, options.technology, Path(name))
            energy = document["energy_per_operation_fj"]
            mac = energy if pe == "mac" else mac
            shares = [
                f"{100 * document['groups'][group]['total_mw'] / document['total_mw']:.0f} %"
                for group in ("sequential", "combinational")
            ]
            table.add_row(family, pe, f"{energy:.0f}", *shares, f"{mac / energy:.2f}")
            if options.json:
                sys.stdout.write(json.dumps(document) + "\n")
                sys.stdout.flush()
    if not options.json:
        Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
