# SPDX-License-Identifier: Apache-2.0
"""Tables and pictures of the page about search agents, from stored results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.bench.common import Row, markdown, write_sections
from hwgen.gym.problem import catalogue, problems

STORED = Path(__file__).with_name("agents.json")
"""Results of the last run."""

SHOWN = (100, 1000, 10000)
"""Samples of the columns."""

_KEYS = ("problem", "agent", "settings", "budget")


def rows_of(done: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each agent, settings and problem: lists with an entry for each seed."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in sorted(done, key=lambda each: each["seed"]):
        row = rows.setdefault(
            tuple(each[key] for key in _KEYS),
            {
                **{key: each[key] for key in _KEYS},
                "digest": each["digest"],
                "regret": {count: [] for count in each["regret"]},
                "hypervolume": {count: [] for count in each["hypervolume"]},
                "found": [],
                "seconds": 0.0,
            },
        )
        for name in ("regret", "hypervolume"):
            for count, value in each[name].items():
                row[name][count].append(value)
        row["found"].append(each["found"])
        row["seconds"] = round(row["seconds"] + each["seconds"], 2)
    return list(rows.values())


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def within(row: Mapping[str, Any], count: int) -> float:
    """Return the share of seeds that are within 1 % of the optimum after so many samples."""
    return sum(n is not None and n <= count for n in row["found"]) / len(row["found"])


def summary_rows(results: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield the cells of each row, for a terminal."""
    for row in results:
        low, middle, high = quartiles(row["regret"][max(row["regret"], key=int)])
        yield {
            "problem": row["problem"],
            "agent": row["agent"],
            "settings": row["settings"],
            "samples": row["budget"],
            "seeds": len(row["found"]),
            "median regret": middle,
            "quartiles": f"{low:.3g}..{high:.3g}",
            "within 1 %": within(row, row["budget"]),
            "hypervolume": float(np.median(row["hypervolume"][str(row["budget"])])),
            "s a run": row["seconds"] / len(row["found"]),
        }


def _percent(value: float) -> str:
    return f"{100 * value:.2g}" if value < 0.0995 else f"{100 * value:.0f}"


def _cell(row: Mapping[str, Any], count: int) -> str:
    if count > row["budget"]:
        return "-"
    low, middle, high = quartiles(row["regret"][str(count)])
    return f"{_percent(middle)} ({_percent(low)}..{_percent(high)})"


def _defaults(results: Sequence[Mapping[str, Any]], problem: str) -> list[Mapping[str, Any]]:
    return [r for r in results if r["problem"] == problem and r["settings"] == "{}"]


def shortest(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows without those whose settings have one of fewer samples on that problem."""
    least: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for row in sorted(results, key=lambda row: -int(row["budget"])):
        least[row["problem"], row["agent"], row["settings"]] = row
    return [row for row in results if any(row is each for each in least.values())]


def agents_table(results: Sequence[Mapping[str, Any]], problem: str) -> str:
    """Return the table of a problem: agents with default settings."""
    rows = []
    for row in _defaults(results, problem):
        volumes = row["hypervolume"]
        volume = [f"{np.median(volumes[str(n)]):.3f}" if str(n) in volumes else "-" for n in SHOWN]
        rows.append([
            row["agent"], f"{row['budget']:,}", str(len(row["found"])),
            *(_cell(row, count) for count in SHOWN),
            f"{within(row, row['budget']):.0%}".replace("%", " %"),
            *volume, f"{row['seconds'] / len(row['found']):.2g}",
        ])  # fmt: skip
    headings = [
        "agent", "samples", "seeds", *(f"% after {n:,}" for n in SHOWN), "within 1 %",
        *(f"volume {n:,}" for n in SHOWN), "s a run",
    ]  # fmt: skip
    return markdown(headings, rows, 1)


def spread_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return, for each agent, how far settings of its grid differ from each other."""
    rows = []
    for agent in dict.fromkeys(row["agent"] for row in results):
        own = shortest([row for row in results if row["agent"] == agent])
        settings = list(dict.fromkeys(row["settings"] for row in own))
        if len(settings) < 2:
            continue
        count = min(1000, *(row["budget"] for row in own))
        count = max(int(n) for n in own[0]["regret"] if int(n) <= count)
        # Those problems that all of its settings have results of.
        common = set.intersection(
            *({row["problem"] for row in own if row["settings"] == each} for each in settings)
        )
        medians = {}
        for each in settings:
            some = [row for row in own if row["settings"] == each and row["problem"] in common]
            seeds = [value for row in some for value in row["regret"][str(count)][:10]]
            medians[each] = float(np.median(seeds))
        best = min(medians, key=lambda each: medians[each])
        worst = max(medians, key=lambda each: medians[each])
        rows.append([
            agent, f"{count:,}", str(len(medians)), _name(best), _percent(medians[best]),
            _name(worst), _percent(medians[worst]),
        ])  # fmt: skip
    return markdown(
        ["agent", "samples", "settings", "best", "% of the best", "worst", "% of the worst"],
        rows,
        99,
    )


def _name(settings: str) -> str:
    pairs = json.loads(settings).items()
    return ", ".join(f"{name} {value:g}" for name, value in pairs) or "default"


def problems_table() -> str:
    """Return the table of problems with their optima."""
    rows = []
    for name in problems():
        each = catalogue().get(name)
        if each is not None:
            rows.append([
                f"`{name}`", f"`{each['table']}`", f"{each['points']:,}", f"{each['legal']:,}",
                f"{each['within_limits']:,}", f"{each['optimum']:.5g}", f"{each['median']:.5g}",
                str(each["within_1_percent"]), str(each["front_points"]), each["digest"][:12],
            ])  # fmt: skip
    return markdown(
        ["problem", "table", "points", "legal", "within limits", "optimum", "median",
         "points within 1 %", "front", "digest"], rows, 2,
    )  # fmt: skip


def write_page(results: Sequence[Mapping[str, Any]], page: Path, pictures: Path | None) -> None:
    """Write tables into the sections of a page, and a picture for each problem."""
    there = [name for name in problems() if _defaults(results, name)]
    tables = [f"`{name}`\n\n{agents_table(results, name)}" for name in there]
    write_sections(
        page,
        {"problems": problems_table(), "spread": spread_table(results)},
    )
    write_sections(page.with_name(f"results-{page.name}"), {"agents": "\n".join(tables)})
    if pictures is not None:
        picture(results, there, pictures / "search-agents.svg")


def picture(results: Sequence[Mapping[str, Any]], names: Sequence[str], path: Path) -> None:
    """Draw median and quartiles of regret against samples, a panel for each problem."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "hwgen", "font.size": 8, "svg.fonttype": "none"}):
        rows = -(-len(names) // 2)
        figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, 2, sharex=True)).reshape(-1)
        for axis, name in zip(axes, names, strict=False):
            for number, row in enumerate(shortest(_defaults(results, name))):
                counts = sorted(map(int, row["regret"]))
                values = np.array([quartiles(row["regret"][str(n)]) for n in counts])
                values = np.maximum(values, 1e-4)
                colour = f"C{number % 10}"
                style = "--" if number >= 10 else "-"
                axis.plot(counts, values[:, 1], color=colour, linestyle=style, label=row["agent"])
                axis.fill_between(counts, values[:, 0], values[:, 2], color=colour, alpha=0.1)
            axis.set(xscale="log", yscale="log", title=name, ylabel="regret")
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        axes[0].legend(ncols=2, fontsize=6)
        for axis in axes[max(0, len(names) - 2) : len(names)]:
            axis.set_xlabel("samples")
        figure.savefig(path, format="svg", metadata={"Date": None})
