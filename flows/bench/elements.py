# SPDX-License-Identifier: Apache-2.0
"""Processing elements by digits against multipliers on the same topology, by synthesis.

int8 operands and accumulators of 32 bits.  Everything that ``hwgen build`` emits is counted:
accumulators, encoders, drains, the adders of carries, stream buffers.  Each design is mapped for
several clocks and numbers of registers; its area efficiency is that at its own best clock, the
reciprocal of the delay of its worst path by OpenSTA, wires without load.  Serial PEs take as many
cycles as there are digits, counted exactly for long products of random activations.

``--energy`` compares energies instead, by simulations of the netlists of a quarter of the arrays.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np

from flows.bench.common import Cell, Row, parser, report, run, synthesised
from flows.build.design import Design
from flows.calibration.mapping_cache import map_cached
from hwgen.arithmetic.digits import Encoding
from hwgen.arithmetic.sparse_digits import GROUP_TERMS
from hwgen.core.operation import gemm_operands
from hwgen.core.params.spatial import SERIAL, SpatialConfig
from hwgen.core.registry import core_of, family
from hwgen.families.systolic.params import SystolicConfig

SCALES = {"nangate45": 1.0, "asap7": 0.25}
"""Technologies, and the clock periods for the mapper there, relative to the first."""

MODULES = ("pe", "drain", "edge", "result_register", "resolve", "recode", "encod", "window")
"""Beginnings of the names of modules that are mapped on their own."""

Array = dict[str, int | str]
TOPOLOGIES: dict[str, Array] = {
    "systolic": {"rows": 16, "cols": 16},
    # As many result rows as fill the time in which the next tile loads.
    "systolic_ws": {
        "rows": 16, "cols": 16, "dataflow": "weight_stationary", "accumulator_depth": 16,
    },
    "cube": {"rows": 8, "cols": 8, "depth": 8},
    "adder_tree": {"cols": 16, "depth": 16},
    "broadcast_2d": {"rows": 16, "cols": 16},
}  # fmt: skip
"""Arrays by name: that of their family, except for `systolic_ws`."""

DIGITS = ("carry_save", "same_weight")
PES = ("mac", *DIGITS, *SERIAL)
DEPTHS = {"cube": 32, "adder_tree": 64}
"""Terms that a `serial_group` takes at a time, by family, where it can be chosen."""

CLOCKS_PS, SERIAL_CLOCKS_PS = (800.0, 1000.0, 1200.0, 1500.0), (400.0, 500.0, 600.0)
"""Clock periods for the mapper in nangate45."""

SIGMA, TERMS, TILES = 20.0, 1024, 4
"""Deviation of the activations of serial PEs, terms of a product, tiles along M."""

SPECS = {"um2 a MAC": ".1f", "ns": ".2f", "TOPS/mm2": ".2f"}

ENERGY_ARRAYS: dict[str, Array] = {
    "systolic": {"rows": 8, "cols": 8},
    "cube": {"rows": 4, "cols": 4, "depth": 8},
    "adder_tree": {"cols": 8, "depth": 8},
    "broadcast_2d": {"rows": 8, "cols": 8},
}
ENERGY_REGISTERS = {
    ("systolic", "mac"): 1,
    ("systolic", "carry_save"): 0,
    ("cube", "mac"): 2,
    ("cube", "carry_save"): 2,
    ("adder_tree", "mac"): 2,
    ("adder_tree", "carry_save"): 2,
    ("broadcast_2d", "mac"): 1,
    ("broadcast_2d", "carry_save"): 0,
    ("broadcast_2d", "serial_group"): 1,
}
"""``pipeline.pe`` by family and PE: the best registers of the larger arrays."""

ENERGY_SIZE = (32, 256, 32)


def points(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int, int, float]]:
    """Yield technology, topology, PE, registers, registers of the final adder, and period."""
    for technology, topology, pe in product(
        options.technology or ["nangate45"], options.family or TOPOLOGIES, options.pe or PES
    ):
        deep, systolic = "depth" in TOPOLOGIES[topology], topology.startswith("systolic")
        serial = pe in SERIAL
        legal = not (pe == "same_weight" and not deep) and not (serial and systolic)
        if not legal or (topology == "systolic_ws" and pe != "mac"):
            continue
        several = pe == "serial_group" if serial else deep or systolic
        clocks = options.clock_ps or [
            period * SCALES[technology] for period in (SERIAL_CLOCKS_PS if serial else CLOCKS_PS)
        ]
        for registers, final_adder, period in product(
            options.registers or (0, 1, 2), options.final_adder or (0, 1), clocks
        ):
            if (registers <= 1 or several) and (pe in DIGITS or not final_adder):
                yield technology, topology, pe, registers, final_adder, period


def mapped_rows(options: argparse.Namespace) -> Iterator[Row]:
    """Map the arrays that the options select."""
    for technology, topology, pe, registers, final_adder, period in points(options):
        array = {**TOPOLOGIES[topology], "pe": pe}
        options_of_digits = {"encoding": options.encoding, "carry_spacing": options.carry_spacing}
        if pe != "mac":
            array |= {name: value for name, value in options_of_digits.items() if value is not None}
        if pe in SERIAL and "depth" in array:
            array["depth"] = DEPTHS[topology] if pe == "serial_group" else GROUP_TERMS
        pipeline = {"pe": registers, **({"final_adder": final_adder} if final_adder else {})}
        name = "systolic" if topology.startswith("systolic") else topology
        config = family(name).params_class.model_validate(
            {"name": "bench", "family": name, "accumulator": "int32", "array": array,
             "pipeline": pipeline}
        )  # fmt: skip
        assert isinstance(config, SpatialConfig | SystolicConfig)
        mapped = map_cached(
            Design.of(config).verilog, "bench", technology, "nf", period,
            [f"bench_{prefix}" for prefix in MODULES], full_adders=pe != "mac",
        )  # fmt: skip
        macs = macs_per_cycle(config, pe)
        ns = mapped.timing.path_ns if mapped.timing else None
        yield {
            "technology": technology,
            "array": topology,
            "PE": pe,
            "registers": registers,
            "final adder": final_adder,
            "asked, ns": period / 1000,
            "um2 a MAC": mapped.area / macs,
            "ns": ns,
            "TOPS/mm2": 2e3 * macs / (ns * mapped.area) if ns else None,
        }


def macs_per_cycle(config: SpatialConfig | SystolicConfig, pe: str) -> float:
    """Return the multiply-accumulates of a cycle: the mean of serial PEs, else of a full one."""
    if pe not in SERIAL:
        return float(config.macs_per_cycle)
    assert isinstance(config, SpatialConfig)
    rng = np.random.default_rng(0)
    m, n = TILES * config.rows, config.cols
    values = np.rint(rng.normal(0, SIGMA, (m, TERMS)))
    a = np.clip(values, config.activation.min, config.activation.max).astype(np.int8)
    w = config.weight.random(rng, (TERMS, n)).astype(np.int8)
    core = core_of(config)
    job = core.gemm(m, TERMS, n)
    return m * n * TERMS / core.cycles([job], [gemm_operands(a, w)]).number


def best(rows: Sequence[Row]) -> list[Row]:
    """Return the most efficient row of each technology, array and PE."""
    chosen: dict[tuple[Cell, ...], Row] = {}
    for row in rows:
        key = row["technology"], row["array"], row["PE"]
        if key not in chosen or float(row["TOPS/mm2"] or 0) > float(chosen[key]["TOPS/mm2"] or 0):
            chosen[key] = row
    return list(chosen.values())


def energy_rows(options: argparse.Namespace) -> Iterator[Row]:
    """Simulate the netlists of small arrays with normally distributed activations."""
    rng, (m, k, n) = np.random.default_rng(0), ENERGY_SIZE
    a = np.clip(np.rint(rng.normal(0, SIGMA, (m, k))), -128, 127).astype(np.int8)
    multiplier = 0.0
    with tempfile.TemporaryDirectory(prefix="hwgen-bench-") as directory:
        data = Path(directory) / "operands.npz"
        np.savez(data, activations=a, weights=rng.integers(-128, 128, (k, n), np.int8))
        for (name, pe), registers in ENERGY_REGISTERS.items():
            if options.family and name not in options.family:
                continue
            values = {
                "name": "bench", "family": name, "accumulator": "int32",
                "array": {**ENERGY_ARRAYS[name], "pe": pe}, "pipeline": {"pe": registers},
            }  # fmt: skip
            technology = (options.technology or ["nangate45"])[0]
            power = synthesised(
                values, "--target", technology, "--clock-mhz", 500, "--activity", data
            )["power"]
            energy = power["energy_per_operation_fj"]
            multiplier = energy if pe == "mac" else multiplier
            parts = {part: group["total_mw"] for part, group in power["groups"].items()}
            yield {
                "family": name,
                "PE": pe,
                "fJ an operation": energy,
                **{
                    part: parts[part] / power["total_mw"]
                    for part in ("sequential", "combinational")
                },
                "less": multiplier / energy,
            }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("elements", __doc__)
    options.add_argument("--energy", action="store_true", help="compare energies (minutes)")
    options.add_argument("--technology", action="append", choices=[*SCALES])
    options.add_argument("--family", action="append", choices=[*TOPOLOGIES])
    options.add_argument("--pe", action="append", choices=PES)
    options.add_argument("--encoding", choices=get_args(Encoding), help="of digits")
    options.add_argument("--carry-spacing", type=int, help="bits between carries")
    options.add_argument("--clock-ps", action="append", type=float, help="period for the mapper")
    options.add_argument("--registers", action="append", type=int, help="in PEs")
    options.add_argument("--final-adder", action="append", type=int, help="registers at the output")
    chosen = options.parse_args(arguments)
    title = "int8, accumulators of 32 bits"
    if chosen.energy:
        specs = {"fJ an operation": ".1f", "sequential": ".0%", "combinational": ".0%"}
        report(title, energy_rows(chosen), specs, as_json=chosen.json)
        return
    rows = mapped_rows(chosen)
    report(title, rows if chosen.json else best(list(rows)), SPECS, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
