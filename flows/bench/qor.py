# SPDX-License-Identifier: Apache-2.0
"""Ternary datapaths compared by synthesis: ours, the published one, multipliers, selection.

``python -m flows.bench.qor [--only int8|fp16] [--json] [--output FILE]``

All have the same boundary: activations, keys and the beat's flags come from registers outside,
accumulators are inside, stream buffers and the sequencer are not.  Mappings are cached, so that a
campaign that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from flows.bench.common import markdown, parser, run, write_sections
from flows.bench.published import Published, Shape
from flows.build.design import Design
from flows.build.verilog import rtlil_to_verilog
from flows.calibration.mapping_cache import map_cached, versions
from flows.synthesis.liberty import load
from flows.synthesis.standard_cells import Mapped
from flows.tools.toolchain import require
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.formats import floating, integer
from rtl_templates.hdl.hierarchy import Block, emit_block
from rtl_templates.ternary_lut.cluster import Cluster

PREFIX = "bench"
"""Prefix of all modules, and name of a whole core."""

DESIGNS: Mapping[str, tuple[str, Sequence[int], Sequence[str]]] = {
    "lut": ("(a) lut", range(1, 6), ("int8", "fp16")),
    "exact": ("(a) lut, exact accumulators", (2, 3), ("int8",)),
    "aligned": ("(a) lut, aligned", range(1, 7), ("fp16",)),
    "fixed": ("(a) lut, aligned exactly", range(1, 4), ("fp16",)),
    "published": ("(b) published", range(1, 7), ("int8", "fp16")),
    "multiply": ("(c) multiply", (1,), ("int8", "fp16")),
    "select": ("(d) select", (1,), ("int8", "fp16")),
}
"""Headings of the designs, sizes of groups, and activations; (a) are ours with tables."""

SIZES: tuple[tuple[int, int], ...] = ((8, 8), (32, 16), (32, 32))
"""Terms of the reduction and columns in a cycle."""

ACTIVATIONS = ("int8", "fp16")
TECHNOLOGIES = ("nangate45", "asap7")

CLOCKS_PS: Mapping[tuple[str, str], float] = {
    ("int8", "nangate45"): 2222.0,
    ("int8", "asap7"): 1333.0,
    ("fp16", "nangate45"): 6000.0,
    ("fp16", "asap7"): 4000.0,
}
"""Clock period that all designs of a format and technology are to meet.

