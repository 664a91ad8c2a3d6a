# SPDX-License-Identifier: Apache-2.0
"""Measuring processes and printing what was measured."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Usage:
    """What a process took.

    Parameters
    ----------
    wall_s : float
        Wall time, the least of the repetitions.
    peak_mib : float
        Largest resident memory of the process and its children, MiB.
    """

    wall_s: float
    peak_mib: float


def measure(arguments: Sequence[str], cwd: Path, *, repeat: int = 3) -> Usage:
    """Run ``python ARGUMENTS`` a few times and return the least wall time and largest memory."""
    walls, peaks = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        walls.append(time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)}: exit status {process.returncode}")
        scale = 1024 * 1024 if sys.platform == "darwin" else 1024
        peaks.append(usage.ru_maxrss / scale)
    return Usage(min(walls), max(peaks))


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of a benchmark's arguments, with ``--json``.

    Parameters
    ----------
    module : str
        Name of the benchmark's module in this package.
    description : str
        What it measures: the module's docstring.
    """
    benchmark_parser = argparse.ArgumentParser(
        prog=f"python -m flows.bench.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    benchmark_parser.add_argument(
        "--json", action="store_true", help="print JSON instead of tables"
    )
    return benchmark_parser


def report(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool
) -> None:
    """Print a table, or JSON."""
    if as_json:
        data = {"title": title, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)
