# SPDX-License-Identifier: Apache-2.0
"""Pictures of a search for engines that serve several scenarios, from the result that it wrote.

The search takes minutes; what is drawn of its result is stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from flows.bench.common import parser, run
from flows.search.sensitivity import pictures

STORED = Path(__file__).with_suffix(".json")
"""Sensitivity of the last search."""

NAMES = ("search-bandwidth.svg", "search-scenarios.svg")


def main(arguments: Sequence[str] | None = None) -> int:
    """Store the sensitivity of a result if one is given, and write its pictures."""
    options = parser("search_scenarios", __doc__)
    options.add_argument("--result", type=Path, metavar="FILE", help="result.json of the search")
    options.add_argument("--pictures", type=Path, metavar="DIR", help="write pictures there")
    chosen = options.parse_args(arguments)
    if chosen.result:
        document = json.loads(chosen.result.read_text(encoding="utf-8"))
        stored = {name: document[name] for name in ("scenarios", "sensitivity")}
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if chosen.json:
        click.echo(json.dumps(stored, indent=1))
    if chosen.pictures:
        chosen.pictures.mkdir(parents=True, exist_ok=True)
        for name, text in zip(NAMES, pictures(stored["sensitivity"]), strict=True):
            (chosen.pictures / name).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    run(main)
