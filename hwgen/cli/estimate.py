# SPDX-License-Identifier: Apache-2.0
"""Estimate area, power, speed and cycles of an accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.activity import OF_FILES, activity_option, requested_activity
from hwgen.cli.support.common import (
    clock_option,
    configs_option,
    emit_json,
    example,
    file_option,
    fpga_energies_option,
    json_option,
    memory_options,
    new_table,
    print_device,
    print_device_warnings,
    requested_memory,
    target_option,
    task_progress,
    workload_options,
)
from hwgen.cli.support.operands import operand_options, read_operands
from hwgen.cli.support.run_post import requested_settings
from hwgen.cli.support.verilog import (
    is_verilog,
    refuse_others,
    verilog_estimate,
    verilog_options,
)
from hwgen.progress import steps
from hwgen.reports.datasheet import (
    BLOCKS,
    FACTOR,
    METRICS,
    activity_of_power,
    assumed_clock,
    breakdown,
    fits,
    missed_clock,
    narrow_clock,
    power_basis,
    standing,
)
from hwgen.reports.roofline import SERVED, describe_memory, joules_of, number, of_pass, summary
from hwgen.reports.terminal import console, print_whole
from hwgen.reports.units import unit_table
from hwgen.technologies.utilization import NAMES

if TYPE_CHECKING:
    from cost_model.memories.memories import Form
    from flows.build.design import Design
    from flows.synthesis.result import SynthesisResult

_BAR = 24


@click.command(
    epilog=example(
        "hwgen estimate -c configs/lut_core.yaml --workload bitnet_2b4t_decode --memory lpddr4x"
    )
)
@configs_option("Configuration file (YAML); `hwgen init FAMILY` writes one.", required=False)
@verilog_options
@target_option("Technology or FPGA device instead of the configuration's.")
@clock_option("Clock instead of the configuration's.")
@workload_options
@click.option(
    "--job", "jobs", metavar="NAME:SIZE=VALUE,...", multiple=True,
    help="An operation to time that is no product of matrices; may be repeated.",
)  # fmt: skip
@operand_options
@file_option(
    "--post", "Post-processing of the products, as `hwgen run` takes it; default raw results."
)
@file_option("--compare", "Another configuration, as a further -c.", multiple=True)
@click.option(
    "--memories", "made_of", type=click.Choice(["macros", "registers"]), default="macros",
    show_default=True, help="What memories are made of; those below `memories.registers_below` bits"
    " are registers in any case.",
)  # fmt: skip
@activity_option(OF_FILES)
@memory_options
@fpga_energies_option
@json_option
def command(
    configs: Sequence[Path],
    verilog: Sequence[Path],
    top: str | None,
    target: str | None,
    clock_mhz: float | None,
    gemms: Sequence[str],
    names: Sequence[str],
    context: int | None,
    jobs: Sequence[str],
    activations: Path | None,
    weights: Path | None,
    n: int | None,
    post: Path | None,
    compare: Sequence[Path],
    made_of: Form,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    fpga_energies: bool,
    activity: str,
    as_json: bool,
) -> None:
    """Estimate area, power, speed and cycles of an accelerator, without synthesis.

    Area and power are sums over what the emitted hardware consists of, at costs fitted to synthesis
    results, as Fmax is; nine of ten designs that the fit has not seen stay within what is shown.
    Each figure says what it is.  Cycles are exact; of serial PEs they are expected, unless
    --activations gives values.  Where `hwgen synth` has kept a result for the same hardware, it is
    shown beside the estimate.  Several -c are compared in one table, a column each.
    """
    from cost_model.estimate.technology import calibrated
    from flows.build.build import Build, retarget
    from flows.build.design import Design
    from flows.build.load import load_config
    from hwgen.core.jobs import must_not_multiply, parse_job
    from hwgen.models.workload import named_workloads
    from hwgen.technologies import target_of
    from hwgen.workloads import network_of

    if target is not None:
        target_of(target)  # refuses an unknown name
    if is_verilog(configs, verilog, top):
        refuse_others("--verilog", "target", "clock_mhz", "verilog", "top", "as_json")
        entry = verilog_estimate(verilog, str(top), target, clock_mhz)
        if as_json:
            emit_json(entry)
        else:
            _show(entry)
        return
    cores = [load_config(path) for path in (*configs, *compare)]
    workloads = named_workloads(gemms, names, cores, context)
    matrices = [read_operands(core, activations, weights, n) for core in cores]
    for name, (a, w) in matrices[0].items():
        workloads[name] = network_of([(*a.shape, w.shape[1])])
    for core in cores:
        if jobs:
            must_not_multiply(core, "--job")
    served = [requested_memory(core.target, memory, gb_s, efficiency) for core in cores]
    builds = [
        Build(Design.of(core), retarget(core.target, target, clock_mhz, off_chip))
        for core, off_chip in zip(cores, served, strict=True)
    ]
    activities = [requested_activity(build, activity) for build in builds]
    with task_progress("estimating", quiet=as_json):
        estimates = [
            build.estimate(
                workloads,
                operands=each,
                post=requested_settings(build.design.core, post, workloads),
                made_of=made_of,
                fpga_energies=fpga_energies,
                activity=moved,
                jobs={text.replace(":", " "): parse_job(build.design.core, text) for text in jobs},
            )
            for build, each, moved in steps(
                "configurations", tuple(zip(builds, matrices, activities, strict=True))
            )
        ]
    results = [
        _synthesized(build.design, entry) for build, entry in zip(builds, estimates, strict=True)
    ]
    for entry, result in zip(estimates, results, strict=True):
        entry["measured"] = result and _measured(entry, result)
    if as_json:
        emit_json(estimates if len(estimates) > 1 else estimates[0])
        return
    if len(estimates) == 1:
        _show(estimates[0])
    else:
        _compare(estimates)
    for entry, result in zip(estimates, results, strict=True):
        if result:
            _print_measured(entry, result)
    if not all(entry["calibrated"] for entry in estimates):
        console().print(
            f"No costs are known of {estimates[0]['technology']}: only cycles are shown."
            f" Known are {', '.join(calibrated())}; see `hwgen calibrate`.",
            style="yellow",
        )


def _synthesized(design: Design, entry: Mapping[str, Any]) -> SynthesisResult | None:
    """Return the cached synthesis result that fits an estimate best, None if there is none."""
    if design.verilog_digest is None:  # saves the time of the import
        return None
    from flows.synthesis.verify import cached_result

    macros = any(memory["form"] == "macros" for memory in entry["memories"])
    form: Form = "macros" if macros else "registers"
    return cached_result(design, entry["technology"], entry["clock_mhz"], form)


def _measured(entry: Mapping[str, Any], result: SynthesisResult) -> dict[str, Any]:
    """Return a synthesis result as JSON values."""
    from flows.synthesis.verify import pair_metrics

    method = (
        "recipe", "full_adders", "hierarchy", "clock_target_mhz", "timing_source", "tools",
        "library", "source_digest", "netlist_digest",
    )  # fmt: skip
    document = result.document()
    return {
        **{name: document[name] for name in method},
        "figures": pair_metrics(entry["metrics"], result),
    }


def _print_measured(entry: Mapping[str, Any], result: SynthesisResult) -> None:
    from hwgen.cli.synth import describe_mapping, tools_of

    table = new_table(f"synthesized {entry['name']}", "estimate", "measured", "difference")
    for field, pair in entry["measured"]["figures"].items():
        difference = pair["difference_percent"]
        text = "" if difference is None else f"{difference:+.1f} %"
        table.add_row(field, number(pair["estimated"]), number(pair["measured"]), text)
    out = console()
    out.print(table)
    made = [
        f"{describe_mapping(result)}, {result.clock_target_mhz:g} MHz asked for",
        tools_of(result),
    ]
    if result.library:
        made.append(f"library {', '.join(result.library)}")
    out.print(f"  {'; '.join(made)}")


def _show(entry: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    clock = f"{entry['technology']} at {entry['clock_mhz']:g} MHz"
    out.print(Text.assemble((entry["name"], "bold"), f": {entry['family'] or 'Verilog'}, {clock}"))
    table = Table(box=None, pad_edge=False, show_header=False)
    for metric, value in entry["metrics"].items():
        if metric == "fmax_mhz" and value is None and entry["breakdown"]:
            table.add_row(METRICS[metric][0], "unknown", "")
        if value is None or metric not in METRICS:
            continue
        name, unit = METRICS[metric]
        stated = [standing(entry["certainty"].get(metric))]
        stated += [activity_of_power(entry)] if metric == "power_w" else []
        table.add_row(name, f"{number(value)} {unit}".strip(), ", ".join(filter(None, stated)))
    out.print(table)
    if text := power_basis(entry):
        out.print(text)
    if source := entry.get("cost_table"):
        out.print(f"Costs are of the user's table {entry['technology']}: {source}", markup=False)
    if missed := missed_clock(entry):
        text, reached = missed
        out.print(f"The {text}. All figures are at {reached} MHz.", style="yellow")
    for text in filter(None, (narrow_clock(entry), assumed_clock(entry))):
        out.print(text, style="yellow")
    if device := entry["device"]:
        print_device(device)
    if path := entry["limiting_path"]:
        out.print(_limited(path), markup=False)
    if entry["breakdown"]:
        if entry.get("units"):
            out.print(_units(entry))
        out.print(_parts(entry))
    else:
        out.print("Area and power are not known, only cycles; `hwgen synth` measures the others.")
    for note in entry.get("notes", ()):
        out.print(Text.assemble(("note:", "yellow"), f" {note}"))
    _print_workloads(entry, out)
    if entry.get("memories"):
        _print_memories(entry, out)
    if entry.get("memory"):
        _print_memory(entry["memory"], out)


_STEPS = 6
"""Steps of the limiting path that are shown, those that take the longest."""


def _limited(path: Mapping[str, Any]) -> str:
    """Return the limiting path in words."""
    steps: dict[str, float] = {}
    for stage in path["stages"]:
        for kind, ns in stage["ns_by_step"].items():
            steps[kind] = steps.get(kind, 0.0) + ns
    slowest = sorted(steps.items(), key=lambda each: -each[1])[:_STEPS]
    through = ", ".join(f"{kind.replace('_', ' ')} {ns:.3g} ns" for kind, ns in slowest)
    end = "itself (a loop)" if path["end"] == path["start"] else path["end"]
    return (
        f"  Fmax is limited by the path from {path['start']} to {end}, {path['ns']:.4g} ns:"
        f" {through}"
    )


def _units(entry: Mapping[str, Any]) -> Any:
    """Return the table of an engine's units, with the memories in each."""
    headings, rows = unit_table(entry)
    table = new_table(*headings, left=("unit",))
    for row in rows:
        table.add_row(*row)
    return table