Integers: 450 MHz, near the 500 MHz of the published results and the speed of our designs with
full-adder cells, so that none is mapped in a way that is fast and large; 750 MHz at asap7, whose
gates take 0.6 times as long.  Floating point: 167 and 250 MHz, for there is an adder between two
registers, or as much as one and a half.
"""

INPUT_DELAY = 0.1
"""Arrival of inputs, in periods: the delay of a flip-flop."""

MODULES: Mapping[str, Sequence[str]] = {
    "int8": ("table", "column"),
    "fp16": ("table", "column", "add_", "multiply_", "widen_", "align", "largest_", "scaled_"),
}
"""Beginnings of the names of modules that are mapped on their own."""

HEADINGS = ("design", "µ", "L x P", "recipe", "area µm²", "path ns", "µm² per MAC/cycle", "of (b)",
            "smallest at any delay")  # fmt: skip
BREAKDOWN = ("module", "instances", "µm² each", "of the area", "of it registers")

Recipe = tuple[str, bool]
"""Name of a recipe, and whether full-adder cells are used."""


@dataclass(frozen=True)
class Point:
    """A datapath in a technology.

    Parameters
    ----------
    design : str
        Key of `DESIGNS`.
    activation, technology : str
    size : tuple of int
        One of `SIZES`.
    group_size : int
        1 where there are no groups.
    """

    design: str
    activation: str
    technology: str
    size: tuple[int, int]
    group_size: int = 1

    @property
    def tables(self) -> int:
        """Number of tables that comes nearest to the size."""
        return max(1, round(self.size[0] / self.group_size))

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in a cycle."""
        return self.tables * self.group_size * self.size[1]

    @property
    def clock_ps(self) -> float:
        """Clock period to meet."""
        return CLOCKS_PS[self.activation, self.technology]

    @property
    def grouped(self) -> bool:
        """Whether the design has groups."""
        return self.design not in ("multiply", "select")

    @property
    def name(self) -> str:
        """Description in a few words."""
        group = f" µ={self.group_size}" if self.grouped else ""
        shape = f"{self.tables * self.group_size}x{self.size[1]}"
        return f"{self.activation} {self.technology} {shape} {self.design}{group}"

    @property
    def config(self) -> TernaryLutConfig:
        """The configuration of a design of ours."""
        floats = self.activation != "int8"
        alignment = {"aligned": "beat", "fixed": "exact"}.get(self.design, "none")
        accumulator = "exact" if self.design == "exact" else "fp16" if floats else "int32"
        array = {
            "method": "lut" if self.grouped else self.design,
            "group_size": self.group_size,
            "tables": self.tables,
            "fetch_ports": self.size[1],
            "accumulator_depth": 1,
            "fetch": "one_hot",
            "alignment": alignment,
        }
        pipeline = {"table": 1, "reduce": 0}
        if alignment != "none":  # the exact sum is longer, and is converted after a register
            pipeline = {"table": 2, "reduce": 2 if alignment == "exact" else 1}
        elif floats:  # one adder between two registers, as in (b)
            pipeline = {"table": max(1, self.group_size - 1), "reduce": 1}
        if not floats or alignment != "none":
            array["reduction"] = "compressors"
        return TernaryLutConfig.model_validate(
            {"name": PREFIX, "activation": self.activation, "accumulator": accumulator,
             "array": array, "pipeline": pipeline}
        )  # fmt: skip

    @property
    def block(self) -> Block:
        """The datapath."""
        if self.design != "published":
            return Cluster(self.config)
        form = integer("int8") if self.activation == "int8" else floating(self.activation)
        return Published(Shape(self.group_size, self.tables, self.size[1], form))

    def attempts(self) -> Iterator[tuple[Recipe, ...]]:
        """Yield the recipes to try, faster ones after those that are smaller as a rule.

        The published datapath has no full adders of its own, and its 32-bit sums are smaller if
        the mapper can find out which of their bits are equal.
        """
        cells = self.design != "published"
        if self.group_size >= 4 or self.activation != "int8":  # these take minutes
            yield (("area", cells),)
            yield (("nf", cells),)
        else:
            yield (("area", cells), ("nf", cells))
        if cells and self.activation == "int8":
            yield (("area", False),)
            yield (("nf", False),)
        yield (("speed", cells),)

    def mapped(self, verilog: str, top: str, recipe: Recipe, **options: Any) -> Mapped:
        """Map Verilog by a recipe, for the clock of the point."""
        modules = [f"{PREFIX}_{module}" for module in MODULES[self.activation]]
        return map_cached(verilog, top, self.technology, recipe[0], self.clock_ps, modules,
                          full_adders=recipe[1], **options)  # fmt: skip

    def measure(self) -> Result:
        """Map by one recipe after the other until one meets the clock."""
        block = self.block
        verilog, top = rtlil_to_verilog(emit_block(block, PREFIX)), f"{PREFIX}_{block.module_name}"
        mappings: list[Mapped] = []
        for recipes in self.attempts():
            mappings += [
                self.mapped(verilog, top, recipe, clock="clk", input_delay=INPUT_DELAY)
                for recipe in recipes
            ]
            if Result(self, tuple(mappings)).fast:
                break
        return Result(self, tuple(mappings))


@dataclass(frozen=True)
class Result:
    """All mappings of a point that were tried."""

    point: Point
    mappings: tuple[Mapped, ...]

    @property
    def fast(self) -> tuple[Mapped, ...]:
        """The mappings that meet the clock."""
        return tuple(m for m in self.mappings if path_ns(m) * 1000 <= self.point.clock_ps)

    @property
    def best(self) -> Mapped:
        """The smallest that meets the clock, or the fastest if none does."""
        if self.fast:
            return min(self.fast, key=lambda mapped: mapped.area)
        return min(self.mappings, key=path_ns)

    @property
    def smallest(self) -> Mapped:
        """The smallest at any delay."""
        return min(self.mappings, key=lambda mapped: mapped.area)

    @property
    def per_mac(self) -> float:
        """Area of `best` for each multiply-accumulate in a cycle, in um2."""
        return self.best.area / self.point.macs_per_cycle


def path_ns(mapped: Mapped) -> float:
    """Return the delay of the worst path, infinite if it was not analysed."""
    return mapped.timing.path_ns if mapped.timing else float("inf")


