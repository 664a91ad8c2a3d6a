# SPDX-License-Identifier: Apache-2.0
"""The page report.html: everything in one file, no network, and PNGs of the same points."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from cost_model.estimate.activity import ASSUMED
from cost_model.roofline.picture import Dot, picture
from cost_model.roofline.roofline import PREFIX
from cost_model.sweep.outcome import Outcome
from cost_model.sweep.output.results import CONFIG, PARETO, Chosen, depends_on_power, power_activity
from cost_model.sweep.plan import Plan
from cost_model.sweep.table import FAMILY, INDEX, MEETS_CLOCK, Table, columns_of, ranking_metrics
from hwgen.config.dotted import nested
from hwgen.config.parameters import inner_parameters
from hwgen.core.params.off_chip import OffChip
from hwgen.core.registry import families
from hwgen.errors import ToolMissing
from hwgen.reports.datasheet import METRICS, power_by_method
from hwgen.reports.sweep_words import candidates_left, empty_group

MOST_POINTS = 4000
"""Points of a page; a browser draws more only with pauses."""

MOST_ROOFS = 8
"""Memories up to which a roofline is drawn."""

_PART = re.compile(r"(.+)\[(.+)\]")


def report_html(outcome: Outcome, chosen: Chosen, said: Mapping[str, Any]) -> str:
    """Return the page of the chosen points.

    Parameters
    ----------
    outcome : Outcome
    chosen : Chosen
    said : mapping
        The summary of the sweep.
    """
    document = report_data(outcome, chosen)
    shown = len(document["rows"])
    cut = f"; this page shows {shown:,} of them, evenly chosen" if shown < chosen.count else ""
    by = " and ".join(outcome.plan.group_by)
    groups = f"s, one for each {by}" if by else ""
    summary = (
        f"{outcome.evaluated:,} configurations tried, {outcome.feasible:,} feasible,"
        f" {len(outcome.front):,} in the Pareto set{groups}, {chosen.count:,} kept{cut}."
        f" {_goals(outcome)} hwgen {outcome.plan.version}."
    )
    activity = power_activity(outcome.plan, chosen)
    if activity.startswith(ASSUMED.name):
        simulated = said["activity"]["simulated"]
        summary += f" {power_by_method(activity, simulated=simulated)}"
    sentences = [candidates_left(said["refine"]), *map(empty_group, said["empty_groups"])]
    summary += "".join(f" {text[:1].upper()}{text[1:]}." for text in sentences if text)
    pictures = "".join(
        f'<section class="wide">{svg}</section>\n' for svg in rooflines(outcome, chosen)
    )
    return page_html(f"Sweep {outcome.plan.name}", summary, document, pictures)


def page_html(title: str, summary: str, document: Mapping[str, Any], pictures: str = "") -> str:
    """Return a page to explore points.

    Parameters
    ----------
    title, summary : str
        Texts.
    document : mapping
        As `report_data` returns it.
    pictures : str
        HTML sections below.
    """
    data = json.dumps(document, separators=(",", ":"), allow_nan=False)
    page = {
        "TITLE": html.escape(title),
        "SUMMARY": html.escape(summary),
        # An end tag inside a text would end the script element.
        "DATA": data.replace("<", "\\u003c"),
        "ROOFLINES": pictures,
        "LOGIC": _asset("logic.js"),
        "VIEW": _asset("view.js"),
    }
    return re.sub("@([A-Z]+)@", lambda match: page[match[1]], _asset("report.html"))


def _goals(outcome: Outcome) -> str:
    plan = outcome.plan
    goals = [f"{'largest' if o.maximise else 'smallest'} {o}" for o in plan.objectives]
    specs = f" where {', '.join(map(str, plan.specs))}" if plan.specs else ""
    return f"Wanted: {', '.join(goals)}{specs}."


def _asset(name: str) -> str:
    return (files("cost_model.sweep.output") / "page" / name).read_text(encoding="utf-8")


def report_data(outcome: Outcome, chosen: Chosen) -> dict[str, Any]:
    """Return the contents of the page as plain JSON values."""
    plan, table = outcome.plan, chosen.table
    parameters = [FAMILY, *columns_of(plan)]
    metrics = ranking_metrics(plan)
    units = _units(plan)
    used = {name for spec in plan.specs for name in spec.names}
    columns = []
    breakdowns: dict[str, list[dict[str, str]]] = {}
    activity = power_activity(plan, chosen)
    for name, values in table.items():
        part = _PART.fullmatch(name)
        if part and name not in metrics:
            breakdowns.setdefault(part[1], []).append({"name": name, "part": part[2]})
        numeric = all(v is None or type(v) in (int, float) for v in values)
        interesting = name in parameters or name in metrics or name in used
        label, unit = label_of(name, units)
        columns.append(
            {
                "name": name,
                "label": label,
                "unit": unit,
                "note": f"at the {activity}" if activity and depends_on_power(name) else "",
                "parameter": name in parameters,
                "numeric": numeric and name != CONFIG,
                "part": bool(part),
                "filter": interesting or name in (PARETO, MEETS_CLOCK),
                "lane": interesting,
                "listed": not part or name in metrics,
            }
        )
    # Every n-th keeps the shape: the points are sorted by the first objective.
    step = -(-chosen.count // MOST_POINTS)
    rows = [list(row) for row in zip(*table.values(), strict=True)][::step]
    return {
        "name": plan.name,
        "columns": columns,
        "rows": rows,
        "objectives": [{"name": str(o), "maximise": o.maximise} for o in plan.objectives],
        "breakdowns": breakdowns,
        "group_by": list(plan.group_by),
        "folder": "configs/",
    }


_SUFFIXES = {
    "mm2": "mm²", "um2": "µm²", "mhz": "MHz", "ms": "ms", "mj": "mJ", "mw": "mW", "w": "W",
    "gb_s": "GB/s", "pj": "pJ", "ns": "ns", "per_s": "1/s", "kib": "KiB",
}  # fmt: skip
"""Ends of metrics' names: their units."""