def _parts(entry: Mapping[str, Any]) -> Any:
    key, parts = breakdown(entry)
    blocks: tuple[str, ...] = ()
    if key == "luts":
        blocks = tuple(name for name in BLOCKS if any(part.get(name) for part, _ in parts))
    total = sum(part[key] or 0.0 for part, _ in parts) if key else 0.0
    complete = bool(total and key and all(part[key] is not None for part, _ in parts))
    figures = ["LUTs" if key == "luts" else key or ""] if total else []
    shares = ["%", ""] if complete else []
    of_blocks = [NAMES[name] for name in blocks]
    table = new_table(
        "part", *figures, *shares, *of_blocks, "consists of", left=("", "consists of")
    )
    for part, text in parts:
        cells: list[str] = []
        if total and key:
            cells.append(number(part[key]))
        if complete and key:
            share = part[key] / total
            cells += [f"{100 * share:.1f}", "█" * round(_BAR * share)]
        cells += [number(part.get(name)) if part.get(name) else "" for name in blocks]
        times = f"{part['count']:,} x " if part.get("count", 1) > 1 else ""
        table.add_row(times + part["part"], *cells, text)
    return table


def _print_workloads(entry: Mapping[str, Any], out: Any) -> None:
    names = [m[7:-1] for m in entry["metrics"] if m.startswith("cycles(")]
    if not names:
        return
    limits = (entry["roofline"] or {}).get("workloads", {})
    tokens = any(limit["tokens"] for limit in limits.values())
    more_headings = _OF_TOKENS if tokens else ()
    table = new_table("workload", "cycles", "", "ms", "mJ", *more_headings, left=("",))
    for name in names:
        values = [entry["metrics"][f"{m}({name})"] for m in ("cycles", "latency_ms", "energy_mj")]
        cycles = "-" if values[0] is None else f"{values[0]:,}"
        stated = standing(entry["certainty"].get(f"cycles({name})"))
        more = [entry["metrics"].get(f"{m}({name})") for m in _OF_TOKENS.values() if tokens]
        table.add_row(name, cycles, stated, *map(number, values[1:]), *map(number, more))
    out.print(table)
    if tokens:
        out.print(joules_of("token", served=True))
    if entry["roofline"]:
        print_roofline(entry, out)
    else:
        out.print(SERVED)


