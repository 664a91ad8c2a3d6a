# SPDX-License-Identifier: Apache-2.0
"""Clocks that ``auto`` promises, against synthesis: ``make bench-auto``.

Designs are drawn as for ``make bench-cost``, half of them from what people build and half from
everything that is legal, of the families that have registers to choose.  All registers are left
``auto``, and the clock is 97 % of the highest that hwgen offers.  A design meets it if `hwgen
synth`, or on an FPGA family with place and route `hwgen pnr`, is at that clock or above.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path

from flows.bench.common import Document, markdown, parser, run, write_sections
from flows.bench.cost import size_of
from flows.bench.cost_points import described
from flows.bench.draws import draw, rough_size
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration import realistic
from flows.calibration.delays_fpga import SEEDS
from flows.pnr.devices import placed, placer
from flows.pnr.pnr import place_and_route
from flows.synthesis.synth import synthesize
from hwgen.core.load import parse_draft
from hwgen.core.params.base import AUTO, FamilyConfig
from hwgen.core.params.target import CLOCK_MHZ
from hwgen.core.registry import families, family
from hwgen.errors import CheckFailed, ConfigError
from hwgen.technologies import technology as installed

SHARE = 0.97
"""Of the highest clock that is offered."""

SIZE_LIMIT = 6_000.0
"""Bits of registers, or as much, of the largest design: see `flows.bench.draws.size`."""

MOST_MACS = 64
"""Multiply-accumulates a cycle of the largest realistic design."""

GOAL = 0.95


def with_auto(config: FamilyConfig, technology: str, clock_mhz: float) -> FamilyConfig:
    """Return a configuration whose registers hwgen chooses, for a clock.

    Raises
    ------
    ConfigError
        If no choice reaches the clock.
    """
    values = config.resolved()
    values["pipeline"] = {**values["pipeline"], **dict.fromkeys(config.register_bounds(), AUTO)}
    values["target"] = {"technology": technology, "clock_mhz": clock_mhz}
    return parse_config(json.dumps(values), "auto.json")


def highest_clock(config: FamilyConfig, technology: str) -> float | None:
    """Return the highest clock that ``auto`` offers, in MHz, as the message says it."""
    try:
        with_auto(config, technology, CLOCK_MHZ[1])
    except ConfigError as refused:
        allowed = re.search(r"allows at most ([\d.]+)", str(refused))
        return float(allowed[1]) if allowed else None
    return None


def without_choice(text: str) -> FamilyConfig:
    """Return a configuration with the fewest registers where they are ``auto``."""
    return parse_draft(text, "auto.json", quickly=True).params


@cache
def realistic_designs(seed: int, number: int, size_limit: float) -> tuple[FamilyConfig, ...]:
    """Return those of 8 realistic designs that are small and have registers to choose."""
    return tuple(
        config
        for config in realistic.draw(f"{seed} {number}", 8, MOST_MACS, without_choice)
        if config.register_bounds()
        and rough_size(config) <= 2 * size_limit
        and size_of(config) <= size_limit
    )


def drawn(seed: int, technology: str, size_limit: float) -> Iterator[tuple[str, FamilyConfig]]:
    """Yield designs with registers to choose, of the two distributions in turn."""
    # A drawn ``auto`` would be resolved at once, for a clock that nobody asks for.
    registers = {
        name: {f"pipeline.{each}": [low] for each, (low, _) in bounds.items()}
        for name in families()
        if (bounds := family(name).params_class.register_bounds())
    }
    small = (config for n in count() for config in realistic_designs(seed, n, size_limit))
    legal = (
        config
        for number in count(seed)
        for name, fewest in registers.items()
        for config in draw(number, 1, size_limit, technology, [name], fewest)
    )
    for one, other in zip(small, legal, strict=True):
        yield "realistic", one
        yield "all legal", other


def measured(config: FamilyConfig, technology: str, seeds: int = SEEDS) -> Document | None:
    """Return the clock asked for and the one that was reached, None if there is nothing to ask.

    Parameters
    ----------
    config : FamilyConfig
        Its registers count for nothing: hwgen chooses them.
    technology : str
    seeds : int, optional
        Of place and route; their median counts.
    """
    highest = highest_clock(config, technology)
    if highest is None:
        return None
    clock = SHARE * highest
    chosen = with_auto(config, technology, clock)
    design = Design.of(chosen)
    try:
        if installed(technology).kind == "fpga" and technology in placed():
            device = placer(technology).timed_on
            reached = place_and_route(
                design, technology, device=device, seeds=seeds
            ).fmax_median_mhz
        else:
            reached = synthesize(design, technology, clock_mhz=clock, effort="clock").fmax_mhz
    except CheckFailed as error:  # larger than the device
        return {"refused": " ".join(str(error).split())[:120]}
    return {
        "asked_mhz": round(clock, 2), "reached_mhz": round(reached or 0.0, 2),
        "registers": {name: getattr(chosen.pipeline, name) for name in chosen.register_bounds()},
    }  # fmt: skip


def table(rows: Sequence[Document]) -> str:
    """Return a table of how many designs met their clock, a technology and a distribution a row."""
    lines = []
    for technology in dict.fromkeys(row["technology"] for row in rows):
        ofs = [row for row in rows if row["technology"] == technology]
        for name in (*dict.fromkeys(row["distribution"] for row in ofs), "both"):
            some = [row for row in ofs if name in ("both", row["distribution"])]
            ratios = sorted(row["reached_mhz"] / row["asked_mhz"] for row in some)
            met = sum(ratio >= 1 for ratio in ratios)
            lines.append([
                technology, name, str(len(some)), f"{met} ({100 * met / len(some):.0f} %)",
                f"{100 * (ratios[0] - 1):+.1f} %", f"{100 * (ratios[len(ratios) // 2] - 1):+.1f} %",
            ])  # fmt: skip
    headings = ["technology", "designs", "number", "met", "slowest", "median"]
    return markdown(headings, lines, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if fewer than the goal meet their clock."""
    options = parser("auto", __doc__)
    options.add_argument("--technology", action="append", required=True)
    options.add_argument("--designs", type=int, default=40, help="a technology (%(default)s)")
    options.add_argument("--seed", type=int, default=11, help="(%(default)s)")
    options.add_argument(
        "--seeds", type=int, default=SEEDS, help="of place and route (%(default)s)"
    )
    options.add_argument("--size-limit", type=float, default=SIZE_LIMIT, metavar="BITS")
    options.add_argument("--kept", type=Path, metavar="FILE", help="results, a line of JSON each")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    lines = chosen.kept.read_text().splitlines() if chosen.kept and chosen.kept.exists() else []
    kept = {(row["technology"], row["digest"]): row for row in map(json.loads, lines)}
    rows: list[Document] = []
    for technology in chosen.technology:
        some: list[Document] = []
        seen: set[str] = set()
        for distribution, config in drawn(chosen.seed, technology, chosen.size_limit):
            if len(some) == chosen.designs:
                break
            if config.digest in seen:
                continue
            seen.add(config.digest)
            row = kept.get((technology, config.digest))
            if row is None:
                sys.stderr.write(f"{technology}: design {len(some) + 1}, {config.family}\n")
                found = measured(config, technology, chosen.seeds)
                row = {
                    "technology": technology, "distribution": distribution,
                    "digest": config.digest, "design": described(config),
                    **(found or {"refused": "no registers to choose"}),
                }  # fmt: skip
                if chosen.kept:
                    with chosen.kept.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps(row) + "\n")
            if "refused" not in row:
                some.append(row)
        rows += some
    text = json.dumps(rows, indent=2) if chosen.json else table(rows)
    sys.stdout.write(f"{text}\n")
    if chosen.write:
        write_sections(chosen.write, {"auto": table(rows)})
    met = [row["reached_mhz"] >= row["asked_mhz"] for row in rows]
    return 0 if sum(met) >= GOAL * len(met) else 1


if __name__ == "__main__":
    run(main)
