# SPDX-License-Identifier: Apache-2.0
"""Tables and goals of `flows.bench.qor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.bench.pages import rewritten, section
from flows.bench.qor_points import DESIGNS, SIZES, TECHNOLOGIES, Point, Result, path_ns, points
from flows.calibration.mapping_cache import versions
from flows.synthesis.standard_cells import Mapped

TableRow = list[str]

HEADINGS: TableRow = [
    "design", "µ", "L x P", "recipe", "area µm²", "path ns", "µm² per MAC/cycle", "of (b)",
    "smallest at any delay",
]  # fmt: skip

FIRST_EXPLORATION = 78.0
"""Area per multiply-accumulate of the first exploration at nangate45, in um2."""

ALIGNED = 0.45
"""Area of aligned activations that is aimed at, by that of rounded additions."""


@dataclass(frozen=True)
class Kept:
    """A point that stands in a page from an earlier run, its figures rounded.

    Parameters
    ----------
    point : Point
    cells : list of str
        Its row, under `HEADINGS`.
    """

    point: Point
    cells: TableRow

    @property
    def per_mac(self) -> float:
        """See `Result`."""
        return float(self.cells[HEADINGS.index("µm² per MAC/cycle")])


Known = Result | Kept


@dataclass(frozen=True)
class Goal:
    """A ratio or an area, and what it should be.

    Parameters
    ----------
    what : str
        What is compared.
    found, limit : float
    at_least : bool
        Whether `found` is to be at least `limit`, else at most.
    """

    what: str
    found: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.found >= self.limit if self.at_least else self.found <= self.limit


def published_of(result: Known, results: Iterable[Known]) -> Known | None:
    """Return the published datapath that a result compares with: same size, same or best µ."""
    point = result.point
    candidates = [
        r
        for r in _some(results, point.activation, point.technology, "published")
        if r.point.size == point.size
        and (not point.grouped or r.point.group_size == point.group_size)
    ]
    return _least(candidates)


def goals(results: Sequence[Known]) -> list[Goal]:
    """Return the goals that the results are enough for."""
    reached: list[Goal] = []
    for technology in _in_order(r.point.technology for r in results):
        reached += _integer_goals(results, technology)
        reached += _float_goals(results, technology)
    return reached


def _integer_goals(results: Sequence[Known], technology: str) -> list[Goal]:
    reached = []
    ours = _some(results, "int8", technology, "lut")
    for size in SIZES:
        for r in ours:
            if r.point.size != size or r.point.group_size == 1:
                continue
            if other := published_of(r, results):
                title = f"INT8 {technology} {_text(size)} µ={r.point.group_size}: (a) / (b)"
                reached.append(Goal(title, r.per_mac / other.per_mac, 0.70))
    best, other = _least(ours), _least(_some(results, "int8", technology, "published"))
    if best and other:
        reached.append(
            Goal(f"INT8 {technology}: best (a) / best (b)", best.per_mac / other.per_mac, 0.5)
        )
    best = _least(_some(results, "int8", technology, "exact"))
    if best and other:
        title = f"INT8 {technology}: best (a) with exact accumulators / best (b)"
        reached.append(Goal(title, best.per_mac / other.per_mac, 0.5))
    best = _least(r for r in ours if r.point.group_size > 1)
    other = _least(_some(results, "int8", technology, "select"))
    if best and other:
        title = f"INT8 {technology}: best (a) of µ ≥ 2 / best (d)"
        reached.append(Goal(title, best.per_mac / other.per_mac, 0.80))
    if technology == "nangate45" and (best := _least(ours)):
        title = f"INT8 {technology}: best (a), µm² per MAC/cycle"
        reached.append(Goal(title, best.per_mac, FIRST_EXPLORATION))
    return reached


def _float_goals(results: Sequence[Known], technology: str) -> list[Goal]:
    reached = []
    at = [r for r in results if r.point.size == (32, 32)]
    best = _least(_some(at, "fp16", technology, "lut"))
    for design, limit in (("multiply", 2.2), ("select", 1.64)):
        other = _least(_some(at, "fp16", technology, design))
        if best and other:
            title = f"FP16 {technology} 32x32: {DESIGNS[design][:3]} / best (a)"
            reached.append(Goal(title, other.per_mac / best.per_mac, limit, at_least=True))
    ours = _some(at, "fp16", technology, "aligned")
    aligned = _least(ours)
    if best and aligned:
        title = f"FP16 {technology} 32x32: best aligned / best (a)"
        reached.append(Goal(title, aligned.per_mac / best.per_mac, ALIGNED))
    for r in ours:
        if other := published_of(r, at):
            title = f"FP16 {technology} 32x32 µ={r.point.group_size}: aligned / (b)"
            reached.append(Goal(title, r.per_mac / other.per_mac, 1.0))
    return reached


# -- tables ---------------------------------------------------------------------------------------


def rows(results: Sequence[Known], activation: str, technology: str) -> list[TableRow]:
    """Return the rows of the table of a format and technology, under `HEADINGS`."""
    table = []
    for size in SIZES:
        for design in DESIGNS:
            selected = [
                r for r in _some(results, activation, technology, design) if r.point.size == size
            ]
            for r in sorted(selected, key=lambda r: r.point.group_size):
                if isinstance(r, Kept):
                    table.append(r.cells)
                    continue
                point, best, least = r.point, r.best, r.smallest
                other = published_of(r, results)
                table.append(
                    [
                        *_named(point),
                        _recipe(best),
                        f"{best.area:.0f}",
                        f"{path_ns(best):.2f}" + ("" if r.fast else " (missed)"),
                        _area(r.per_mac),
                        f"{r.per_mac / other.per_mac:.2f}" if other and other is not r else "",
                        f"{_area(r.smallest_per_mac)} at {path_ns(least):.2f}"
                        if least is not best
                        else "",
                    ]
                )
    return table


def goal_rows(results: Sequence[Known]) -> list[TableRow]:
    """Return the rows of the table of goals."""
    return [
        [
            goal.what,
            f"{goal.found:.3g}",
            f"{'≥' if goal.at_least else '≤'} {goal.limit:g}",
            "met" if goal.met else "missed",
        ]
        for goal in goals(results)
    ]


def breakdown(mapped: Mapped) -> list[TableRow]:
    """Return the rows of a table of a design's modules."""
    return [
        [
            name.removeprefix("bench_"),
            str(part.count),
            f"{part.area:.0f}",
            f"{part.area * part.count / mapped.area:.0%}",
            f"{part.sequential * part.count / mapped.area:.0%}",
        ]
        for name, part in sorted(
            mapped.parts.items(), key=lambda item: -item[1].area * item[1].count
        )
    ]


