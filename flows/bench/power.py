# SPDX-License-Identifier: Apache-2.0
"""Power by fitted energies against simulations of mapped netlists: `make bench-power`.

Errors are those of designs that are left out of the fit, one at a time.  ``--write`` puts the
energies into the table of costs, under a key of its own.  What was mapped and simulated is kept:
a run goes on where it was stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cost_model.estimate.technology import calibrated, technology, write
from flows.bench.common import Row, parser, report, run
from flows.calibration.energies import Errors, left_out, measured, table
from hwgen.reports.terminal import console
from hwgen.technologies import costs_of, technology_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit energies, print the errors of designs left out, and write them if asked to."""
    cells = [name for name in calibrated() if name in technology_names("standard_cells")]
    options = parser("power", __doc__)
    options.add_argument("--technology", choices=cells, default="nangate45")
    options.add_argument("--designs", type=int, help="only the first so many, the smallest")
    options.add_argument("--write", action="store_true", help="write the energies that were fitted")
    chosen = options.parse_args(arguments)
    name = chosen.technology

    def progress(done: int, total: int, text: str) -> None:
        console(stderr=True).print(f"{done} of {total} designs; {text}")

    pairs = list(measured(name, progress, chosen.designs))
    errors = left_out(name, pairs)
    energies = table(name, pairs, errors)
    specs = dict.fromkeys(("MAPE", "bias", "worst"), "+.1%") | {"MAPE": ".1%"}
    title = f"power at {name} by fitted energies, designs left out"
    report(title, _rows(errors), specs, as_json=chosen.json)
    glitches = energies["glitches"]
    report("toggle energy with glitches over that without", [glitches], as_json=chosen.json)
    if chosen.write and (path := costs_of(name)) is not None:
        write(path, replace(technology(name), energies=energies))
    return 0


def _rows(errors: Errors) -> Iterator[Row]:
    """Yield errors by operands, distribution and family."""
    for kind, each in errors.items():
        groups: dict[str, list[float]] = defaultdict(list)
        for m, error in each:
            for group in ("all", m.drawn_from, m.family):
                groups[group].append(error)
        for group, values in groups.items():
            yield {
                "operands": kind,
                "designs": group,
                "number": len(values),
                "MAPE": float(np.mean(np.abs(values))),
                "bias": float(np.mean(values)),
                "worst": max(values, key=abs),
            }


if __name__ == "__main__":
    run(main)
