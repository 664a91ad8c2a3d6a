# SPDX-License-Identifier: Apache-2.0
"""The datapaths that `flows.bench.qor` compares, and mapping one of them.

All have the same boundary: activations, keys and the beat's flags come from registers outside,
accumulators are inside, stream buffers and the sequencer are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.bench.published import Published, Shape
from flows.build.design import Design
from flows.build.verilog import rtlil_to_verilog
from flows.calibration.mapping_cache import map_cached
from flows.synthesis.standard_cells import Mapped
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.formats import floating, integer
from rtl_templates.hdl.hierarchy import Block, emit_block
from rtl_templates.ternary_lut.cluster import Cluster

PREFIX = "bench"
"""Prefix of all modules, and name of a whole core."""

DESIGNS: Mapping[str, str] = {
    "lut": "(a) lut",
    "exact": "(a) lut, exact accumulators",
    "aligned": "(a) lut, aligned",
    "fixed": "(a) lut, aligned exactly",
    "published": "(b) published",
    "multiply": "(c) multiply",
    "select": "(d) select",
}
"""The designs and how they are headed; (a) are ours with tables."""

GROUP_SIZES: Mapping[str, Sequence[int]] = {
    "lut": range(1, 6),
    "exact": (2, 3),
    "aligned": range(1, 7),
    "fixed": range(1, 4),
    "published": range(1, 7),
    "multiply": (1,),
    "select": (1,),
}
"""Sizes of groups of each design."""

OTHERS: Mapping[str, Sequence[str]] = {"int8": ("aligned", "fixed"), "fp16": ("exact",)}
"""Designs that there are not with an activation."""

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

Integers: 450 MHz, near the 500 MHz of the published results and what our designs reach with
full-adder cells, so that none is mapped in a way that is fast and large; 750 MHz at asap7, whose
gates take 0.6 times as long.  Floating point: 167 and 250 MHz, for there is an adder between two
registers, or as much as one and a half.
"""

INPUT_DELAY = 0.1
"""Part of the period that is gone when inputs arrive: what a flip-flop takes."""

KEPT: Mapping[str, Sequence[str]] = {
    "int8": ("table", "column"),
    "fp16": ("table", "column", "add_", "multiply_", "widen_", "align", "largest_", "scaled_"),
}
"""Modules that are mapped on their own, by the beginnings of their names."""

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
        """Tables: as many as come nearest to the size."""
        return max(1, round(self.size[0] / self.group_size))

    @property
    def fetch_ports(self) -> int:
        """Columns in a cycle."""
        return self.size[1]

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in a cycle."""
        return self.tables * self.group_size * self.fetch_ports

    @property
    def clock_ps(self) -> float:
        """Clock period to meet."""
        return CLOCKS_PS[self.activation, self.technology]

    @property
    def name(self) -> str:
        """The point in words."""
        group = f" µ={self.group_size}" if self.grouped else ""
        shape = f"{self.tables * self.group_size}x{self.fetch_ports}"
        return f"{self.activation} {self.technology} {shape} {self.design}{group}"

    @property
    def grouped(self) -> bool:
        """Whether the design has groups."""
        return self.design not in ("multiply", "select")

    @property
    def config(self) -> TernaryLutConfig:
        """The configuration of a design of ours."""
        floats = self.activation != "int8"
        exact = self.design == "exact"
        alignment = {"aligned": "beat", "fixed": "exact"}.get(self.design, "none")
        return TernaryLutConfig.model_validate(
            {
                "name": PREFIX,
                "family": "ternary_lut",
                "activation": self.activation,
                "accumulator": "exact" if exact else "fp16" if floats else "int32",
                "array": {
                    "method": self.design if self.design in ("select", "multiply") else "lut",
                    "group_size": self.group_size,
                    "tables": self.tables,
                    "fetch_ports": self.fetch_ports,
                    "accumulator_depth": 1,
                    "fetch": "one_hot",
                    "alignment": alignment,
                    **({"reduction": "compressors"} if not floats or alignment != "none" else {}),
                },
                "pipeline": self._pipeline(floats, alignment),
            }
        )

    def _pipeline(self, floats: bool, alignment: str) -> dict[str, int]:
        if not floats:
            return {"table": 1, "reduce": 0}
        if alignment != "none":  # the exact sum is longer, and is converted behind a register
            return {"table": 2, "reduce": 2 if alignment == "exact" else 1}
        # Of floating-point numbers, one adder between two registers, as in (b).
        return {"table": max(1, self.group_size - 1), "reduce": 1}

    @property
    def top(self) -> str:
        """Name of the module that is the datapath."""
        return f"{PREFIX}_{self._block().module_name}"

    def verilog(self) -> str:
        """Return the Verilog of the datapath."""
        return rtlil_to_verilog(emit_block(self._block(), PREFIX))

    def _block(self) -> Block:
        if self.design != "published":
            return Cluster(self.config)
        fmt = integer("int8") if self.activation == "int8" else floating(self.activation)
        return Published(Shape(self.group_size, self.tables, self.fetch_ports, fmt))

    def attempts(self) -> Iterator[tuple[Recipe, ...]]:
        """Yield the recipes to try, faster ones after those that are smaller as a rule.

        The published datapath has no full adders of its own, and its 32-bit sums are smaller if
        the mapper can find which of their bits are equal.
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


