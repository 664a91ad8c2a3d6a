# SPDX-License-Identifier: Apache-2.0
"""Proofs of drawn configurations of all families: ``make bench-random-proofs``.

Configurations are drawn from the whole schema of the family on which least time was spent, with
numbers that begin where the last run ended.  Modules that several have are proven
once.  The results are stored after each; the page of proofs is made from them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from flows.bench.common import markdown, parser, run, write_sections
from flows.bench.draws import draw
from flows.build.design import Design
from flows.formal.prove import prove_design
from hwgen.core.registry import families, family

TIMEOUT_S = 60
"""Limit of each search."""

LARGEST, LARGEST_ENGINE = 5_000.0, 2_000_000.0
"""Largest `flows.bench.draws.size` of a drawn configuration, and of one with a memory port, whose
buffers are counted."""

RESULTS = Path(__file__).with_suffix(".json")
"""Results of all runs."""


class RandomProof(NamedTuple):
    """Result of a drawn configuration.

    Parameters
    ----------
    family : str
    seed : int
        Number that it was drawn with.
    status : str
        The worst of its properties and covers.
    properties, unknown : int
        Of all properties and covers, and those that are not decided.
    undecided : list of str
        Group and name of the latter, and of those that are refuted.
    seconds : float
    commit : str
        State of the sources, or the one that its result was stored with.
    """

    family: str
    seed: int
    status: str
    properties: int
    unknown: int
    undecided: list[str]
    seconds: float
    commit: str = ""


def prove_drawn(name: str, seed: int, jobs: int = 1) -> RandomProof:
    """Return the result of the configuration of a family that a number draws."""
    start = time.monotonic()
    most = LARGEST_ENGINE if "memory" in family(name).params_class.model_fields else LARGEST
    (config,) = draw(seed, 1, most, names=(name,))
    certificate = prove_design(Design.of(config), seconds=TIMEOUT_S, jobs=jobs)
    results = [each for entry in certificate.entries for each in entry.results]
    open_ones = [each for each in results if each.status != "proven"]
    return RandomProof(
        name,
        seed,
        certificate.status,
        len(results),
        sum(each.status == "unknown" for each in open_ones),
        sorted({f"{each.group}: {each.name}" for each in open_ones}),
        round(time.monotonic() - start, 1),
        _commit(),
    )


def _commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def random_table(results: Sequence[RandomProof]) -> str:
    """Return the results of each family as a table in Markdown."""
    rows = []
    for name in [*families(), "all"]:
        members = [each for each in results if name in (each.family, "all")]
        if not members:
            continue
        counts = [
            sum(each.status == status for each in members)
            for status in ("proven", "refuted", "unknown")
        ]
        seconds = [each.seconds for each in members]
        rows.append(
            (
                name,
                f"{len(members)}",
                *(f"{count}" for count in counts),
                f"{sum(each.properties for each in members):,}",
                f"{statistics.median(seconds):.0f} s",
                f"{max(seconds):.0f} s",
            )
        )
    headings = (
        "family",
        "drawn",
        "proven",
        "refuted",
        "unknown",
        "properties",
        "median",
        "longest",
    )
    return markdown(headings, rows, 1)


def load_results() -> list[RandomProof]:
    """Return the results of all runs."""
    if not RESULTS.exists():
        return []
    return [RandomProof(**each) for each in json.loads(RESULTS.read_text(encoding="utf-8"))]


def store(results: Sequence[RandomProof]) -> None:
    """Store results."""
    lines = ",\n".join(f" {json.dumps(each._asdict())}" for each in results)
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove drawn configurations; the status is 1 if something is refuted."""
    options = parser("random_proofs", __doc__)
    options.add_argument("--minutes", type=float, default=60.0, help="begin none later; default 60")
    options.add_argument("--family", action="append", choices=list(families()), help="default all")
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    results = load_results()
    end = time.monotonic() + 60 * (0 if chosen.stored else chosen.minutes)
    while time.monotonic() < end:
        names = chosen.family or list(families())
        spent = {n: sum(each.seconds for each in results if each.family == n) for n in names}
        name = min(names, key=spent.__getitem__)
        seed = 1 + max((each.seed for each in results if each.family == name), default=0)
        result = prove_drawn(name, seed)
        results.append(result)
        store(results)
        click.echo(f"{name} {seed}: {result.status}, {result.seconds} s", err=True)
    if chosen.json:
        click.echo(json.dumps([each._asdict() for each in results], indent=2))
    elif chosen.write:
        write_sections(chosen.write, {"drawn": random_table(results)})
    else:
        click.echo(random_table(results))
    return int(any(each.status == "refuted" for each in results))


if __name__ == "__main__":
    run(main)
