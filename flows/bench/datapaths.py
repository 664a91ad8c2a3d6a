# SPDX-License-Identifier: Apache-2.0
"""Proofs of datapaths by width: ``make bench-datapaths``.

Each type is tried from narrow to wide until a search takes too long.  Results are stored
after each type; the page of proofs is made from them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from flows.bench.common import markdown, parser, run, write_sections
from flows.formal.datapaths import prove_datapath
from flows.formal.definitions import SERIES
from flows.tools.guard import scratch

TIMEOUT_S = 60
"""Limit of each search."""

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last run."""


class Equivalence(NamedTuple):
    """Result of a datapath.

    Parameters
    ----------
    name, case : str
        Its type; its formats or widths.
    status, engine, detail : str
        As of `flows.formal.block_proof.Result`.
    seconds : float
    """

    name: str
    case: str
    status: str
    engine: str
    detail: str
    seconds: float


def measure(name: str, seconds: int = TIMEOUT_S) -> list[Equivalence]:
    """Return the results of a type, the first that is not proven at the end."""
    series, results = SERIES[name], []
    for case in series.cases:
        with scratch() as work:
            proof = prove_datapath(series.make(case), work, seconds)
        results.append(
            Equivalence(name, case, proof.status, proof.engine, proof.detail, proof.seconds)
        )
        click.echo(f"{name} {case}: {proof.status}, {proof.seconds} s", err=True)
        if proof.status != "proven":
            break
    return results


def equivalence_table(results: Sequence[Equivalence]) -> str:
    """Return the results of each type as a table in Markdown."""
    rows = []
    for name in SERIES:
        members = [each for each in results if each.name == name]
        proven = [each for each in members if each.status == "proven"]
        others = [f"{each.case} ({each.status})" for each in members if each.status != "proven"]
        rows.append(
            (
                name,
                ", ".join(each.case for each in proven) or "-",
                f"{proven[-1].seconds:.0f} s" if proven else "-",
                ", ".join(others) or "-",
            )
        )
    headings = ("datapath", "proven", "widest takes", f"not decided in {TIMEOUT_S} s")
    return markdown(headings, rows, 2)


def load_results() -> list[Equivalence]:
    """Return the results of the last run."""
    return [Equivalence(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove datapaths; the status is 1 if one is refuted."""
    options = parser("datapaths", __doc__)
    options.add_argument("--type", action="append", choices=list(SERIES), help="default all")
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    if chosen.stored:
        results = load_results()
    else:
        results = load_results()
        for name in chosen.type or SERIES:
            results = [each for each in results if each.name != name] + measure(name)
            text = json.dumps([each._asdict() for each in results], indent=1)
            RESULTS.write_text(f"{text}\n", encoding="utf-8")
    if chosen.json:
        click.echo(json.dumps([each._asdict() for each in results], indent=2))
    elif chosen.write:
        write_sections(chosen.write, {"datapaths": equivalence_table(results)})
    else:
        click.echo(equivalence_table(results))
    return int(any(each.status == "refuted" for each in results))


if __name__ == "__main__":
    run(main)
