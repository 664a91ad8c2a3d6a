# SPDX-License-Identifier: Apache-2.0
"""How far `hwgen estimate` is from synthesis, on designs that calibration has never seen.

``python -m flows.bench.cost [--technology NAME]... [--family NAME]... [--designs N] [--seed S]
[--size-limit BITS] [--kept] [--write] [--output FILE] [--json]``

Of standard cells they are drawn from everything that is legal (`flows.bench.draws`) and mapped as
`hwgen synth` does by default, small ones first.  Results are kept, so that a run that was stopped
goes on.  For FPGAs a seeded generator draws whole cores, 4 x 4 to 32 x 32, with rows of totals in
memories of each kind, which are mapped as the calibration cores are.  ``--write`` puts the errors
of the latter into the tables of costs, as the uncertainty of estimates, and extends the range that
these are checked in.  After a change of the model a new seed is to be drawn, so that nothing is
tuned to the designs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cost_model.bill import defaults, frozen
from cost_model.estimate import estimate
from cost_model.technology import calibrated, technology, write
from flows.bench import cost_tables
from flows.bench.cost_tables import traits
from flows.bench.draws import draw, size
from flows.calibration import fpga
from flows.calibration.measure import cell_costs
from flows.calibration.points import Values, config_of, held_out_points
from flows.calibration.results import covered, ranges
from flows.estimates import estimated
from flows.kept import recorded
from flows.structures import structure_of
from flows.synth import synthesize
from hwgen.config.dotted import flattened
from hwgen.errors import HwgenError
from hwgen.families import families
from hwgen.technologies import costs_of, of_kind
from hwgen.technologies import technology as installed

SEED = 2041
DESIGNS = 40

CELL_GOALS: Mapping[str, tuple[float, float | None]] = {
    "area": (0.03, 0.10),
    "fmax": (0.08, 0.25),
    "power": (0.08, None),
}
FPGA_GOALS: Mapping[str, tuple[float, float | None]] = {
    "luts": (0.05, None),
    "flip_flops": (0.05, None),
    "carries": (0.05, None),
    "dsps": (0.0, 0.0),
    "brams": (0.0, 0.0),
    "lutrams": (0.05, None),
}
GOALS = {**CELL_GOALS, **FPGA_GOALS}
"""Largest mean and worst relative error."""

GOAL_TAU = 0.97
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"
"""Lines of a page between which the tables stand."""


@dataclass(frozen=True)
class Point:
    """A design: what was estimated and measured, None if unknown; products in a full cycle.

    `stated` are the uncertainties of the estimates; `traits` what else sets it apart, see
    `flows.bench.cost_tables`; `seconds` what its synthesis took.
    """

    technology: str
    values: Values
    macs: float
    estimated: dict[str, float | None]
    measured: dict[str, float | None]
    stated: Mapping[str, float | None] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    seconds: float = 0.0

    def error(self, metric: str) -> float | None:
        """Return the relative error of the estimate."""
        estimated, measured = self.estimated.get(metric), self.measured.get(metric)
        if estimated is None or measured is None:
            return None
        if not measured:
            return None if not estimated else np.inf
        return estimated / measured - 1


def compare(config: Any, tech: str) -> Point:
    """Measure one design and estimate it."""
    if installed(tech).kind != "fpga":
        return _compare_cells(config, tech)
    values, metrics = described(config), estimate(config, tech)["metrics"]
    used = fpga.measure(values, tech).resources
    return Point(
        tech,
        values,
        config.macs_per_cycle,
        {m: metrics[m] for m in FPGA_GOALS},
        {m: used[m] for m in FPGA_GOALS},
    )


def _compare_cells(config: Any, tech: str) -> Point:
    """Compare the estimate with what `hwgen synth` does by default, each at the clock asked for.

    Power is that of the mapped cells by the method of the calibration, at the clock of the
    estimate; not known of a design with macros.
    """
    found, real = estimated(config, tech), synthesize(config, tech)
    metrics, costs = found["metrics"], cell_costs(tech)
    clock, power = found["figures_at_mhz"], None
    if not real.macros:
        power = 1e-9 * sum(
            n * (costs[cell].leakage_nw + costs[cell].energy_fj * clock)
            for cell, n in real.cells.items()
        )
    return Point(
        tech,
        described(config),
        config.macs_per_cycle,
        {"area": metrics["area_mm2"], "fmax": metrics["fmax_mhz"], "power": metrics["power_w"]},
        {"area": (real.area_um2 or 0.0) * 1e-6, "fmax": real.fmax_mhz, "power": power},
        {name: found["uncertainty"].get(key) for name, key in _STATED.items()},
        traits(config, macros=bool(real.macros)),
        real.wall_seconds,
    )


_STATED = {"area": "area_mm2", "fmax": "fmax_mhz", "power": "power_w"}


def described(config: Any) -> Values:
    """Return the parameters of a configuration by dotted name, without what is usual."""
    usual = defaults(config.family)
    values = flattened(config.resolved())
    return {"family": config.family} | {
        name: value
        for name, value in values.items()
        if not name.startswith("target.") and frozen(usual.get(name)) != frozen(value)
    }


def configurations(
    tech: str, designs: int, seed: int, size_limit: float | None, names: Sequence[str]
) -> list[Any]:
    """Return configurations that a technology is not calibrated on, small ones first."""
    if installed(tech).kind == "fpga":
        return [config_of(values) for values in held_out_points(seed, designs)]
    found = draw(seed, designs, size_limit, tech, names)
    return sorted(found, key=lambda c: size(structure_of(c), c.memories.registers_below))


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
) -> list[Point]:
    """Compare designs in every technology, or only those whose synthesis is kept."""
    points = []
    for tech in technologies:
        for number, config in enumerate(configurations(tech, designs, seed, size_limit, names), 1):
            if kept and not recorded(config, tech):
                continue
            progress(f"{tech}: design {number} of {designs}")
            points.append(compare(config, tech))
    return points


def save(points: Sequence[Point], seed: int) -> None:
    """Put the errors of each FPGA family into its table of costs.

    Those of standard cells are stated by `hwgen calibrate`, of more designs.
    """
    names = dict.fromkeys(p.technology for p in points)
    for name in (name for name in names if installed(name).kind == "fpga"):
        mine = [p for p in points if p.technology == name]
        tech = technology(name)
        uncertainty = {}
        for metric in GOALS:
            errors = [abs(e) for p in mine if (e := p.error(metric)) is not None]
            if errors:
                uncertainty[metric] = round(covered(errors), 4)
        wider = dict(tech.ranges)
        for key, (low, high) in ranges(config_of(p.values) for p in mine).items():
            before = wider.get(key, (low, high))
            wider[key] = (min(low, before[0]), max(high, before[1]))
        checked = {"held_out": {"seed": seed, "designs": len(mine)}}
        path = costs_of(name)
        assert path is not None  # it has a table
        write(
            path,
            replace(
                tech,
                uncertainty=uncertainty,
                ranges=wider,
                provenance={**tech.provenance, **checked},
            ),
        )


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
    mean, worst = GOALS[s.metric]
    met = s.mape <= mean and (worst is None or abs(s.worst) <= worst)
    met = met and (s.metric != "area" or s.tau >= GOAL_TAU)
    return "met" if met else "missed"


def markdown(summaries: Sequence[Summary], points: Sequence[Point], seed: int) -> str:
    """Return the tables for the documentation."""
    lines = [f"Seed {seed}.", "", *cost_tables.table(HEADINGS, rows(summaries))]
    metrics = [m for m in GOALS if any(m in p.measured for p in points)]
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


def _block(tech: str) -> str:
    """Return which tables of the page a technology is in: its own, or those of standard cells."""
    return tech if installed(tech).kind == "fpga" else ""


def updated(page: str, text: str, kind: str = "") -> str:
    """Return a page with the text between its marks."""
    begin, end = BEGIN.replace(" ", f" {kind} ", 1), END.replace(" ", f" {kind} ", 1)
    if not kind:
        begin, end = BEGIN, END
    before, after = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    return f"{before}\n\n{text}\n{after}"


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
    parser.add_argument("--kept", action="store_true",
                        help="of standard cells, only designs that were mapped before")  # fmt: skip
    parser.add_argument("--write", action="store_true", help="state the errors in the tables")
    parser.add_argument("--output", type=Path, metavar="FILE", help="put the tables into a page")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw them as SVG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        with console.status("") as status:
            points = run(
                options.technology or calibrated(), options.designs, options.seed, status.update,
                options.size_limit, options.family or (), kept=options.kept,
            )  # fmt: skip
    except HwgenError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return error.exit_status
    comparisons = [
        summary
        for name in dict.fromkeys(p.technology for p in points)
        for metric in GOALS
        if (summary := summarise([p for p in points if p.technology == name], metric))
    ]
    if options.write:
        save(points, options.seed)
    if options.picture:
        options.picture.write_text(cost_tables.pictures(points), encoding="utf-8")
    if options.output:
        page = options.output.read_text(encoding="utf-8")
        for kind in ("", *of_kind("fpga")):  # standard cells are in one table
            mine = [p for p in points if _block(p.technology) == kind]
            if mine:
                shown = [s for s in comparisons if _block(s.technology) == kind]
                page = updated(page, markdown(shown, mine, options.seed), kind)
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
