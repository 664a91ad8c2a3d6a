# SPDX-License-Identifier: Apache-2.0
"""Faults in a systolic array, a ternary core and an engine that read digits: ``make bench-faults``.

Each design is mapped to nangate45; samples of faults of every class are simulated while it computes
the first layer of the network of handwritten digits.  Results are stored, and the tables and
pictures of ``docs/results-faults.md`` are made of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flows.bench.common import ROOT, markdown, parser, run, write_sections
from flows.build.design import Design
from flows.build.load import load_config, parse_config
from flows.faults.campaign import run_campaign
from flows.faults.injection import FaultSimulation
from flows.faults.picture import picture
from flows.faults.workloads import EFFECTS, fault_workload
from flows.synthesis.synth import synthesize
from flows.tools.guard import scratch
from flows.tools.parallel import processors

TARGET = "nangate45"
RESULTS = Path(__file__).with_suffix(".json")
MODULES = 6
"""Modules of a table, those with the most silent faults."""

SYSTOLIC = """\
name: systolic_8x8
family: systolic
activation: int8
weight: int8
max_k: 1024
array: {rows: 8, cols: 8}
target: {technology: nangate45, clock_mhz: 500}
"""
ENGINE = """\
name: engine_4x4
family: gemm_stream
compute:
  family: systolic
  max_k: 256
  array: {rows: 4, cols: 4, accumulator_depth: 64, dataflow: weight_stationary}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
target: {technology: nangate45, clock_mhz: 500}
"""
DESIGNS: Mapping[str, tuple[str | Path, float]] = {
    "systolic_8x8": (SYSTOLIC, 0.01),
    "lut_core": (ROOT / "configs" / "lut_core.yaml", 0.01),
    "engine_4x4": (ENGINE, 0.05),
}
"""Configuration of each design, and the margin by which faults are drawn."""


def campaign(name: str, jobs: int, seed: int) -> dict[str, Any]:
    """Return the result of a campaign as plain values, with the area and clock of the design."""
    source, margin = DESIGNS[name]
    config = load_config(source) if isinstance(source, Path) else parse_config(source)
    design = Design.of(config)
    result = synthesize(design, TARGET, effort="clock", jobs=jobs)
    work = fault_workload(design.core, "digits")
    with scratch("hwgen-bench-") as directory:
        start = time.monotonic()
        simulation = FaultSimulation(config, result, work, directory)
        prepared = time.monotonic() - start
        done = run_campaign(
            simulation, work, name=name, target=TARGET, margin=margin, seed=seed, jobs=jobs
        )
    document = done.document()
    faults = sum(share.faults for share in done.classes.values())
    return {
        **document,
        "area_um2": result.area_um2,
        "fmax_mhz": result.fmax_mhz,
        "prepared_s": round(prepared, 1),
        "faults_per_second": round(faults / done.seconds, 1),
    }


def classes_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the effects of each class of faults in each design as a table in Markdown."""
    rows = []
    for result in results:
        for name, share in result["classes"].items():
            shares = [_share(share, effect) for effect in (*EFFECTS, "application")]
            rows.append((result["name"], name, f"{share['faults']:,}", f"{share['population']:,}",
                         *shares))  # fmt: skip
    headings = ("design", "class", "faults", "of all", *(f"{name} %" for name in EFFECTS),
                "wrong answer %")  # fmt: skip
    return markdown(headings, rows, 2)


def _share(share: Mapping[str, Any], effect: str) -> str:
    low, high = share["intervals"][effect]
    count = share["application"] if effect == "application" else share["effects"][effect]
    return f"{100 * count / share['faults']:.1f} ± {50 * (high - low):.1f}"


def designs_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return sizes of the designs, and the speed of the simulation, as a table in Markdown."""
    rows = [
        (
            result["name"],
            f"{result['cells']:,}",
            f"{result['flip_flops']:,}",
            f"{result['memory_bits']:,}",
            f"{result['cycles']:,}",
            f"{result['faults_per_second']:,.0f}",
        )
        for result in results
    ]
    headings = ("design", "cells", "flip-flops", "bits of SRAM", "cycles", "faults a second")
    return markdown(headings, rows, 1)


def modules_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the modules in which most flips are silent as a table in Markdown."""
    rows = []
    for result in results:
        modules = result["modules"].get("flip", {})
        for module in sorted(modules, key=lambda name: -modules[name]["effects"]["silent"])[
            :MODULES
        ]:
            share = modules[module]
            shares = [
                f"{100 * share['effects'][effect] / share['faults']:.1f}" for effect in EFFECTS
            ]
            rows.append((result["name"], f"`{module}`", f"{share['faults']:,}", *shares))
    headings = ("design", "module", "flips", *(f"{name} %" for name in EFFECTS))
    return markdown(headings, rows, 2)


def load_results() -> list[dict[str, Any]]:
    """Return the results of the last campaigns, in the order of `DESIGNS`."""
    if not RESULTS.is_file():
        return []
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [stored[name] for name in DESIGNS if name in stored]


def store(result: Mapping[str, Any]) -> None:
    """Write the result of a campaign over the last one of that design."""
    results = {each["name"]: each for each in load_results()} | {result["name"]: result}
    ordered = {name: results[name] for name in DESIGNS if name in results}
    RESULTS.write_text(json.dumps(ordered) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns, store their results, and show them."""
    options = parser("faults", __doc__)
    options.add_argument("--design", action="append", choices=list(DESIGNS), help="default all")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=processors(), help="default: all processors")
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options.add_argument("--pictures", type=Path, metavar="DIR", help="write the pictures there")
    chosen = options.parse_args(arguments)
    for name in () if chosen.stored else chosen.design or DESIGNS:
        result = campaign(name, chosen.jobs, chosen.seed)
        click.echo(f"{name}: {result['faults_per_second']:,.0f} faults a second", err=True)
        store(result)
    results = load_results()
    tables = {
        "designs": designs_table(results),
        "classes": classes_table(results),
        "modules": modules_table(results),
    }
    if chosen.pictures:
        for result in results:
            file = chosen.pictures / f"faults-{result['name']}.svg"
            file.write_text(picture(result), encoding="utf-8")
    if chosen.json:
        click.echo(json.dumps(results, indent=2))
    elif chosen.write:
        write_sections(chosen.write, tables)
    else:
        click.echo("\n".join(tables.values()))
    return 0


if __name__ == "__main__":
    run(main)
