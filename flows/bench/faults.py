# SPDX-License-Identifier: Apache-2.0
"""Faults in a systolic array, a ternary core and an engine that read digits: ``make bench-faults``.

Each design is mapped to nangate45; samples of faults of every class are simulated while it computes
the first layer of the network of handwritten digits.  Results are stored, and the tables and
pictures of ``docs/results-faults.md`` are made of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from flows.bench.common import ROOT, markdown, parser, run, write_sections
from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.build.load import parse_config
from flows.faults.campaign import run_campaign, share_text
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

SYSTOLIC, LARGE_SYSTOLIC = (
    f"""\
name: systolic_{size}x{size}
family: systolic
activation: int8
weight: int8
max_k: 1024
array: {{rows: {size}, cols: {size}}}
target: {{technology: nangate45, clock_mhz: 500}}
"""
    for size in (8, 16)
)
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


class Case(NamedTuple):
    """A design with a protection, and the margin by which faults are drawn.

    Parameters
    ----------
    source : str or Path
        Its configuration.
    protection : str
        Value of ``protect``.
    checksums : bool
        Whether checksums are appended to the operands.
    margin : float
    workload : str
    """

    source: str | Path
    protection: str = ""
    checksums: bool = False
    margin: float = 0.01
    workload: str = "digits"

    @property
    def words(self) -> str:
        """The protection in words."""
        parts = [part for part in (self.protection, "checksums" * self.checksums) if part]
        return ", ".join(parts) or "none"


_LARGE = "random:62,64,62"
_LUT_CORE = ROOT / "configs" / "lut_core.yaml"
CASES: Mapping[str, Case] = {
    "systolic_8x8": Case(SYSTOLIC),
    "systolic_8x8-parity": Case(SYSTOLIC, "registers: parity"),
    "systolic_8x8-tmr": Case(SYSTOLIC, "registers: tmr"),
    "systolic_8x8-residue": Case(SYSTOLIC, "datapath: residue"),
    "systolic_8x8-residue-parity": Case(SYSTOLIC, "registers: parity, datapath: residue"),
    "systolic_8x8-dup": Case(SYSTOLIC, "datapath: dup"),
    "systolic_8x8-checksums": Case(SYSTOLIC, checksums=True),
    "systolic_8x8-large": Case(SYSTOLIC, margin=0.02, workload=_LARGE),
    "systolic_8x8-large-checksums": Case(SYSTOLIC, checksums=True, margin=0.02, workload=_LARGE),
    "systolic_16x16": Case(LARGE_SYSTOLIC, margin=0.02),
    "systolic_16x16-parity": Case(LARGE_SYSTOLIC, "registers: parity", margin=0.02),
    "systolic_16x16-residue": Case(LARGE_SYSTOLIC, "datapath: residue", margin=0.02),
    "systolic_16x16-residue-control": Case(
        LARGE_SYSTOLIC, "control: parity, datapath: residue", margin=0.02
    ),
    "systolic_16x16-residue-parity": Case(
        LARGE_SYSTOLIC, "registers: parity, datapath: residue", margin=0.02
    ),
    "systolic_16x16-checksums": Case(LARGE_SYSTOLIC, checksums=True, margin=0.02),
    "lut_core": Case(_LUT_CORE),
    "lut_core-checksums": Case(_LUT_CORE, checksums=True),
    "engine_4x4": Case(ENGINE, margin=0.1),
    "engine_4x4-checksums": Case(ENGINE, checksums=True, margin=0.1),
}


def campaign(name: str, jobs: int, seed: int) -> dict[str, Any]:
    """Return the result of a campaign as plain values, with costs of the design.

    Costs are estimated and synthesized, the cycles are those of the job.
    """
    case = CASES[name]
    source = case.source
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    config = parse_config(f"{text}protect: {{{case.protection}}}\n")
    design = Design.of(config)
    result = synthesize(design, TARGET, effort="clock", jobs=jobs)
    estimate = Build(design, retarget(config.target, TARGET)).estimate()["metrics"]
    work = fault_workload(design.core, case.workload, checksums=case.checksums)
    with scratch("hwgen-bench-") as directory:
        simulation = FaultSimulation(config, result, work, directory)
        done = run_campaign(
            simulation, work, name=config.name, target=TARGET, margin=case.margin, seed=seed,
            jobs=jobs,
        )  # fmt: skip
    faults = sum(share.faults for share in done.classes.values())
    return {
        **done.document(),
        "protection": case.words,
        "job": case.workload,
        "area_um2": result.area_um2,
        "fmax_mhz": result.fmax_mhz,
        "estimated_area_um2": 1e6 * estimate["area_mm2"],
        "estimated_fmax_mhz": estimate["fmax_mhz"],
        "job_cycles": design.core.cycles([work.job], [work.operands]).number,
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
    count = share["application"] if effect == "application" else share["effects"][effect]
    return share_text(count, share["faults"], share["intervals"][effect])


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


def protection_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return costs and silent faults of each design with each protection as a table in Markdown."""
    rows = []
    plain: dict[tuple[str, str], Mapping[str, Any]] = {}
    for result in results:
        base = plain.setdefault((result["name"], result["job"]), result)
        rows.append((
            result["name"],
            result["job"],
            result["protection"],
            _change(result, base, "area_um2"),
            _change(result, base, "estimated_area_um2"),
            f"{result['fmax_mhz']:,.0f}",
            f"{result['estimated_fmax_mhz']:,.0f}",
            _change(result, base, "job_cycles"),
            *(_silent(result, name) for name in ("flip", "pulse", "stuck")),
            f"{100 * _noticed(result):.2f} %",
        ))  # fmt: skip
    headings = ("design", "job", "protection", "area", "estimated", "MHz", "estimated", "cycles",
                "silent flips %", "pulses %", "stuck %", "noticed")  # fmt: skip
    return markdown(headings, rows, 3)


