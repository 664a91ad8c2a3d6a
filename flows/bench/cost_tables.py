# SPDX-License-Identifier: Apache-2.0
"""Errors of estimates: their statistics, tables by parts of the domain, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cost_model.estimate.technology import technology
from flows.bench.common import markdown
from flows.calibration import structural
from flows.calibration.results import ranges
from hwgen.core.params.base import FamilyConfig
from hwgen.technologies import technology as installed

Values = dict[str, Any]
"""Parameters by dotted name, the family among them."""

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

GOAL_TAU = 0.97
METRICS = tuple({**CELL_GOALS, **FPGA_GOALS})

UNITS = {"area": "mm²", "fmax": "MHz", "power": "W"}
"""Metrics of the picture."""

WIDTHS = ((2, 4), (5, 8), (9, 12), (13, 16))
"""Ranges of bits of the wider operand."""

WITHIN, BEYOND = "within the sizes calibrated on", "beyond them"
ALIKE, MIXED = "operands of the same width", "operands of two widths"
MACROS, POST = "with SRAM macros", "with post-processing"
BLOCKS = "formats with scales for blocks"
OF_BLOCKS = "blocks: "
"""Prefix of the name of a format with scales for blocks."""
NARROW = "accumulator narrower than a product"

HEADINGS = (
    "technology", "metric", "designs", "MAPE", "bias", "worst", "Kendall τ", "τ a MAC",
    "stated", "inside", "goal",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A design: estimates and measurements, None if unknown; products in a full cycle.

    `stated` are the uncertainties of the estimates; `traits` the parts of the domain that it is in;
    `seconds` the time of its synthesis.
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


@dataclass(frozen=True)
class Errors:
    """Statistics of relative errors: means without and with sign, the largest, and Kendall's tau.

    The latter is the agreement of the rankings, 1 if they are the same.
    """

    designs: int
    mape: float
    bias: float
    worst: float
    tau: float

    @classmethod
    def of(cls, errors: Sequence[float], amounts: Sequence[float]) -> Errors:
        """Compute them of errors and the true amounts."""
        values = np.array(errors, np.float64)
        return cls(
            len(values),
            float(np.abs(values).mean()),
            float(values.mean()),
            float(values[np.abs(values).argmax()]),
            kendall([(1 + e) * a for e, a in zip(values, amounts, strict=True)], amounts),
        )

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        return (
            str(self.designs),
            f"{100 * self.mape:.1f} %",
            f"{100 * self.bias:+.1f} %",
            f"{100 * self.worst:+.1f} %",
            f"{self.tau:.3f}",
        )


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Kendall's tau, the agreement of two rankings: 1 if they are the same."""
    pairs = list(combinations(range(len(a)), 2))
    agreement = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs]
    return float(np.mean(agreement)) if pairs else 1.0


@dataclass(frozen=True)
class Summary:
    """Errors of the estimates of a metric in a technology.

    `tau_per_mac` is the agreement of the rankings by the metric for each product of a full cycle,
    `uncertainty` the median of those that are stated, `inside` the share of the designs within
    their own.
    """

    technology: str
    metric: str
    errors: Errors
    tau_per_mac: float
    uncertainty: float | None
    inside: float | None

    @property
    def met(self) -> bool:
        """Whether the goals of the metric are met."""
        fpga = installed(self.technology).kind == "fpga"
        mean, worst = (FPGA_GOALS if fpga else CELL_GOALS)[self.metric]
        small = worst is None or abs(self.errors.worst) <= worst
        ranked = self.metric != "area" or self.errors.tau >= GOAL_TAU
        return self.errors.mape <= mean and small and ranked

    def cells(self) -> tuple[str, ...]:
        """Return the row under `HEADINGS`."""
        return (
            self.technology,
            self.metric,
            *self.errors.cells(),
            f"{self.tau_per_mac:.3f}" if self.metric in ("area", "luts") else "-",
            "-" if self.uncertainty is None else f"± {100 * self.uncertainty:.1f} %",
            "-" if self.inside is None else f"{100 * self.inside:.0f} %",
            "met" if self.met else "missed",
        )


def summarise(points: Sequence[Point], metric: str) -> Summary | None:
    """Return the errors of a metric; None if no design has it."""
    pairs = [(p, e) for p in points if (e := p.error(metric)) is not None]
    if not pairs:
        return None
    errors = [error for _, error in pairs]
    amounts = [p.measured[metric] or 0.0 for p, _ in pairs]
    name = points[0].technology
    usual = stated_of(name, metric)
    stated = [(e, s) for p, e in pairs
              if (s := p.stated[metric] if p.stated else usual) is not None]  # fmt: skip
    per_mac = [amount / p.macs for (p, _), amount in zip(pairs, amounts, strict=True)]
    return Summary(
        name,
        metric,
        Errors.of(errors, amounts),
        Errors.of(errors, per_mac).tau,
        float(np.median([s for _, s in stated])) if stated else None,
        float(np.mean([abs(e) <= s for e, s in stated])) if stated else None,
    )


def stated_of(name: str, metric: str) -> float | None:
    """Return the uncertainty that estimates of a technology state."""
    tech = technology(name)
    stated = {**tech.structure["uncertainty"], "fmax": tech.timing.get("uncertainty")}
    value: float | None = stated.get(metric)
    return value


@cache
def calibrated_ranges() -> dict[str, tuple[float, float]]:
    """Return the ranges of the sizes that calibration covers."""
    return ranges(config for name in structural.DESIGNS for config in structural.designs(name))


