# SPDX-License-Identifier: Apache-2.0
"""Processing elements by digits against multipliers, on the same topology, by synthesis.

int8 operands and accumulators of 32 bits.  Everything that ``hwgen build`` emits is counted:
accumulators, encoders, drains, the adders of carries, stream buffers.  Each design is mapped for
several clocks, and with several registers; what counts is its area efficiency at its own best
clock, which is the reciprocal of the delay of its worst path by OpenSTA, wires without load.
Mappings are kept in the user's cache, so a run that was stopped goes on where it was.

Serial PEs take as many cycles as there are digits: theirs are counted, exactly, for long products
of random activations.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from flows.build.design import Design
from flows.calibration.mapping_cache import map_cached
from flows.synthesis.standard_cells import Mapped
from hwgen.arithmetic.digits import Encoding
from hwgen.arithmetic.sparse_digits import GROUP_TERMS
from hwgen.core.load import parse_config
from hwgen.core.registry import family as hwgen_family
from hwgen.errors import HwgenError
from hwgen.families.spatial.params import SERIAL

TECHNOLOGY = "nangate45"

SCALES = {"nangate45": 1.0, "asap7": 0.25}
"""Technologies, and the clock periods that the mapper is given there, relative to the first."""

KEPT = ("pe", "drain", "edge", "held", "resolve", "recode", "encod", "window")
"""Modules mapped on their own: the emitted names begin with that of the top module and these."""

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "systolic": {"rows": 16, "cols": 16},
    # As many result rows as fill the time in which the next tile loads.
    "systolic_ws": {
        "rows": 16,
        "cols": 16,
        "dataflow": "weight_stationary",
        "accumulator_depth": 16,
    },
    "cube": {"rows": 8, "cols": 8, "depth": 8},
    "adder_tree": {"cols": 16, "depth": 16},
    "broadcast_2d": {"rows": 16, "cols": 16},
}
"""The arrays, by name: that of their family, but for `systolic_ws`."""

PES = ("mac", "carry_save", "same_weight", *SERIAL)

ENCODINGS: tuple[str, ...] = get_args(Encoding)

DEPTHS = {"cube": 32, "adder_tree": 64}
"""Terms that a `serial_group` takes at a time, by family, where it can be chosen."""

CLOCKS_PS = (800.0, 1000.0, 1200.0, 1500.0)
"""Clock periods that the mapper is given, in nangate45."""

SERIAL_CLOCKS_PS = (400.0, 500.0, 600.0)
"""The same for serial PEs."""

SIGMA, TERMS, TILES = 20.0, 1024, 4
"""Deviation of the activations that serial PEs are given, terms of a product, tiles along M."""


@dataclass(frozen=True)
class Run:
    """One way of making one array.

    Parameters
    ----------
    topology, pe : str
        Keys of `TOPOLOGIES` and `PES`.
    registers, final_adder : int
        ``pipeline.pe`` and ``pipeline.final_adder``.
    clock_ps : float
        Clock period that the mapper is given.
    technology : str
    encoding : str or None
    carry_spacing : int or None
        Of PEs by digits; None for the default.
    """

    topology: str
    pe: str
    registers: int
    final_adder: int
    clock_ps: float
    technology: str = TECHNOLOGY
    encoding: str | None = None
    carry_spacing: int | None = None

    @property
    def config(self) -> Any:
        """The configuration."""
        array = {**TOPOLOGIES[self.topology], "pe": self.pe}
        for name in ("encoding", "carry_spacing"):
            if getattr(self, name) is not None and self.pe != "mac":
                array[name] = getattr(self, name)
        if self.pe in SERIAL and "depth" in array:
            array["depth"] = DEPTHS[self.topology] if self.pe == "serial_group" else GROUP_TERMS
        pipeline = {
            "pe": self.registers,
            **({"final_adder": self.final_adder} if self.final_adder else {}),
        }
        family = "systolic" if self.topology.startswith("systolic") else self.topology
        return parse_config(json.dumps({
            "name": "bench", "family": family, "accumulator": "int32", "array": array,
            "pipeline": pipeline,
        }))  # fmt: skip


@dataclass(frozen=True)
class Point:
    """What a run has found."""

    run: Run
    macs: float
    mapped: Mapped

    @property
    def delay_ns(self) -> float:
        """Delay of the worst path; infinite if it was not analysed."""
        return self.mapped.timing.path_ns if self.mapped.timing else float("inf")

    @property
    def tops_per_mm2(self) -> float:
        """Operations a second and area, two for each multiply-accumulate, at the best clock."""
        return 2 * self.macs / self.delay_ns * 1e-3 / (self.mapped.area * 1e-6)

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            **asdict(self.run),
            "area_per_mac_um2": self.mapped.area / self.macs,
            "tops_per_mm2": self.tops_per_mm2,
            **self.mapped.document(),
        }


def measure(run: Run, liberty_files: Sequence[str] = ()) -> Point:
    """Map one array."""
    config = run.config
    mapped = map_cached(
        Design(config).verilog, config.name, run.technology, "nf", run.clock_ps,
        [f"{config.name}_{prefix}" for prefix in KEPT],
        full_adders=run.pe != "mac", liberty_files=liberty_files,
    )  # fmt: skip
    return Point(run, macs_per_cycle(config), mapped)


def macs_per_cycle(config: Any) -> float:
    """Return the multiply-accumulates of a cycle: the mean of serial PEs, else of a full one."""
    if config.array.pe not in SERIAL:
        return float(config.macs_per_cycle)
    rng = np.random.default_rng(0)
    m, n = TILES * config.rows, config.cols
    values = np.rint(rng.normal(0, SIGMA, (m, TERMS)))
    a = np.clip(values, config.activation.min, config.activation.max).astype(np.int8)
    w = config.weight.random(rng, (TERMS, n)).astype(np.int8)
    return m * n * TERMS / hwgen_family(config.family).cycles_of(config, [(a, w)])


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """Yield the arrays to map."""
    for technology, topology, pe in product(
        options.technology or [TECHNOLOGY], options.family or TOPOLOGIES, options.pe or PES
    ):
        deep, serial = "depth" in TOPOLOGIES[topology], pe in SERIAL
        systolic, digits = topology.startswith("systolic"), pe in ("carry_save", "same_weight")
        if (pe == "same_weight" and not deep) or (serial and systolic):
            continue
        if topology == "systolic_ws" and pe != "mac":
            continue  # Sums that move from PE to PE would be two vectors.
        several = pe == "serial_group" if serial else deep or systolic
        clocks = options.clock_ps or [
            clock * SCALES[technology] for clock in (SERIAL_CLOCKS_PS if serial else CLOCKS_PS)
        ]
        for registers, final_adder, encoding, spacing, clock in product(
            options.registers or (0, 1, 2),
            options.final_adder or (0, 1),
            options.encoding or (None,),
            options.carry_spacing or (None,),
            clocks,
        ):
            if (registers <= 1 or several) and (digits or not final_adder):
                yield Run(
                    topology, pe, registers, final_adder, clock, technology, encoding, spacing
                )


def best(points: Sequence[Point]) -> dict[tuple[str, str, str], Point]:
    """Return the most efficient point of each technology, topology and PE."""
    by_kind: dict[tuple[str, str, str], Point] = {}
    for point in points:
        key = point.run.technology, point.run.topology, point.run.pe
        if key not in by_kind or point.tops_per_mm2 > by_kind[key].tops_per_mm2:
            by_kind[key] = point
    return by_kind


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.elements",
        description="Area efficiency of PEs on the same topology, by synthesis.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line a point")
    parser.add_argument(
        "--liberty", action="append", default=[], metavar="FILE", help="Liberty file to use"
    )
    parser.add_argument("--technology", action="append", choices=[*SCALES], help="only this one")
    parser.add_argument("--family", action="append", choices=[*TOPOLOGIES], help="only this one")
    parser.add_argument("--pe", action="append", choices=PES, help="only this one")
    parser.add_argument("--encoding", action="append", choices=ENCODINGS, help="of digits")
    parser.add_argument("--carry-spacing", action="append", type=int, help="bits between carries")
    parser.add_argument("--clock-ps", action="append", type=float, help="only this period")
    parser.add_argument("--registers", action="append", type=int, help="only as many in PEs")
    parser.add_argument(
        "--final-adder", action="append", type=int, help="only as many at the output"
    )
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    points = []
    try:
        with console.status("") as status:
            for run in runs(options):
                status.update(" ".join(map(str, asdict(run).values())))
                points.append(measure(run, options.liberty))
                if options.json:
                    sys.stdout.write(json.dumps(points[-1].document()) + "\n")
                    sys.stdout.flush()
    except HwgenError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return error.exit_status
    if not options.json:
        Console().print(_table(points))
    return 0


def _table(points: Sequence[Point]) -> Table:
    table = Table(title="int8, accumulators of 32 bits; best of each")
    texts = ("technology", "array", "pe")
    numbers = ("registers", "final adder", "um2 a MAC", "ns", "TOPS/mm2", "to mac")
    for heading in (*texts, *numbers):
        table.add_column(heading, justify="left" if heading in texts else "right")
    best_points = best(points)
    for (technology, topology, pe), point in best_points.items():
        mac = best_points.get((technology, topology, "mac"))
        table.add_row(
            technology,
            topology,
            pe,
            str(point.run.registers),
            str(point.run.final_adder),
            f"{point.mapped.area / point.macs:.1f}",
            f"{point.delay_ns:.2f}",
            f"{point.tops_per_mm2:.2f}",
            f"{point.tops_per_mm2 / mac.tops_per_mm2:.2f}" if mac else "-",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