_OF_TOKENS = {"tokens/s": "tokens_per_s", "J/token": "j_per_token"}
"""Columns of workloads with tokens, behind a memory."""


def print_roofline(entry: Mapping[str, Any], out: Any) -> None:
    """Print what the memory behind the ports leaves of each layer's speed."""
    limits = entry["roofline"]
    out.print("  " + describe_memory(limits))
    for name, workload in limits["workloads"].items():
        together = all(map(of_pass, workload["layers"]))
        times = () if together else ("times",)
        table = new_table(
            f"{name}, all layers together" if together else f"layers of {name}", *times,
            "operations a byte", "compute ms", "memory ms", "limited by", left=("limited by",),
        )  # fmt: skip
        for layer in workload["layers"]:
            table.add_row(
                layer["name"], *(f"{layer['repeat']:,}" for _ in times),
                *(number(layer[key]) for key in ("ops_per_byte", "compute_ms", "memory_ms")),
                layer["limit"],
            )  # fmt: skip
        out.print(table)
        out.print("  " + summary(entry, name))


def _print_memories(entry: Mapping[str, Any], out: Any) -> None:
    table = new_table(
        "memories", "hold", "", "words x bits", "made of", "area_um2", "leakage_nw", "pJ read",
        "write", left=("hold", "made of"),
    )  # fmt: skip
    rest = 0
    for each in entry["memories"]:
        if each["form"] == "registers" and each["words"] * each["bits"] < _SMALL:
            rest += each["count"]
            continue
        made = f"{each['macros']} {each['macro']}" if each["macro"] else "registers"
        table.add_row(
            each["ports"], ", ".join(each["holds"]), f"{each['count']} x",
            f"{each['words']} x {each['bits']}", made,
            *(number(each[name]) for name in ("area_um2", "leakage_nw", "read_pj", "write_pj")),
        )  # fmt: skip
    if table.row_count:
        out.print(table)
    if rest:
        words = "a small memory" if rest == 1 else f"{rest} small memories"
        out.print(f"  {'and ' if table.row_count else ''}{words} of registers")
    if entry["memories_source"]:
        out.print(f"  macros: {entry['memories_source']}")


