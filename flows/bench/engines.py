# SPDX-License-Identifier: Apache-2.0
"""Processing elements by digits against multipliers, on the same topology, by synthesis.

int8 operands and accumulators of 32 bits.  Everything that ``hwgen build`` emits is counted:
accumulators, encoders, drains, the adders of carries, stream buffers.  Each design is mapped for
several clocks, and with several registers; what counts is its area efficiency at its own best
clock, which is the reciprocal of the delay of its worst path by OpenSTA, wires without load.

Serial PEs take as many cycles as there are digits: theirs are counted, exactly, for long products
of random activations.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from flows.synthesis import Mapped, map_core
from hwgen.build import verilog_of
from hwgen.config.elements import SERIAL
from hwgen.config.load import parse_config
from hwgen.errors import HwgenError
from hwgen.families import family as hwgen_family
from hwgen.numerics.sparse_digits import GROUP

TECHNOLOGY = "nangate45"

KEPT = ("pe", "drain", "edge", "held", "resolve", "recode", "encod", "window")
"""Modules mapped on their own: the emitted names begin with that of the top module and these."""

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "systolic": {"rows": 16, "cols": 16},
    "cube": {"rows": 8, "cols": 8, "depth": 8},
    "adder_tree": {"cols": 16, "depth": 16},
    "broadcast_2d": {"rows": 16, "cols": 16},
}
"""The arrays, by family."""

PES = ("mac", "carry_save", "same_weight", *SERIAL)

DEPTHS = {"cube": 32, "adder_tree": 64}
"""Terms that a `serial_group` takes at a time, by family, where it can be chosen."""

CLOCKS_PS = (800.0, 1000.0, 1200.0, 1500.0)
"""Clock periods that the mapper is given."""

SERIAL_CLOCKS_PS = (400.0, 500.0, 600.0)
"""The same for serial PEs."""

SIGMA, TERMS, TILES = 20.0, 1024, 4
"""Deviation of the activations that serial PEs are given, terms of a product, tiles along M."""


@dataclass(frozen=True)
class Point:
    """One way of making one array."""

    family: str
    pe: str
    registers: int
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
            "family": self.family,
            "pe": self.pe,
            "registers": self.registers,
            "area_per_mac_um2": self.mapped.area / self.macs,
            "tops_per_mm2": self.tops_per_mm2,
            **self.mapped.document(),
        }


def measure(
    family: str, pe: str, registers: int, clock_ps: float, liberty_files: Sequence[str] = ()
) -> Point:
    """Map one array."""
    array = {**TOPOLOGIES[family], "pe": pe}
    if pe in SERIAL and "depth" in array:
        array["depth"] = DEPTHS[family] if pe == "serial_group" else GROUP
    data = {
        "name": "bench", "family": family, "accumulator": "int32",
        "array": array, "pipeline": {"pe": registers},
    }  # fmt: skip
    config: Any = parse_config(json.dumps(data))
    mapped = map_core(
        verilog_of(config), config.name, TECHNOLOGY, "nf", clock_ps,
        [f"{config.name}_{prefix}" for prefix in KEPT],
        full_adders=pe != "mac", liberty_files=liberty_files,
    )  # fmt: skip
    return Point(family, pe, registers, macs_per_cycle(config), mapped)


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


def runs(
    chosen: Sequence[str],
    pes: Sequence[str],
    clocks: Sequence[float] | None,
    registers: Sequence[int],
) -> Iterator[tuple[str, str, int, float]]:
    """Yield the arrays to map."""
    for family in chosen:
        deep = "depth" in TOPOLOGIES[family]
        for pe in pes:
            if (pe == "same_weight" and not deep) or (pe in SERIAL and family == "systolic"):
                continue
            for stages in registers:
                several = pe == "serial_group" if pe in SERIAL else deep or family == "systolic"
                if stages <= 1 or several:
                    usual = SERIAL_CLOCKS_PS if pe in SERIAL else CLOCKS_PS
                    yield from ((family, pe, stages, clock) for clock in clocks or usual)


def best(points: Sequence[Point]) -> dict[tuple[str, str], Point]:
    """Return the most efficient point of each family and PE."""
    found: dict[tuple[str, str], Point] = {}
    for point in points:
        key = point.family, point.pe
        if key not in found or point.tops_per_mm2 > found[key].tops_per_mm2:
            found[key] = point
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.engines",
        description="Area efficiency of PEs on the same topology, by synthesis.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line a point")
    parser.add_argument(
        "--liberty", action="append", default=[], metavar="FILE", help="Liberty file to use"
    )
    parser.add_argument("--family", action="append", choices=[*TOPOLOGIES], help="only this one")
    parser.add_argument("--pe", action="append", choices=PES, help="only this one")
    parser.add_argument("--clock-ps", action="append", type=float, help="only this period")
    parser.add_argument("--registers", action="append", type=int, help="only as many registers")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    points = []
    try:
        with console.status("") as status:
            for run in runs(
                options.family or [*TOPOLOGIES],
                options.pe or PES,
                options.clock_ps,
                options.registers or (0, 1, 2),
            ):
                status.update(" ".join(map(str, run)))
                points.append(measure(*run, liberty_files=options.liberty))
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
    table = Table(title=f"int8, accumulators of 32 bits, {TECHNOLOGY}; best of each")
    for heading in ("family", "pe", "registers", "um2 a MAC", "ns", "TOPS/mm2", "to mac"):
        table.add_column(heading, justify="left" if heading in ("family", "pe") else "right")
    found = best(points)
    for (family, pe), point in found.items():
        mac = found.get((family, "mac"))
        table.add_row(
            family,
            pe,
            str(point.registers),
            f"{point.mapped.area / point.macs:.1f}",
            f"{point.delay_ns:.2f}",
            f"{point.tops_per_mm2:.2f}",
            f"{point.tops_per_mm2 / mac.tops_per_mm2:.2f}" if mac else "-",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