def _change(result: Mapping[str, Any], base: Mapping[str, Any], field: str) -> str:
    change = 100 * (result[field] / base[field] - 1)
    return f"{result[field]:,.0f}" if result is base else f"{change:+.1f} %"


def _silent(result: Mapping[str, Any], name: str) -> str:
    return _share(result["classes"][name], "silent")


def _noticed(result: Mapping[str, Any]) -> float:
    """Return the part of the faults that matter of which somebody hears, all classes alike.

    Hangs are among them: a host waits for results, and a timer ends that.
    """
    shares = [result["classes"][name]["effects"] for name in ("flip", "pulse", "stuck")]
    totals = {effect: sum(share[effect] for share in shares) for effect in EFFECTS}
    matter = sum(totals.values()) - totals["masked"]
    return 1 - totals["silent"] / matter if matter else 1.0


def load_results() -> list[dict[str, Any]]:
    """Return the results of the last campaigns, in the order of `CASES`."""
    stored = _stored()
    return [stored[name] for name in CASES if name in stored]


def _stored() -> dict[str, dict[str, Any]]:
    if not RESULTS.is_file():
        return {}
    documents: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return documents


def store(name: str, result: Mapping[str, Any]) -> None:
    """Write the result of a campaign over the last one of that case."""
    results = {**_stored(), name: dict(result)}
    ordered = {name: results[name] for name in CASES if name in results}
    RESULTS.write_text(json.dumps(ordered) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns, store their results, and show them."""
    options = parser("faults", __doc__)
    options.add_argument("--case", action="append", choices=list(CASES), help="default all")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=processors(), help="default: all processors")
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options.add_argument("--pictures", type=Path, metavar="DIR", help="write the pictures there")
    chosen = options.parse_args(arguments)
    for name in () if chosen.stored else chosen.case or CASES:
        result = campaign(name, chosen.jobs, chosen.seed)
        click.echo(f"{name}: {result['faults_per_second']:,.0f} faults a second", err=True)
        store(name, result)
    results = load_results()
    plain = [each for each in results if (each["protection"], each["job"]) == ("none", "digits")]
    tables = {
        "designs": designs_table(plain),
        "classes": classes_table(plain),
        "modules": modules_table(plain),
        "protection": protection_table(results),
    }
    if chosen.pictures:
        for result in plain:
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
