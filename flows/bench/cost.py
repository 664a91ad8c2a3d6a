# SPDX-License-Identifier: Apache-2.0
"""Accuracy of `hwgen estimate` against synthesis, on designs that calibration has never seen.

Designs are drawn from everything that is legal (`flows.bench.draws`), or with ``--realistic`` from
what people build (`flows.calibration.realistic`), and mapped as `hwgen synth`
does by default, small ones first; with ``--place`` those of FPGAs are placed and routed as well.
Results are cached, so that a run that was stopped goes on.

The seed is to be that of the commit in which the costs were frozen: ``--seed-of COMMIT``.

``--write`` puts the errors into the tables of costs, as the uncertainty of the next estimates.
After a change of the model a new seed
is to be drawn, so that nothing is tuned to the designs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import click
import yaml

from cost_model.estimate.technology import calibrated
from flows.bench.common import parser, report, run, write_sections
from flows.bench.cost_points import compare, save
from flows.bench.cost_tables import HEADINGS, METRICS, draw_picture, summarise, tables
from flows.bench.draws import LARGEST, draw, size
from flows.build.design import Design
from flows.calibration import realistic
from flows.calibration.delays_fpga import SEEDS
from flows.synthesis.synth_cache import cached_results
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families
from hwgen.technologies import technology as installed

SEED = 2041
DESIGNS = 40


def designs(
    tech: str,
    count: int,
    seed: int,
    size_limit: float | None,
    names: Sequence[str],
    choices: Mapping[str, Sequence[object]],
) -> list[FamilyConfig]:
    """Return configurations that a technology is not calibrated on, small ones first."""
    drawn = draw(seed, count, size_limit, tech, names, choices)
    return small_first(drawn)


def realistic_designs(seed: int, count: int, size_limit: float | None) -> list[FamilyConfig]:
    """Return realistic configurations up to a size, small ones first."""
    most = LARGEST if size_limit is None else size_limit
    drawn = (config for batch in count_up(seed) for config in batch)
    sizes = ((config, size_of(config)) for config in drawn)
    return small_first(islice((config for config, bits in sizes if bits <= most), count))


def count_up(seed: int) -> Iterator[list[FamilyConfig]]:
    """Yield realistic designs without end."""
    count = 0
    while True:
        yield realistic.draw(seed, count + 20)[count:]
        count += 20


def size_of(config: FamilyConfig) -> float:
    """Return the size of a design; see `flows.bench.draws.size`."""
    return size(Design.of(config).netlist, config.memories.registers_below)


def small_first(configs: Iterable[FamilyConfig]) -> list[FamilyConfig]:
    """Return configurations by size."""
    return sorted(configs, key=size_of)


def is_fpga(tech: str) -> bool:
    """Return whether a technology is an FPGA family."""
    return installed(tech).kind == "fpga"


def parse_choices(texts: Sequence[str]) -> dict[str, list[object]]:
    """Parse ``PARAMETER=VALUE[|VALUE]...``."""
    pairs = (text.partition("=") for text in texts)
    return {name: [yaml.safe_load(each) for each in values.split("|")] for name, _, values in pairs}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if a goal is missed."""
    options = parser("cost", __doc__)
    options.add_argument("--technology", action="append", choices=calibrated())
    options.add_argument("--designs", type=int, default=DESIGNS, help="a technology (%(default)s)")
    options.add_argument("--seed", type=int, default=SEED, help="(%(default)s)")
    options.add_argument("--seed-of", metavar="COMMIT", help="the seed that a commit's hash gives")
    options.add_argument("--realistic", action="store_true", help="designs that people build")
    options.add_argument("--family", action="append", default=[], choices=tuple(families()))
    options.add_argument("--size-limit", type=float, metavar="BITS",
                         help="largest design, in bits of registers or as much; about 0.5 mm2 at"
                         " 45 nm, or a middling device")  # fmt: skip
    options.add_argument("--given", action="append", default=[], metavar="PARAMETER=VALUE[|...]",
                         help="one of these values instead of one that is drawn")  # fmt: skip
    options.add_argument("--kept", action="store_true",
                         help="of standard cells, only designs mapped before")  # fmt: skip
    options.add_argument("--place", action="store_true",
                         help="of FPGAs, place and route designs too, for Fmax")  # fmt: skip
    options.add_argument("--seeds", type=int, default=SEEDS, help="of that (%(default)s)")
    options.add_argument("--write", action="store_true",
                         help="state the errors in the tables of costs")  # fmt: skip
    options.add_argument("--output", type=Path, metavar="FILE", help="put the tables into a page")
    options.add_argument("--section", help="the part of the page, instead of the usual one")
    options.add_argument("--picture", type=Path, metavar="FILE", help="draw them as SVG")
    chosen = options.parse_args(arguments)
    seed = int(chosen.seed_of[:7], 16) if chosen.seed_of else chosen.seed

    def configurations() -> Iterator[tuple[str, FamilyConfig]]:
        for tech in chosen.technology or calibrated():
            choices = parse_choices(chosen.given)
            if chosen.realistic:
                drawn = realistic_designs(seed, chosen.designs, chosen.size_limit)
            else:
                drawn = designs(
                    tech, chosen.designs, seed, chosen.size_limit, chosen.family, choices
                )
            for config in drawn:
                if not chosen.kept or cached_results(Design.of(config), tech):
                    yield tech, config

    points = []
    for number, (tech, config) in enumerate(configurations(), 1):
        click.echo(f"{tech}: design {number}", err=True)
        points.append(compare(config, tech, seeds=chosen.seeds if chosen.place else 0))
    summaries = [
        summary
        for name in dict.fromkeys(p.technology for p in points)
        for metric in METRICS
        if (summary := summarise([p for p in points if p.technology == name], metric))
    ]
    if chosen.write:
        save(points, seed)
    if chosen.picture:
        draw_picture(points, chosen.picture)
    if chosen.output:

        def block(tech: str) -> str:
            """Return the section of a technology; standard cells share one, and so do FPGAs."""
            return chosen.section or ("fpga accuracy" if is_fpga(tech) else "accuracy")

        names = dict.fromkeys(block(p.technology) for p in points)
        write_sections(chosen.output, {
            name: tables(
                [p for p in points if block(p.technology) == name],
                [s for s in summaries if block(s.technology) == name],
                seed,
            )
            for name in names
        })  # fmt: skip
    if chosen.json:
        document = {
            "seed": seed,
            "summaries": [asdict(s) for s in summaries],
            "points": [asdict(p) for p in points],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        rows = (dict(zip(HEADINGS, s.cells(), strict=True)) for s in summaries)
        report("estimates of designs that calibration has not seen", rows, as_json=False)
    return 0 if all(s.met for s in summaries) else 1


if __name__ == "__main__":
    run(main)