_METRIC = re.compile(r"(\w+?)(?:\((\w+)\))?(?:\[(.+)\])?")


def label_of(name: str, units: Mapping[str, str]) -> tuple[str, str]:
    """Return the label and the unit of a column.

    Parameters
    ----------
    name : str
        Parameter, metric or expression.
    units : mapping
        Of parameters.

    Returns
    -------
    (str, str)
        The unit is empty where there is none, or it is not known.
    """
    match = _METRIC.fullmatch(name)
    if name in units or not match:
        return name, units.get(name, "")
    metric, workload, part = match.groups()
    label, unit = METRICS.get(metric, ("", ""))
    if not unit:
        unit = next((u for end, u in _SUFFIXES.items() if metric.endswith(f"_{end}")), "")
        bare = next((end for end in _SUFFIXES if metric.endswith(f"_{end}")), "")
        label = label or metric.removesuffix(f"_{bare}").replace("_", " ")
    if unit and not label:
        label, unit = unit, ""
    words = [label or metric.replace("_", " "), f"of {workload}" if workload else ""]
    words += [f"in {part}"] if part else []
    return " ".join(filter(None, words)), unit


def _units(plan: Plan) -> dict[str, str]:
    """Return the units of the parameters of a sweep; empty texts of those without."""
    units = dict.fromkeys(columns_of(plan), "")
    for subspace in plan.space.subspaces:
        model = families()[subspace.family].params_class
        own = inner_parameters(model, nested(subspace.fixed))
        units |= {each.field: each.unit for each in own.values() if each.field in units}
    return units


def rooflines(outcome: Outcome, chosen: Chosen) -> Iterator[str]:
    """Yield a picture of each workload behind a memory: the chosen points under its bandwidth.

    A line above a point leads to what its core could compute.
    """
    plan, table = outcome.plan, chosen.table
    rows = range(0, chosen.count, -(-chosen.count // MOST_POINTS) or 1)
    roofs: dict[str, float] = {}
    for row in rows:
        if (memory := _memory_of(plan, table, row)).peak_gb_s:
            gb_s = memory.peak_gb_s * memory.share
            roofs.setdefault(f"{memory.kind or 'memory'}, {gb_s:.4g} GB/s", gb_s)
    if not roofs or len(roofs) > MOST_ROOFS:
        return
    for name, network in plan.workloads.items():
        intensities = table.get(f"ops_per_byte({name})", [None] * chosen.count)
        times, peaks = (table.get(key, intensities) for key in (f"latency_ms({name})", "tops"))
        dots = [
            Dot(f"point {table[INDEX][row]}", intensities[row], 2e-9 * network.macs / times[row],
                str(table[FAMILY][row]), peaks[row])
            for row in rows
            if intensities[row] and times[row]
        ]  # fmt: skip
        if svg := picture(f"Roofline of {name}", roofs, None, dots):
            yield svg


def _memory_of(plan: Plan, table: Table, row: int) -> OffChip:
    """Return the memory of a chosen point."""
    family = table[FAMILY][row]
    fixed = next(s.fixed for s in plan.space.subspaces if s.family == family)
    names = ("kind", "gb_s", "efficiency")
    said = {
        name: table[PREFIX + name][row] if PREFIX + name in table else fixed.get(PREFIX + name)
        for name in names
    }
    return OffChip.model_validate(said)


def write_pictures(directory: Path, outcome: Outcome, chosen: Chosen) -> list[str]:
    """Draw the chosen points, each objective against the first; return the files' names."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolMissing("a sweep draws with matplotlib; pip install 'hwgen[sweep]'") from None
    plan, table = outcome.plan, chosen.table
    across = str(plan.objectives[0])
    written = []
    for index, objective in enumerate(plan.objectives[1:], 2):
        figure = Figure(figsize=(5.0, 3.6), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for family in dict.fromkeys(table[FAMILY]):
            rows = [r for r in range(chosen.count) if table[FAMILY][r] == family]
            points = [[table[name][r] for r in rows] for name in (across, str(objective))]
            axes.scatter(points[0], points[1], s=9, label=family, alpha=0.8, linewidths=0)
        for axis, name in ((axes.xaxis, across), (axes.yaxis, str(objective))):
            values = [value for value in table[name] if value is not None]
            if values and min(values) > 0 and max(values) / min(values) > 30:
                getattr(axes, f"set_{axis.axis_name}scale")("log")
        axes.set_xlabel(across)
        axes.set_ylabel(str(objective))
        axes.grid(visible=True, alpha=0.3)
        if len(set(table[FAMILY])) > 1:
            axes.legend()
        name = f"pareto_{index}.png"
        # Without the version of the drawing library: the same points give the same bytes.
        figure.savefig(directory / name, metadata={"Software": None})
        written.append(name)
    return written