def points(activations: Sequence[str] = ACTIVATIONS) -> list[Point]:
    """Return the points of a campaign, the quick ones first."""
    selected = [
        Point(design, activation, technology, size, group_size)
        for activation in activations
        for technology in TECHNOLOGIES
        for size in SIZES
        for design, (_, group_sizes, with_activations) in DESIGNS.items()
        if activation in with_activations
        for group_size in group_sizes
    ]
    return sorted(selected, key=lambda p: (activations.index(p.activation), p.group_size > 3))


# -- comparisons ----------------------------------------------------------------------------------


def least(results: Iterable[Result], design: str, least_group: int = 1) -> Result | None:
    """Return the result of a design with the least area per multiply-accumulate.

    One that misses its clock counts as it is: a faster one would be larger.
    """
    mine = (r for r in results
            if r.point.design == design and r.point.group_size >= least_group)  # fmt: skip
    return min(mine, key=lambda r: r.per_mac, default=None)


def published_for(result: Result, results: Iterable[Result]) -> Result | None:
    """Return the published datapath to compare with: same size, same µ or the best one."""
    point = result.point
    same = (r for r in results if r.point.size == point.size)
    if point.grouped:
        same = (r for r in same if r.point.group_size == point.group_size)
    return least(same, "published")


Goal = tuple[str, float, str, bool]
"""A comparison, its ratio or area, its limit, and whether it is met."""


def at_most(title: str, value: float, limit: float) -> Goal:
    """Return a goal that is not to be exceeded."""
    return title, value, f"≤ {limit:g}", value <= limit


def ratio_goal(
    title: str, result: Result | None, other: Result | None, limit: float
) -> Iterator[Goal]:
    """Yield a goal for the ratio of two areas, if both were measured."""
    if result and other:
        yield at_most(title, result.per_mac / other.per_mac, limit)


def integer_goals(results: Sequence[Result], technology: str) -> Iterator[Goal]:
    """Yield the goals of integers in a technology."""
    title = f"INT8 {technology}"
    for result in sorted(results, key=lambda r: SIZES.index(r.point.size)):
        point = result.point
        if point.design == "lut" and point.group_size > 1:
            size = "x".join(map(str, point.size))
            heading = f"{title} {size} µ={point.group_size}: (a) / (b)"
            yield from ratio_goal(heading, result, published_for(result, results), 0.70)
    best, other = least(results, "lut"), least(results, "published")
    yield from ratio_goal(f"{title}: best (a) / best (b)", best, other, 0.5)
    heading = f"{title}: best (a) with exact accumulators / best (b)"
    yield from ratio_goal(heading, least(results, "exact"), other, 0.5)
    select = least(results, "select")
    heading = f"{title}: best (a) of µ ≥ 2 / best (d)"
    yield from ratio_goal(heading, least(results, "lut", 2), select, 0.80)
    if technology == "nangate45" and best:  # the area of the first exploration
        yield at_most(f"{title}: best (a), µm² per MAC/cycle", best.per_mac, 78.0)


def float_goals(results: Sequence[Result], technology: str) -> Iterator[Goal]:
    """Yield the goals of floating point in a technology."""
    title = f"FP16 {technology} 32x32"
    largest = [r for r in results if r.point.size == SIZES[-1]]
    best = least(largest, "lut")
    for design, limit in (("multiply", 2.2), ("select", 1.64)):
        other = least(largest, design)
        if best and other:
            value = other.per_mac / best.per_mac
            heading = f"{title}: {DESIGNS[design][0][:3]} / best (a)"
            yield heading, value, f"≥ {limit:g}", value >= limit
    aligned = least(largest, "aligned")
    yield from ratio_goal(f"{title}: best aligned / best (a)", aligned, best, 0.45)
    for result in largest:
        if result.point.design == "aligned":
            heading = f"{title} µ={result.point.group_size}: aligned / (b)"
            yield from ratio_goal(heading, result, published_for(result, largest), 1.0)


def goals(results: Sequence[Result]) -> list[Goal]:
    """Return the goals that the results are enough for."""
    result: list[Goal] = []
    for (activation, technology), mine in by_table(results).items():
        goals_of = integer_goals if activation == "int8" else float_goals
        result += goals_of(mine, technology)
    return result


# -- tables ---------------------------------------------------------------------------------------


