# SPDX-License-Identifier: Apache-2.0
"""Functions that benchmarks share: arguments, tables, sections of pages, and runs of hwgen."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hwgen.errors import HwgenError, InputError

ROOT = Path(__file__).resolve().parents[2]

Document = dict[str, Any]
"""An object of JSON."""

Cell = str | float | bool | None
Row = Mapping[str, Cell]
"""Cells by their headings."""


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of a benchmark's arguments, with ``--json``.

    Parameters
    ----------
    module : str
        Name of the benchmark's module in this package.
    description : str
        The module's docstring.
    """
    arguments = argparse.ArgumentParser(
        prog=f"python -m flows.bench.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return arguments


def run(main: Callable[[], int | None]) -> None:
    """Run a benchmark as a program; errors of hwgen end it with their message and status."""
    try:
        raise SystemExit(main())
    except HwgenError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_status) from None


def text(cell: Cell, spec: str = "") -> str:
    """Format a cell by a format specification; numbers without one get three digits."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    return format(cell, spec or ("," if isinstance(cell, int) else ".3g")).replace("%", " %")


def report(
    title: str, rows: Iterable[Row], specs: Mapping[str, str] | None = None, *, as_json: bool
) -> None:
    """Print rows as a table, or each as a line of JSON as soon as it is measured.

    Parameters
    ----------
    title : str
    rows : iterable of Row
        The headings are those of the first row.
    specs : mapping, optional
        Format specifications of columns, by heading.
    as_json : bool
    """
    console = Console()
    console.width = max(console.width, 120)
    table: Table | None = None
    with Console(stderr=True).status("measuring") as status:
        for number, row in enumerate(rows, 1):
            status.update(f"{number} measured: {next(iter(row.values()))}")
            if as_json:
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
                continue
            if table is None:
                table = Table(title=title, title_justify="left")
                for heading, cell in row.items():
                    left = isinstance(cell, str)
                    table.add_column(heading, justify="left" if left else "right")
            table.add_row(*(text(cell, (specs or {}).get(key, "")) for key, cell in row.items()))
    if table is not None:
        console.print(table)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 99) -> str:
    """Return a table in Markdown; columns from `left` on are aligned to the right."""
    rules = ["---" if number < left else "---:" for number in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows)) + "\n"


def section(page: str, name: str) -> str:
    """Return the text between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``.

    Raises
    ------
    InputError
        If the page lacks one of them.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    if begin not in page or end not in page:
        raise InputError(f"the page has no lines '{begin}' and '{end}' to put a table between")
    return page.split(begin, 1)[1].split(end, 1)[0]


def with_section(page: str, name: str, content: str) -> str:
    """Return a page with another section of a name; see `section`."""
    begin = f"<!-- begin: {name} -->"
    return page.replace(f"{begin}{section(page, name)}", f"{begin}\n\n{content.rstrip()}\n\n", 1)


def write_sections(path: Path, sections: Mapping[str, str]) -> None:
    """Replace sections of a page by their names; see `section`."""
    page = path.read_text(encoding="utf-8")
    for name, content in sections.items():
        page = with_section(page, name, content)
    path.write_text(page, encoding="utf-8")


def read_results(path: Path) -> list[Document]:
    """Return the results that a file has, none if it is not there."""
    if not path.is_file():
        return []
    results: list[Document] = json.loads(path.read_text(encoding="utf-8"))
    return results


def store_results(path: Path, names: Sequence[str], results: Iterable[Document]) -> None:
    """Store results in place of earlier ones that have the same values by some names."""
    documents = {
        tuple(each[name] for name in names): each for each in (*read_results(path), *results)
    }
    write_results(path, documents)


def write_results(path: Path, results: Mapping[Any, Document]) -> None:
    """Write results in the order of their keys."""
    ordered = [results[key] for key in sorted(results)]
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def hwgen(*arguments: str | Path | float) -> Document:
    """Run a command of hwgen and return its JSON; its failure ends the benchmark."""
    command = [sys.executable, "-m", "hwgen", *map(str, arguments), "--json"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(done.returncode)
    document: Document = json.loads(done.stdout)
    return document


def synthesised(config: Mapping[str, object], *options: str | Path | float) -> Document:
    """Return the JSON of ``hwgen synth`` for the parameters of a configuration."""
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as directory:
        file = Path(directory) / "config.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        return hwgen("synth", "--config", file, *options)


@dataclass(frozen=True)
class Usage:
    """Resources of a process.

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
        peaks.append(mebibytes(usage.ru_maxrss))
    return Usage(min(walls), max(peaks))


def mebibytes(maxrss: int) -> float:
    """Convert the resident memory of `resource.getrusage` to MiB."""
    return maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
