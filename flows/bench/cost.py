# SPDX-License-Identifier: Apache-2.0
"""How far `hwgen estimate` is from synthesis, on designs that calibration has never seen.

``python -m flows.bench.cost [--technology NAME]... [--family NAME]... [--designs N] [--seed S]
[--size-limit BITS] [--given PARAMETER=VALUE[|VALUE]...]... [--kept] [--place] [--closed-forms]
[--write] [--output FILE] [--json]``

Designs are drawn from everything that is legal (`flows.bench.draws`) and mapped as `hwgen synth`
does by default, small ones first; with ``--place`` those of FPGAs are placed and routed as well.
Results are kept, so that a run that was stopped goes on.

With ``--closed-forms``, those of FPGAs that sweeps use are compared instead: a seeded generator
draws whole cores, 4 x 4 to 32 x 32, with rows of totals in memories of each kind, which are mapped
as the calibration cores are.

``--write`` puts the errors into the tables of costs, as what the next estimates are uncertain by;
of closed forms it extends the range that they are checked in.  After a change of the model a new
seed is to be drawn, so that nothing is tuned to the designs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from cost_model.estimate.technology import calibrated, technology
from flows.bench import cost_tables
from flows.bench.cost_points import Point, compare, save
from flows.bench.draws import draw, size
from flows.bench.pages import rewritten
from flows.build.design import Design
from flows.calibration.points import Values, config_of, held_out_points
from flows.synthesis.synth_cache import recorded
from hwgen.core.registry import families
from hwgen.errors import HwgenError
from hwgen.technologies import of_kind
from hwgen.technologies import technology as installed

SEED = 2041
DESIGNS = 40

CELL_GOALS: Mapping[str, tuple[float, float | None]] = {
    "area": (0.03, 0.10),
    "fmax": (0.08, 0.25),
    "power": (0.08, None),
}
FPGA_GOALS: Mapping[str, tuple[float, float | None]] = {
    "luts": (0.04, None),
    "flip_flops": (0.0, 0.0),
    "carries": (0.05, None),
    "dsps": (0.0, 0.0),
    "brams": (0.0, 0.0),
    "lutrams": (0.05, None),
    "fmax": (0.10, None),
}
"""Largest mean and worst relative error."""

METRICS = tuple({**CELL_GOALS, **FPGA_GOALS})

GOAL_TAU = 0.97
FABRICS = "fpga"


def configurations(
    tech: str,
    designs: int,
    seed: int,
    size_limit: float | None,
    names: Sequence[str],
    *,
    closed_forms: bool = False,
    given: Mapping[str, Sequence[Any]] | None = None,
) -> list[Any]:
    """Return configurations that a technology is not calibrated on, small ones first."""
    if closed_forms and installed(tech).kind == "fpga":
        return [config_of(values) for values in held_out_points(seed, designs)]
    found = draw(seed, designs, size_limit, tech, names, given)
    return sorted(found, key=lambda c: size(Design(c).netlist, c.memories.registers_below))


@dataclass(frozen=True)
class Summary:
    """Errors of the estimates of a metric in a technology.

    `bias` is the mean error with its sign, `uncertainty` the median of those that are stated, and
    `inside` the share of the designs within their own.  `tau` is the agreement of the rankings by
    the metric, `tau_per_mac` that by the metric for each product of a full cycle.
    """

    technology: str
    metric: str
    designs: int
    mape: float
    bias: float
    worst: float
    tau: float
    tau_per_mac: float
    uncertainty: float | None
    inside: float | None


def summarise(points: Sequence[Point], metric: str) -> Summary | None:
    """Return the errors of a metric; None if it is known of no design."""
    known = [p for p in points if p.error(metric) is not None]
    if not known:
        return None
    errors = np.array([p.error(metric) for p in known], np.float64)
    of_all = stated_of(known[0].technology, metric)
    stated = [(p.stated[metric] if p.stated else of_all) for p in known]
    told = [(e, s) for e, s in zip(errors, stated, strict=True) if s is not None]
    return Summary(
        known[0].technology,
        metric,
        len(known),
        float(np.abs(errors).mean()),
        float(errors.mean()),
        float(errors[np.abs(errors).argmax()]),
        _ranking(known, metric, [1.0] * len(known)),
        _ranking(known, metric, [p.macs for p in known]),
        float(np.median([s for _, s in told])) if told else None,
        float(np.mean([abs(e) <= s for e, s in told])) if told else None,
    )


def stated_of(name: str, metric: str) -> float | None:
    """Return the uncertainty that estimates of a technology state."""
    tech = technology(name)
    if not tech.structure:
        return tech.uncertainty.get(metric)
    known = {**tech.structure["uncertainty"], "fmax": tech.timing.get("uncertainty")}
    found: float | None = known.get(metric)
    return found


def _ranking(points: Sequence[Point], metric: str, by: Sequence[float]) -> float:
    """Return how far the rankings by a metric agree, divided by a figure of each point."""
    return kendall(
        [(p.estimated[metric] or 0.0) / n for p, n in zip(points, by, strict=True)],
        [(p.measured[metric] or 0.0) / n for p, n in zip(points, by, strict=True)],
    )


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Kendall's tau, the agreement of two rankings: 1 if they are the same."""
    pairs = list(combinations(range(len(a)), 2))
    agreement = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs]
    return float(np.mean(agreement)) if pairs else 1.0