def by_table(results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    """Group results by activation and technology, in the order of the tables."""
    designs = list(DESIGNS)
    order = sorted(results, key=lambda r: (
        ACTIVATIONS.index(r.point.activation), TECHNOLOGIES.index(r.point.technology),
        SIZES.index(r.point.size), designs.index(r.point.design), r.point.group_size,
    ))  # fmt: skip
    tables: dict[tuple[str, str], list[Result]] = {}
    for result in order:
        key = result.point.activation, result.point.technology
        tables.setdefault(key, []).append(result)
    return tables


def area_text(value: float) -> str:
    """Format an area for each multiply-accumulate."""
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table, under `HEADINGS`."""
    for result in results:
        point, best, smallest = result.point, result.best, result.smallest
        other = published_for(result, results)
        anyhow = f"{area_text(smallest.area / point.macs_per_cycle)} at {path_ns(smallest):.2f}"
        yield (
            DESIGNS[point.design][0],
            str(point.group_size) if point.grouped else "",
            f"{point.tables} x {point.size[1]}",
            best.recipe + (" + FA" if best.full_adders else ""),
            f"{best.area:.0f}",
            f"{path_ns(best):.2f}" + ("" if result.fast else " (missed)"),
            area_text(result.per_mac),
            f"{result.per_mac / other.per_mac:.2f}" if other and other is not result else "",
            anyhow if smallest is not best else "",
        )


def core_section(result: Result) -> str:
    """Return the area of the whole core of a result, streams and sequencer included."""
    point, best = result.point, result.best
    recipe = best.recipe, best.full_adders
    core = point.mapped(Design.of(point.config).verilog, PREFIX, recipe)
    parts = sorted(core.parts.items(), key=lambda item: -item[1].area * item[1].count)
    cells = [
        (
            name.removeprefix("bench_"),
            str(part.count),
            f"{part.area:.0f}",
            f"{part.area * part.count / core.area:.0%}",
            f"{part.sequential * part.count / core.area:.0%}",
        )
        for name, part in parts
    ]
    return (
        f"The whole core of {point.name}, with stream buffers and sequencer: {core.area:.0f} µm²,"
        f" {area_text(core.area / point.macs_per_cycle)} µm² per MAC/cycle, worst path"
        f" {path_ns(core):.2f} ns; the datapath alone takes {area_text(result.per_mac)}."
        f"\n\n{markdown(BREAKDOWN, cells)}"
    )


def sections(results: Sequence[Result]) -> dict[str, str]:
    """Return the generated sections of the results page by their names."""
    tools = "Yosys {yosys}, OpenSTA {opensta}".format(**versions())
    result: dict[str, str] = {}
    cores: dict[str, list[str]] = {}
    for (activation, technology), mine in by_table(results).items():
        clock = f"Clock target {CLOCKS_PS[activation, technology] / 1000:g} ns; {tools}."
        result[f"{activation} {technology}"] = f"{clock}\n\n{markdown(HEADINGS, rows(mine))}"
        if best := least(mine, "lut", 2):
            cores.setdefault(activation, []).append(core_section(best))
    for activation, texts in cores.items():
        mine = [r for r in results if r.point.activation == activation]
        cells = [
            (title, f"{value:.3g}", limit, "met" if met else "missed")
            for title, value, limit, met in goals(mine)
        ]
        result[f"{activation} goals"] = markdown(("goal", "found", "limit", ""), cells)
        result[f"{activation} cores"] = "\n".join(texts)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a goal is missed."""
    options = parser("qor", __doc__)
    options.add_argument("--only", choices=ACTIVATIONS, help="only this format of activations")
    options.add_argument("--output", type=Path, metavar="FILE", help="put the tables into a page")
    chosen = options.parse_args(arguments)
    require("yosys")
    require("opensta")
    for technology in TECHNOLOGIES:
        load(technology)  # a missing library is reported before an hour of work
    campaign = points([chosen.only] if chosen.only else ACTIVATIONS)
    results = []
    with Console(stderr=True).status("") as status:
        for number, point in enumerate(campaign, 1):
            status.update(f"{point.name} ({number} of {len(campaign)})")
            results.append(point.measure())
        tables = sections(results)
    if chosen.output:
        write_sections(chosen.output, tables)
    if chosen.json:
        measured = [
            {"point": r.point.name, "mappings": [m.document() for m in r.mappings]} for r in results
        ]
        click.echo(json.dumps({"tools": versions(), "points": measured, "goals": goals(results)}))
    else:
        click.echo("\n".join(f"{name}\n\n{table}" for name, table in tables.items()))
    return 0 if all(met for *_, met in goals(results)) else 1


if __name__ == "__main__":
    run(main)
