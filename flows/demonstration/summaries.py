# SPDX-License-Identifier: Apache-2.0
"""Summaries of tables of results: ``python -m flows.demonstration.summaries`` writes them again.

The tables of ``docs/results-accuracy.md`` are written by ``make bench-cost``; ``docs/accuracy.md``
has the mean and worst errors of them, in between ``<!-- begin: summary of NAME -->`` and its end.
A table ``NAME, TECHNOLOGY`` is a part of the table ``NAME``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
SOURCE, PAGE = "results-accuracy.md", "accuracy.md"
CELLS: Mapping[str, str] = {"area": "area", "fmax": "Fmax", "power": "power"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "realistic accuracy": CELLS,
    "recalibrated accuracy": CELLS,
    "fpga accuracy": {
        "luts": "look-up tables",
        "flip_flops": "flip-flops",
        "carries": "carry cells",
        "dsps": "DSP blocks",
    },
}
"""Columns of a summary by the name of its table: metric, and heading."""


def summary(source: str, name: str) -> str:
    """Return the mean and the worst error of each metric, a row for each technology."""
    rows: dict[str, dict[str, str]] = {}
    for cells in rows_of(source, name):
        if cells[1] in COLUMNS[name]:
            rows.setdefault(cells[0], {})[cells[1]] = f"{cells[3]}, {cells[5]}"
    heads = ["technology", *COLUMNS[name].values()]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [tech, *(by.get(metric, "") for metric in COLUMNS[name])] for tech, by in rows.items()
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows_of(source: str, name: str) -> list[list[str]]:
    """Return the cells of the rows of a table that have errors: technology, metric and more."""
    lines = _between(source, f"{name}(?:, [\\w-]+)?").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells for cells in rows if len(cells) > 5]


def summarised(page: str, source: str) -> str:
    """Return a page with its summaries as the tables of `source` have them."""
    for name in COLUMNS:
        begin, end = (f"<!-- {side}: summary of {name} -->" for side in ("begin", "end"))
        old = f"{begin}{_between(page, f'summary of {name}')}{end}"
        page = page.replace(old, f"{begin}\n\n{summary(source, name)}\n\n{end}")
    return page


def _between(text: str, name: str) -> str:
    """Return the parts of a text whose names match a regular expression, together."""
    found = re.findall(f"<!-- begin: {name} -->(.*?)<!-- end: {name} -->", text, re.DOTALL)
    if not found:
        raise ValueError(f"there is no part called {name!r}")
    return "".join(found)


if __name__ == "__main__":
    tables = (DOCS / SOURCE).read_text(encoding="utf-8")
    path = DOCS / PAGE
    path.write_text(summarised(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
