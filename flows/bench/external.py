# SPDX-License-Identifier: Apache-2.0
"""Estimates of designs that hwgen did not emit, against their synthesis: ``make bench-external``.

Takes folders in which each ``NAME/rtl`` holds the Verilog of a module NAME, as those of LogikBench
(github.com/zeroasiccorp/logikbench).  Designs without registers are measured between registers;
those that `hwgen estimate --verilog` refuses, and those that are too large, are listed with the
reason.  Results are cached.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from cost_model.estimate.external import estimate_netlist
from cost_model.netlist.netlist import Netlist
from flows.bench.common import Document, parser, run
from flows.build.external import read_verilog
from flows.synthesis.synth import synthesize
from flows.tools.guard import scratch
from hwgen.errors import HwgenError

TECHNOLOGY, CLOCK_MHZ = "nangate45", 500.0

LARGEST_UM2 = 30_000.0
"""Area of the largest design that is mapped by default, by estimate: about 20,000 cells."""

METRICS = ("area_um2", "fmax_mhz")


def designs(folders: Sequence[Path]) -> Iterator[tuple[str, str, list[Path]]]:
    """Yield the class, the top module and the files of each design."""
    for folder in folders:
        for sources in sorted(folder.glob("*/rtl")):
            files = sorted([*sources.glob("*.v"), *sources.glob("*.sv")])
            if files:
                yield folder.name, top_of(sources.parent), files


def top_of(folder: Path) -> str:
    """Return the top module of a design: its folder's name, or what LogikBench's script says."""
    script = folder / f"{folder.name}.py"
    text = script.read_text(errors="replace") if script.exists() else ""
    named = re.search(r"topmodule(?: = |\()'(\w+)'", text)
    return named[1] if named else folder.name


def between(top: str, netlist: Netlist) -> str:
    """Return a module in which registers are in front of a design without any, and behind it."""
    ports = netlist.top.ports
    lines = [f"module {top}_between(input clk"]
    for port in ports:
        lines.append(
            f", {'output reg' if port.output else 'input'} [{port.width - 1}:0] {port.name}"
        )
    lines.append(");")
    for port in ports:
        lines.append(f"{'wire' if port.output else 'reg'} [{port.width - 1}:0] inner_{port.name};")
        sides = (port.name, f"inner_{port.name}")
        to, source = sides if port.output else sides[::-1]
        lines.append(f"always @(posedge clk) {to} <= {source};")
    pins = ", ".join(f".{port.name}(inner_{port.name})" for port in ports)
    lines.append(f"{top} inside({pins});\nendmodule\n")
    return "\n".join(lines)


def compare(
    top: str, files: Sequence[Path], technology: str, clock_mhz: float, largest_um2: float
) -> Document:
    """Return estimate and synthesis of a design, or why there is none."""
    try:
        design = read_verilog(files, top)
        if not design.clock:
            with scratch("between-") as folder:
                wrapper = folder / "between.v"
                wrapper.write_text(between(top, design.analysis.design), encoding="utf-8")
                return compare(
                    f"{top}_between", [*files, wrapper], technology, clock_mhz, largest_um2
                )
        entry = estimate_netlist(top, design.analysis, technology, clock_mhz)
        metrics = entry["metrics"]
        estimated = {"area_um2": metrics["area_mm2"] * 1e6, "fmax_mhz": metrics["fmax_mhz"]}
        if not estimated["area_um2"]:
            return {"refused": "wires only"}
        if estimated["area_um2"] > largest_um2:
            return {"refused": f"about {estimated['area_um2']:,.0f} µm²: too large to map here"}
        text = "\n".join(path.read_text(errors="replace") for path in files)
        result = synthesize(
            text, technology, top=top, clock=design.clock, clock_mhz=clock_mhz,
            memories="registers",
        )  # fmt: skip
    except HwgenError as error:
        return {"refused": " ".join(str(error).split())[:160]}
    measured = {"area_um2": result.area_um2, "fmax_mhz": result.fmax_mhz}
    return {"estimated": estimated, "measured": measured}


def error_of(row: Document, metric: str) -> float | None:
    """Return the relative error of an estimate, None if there is no figure."""
    a, b = row["estimated"][metric], row["measured"][metric]
    return a / b - 1 if a and b else None


def summary(rows: Sequence[Document]) -> Iterator[str]:
    """Yield the lines of a table of errors, a class a row."""
    yield "| class | metric | designs | MAPE | median | bias | worst | nine of ten within |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    classes = {row["class"]: None for row in rows}
    for name in (*classes, "all"):
        some = [row for row in rows if name in ("all", row["class"])]
        for metric in METRICS:
            every = (error_of(row, metric) for row in some)
            errors = sorted((error for error in every if error is not None), key=abs)
            if not errors:
                continue
            within = abs(errors[math.ceil(0.9 * len(errors)) - 1])
            figures = (
                f"{100 * fmean(errors):+.1f} % | {100 * errors[-1]:+.1f} % | {100 * within:.1f} %"
            )
            yield (
                f"| {name} | {'area' if metric == 'area_um2' else 'Fmax'} | {len(errors)}"
                f" | {100 * fmean(map(abs, errors)):.1f} % | {100 * median(map(abs, errors)):.1f} %"
                f" | {figures} |"
            )


def table(rows: Sequence[Document]) -> Iterator[str]:
    """Yield the lines of a table of designs."""
    yield "| class | design | area, µm² | estimate | error | Fmax, MHz | estimate | error |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        cells = [row["class"], row["design"]]
        for metric in METRICS:
            error = error_of(row, metric)
            for side in ("measured", "estimated"):
                value = row[side][metric]
                cells.append("-" if value is None else f"{value:,.0f}")
            cells.append("-" if error is None else f"{100 * error:+.1f} %")
        yield f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print tables."""
    options = parser("external", __doc__)
    options.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    options.add_argument("--technology", default=TECHNOLOGY)
    options.add_argument("--clock-mhz", type=float, default=CLOCK_MHZ, metavar="MHZ")
    options.add_argument(
        "--largest", type=float, default=LARGEST_UM2, metavar="UM2",
        help="refuse designs that are larger by estimate",
    )  # fmt: skip
    options.add_argument("--kept", type=Path, metavar="FILE", help="results, a line of JSON each")
    chosen = options.parse_args(arguments)
    lines = chosen.kept.read_text().splitlines() if chosen.kept and chosen.kept.exists() else []
    rows = {(row["class"], row["design"]): row for row in map(json.loads, lines)}
    for group, top, files in designs(chosen.folders):
        if (group, top) in rows:
            continue
        row = {
            "class": group,
            "design": top,
            **compare(top, files, chosen.technology, chosen.clock_mhz, chosen.largest),
        }
        rows[group, top] = row
        if chosen.kept:
            with chosen.kept.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
    compared = [row for row in rows.values() if "refused" not in row]
    if chosen.json:
        lines = [json.dumps(list(rows.values()), indent=2)]
    else:
        lines = [*summary(compared), "", *table(compared), ""]
        lines += [f"- {row['class']}/{row['design']}: {row['refused']}"
                  for row in rows.values() if "refused" in row]  # fmt: skip
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    run(main)