def traits(config: FamilyConfig, *, macros: bool) -> tuple[str, ...]:
    """Return the parts of the domain that a design is in."""
    covered = calibrated_ranges()
    beyond = any(
        key not in covered or not covered[key][0] <= low <= covered[key][1]
        for key, (low, _) in ranges([config]).items()
    )
    reach = BEYOND if beyond else WITHIN
    if not config.multiplies:
        return config.family, reach
    a, w = config.activation.width, config.weight.width
    widest = next(f"{low}..{high} bits" for low, high in WIDTHS if max(a, w) <= high)
    result = [config.family, widest, ALIKE if a == w else MIXED, reach]
    blocks = [form.name for form in (config.activation, config.weight) if form.is_block]
    if blocks:
        result += [BLOCKS, *(f"{OF_BLOCKS}{name}" for name in dict.fromkeys(blocks))]
    if getattr(config.result, "width", 64) < a + w:
        result.append(NARROW)
    if config.post_features is not None:
        result.append(POST)
    return (*result, MACROS) if macros else tuple(result)


def tables(points: Sequence[Point], summaries: Sequence[Summary], seed: int) -> str:
    """Return the tables of the documentation."""
    metrics = [m for m in METRICS if any(m in p.measured for p in points)]
    text = f"Seed {seed}.\n\n{markdown(HEADINGS, (s.cells() for s in summaries))}"
    if any(p.traits for p in points):
        return text + "\n" + "\n".join(parts(points, metrics))
    rows = []
    for p in points:
        errors = (p.error(metric) for metric in metrics)
        cells = ("-" if e is None else f"{100 * e:+.1f} %" for e in errors)
        values = {key.split(".")[-1]: value for key, value in p.values.items()}
        rows.append((p.technology, described(values), *cells))
    heads = (metric.replace("_", " ") for metric in metrics)
    return text + "\n" + markdown(("technology", "design", *heads), rows)


def parts(points: Sequence[Point], metrics: Sequence[str]) -> Iterator[str]:
    """Yield tables of the errors by parts of the domain, and of the worst designs."""
    technologies = list(dict.fromkeys(p.technology for p in points))
    names = list(dict.fromkeys(trait for p in points for trait in p.traits))
    usual = [f"{low}..{high} bits" for low, high in WIDTHS]
    formats = sorted(name for name in names if name.startswith(OF_BLOCKS))
    last = [ALIKE, MIXED, WITHIN, BEYOND, BLOCKS, *formats, NARROW, POST, MACROS]
    families = sorted(name for name in names if name not in (*usual, *last))
    for metric in metrics:
        rows = []
        for name in (*families, *usual, *last):
            cells = [error_cell(points, metric, tech, name) for tech in technologies]
            if any(cells):
                rows.append((name, *(cell or "-" for cell in cells)))
        yield markdown((f"{metric}: MAPE, bias (designs)", *technologies), rows)
    rows = []
    for tech in technologies:
        for metric in metrics:
            errors = [(e, described(p.values)) for p in points
                      if p.technology == tech and (e := p.error(metric)) is not None]  # fmt: skip
            for error, text in sorted(errors, key=lambda pair: -abs(pair[0]))[:3]:
                rows.append((tech, metric, f"{100 * error:+.1f} %", text))
    yield markdown(("technology", "metric", "worst", "design"), rows)
    spent = ", ".join(
        f"{tech} {sum(p.seconds for p in points if p.technology == tech) / 60:.0f}"
        for tech in technologies
    )
    yield f"Minutes that the syntheses took: {spent}.\n"


def error_cell(points: Sequence[Point], metric: str, tech: str, trait: str) -> str:
    """Format the errors of the designs in a part of the domain."""
    errors = [e for p in points
              if p.technology == tech and trait in p.traits
              and (e := p.error(metric)) is not None]  # fmt: skip
    if not errors:
        return ""
    mean, bias = 100 * np.abs(errors).mean(), 100 * np.mean(errors)
    return f"{mean:.1f} %, {bias:+.1f} % ({len(errors)})"


def described(values: Values) -> str:
    """Return a design in one line."""
    return ", ".join(
        str(value) if key == "family" else f"{key} {value}" for key, value in values.items()
    )


def draw_picture(points: Sequence[Point], path: Path) -> None:
    """Draw estimates over measurements: a row of panels by technology for each metric."""
    technologies = list(dict.fromkeys(p.technology for p in points))
    families = sorted({str(p.values["family"]) for p in points})
    figure = Figure(figsize=(3.2 * len(technologies), 3.2 * len(UNITS)), layout="constrained")
    panels = figure.subplots(len(UNITS), len(technologies), squeeze=False)
    for axes_row, (metric, unit) in zip(panels, UNITS.items(), strict=True):
        for axes, tech in zip(axes_row, technologies, strict=True):
            axes.set(title=f"{tech}: {metric}, {unit}", xscale="log", yscale="log")
            for family in families:
                dots = [
                    (measured, estimated)
                    for p in points
                    if (p.technology, p.values["family"]) == (tech, family)
                    and (measured := p.measured.get(metric))
                    and (estimated := p.estimated.get(metric))
                ]
                axes.plot(*zip(*dots, strict=True), "o", ms=4, label=family) if dots else None
            low, high = axes.get_xlim()
            axes.plot((low, high), (low, high), color="gray", lw=1)
            axes.fill_between((low, high), (low * 0.9, high * 0.9), (low * 1.1, high * 1.1),
                              color="lightgray", alpha=0.6)  # fmt: skip
    handles = {
        label: handle
        for axes in panels.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(families))
    figure.supxlabel("measured")
    figure.supylabel("estimated")
    figure.savefig(path, format="svg", metadata={"Date": None})