def run(
    technologies: Sequence[str],
    designs: int,
    seed: int,
    progress: Callable[[str], None],
    size_limit: float | None = None,
    names: Sequence[str] = (),
    *,
    kept: bool = False,
    place: bool = False,
    closed_forms: bool = False,
    given: Mapping[str, Sequence[Any]] | None = None,
) -> list[Point]:
    """Compare designs in every technology, or only those whose synthesis is kept."""
    points = []
    for tech in technologies:
        found = configurations(
            tech, designs, seed, size_limit, names, closed_forms=closed_forms, given=given
        )
        for number, config in enumerate(found, 1):
            if kept and not recorded(config, tech):
                continue
            progress(f"{tech}: design {number} of {designs}")
            points.append(compare(config, tech, place=place, closed_forms=closed_forms))
    return points


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Return the cells of the table."""
    return [
        (
            s.technology,
            s.metric,
            str(s.designs),
            f"{100 * s.mape:.1f} %",
            f"{100 * s.bias:+.1f} %",
            f"{100 * s.worst:+.1f} %",
            f"{s.tau:.3f}",
            f"{s.tau_per_mac:.3f}" if s.metric in ("area", "luts") else "-",
            "-" if s.uncertainty is None else f"± {100 * s.uncertainty:.1f} %",
            "-" if s.inside is None else f"{100 * s.inside:.0f} %",
            _verdict(s),
        )
        for s in summaries
    ]


HEADINGS = (
    "technology", "metric", "designs", "MAPE", "bias", "worst", "Kendall τ", "τ a MAC",
    "stated", "inside", "goal",
)  # fmt: skip


def _verdict(s: Summary) -> str:
    goals = FPGA_GOALS if installed(s.technology).kind == "fpga" else CELL_GOALS
    mean, worst = goals[s.metric]
    met = s.mape <= mean and (worst is None or abs(s.worst) <= worst)
    met = met and (s.metric != "area" or s.tau >= GOAL_TAU)
    return "met" if met else "missed"


def markdown(summaries: Sequence[Summary], points: Sequence[Point], seed: int) -> str:
    """Return the tables for the documentation."""
    lines = [f"Seed {seed}.", "", *cost_tables.table(HEADINGS, rows(summaries))]
    metrics = [m for m in METRICS if any(m in p.measured for p in points)]
    if any(p.traits for p in points):
        return "\n".join([*lines, *cost_tables.parts(points, metrics)]) + "\n"
    shown = []
    for p in points:
        errors = [p.error(metric) for metric in metrics]
        texts = ("-" if e is None else f"{100 * e:+.1f} %" for e in errors)
        shown.append((p.technology, describe(p.values), *texts))
    heads = (metric.replace("_", " ") for metric in metrics)
    return (
        "\n".join([*lines, "", *cost_tables.table(("technology", "design", *heads), shown)]) + "\n"
    )


def describe(values: Values) -> str:
    """Return a design in one line."""
    return ", ".join(
        str(value) if key == "family" else f"{key.split('.')[-1]} {value}"
        for key, value in values.items()
    )


def _block(tech: str, *, closed_forms: bool) -> str:
    """Return which tables of the page a technology is in, standard cells in those without name."""
    if installed(tech).kind != "fpga":
        return ""
    return tech if closed_forms else FABRICS


def _given(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of which designs have one, by the dotted names of their parameters."""
    pairs = (text.partition("=") for text in texts)
    return {name: [yaml.safe_load(each) for each in values.split("|")] for name, _, values in pairs}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.cost",
        description="Estimates compared with synthesis on designs that calibration has not seen.",
    )
    parser.add_argument("--technology", action="append", choices=calibrated())
    parser.add_argument("--designs", type=int, default=DESIGNS, help="a technology (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="(%(default)s)")
    parser.add_argument("--family", action="append", choices=tuple(families()))
    parser.add_argument("--size-limit", type=float, metavar="BITS",
                        help="largest design, in bits of registers or as much; about 0.5 mm2 at"
                        " 45 nm, or a middling device")  # fmt: skip
    parser.add_argument("--given", action="append", default=[], metavar="PARAMETER=VALUE[|...]",
                        help="one of these values instead of one that is drawn")  # fmt: skip
    parser.add_argument("--kept", action="store_true",
                        help="of standard cells, only designs that were mapped before")  # fmt: skip
    parser.add_argument("--place", action="store_true",
                        help="of FPGAs, place and route designs too, for Fmax")  # fmt: skip
    parser.add_argument("--closed-forms", action="store_true",
                        help="of FPGAs, compare the closed forms of sweeps instead")  # fmt: skip
    parser.add_argument("--write", action="store_true",
                        help="state the errors in the tables of costs")  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="FILE", help="put the tables into a page")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw them as SVG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        with console.status("") as status:
            points = run(
                options.technology or calibrated(), options.designs, options.seed, status.update,
                options.size_limit, options.family or (), kept=options.kept, place=options.place,
                closed_forms=options.closed_forms, given=_given(options.given),
            )  # fmt: skip
    except HwgenError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return error.exit_status
    comparisons = [
        summary
        for name in dict.fromkeys(p.technology for p in points)
        for metric in METRICS
        if (summary := summarise([p for p in points if p.technology == name], metric))
    ]
    if options.write:
        save(points, options.seed, closed_forms=options.closed_forms)
    if options.picture:
        options.picture.write_text(cost_tables.pictures(points), encoding="utf-8")
    if options.output:
        page = options.output.read_text(encoding="utf-8")
        block = partial(_block, closed_forms=options.closed_forms)
        for kind in ("", FABRICS, *of_kind("fpga")):  # standard cells are in one table
            mine = [p for p in points if block(p.technology) == kind]
            if mine:
                shown = [s for s in comparisons if block(s.technology) == kind]
                name = f"{kind} accuracy".strip()
                page = rewritten(page, name, markdown(shown, mine, options.seed))
        options.output.write_text(page, encoding="utf-8")
    if options.json:
        document: dict[str, Any] = {
            "seed": options.seed,
            "summaries": [asdict(s) for s in comparisons],
            "points": [asdict(p) for p in points],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        table = Table(title="Estimates of designs that calibration has not seen")
        for heading in HEADINGS:
            table.add_column(heading)
        for row in rows(comparisons):
            table.add_row(*row)
        Console(width=110).print(table)
    return 0 if all(_verdict(s) == "met" for s in comparisons) else 1


if __name__ == "__main__":
    raise SystemExit(main())
