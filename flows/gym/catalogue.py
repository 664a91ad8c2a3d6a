# SPDX-License-Identifier: Apache-2.0
"""Record digest, optimum and front of every shipped problem: ``make gym-tables``.

With ``--enumerate`` the tables are made again first, which takes some minutes of netlists.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from flows.gym.enumerate import table_of
from flows.tools.executors import LocalProcesses
from flows.tools.parallel import processors
from hwgen.gym import problem as shipped
from hwgen.gym.problem import load_problem, problems

FOLDER = Path(shipped.__file__).parent

JOURNALS = Path("build/gym")
"""Where structures that were counted are, so that an interrupted enumeration continues."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write `catalogue.json`, and tables if that is asked for."""
    options = argparse.ArgumentParser(prog="python -m flows.gym.catalogue", description=__doc__)
    options.add_argument("--enumerate", action="store_true", help="make the tables again")
    options.add_argument("--table", action="append", help="make only this again; may be repeated")
    options.add_argument("--jobs", type=int, default=processors(), metavar="N")
    chosen = options.parse_args(arguments)
    path = FOLDER / "catalogue.json"
    if chosen.enumerate:
        listed = yaml.safe_load((FOLDER / "problems.yaml").read_text(encoding="utf-8"))
        for name in chosen.table or listed["spaces"]:
            space, executor = FOLDER / "spaces" / f"{name}.yaml", LocalProcesses(chosen.jobs)
            journal = JOURNALS / f"{name}.jsonl" if name in listed["counted"] else None
            table = table_of(space, executor, journal=journal)
            (FOLDER / "tables" / f"{name}.parquet").write_bytes(table.encode())
            sys.stdout.write(f"{name}: {table.size:,} points, digest {table.digest[:16]}\n")
    path.write_text("{}\n", encoding="utf-8")  # digests of before do not count
    shipped.catalogue.cache_clear()
    recorded = {name: load_problem(name).summary() for name in problems()}
    path.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