BREAKDOWN = ["module", "instances", "µm² each", "of the area", "of it registers"]
GOALS = ["goal", "found", "limit", ""]


def kept(page: str, activations: Iterable[str], measured: Iterable[Point]) -> list[Kept]:
    """Return the points in a page's tables of some formats, but for those `measured` now."""
    known = set(measured)
    table = []
    for activation in activations:
        candidates = points([activation])
        for technology in TECHNOLOGIES:
            for line in section(page, f"{activation} {technology}").splitlines():
                cells = [cell.strip() for cell in line.strip("| ").split("|")]
                cells += [""] * (len(HEADINGS) - len(cells))
                table += [
                    Kept(point, cells)
                    for point in candidates
                    if point.technology == technology
                    and point not in known
                    and cells[: len(_named(point))] == _named(point)
                ]
    return table


def _named(point: Point) -> TableRow:
    """Return the cells that tell which point a row is of."""
    group = str(point.group_size) if point.grouped else ""
    return [DESIGNS[point.design], group, f"{point.tables} x {point.fetch_ports}"]


def sections(results: Sequence[Known], cores: Sequence[tuple[Result, Mapped]]) -> dict[str, str]:
    """Return the generated parts of the results page by their names.

    Parameters
    ----------
    results : sequence of Result or Kept
    cores : sequence of (Result, Mapped)
        Of `best_of`; of formats whose best design was not measured now the part is left out.
    """
    tables = {}
    for activation in _in_order(r.point.activation for r in results):
        for technology in _in_order(r.point.technology for r in results):
            if table := rows(results, activation, technology):
                clock = next(r for r in _some(results, activation, technology)).point.clock_ps
                tables[f"{activation} {technology}"] = (
                    f"Clock target {clock / 1000:g} ns; {_tools()}.\n\n{markdown(HEADINGS, table)}"
                )
    activations = _in_order(r.point.activation for r in results)
    for activation in activations:
        mine = [r for r in results if r.point.activation == activation]
        tables[f"{activation} goals"] = markdown(GOALS, goal_rows(mine))
        if all(isinstance(best, Result) for best in best_of(mine)):
            tables[f"{activation} cores"] = "\n\n".join(
                f"{core_sentence(result, mapped)}\n\n{markdown(BREAKDOWN, breakdown(mapped))}"
                for result, mapped in cores
                if result.point.activation == activation
            )
    return tables


def core_sentence(result: Result, mapped: Mapped) -> str:
    """Return what the whole core of a result takes."""
    point = result.point
    return (
        f"The whole core of {point.name}, with stream buffers and sequencer: {mapped.area:.0f} µm²,"
        f" {_area(mapped.area / point.macs_per_cycle)} µm² per MAC/cycle, worst path"
        f" {path_ns(mapped):.2f} ns; the datapath alone takes {_area(result.per_mac)}."
    )


def markdown(headings: TableRow, table: Sequence[TableRow]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *table]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def updated(page: str, parts: dict[str, str]) -> str:
    """Return a page with the generated parts put between their marks; see `pages.section`."""
    for name, text in parts.items():
        page = rewritten(page, name, text)
    return page


def best_of(results: Sequence[Known]) -> list[Known]:
    """Return our best table point of µ ≥ 2 of each format and technology."""
    chosen = []
    for activation in _in_order(r.point.activation for r in results):
        for technology in _in_order(r.point.technology for r in results):
            ours = _some(results, activation, technology, "lut")
            if best := _least(r for r in ours if r.point.group_size > 1):
                chosen.append(best)
    return chosen


def _tools() -> str:
    yosys, sta = versions()["yosys"], versions()["opensta"]
    return f"Yosys {yosys}, OpenSTA {sta}"


def _recipe(mapped: Mapped) -> str:
    return mapped.recipe + (" + FA" if mapped.full_adders else "")


def _area(value: float) -> str:
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def _text(size: tuple[int, int]) -> str:
    return "x".join(map(str, size))


def _some(
    results: Iterable[Known], activation: str, technology: str, design: str | None = None
) -> list[Known]:
    return [
        r
        for r in results
        if r.point.activation == activation
        and r.point.technology == technology
        and design in (None, r.point.design)
    ]


def _least(results: Iterable[Known]) -> Known | None:
    """Return the result with the least area per multiply-accumulate.

    One that misses its clock counts as it is: a faster one would be larger.
    """
    return min(results, key=lambda r: r.per_mac, default=None)


def _in_order(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