@dataclass(frozen=True)
class Result:
    """What became of a point.

    Parameters
    ----------
    point : Point
    mappings : tuple of Mapped
        All that were tried.
    """

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
        """The smallest, however slow."""
        return min(self.mappings, key=lambda mapped: mapped.area)

    @property
    def per_mac(self) -> float:
        """Area of `best` for each multiply-accumulate in a cycle, in um2."""
        return self.best.area / self.point.macs_per_cycle

    @property
    def smallest_per_mac(self) -> float:
        """The same of `smallest`."""
        return self.smallest.area / self.point.macs_per_cycle

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        point = self.point
        return {
            "design": point.design,
            "activation": point.activation,
            "technology": point.technology,
            "size": list(point.size),
            "group_size": point.group_size if point.grouped else None,
            "tables": point.tables,
            "fetch_ports": point.fetch_ports,
            "clock_ps": point.clock_ps,
            "meets_clock": bool(self.fast),
            "area_per_mac_um2": self.per_mac,
            "best": self.best.document(),
            "mappings": [
                {
                    "recipe": m.recipe,
                    "full_adders": m.full_adders,
                    "area": m.area,
                    "path_ns": path_ns(m),
                }
                for m in self.mappings
            ],
        }


def path_ns(mapped: Mapped) -> float:
    """Return the delay of the worst path, infinite if it was not analysed."""
    return mapped.timing.path_ns if mapped.timing else float("inf")


def points(
    activations: Sequence[str] = ACTIVATIONS,
    technologies: Sequence[str] = TECHNOLOGIES,
    sizes: Sequence[tuple[int, int]] = SIZES,
    designs: Sequence[str] = tuple(DESIGNS),
) -> list[Point]:
    """Return the points of a campaign, the quick ones first."""
    selected = [
        Point(design, activation, technology, size, group_size)
        for activation in activations
        for technology in technologies
        for size in sizes
        for design in designs
        if design not in OTHERS[activation]
        for group_size in GROUP_SIZES[design]
    ]
    return sorted(selected, key=lambda p: (activations.index(p.activation), p.group_size > 3))


def measure(point: Point, liberty_files: Sequence[str | Path] = ()) -> Result:
    """Map a point by one recipe after the other until one meets the clock."""
    text = point.verilog()
    mappings: list[Mapped] = []
    for recipes in point.attempts():
        mappings += (
            map_cached(
                text,
                point.top,
                point.technology,
                recipe,
                point.clock_ps,
                [f"{PREFIX}_{kept}" for kept in KEPT[point.activation]],
                full_adders=full_adders,
                clock="clk",
                input_delay=INPUT_DELAY,
                liberty_files=liberty_files,
            )
            for recipe, full_adders in recipes
        )
        if Result(point, tuple(mappings)).fast:
            break
    return Result(point, tuple(mappings))


def whole_core(result: Result, liberty_files: Sequence[str | Path] = ()) -> Mapped:
    """Map the whole core of a result of ours, streams and sequencer included, the same way."""
    point, best = result.point, result.best
    return map_cached(
        Design(point.config).verilog,
        PREFIX,
        point.technology,
        best.recipe,
        point.clock_ps,
        [f"{PREFIX}_{kept}" for kept in KEPT[point.activation]],
        full_adders=best.full_adders,
        liberty_files=liberty_files,
    )