_SMALL = 2048
"""Bits below which a memory of registers is not listed."""


def _print_memory(memory: Mapping[str, Any], out: Any) -> None:
    each = number(memory["off_chip_pj_per_bit"])
    if memory["workloads"]:
        table = new_table("memory energy", "bytes moved", "off chip mJ", "buffers mJ")
        for name, use in memory["workloads"].items():
            energies = (use["off_chip_mj"], use["on_chip_mj"])
            table.add_row(name, f"{use['moved_bytes']:,}", *map(number, energies))
        out.print(table)
        each = memory["off_chip_pj_per_bit"]
        kind = memory["off_chip"] or "memory"
        cost = "of unknown energy" if each is None else f"{number(each)} pJ a bit"
        out.print(f"  off chip {kind}, {cost}: {memory['off_chip_source']}")


def _standings(estimates: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return the certainty of a metric of several designs, and of how many it is known."""
    known = [e["certainty"][metric] for e in estimates if metric in e["certainty"]]
    words = "/".join(dict.fromkeys(each["basis"] for each in known))
    within = sorted({each["within"] for each in known if each.get("within")})
    if not within:
        return words
    if within[-1] >= FACTOR:
        return f"{words}, to a factor of {1 + within[-1]:.2g}"
    shares = " to ".join(f"{100 * each:.1f}" for each in dict.fromkeys((within[0], within[-1])))
    stated = sum(bool(each.get("within")) for each in known)
    part = f" ({stated} of {len(estimates)})" if stated < len(estimates) else ""
    return f"{words}, ± {shares} %{part}"


def _compare(estimates: Sequence[Mapping[str, Any]]) -> None:
    shown = (f"{entry['name']}\n{entry['technology']}" for entry in estimates)
    table = new_table("", *shown, "", left=("",))
    table.add_row("clock of the figures MHz", *(number(e["figures_at_mhz"]) for e in estimates), "")
    for metric in dict.fromkeys(name for entry in estimates for name in entry["metrics"]):
        values = [entry["metrics"].get(metric) for entry in estimates]
        if all(value is None for value in values):
            continue
        name, unit = METRICS.get(metric, (metric.replace("_", " "), ""))
        cells = [number(values[0])]
        for value in values[1:]:
            stated = value is not None and values[0]
            cells.append(f"{number(value)} ({value / values[0]:.2f}x)" if stated else number(value))
        table.add_row(f"{name} {unit}".strip(), *cells, _standings(estimates, metric))
    if any(entry["device"] for entry in estimates):
        table.add_row("fits", *map(fits, estimates), "")
    print_whole(table)
    print_device_warnings(entry["device"] for entry in estimates)
    if any(metric.startswith("latency_ms(") for metric in estimates[0]["metrics"]):
        for entry in estimates:
            served = describe_memory(entry["roofline"]) if entry["roofline"] else SERVED
            console().print(f"{entry['name']}: {served}", soft_wrap=True)
    for text in dict.fromkeys(filter(None, map(assumed_clock, estimates))):
        console().print(text, style="yellow")
    for text in dict.fromkeys(filter(None, map(power_basis, estimates))):
        console().print(text)
