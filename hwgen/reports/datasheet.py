# SPDX-License-Identifier: Apache-2.0
"""The data sheet of an accelerator: all that is known of it, as Markdown or as a page.

What it is made of is plain data (`hwgen.cli.report` collects it); nothing is looked up here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hwgen.reports.roofline import (
    SERVED,
    describe_joules,
    describe_memory,
    distinct,
    number,
    summary,
)
from hwgen.reports.units import unit_table
from hwgen.technologies import fpga_family, technology
from hwgen.technologies.utilization import NAMES, used_resources

METRICS = {
    "area_mm2": ("area", "mm²"), "luts_used": ("LUTs", ""), "luts": ("of them logic", ""),
    "flip_flops": ("flip-flops", ""),
    "carries": ("carry cells", ""), "dsps": ("DSP blocks", ""), "brams": ("block memories", ""),
    "lutrams": ("memories of look-up tables", ""), "fmax_mhz": ("Fmax", "MHz"),
    "power_w": ("power", "W"), "tops": ("throughput", "TOPS"), "tops_per_w": ("", "TOPS/W"),
    "tops_per_mm2": ("", "TOPS/mm²"), "bandwidth_gb_s": ("port bandwidth", "GB/s"),
}  # fmt: skip
"""What the metrics of an estimate are called, and their units."""


def describe_size(metrics: Mapping[str, Any], area_note: str = "") -> str:
    """Return the area of a core, or the resources that it uses of an FPGA.

    Parameters
    ----------
    metrics : mapping
        Of an estimate; ``area_mm2`` is None on an FPGA.
    area_note : str
        Certainty of the area, set in parentheses.
    """
    if metrics["area_mm2"] is not None:
        return f"{number(metrics['area_mm2'])} mm²" + (f" ({area_note})" if area_note else "")
    if metrics["luts_used"] is None:
        return "unknown"
    parts = [f"{number(metrics['luts_used'])} LUTs"]
    parts += [f"{number(metrics[key])} {METRICS[key][0]}" for key in ("dsps", "brams")
              if metrics[key]]  # fmt: skip
    return ", ".join(parts)


def share(value: float | None) -> str:
    """Return a share in percent, a dash if it is unknown."""
    return "-" if value is None else f"{100 * value:.1f} %"


FACTOR = 0.5
"""From this ± on, a figure is said to be within a factor instead: -96 % is no useful bound."""


def standing(certainty: Mapping[str, Any] | None) -> str:
    """Return the certainty of a metric in words; nothing for one that is unknown."""
    if certainty is None:
        return ""
    words = [certainty["basis"]]
    within = certainty.get("within")
    if within == 0:  # of the few designs that were compared
        words.append("by the mapper's rules")
    elif within is not None:
        words.append(
            f"to a factor of {1 + within:.2g}" if within >= FACTOR else f"± {100 * within:.1f} %"
        )
    words += [f"at {end} {certainty[end]:,}" for end in ("least", "most") if end in certainty]
    return ", ".join(words)


def assumed_clock(estimate: Mapping[str, Any]) -> str:
    """Return that figures per second assume the clock that was asked for, if they do."""
    if estimate["clock_basis"] != "assumed":
        return ""
    return (
        f"Fmax is unknown, and so whether the clock of {estimate['clock_mhz']:g} MHz is met;"
        " figures per second are at that clock: no speed of this core in"
        f" {estimate['technology']} is known."
    )


def narrow_clock(estimate: Mapping[str, Any]) -> str:
    """Return that a clock may be missed, in words, if only the ± of Fmax says so."""
    reached = estimate["metrics"]["fmax_mhz"]
    if estimate["meets_clock"] is not True or reached is None:
        return ""
    within = estimate["certainty"]["fmax_mhz"].get("within") or 0
    if reached * (1 - within) >= estimate["clock_mhz"]:
        return ""
    return (
        f"The clock of {estimate['clock_mhz']:g} MHz is reached, but may not be, within the ± of"
        " Fmax."
    )


def missed_clock(estimate: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return that a clock is not reached, in words, and the MHz that are; None if it is."""
    if estimate["meets_clock"] is not False:
        return None
    reached = estimate["metrics"]["fmax_mhz"]
    asked, figure = distinct(estimate["clock_mhz"], reached)
    within = estimate["certainty"]["fmax_mhz"].get("within") or 0
    possible = reached * (1 + within) >= estimate["clock_mhz"]
    text = ", but may be, within the ± of Fmax" if possible else ""
    return f"clock of {asked} MHz is not reached{text}", figure


def activity_of_power(estimate: Mapping[str, Any]) -> str:
    """Return the activity that the power of an estimate holds for, nothing without power."""
    known = estimate["metrics"]["power_w"] is not None
    return f"at the {estimate['activity']['about']}" if known else ""


def power_basis(estimate: Mapping[str, Any]) -> str:
    """Return the worth of power by an assumed activity, nothing of other power or without any."""
    if (
        not activity_of_power(estimate)
        or not estimate["activity"]["about"].startswith("assumed")
        or technology(estimate["technology"]).kind != "standard_cells"
    ):
        return ""
    activity = estimate["activity"]
    return power_by_method(activity["about"], simulated=activity["simulated"])


def power_by_method(about: str, *, simulated: bool) -> str:
    """Return the worth of power by an assumed activity.

    Parameters
    ----------
    about : str
        The activity in words.
    simulated : bool
        Whether there is power by simulated netlists.
    """
    text = (
        f"Power, and all that follows from it, is at the {about}, without the energy inside cells."
        " Its ± holds for that activity only: real operands may take several times as much."
    )
    other = " --activity typical, or a file of operands, is by simulated netlists."
    return text + (other if simulated else "")


def shares_of(device: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return a row for each resource of a device: what it is, used, available, share."""
    rows = []
    for resource, row in device["resources"].items():
        share = "-" if row["share"] is None else f"{100 * row['share']:.1f} %"
        used, there = number(row["used"]), number(row["available"])
        rows.append((NAMES[resource], used, there, share))
    return rows


def fits(estimate: Mapping[str, Any]) -> str:
    """Return whether the core of an estimate fits a device, and which; a dash of other targets."""
    device = estimate["device"]
    return "-" if device is None else f"{device['verdict']}, {device['name']}"


def fitting(device: Mapping[str, Any]) -> str:
    """Return whether a core fits a device, without what is lacking."""
    words = "" if device.get("named", True) else ", the largest" if not device["fits"] else (
        ", the smallest that will do"
    )  # fmt: skip
    return f"{device['name']}{words}: fits: {device['verdict'].partition(' (')[0]}"


Tile = tuple[str, str, str]
"""A label, what it is, and a note."""


def tiles(sheet: Mapping[str, Any]) -> list[Tile]:
    """Return the summary of an accelerator: purpose, size, speed, power, fit."""
    about, entry = sheet["manifest"], sheet["estimates"][0]
    rows = [("purpose", about["family"], about["summary"]), _size(entry), _rate(about, entry)]
    rows += _work(entry)
    rows += [_power(entry), _fit(entry)]
    return rows


def _size(entry: Mapping[str, Any]) -> Tile:
    metrics, certainty = entry["metrics"], entry["certainty"]
    name = "luts_used" if metrics["area_mm2"] is None else "area_mm2"
    if metrics[name] is None:
        return "size", "not known", entry["unknown"].get("area_mm2", "")
    note = ", ".join(filter(None, (entry["technology"], standing(certainty.get(name)))))
    return "size", describe_size(metrics), note


def _rate(about: Mapping[str, Any], entry: Mapping[str, Any]) -> Tile:
    tops, note = entry["metrics"]["tops"], f"{_throughput(about)} in a full cycle"
    if tops is None:
        return "speed", f"{number(entry['clock_mhz'])} MHz", note
    clock = f"at {entry['figures_at_mhz'] or entry['clock_mhz']:.4g} MHz"
    value = f"{number(tops)} TOPS" if tops >= 1 else f"{number(1e3 * tops)} GOPS"
    return "speed", value, f"{clock}, {note}"


def _work(entry: Mapping[str, Any]) -> list[Tile]:
    """Return the tile of the first workload, if there is one, and of a model's step of decoding."""
    names = [key[7:-1] for key in entry["metrics"] if key.startswith("cycles(")]
    chosen = [*names[:1], *(name for name in names[1:] if name == "decode")]
    return [tile for name in chosen for tile in _work_of(entry["metrics"], name)]


def _work_of(metrics: Mapping[str, Any], name: str) -> list[Tile]:
    if metrics[f"cycles({name})"] is None:
        return []
    cycles = f"{number(metrics[f'cycles({name})'])} cycles"
    tokens, time = metrics.get(f"tokens_per_s({name})"), metrics.get(f"latency_ms({name})")
    if tokens:
        return [(name, f"{number(tokens)} tokens/s", cycles)]
    return [(name, cycles, f"{number(time)} ms" if time else "")]


def _power(entry: Mapping[str, Any]) -> Tile:
    power = entry["metrics"]["power_w"]
    if power is None:
        return "power", "not known", entry["unknown"].get("power_w", "")
    value = f"{number(power)} W" if power >= 1 else f"{number(1e3 * power)} mW"
    per_watt = entry["metrics"]["tops_per_w"]
    note = [standing(entry["certainty"].get("power_w")), activity_of_power(entry)]
    note += [f"{number(per_watt)} TOPS/W"] if per_watt else []
    return "power", value, ", ".join(filter(None, note))


def _fit(entry: Mapping[str, Any]) -> Tile:
    device, fmax, asked = entry["device"], entry["metrics"]["fmax_mhz"], entry["clock_mhz"]
    if fmax is None:
        clock = f"highest clock not known; {asked:g} MHz asked for"
    else:
        met = "meets" if entry["meets_clock"] else "does not meet"
        clock = f"highest clock {number(fmax)} MHz, {met} {asked:g} MHz"
    if device is None:
        yes = {True: "yes", False: "no", None: "not known"}[entry["meets_clock"]]
        if narrow_clock(entry) or "may be" in (missed_clock(entry) or ("",))[0]:
            yes, clock = "perhaps", f"{clock}, within the ± of it"
        return "meets its clock", yes, clock
    return "fits", device["verdict"], f"{device['name']}; {clock}"


_SHOWN = 0.002
"""Parts of less than this share of the whole are shown as one."""


def breakdown(entry: Mapping[str, Any]) -> tuple[str | None, list[tuple[Any, str]]]:
    """Return the parts of an estimate that consist of anything, the largest first.

    The smallest are one, unless they have block memories or DSP blocks.

    Returns
    -------
    (str or None, list of (mapping, str))
        The field with the cost of a part, None if costs are unknown; each part, and what it
        consists of, in words. LUTs of a part are those that it takes, as in the total: carry cells
        and small memories lie in look-up tables.
    """
    parts = [part for part in entry["breakdown"] if part["components"]]
    key = next((key for key in ("area_um2", "luts") if parts and key in parts[0]), None)
    if key == "luts":
        family = fpga_family(entry["technology"])
        parts = [{**part, key: used_resources(family, part)[key]} for part in parts]
    if key and all(part[key] is not None for part in parts):
        parts.sort(key=lambda part: -part[key])
    rows = []
    for part in _joined(parts, key):
        shown = sorted(part["components"].items(), key=lambda item: -(item[1] or 0))
        words = (f"{number(n)} {kind.replace('_', ' ')}" for kind, n in shown[:4])
        rows.append((part, ", ".join(words)))
    return key, rows


BLOCKS = ("dsps", "brams", "urams")
"""Resources of FPGAs of which devices have few."""


def _joined(parts: list[Any], key: str | None) -> list[Any]:
    """Return the parts that are large enough to be shown, and one more for all others."""
    if key is None or any(part[key] is None for part in parts):
        return parts
    least = _SHOWN * sum(part[key] for part in parts)
    small = [
        part for part in parts if part[key] < least and not any(part.get(each) for each in BLOCKS)
    ]
    if len(small) < 2:
        return parts
    components: Counter[str] = Counter()
    for part in small:
        components.update(part["components"])
    quantities = small[0].keys() - {"part", "count", "components"}
    rest = {name: sum(part[name] or 0 for part in small) for name in sorted(quantities)}
    rest = {"part": f"{len(small)} others", **rest}
    return [*(part for part in parts if part not in small), {**rest, "components": components}]


DIAGRAM, TIMING = "(diagram)", "(timing)"
"""Names of the pictures that are of no workload."""

_BLOCKS = (
    "Main blocks of the emitted hardware, and the bits of data that pass between them in a cycle."
    " Handshakes and control are left out."
)
_TIMING = "One job on the idle accelerator, at full rate: no port outside makes it wait."


def markdown(
    sheet: Mapping[str, Any],
    pictures: Mapping[str, str] | None = None,
    *,
    summary_table: bool = True,
) -> str:
    """Return a data sheet as Markdown.

    Parameters
    ----------
    sheet : mapping
        ``manifest``, as `hwgen build` writes it; ``configuration``, its text; ``estimates``, that
        of its target; ``synthesis`` and ``place_and_route``, documents of results, which may be
        none; perhaps ``model``, see `_model`.
    pictures : mapping, optional
        Names of files: `DIAGRAM`, `TIMING`, and the roofline of each workload by its name.
    summary_table : bool
        Whether it begins with the tiles, as a table.
    """
    about, entry = sheet["manifest"], sheet["estimates"][0]
    files = pictures or {}
    title = (
        f"# {about['name']}\n\n{about['summary']}: family `{about['family']}`,"
        f" hwgen {about['version']}, configuration digest `{about['digest'][:16]}`."
    )
    parts = [
        title,
        _table(("", "", ""), tiles(sheet)) if summary_table else "",
        _picture("Blocks", _BLOCKS, files.get(DIAGRAM)),
        _picture("Timing of a job", _TIMING, files.get(TIMING)),
        _interface(about),
        _model(sheet["model"], entry) if "model" in sheet else "",
        _speed(about, entry),
        _roofline(entry, files),
        _estimates(sheet["estimates"]),
        _synthesis(sheet["synthesis"]),
        _place_and_route(sheet["place_and_route"]),
        _configuration(sheet["configuration"]),
        _registers(about),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _picture(heading: str, text: str, file: str | None) -> str:
    return f"## {heading}\n\n{text}\n\n![{heading}]({quote(os.fsencode(file))})" if file else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: str = "") -> str:
    """Return a table; `right` has an ``r`` for each column that is aligned to the right."""
    marks = ["---:" if mark == "r" else "---" for mark in right.ljust(len(headings))]
    lines = [headings, marks, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
                     for line in lines)  # fmt: skip


def _configuration(text: str) -> str:
    return (
        f"## Configuration\n\nEvery parameter, defaults included.\n\n```yaml\n{text.strip()}\n```"
    )


def _interface(about: Mapping[str, Any]) -> str:
    paragraphs = [
        f"Clock `{about['clock']}`, synchronous reset `{about['reset']['name']}`, active low.",
    ]
    if about["streams"]:
        rows = [
            (f"`{s['prefix']}`", s["direction"], f"{s['lanes']} x {s['format']}",
             str(s["tdata_bits"]), s["beat"], s["tlast"] or "-")
            for s in about["streams"]
        ]  # fmt: skip
        headings = ("AXI4-Stream", "", "lanes", "tdata bits", "a beat holds", "`tlast`")
        paragraphs.append(_table(headings, rows, "   r"))
    buses = [port["name"] for port in about["ports"] if port["name"].endswith("_awvalid")]
    if buses:
        names = ", ".join(f"`{name.removesuffix('_awvalid')}`" for name in buses)
        paragraphs.append(f"Buses: {names}.")
    return "## Interface\n\n" + "\n\n".join(paragraphs)


def _registers(about: Mapping[str, Any]) -> str:
    if not about["registers"]:
        return ""
    registers = [
        (f"`{r['name']}`", f"0x{r['offset']:03x}", r["access"], r["description"])
        for r in about["registers"]
    ]  # fmt: skip
    return "## Registers\n\n" + _table(("register", "offset", "", ""), registers, " r")


def _throughput(about: Mapping[str, Any]) -> str:
    """Return the work of a full cycle in words."""
    if "throughput_macs_per_cycle" in about:
        return f"{number(about['throughput_macs_per_cycle'])} multiply-accumulates"
    return f"{number(about['throughput_operations_per_cycle'])} operations"


def _speed(about: Mapping[str, Any], estimate: Mapping[str, Any]) -> str:
    text = (
        f"{_throughput(about)} in a full cycle,"
        f" latency {about['latency_cycles']} cycles from the last input to the first result."
    )
    metrics, certainty = estimate["metrics"], estimate["certainty"]
    names = [name[7:-1] for name in metrics if name.startswith("cycles(")]
    rows = [
        (name, number(metrics[f"cycles({name})"]), standing(certainty.get(f"cycles({name})")),
         *(number(metrics[f"{m}({name})"]) for m in ("latency_ms", "energy_mj")))
        for name in names
    ]  # fmt: skip
    if rows:
        text += "\n\n" + _table(("product or workload", "cycles", "", "ms", "mJ"), rows, " r rr")
    return f"## Speed\n\n{text}"


def _model(model: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Return the passes of a model, given as ``name`` and ``passes`` by name."""
    passes = model["passes"]
    each_is = "token" if "tokens" in next(iter(passes.values())) else "frame"
    limits = entry["roofline"]["workloads"] if entry["roofline"] else {}
    rows = [
        (name, *(number(result.get(key)) for key in ("tokens", "context", "ms",
         f"{each_is}s_per_s", f"j_per_{each_is}")), share(result["floor_share"]),
         limits.get(name, {}).get("limit") or "-")
        for name, result in passes.items()
    ]  # fmt: skip
    headings = ("pass", "tokens", "context", "ms", f"{each_is}s/s", f"J/{each_is}",
                "of the bandwidth's floor", "limited by")  # fmt: skip
    text = f"## Model\n\n{model['name']}:\n\n{_table(headings, rows, ' rrrrrr')}"
    words = (
        f"{name}: {joules}."
        for name, result in passes.items()
        if (joules := describe_joules(result, each_is))
    )
    text += "".join(f"\n\n{each}" for each in words)
    if "prefill" in passes:
        text += f"\n\nTime to the first token: {number(passes['prefill']['ms'])} ms."
    return text


def _roofline(entry: Mapping[str, Any], pictures: Mapping[str, str]) -> str:
    """Return the effect of the memory on workloads, layer by layer."""
    if not entry["roofline"]:
        return SERVED if any(name.startswith("latency_ms(") for name in entry["metrics"]) else ""
    words = describe_memory(entry["roofline"])
    paragraphs = [f"## Roofline\n\n{words[:1].upper()}{words[1:]}."]
    for name, workload in entry["roofline"]["workloads"].items():
        rows = [
            (layer["name"], f"{layer['repeat']:,}",
             *(number(layer[key]) for key in ("ops_per_byte", "compute_ms", "memory_ms")),
             layer["limit"])
            for layer in workload["layers"]
        ]  # fmt: skip
        headings = (f"layers of {name}", "times", "operations a byte", "compute ms", "memory ms",
                    "limited by")  # fmt: skip
        result = [(label, entry["metrics"].get(f"{metric}({name})")) for label, metric in
                 (("tokens/s", "tokens_per_s"), ("J/token", "j_per_token"))]  # fmt: skip
        shown = "; ".join(
            f"{number(value)} {label}"
            + (" (core, memories on the chip and the memory behind the ports)"
               if label == "J/token" else "")
            for label, value in result if value
        )  # fmt: skip
        text = "; ".join(filter(None, (shown, summary(entry, name))))
        paragraphs += [_table(headings, rows, " rrrr"), f"{text[:1].upper()}{text[1:]}."]
        if name in pictures:
            paragraphs.append(f"![Roofline of {name}]({quote(os.fsencode(pictures[name]))})")
    return "\n\n".join(paragraphs)


def _estimates(estimates: Sequence[Mapping[str, Any]]) -> str:
    detailed = [entry for entry in estimates if entry["breakdown"]]
    if not detailed:
        return ""
    paragraphs = []
    metrics = [
        name for name in METRICS if any(e["metrics"].get(name) is not None for e in detailed)
    ]
    rows = []
    for name in metrics:
        words = " ".join(filter(None, METRICS[name]))
        cells = []
        for entry in detailed:
            shown = number(entry["metrics"].get(name))
            stated = [standing(entry["certainty"].get(name))]
            stated += [activity_of_power(entry)] if name == "power_w" else []
            cells.append(" ".join(filter(None, (shown, ", ".join(filter(None, stated))))))
        rows.append((words, *cells))
    if any(entry["device"] for entry in detailed):
        rows.append(("fits", *map(fits, detailed)))
    headings = ("", *(f"{e['technology']}, {e['clock_mhz']:g} MHz" for e in detailed))
    paragraphs.append(_table(headings, rows, " " + "r" * len(detailed)))
    paragraphs += filter(None, map(assumed_clock, detailed))
    paragraphs += dict.fromkeys(filter(None, map(power_basis, detailed)))
    if device := detailed[0]["device"]:
        table = _table((fitting(device), "used", "there", "share"), shares_of(device), " rrr")
        paragraphs.append(table)
    paragraphs += [_units_table(detailed[0]), _breakdown(detailed[0])]
    paragraphs += dict.fromkeys(f"Note: {each}." for entry in detailed for each in entry["notes"])
    return "## Estimate\n\n" + "\n\n".join(filter(None, paragraphs))


def _units_table(entry: Mapping[str, Any]) -> str:
    """Return the costs of an engine by unit, nothing of a design without units."""
    if not entry["units"]:
        return ""
    headings, rows = unit_table(entry)
    return f"Units, {entry['technology']}:\n\n" + _table(headings, rows, " rrrrrr")


def _breakdown(entry: Mapping[str, Any]) -> str:
    key, parts = breakdown(entry)
    if key is None:
        return ""
    total = sum(part[key] or 0.0 for part, _ in parts)
    rows = []
    for part, text in parts:
        share = "-" if part[key] is None or not total else f"{100 * part[key] / total:.1f}"
        rows.append((part["part"], number(part[key]), share, text))
    return f"Parts, {entry['technology']}:\n\n" + _table(
        ("part", key, "%", "consists of"), rows, " rr"
    )


def _synthesis(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    rows = []
    for r in results:
        area = f"{number(r['area_um2'])} µm²" if r["area_um2"] else f"{number(r['luts'])} LUTs"
        rest = [f"{number(r['flip_flops'])} flip-flops"]
        rest += [f"{number(r[key])} {unit}" for key, unit in
                 (("dsps", "DSP blocks"), ("brams", "block memories")) if r[key]]  # fmt: skip
        mapping = (
            r["recipe"] + (", full adders" if r["full_adders"] else "") + f", {r['hierarchy']}"
        )
        path = f"`{r['path_start']}` to `{r['path_end']}`" if r["path_start"] else "-"
        rows.append((r["target"], number(r["clock_target_mhz"]), mapping, area, ", ".join(rest),
                     number(r["fmax_mhz"]), path))  # fmt: skip
    tools = sorted({f"{k} {v}" for r in results for k, v in r["tools"].items()})
    headings = ("target", "asked, MHz", "mapped", "area", "", "Fmax, MHz", "worst path")
    return (
        "## Synthesis\n\n"
        + _table(headings, rows, " r r r")
        + f"\n\nWithout wires; {', '.join(tools)}."
    )


def _place_and_route(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    rows = []
    for r in results:
        used = ", ".join(f"{number(u['used'])} of {number(u['available'])} {name}"
                         for name, u in r["utilization"].items())  # fmt: skip
        device = " ".join(filter(None, (r["device"], r["package"], r["speed_grade"])))
        rows.append((r["target"], device, number(r["clock_target_mhz"]),
                     *(number(r[f"fmax_{rank}_mhz"]) for rank in ("min", "median", "max")),
                     str(len(r["seeds"])), used))  # fmt: skip
    headings = ("target", "device", "asked, MHz", "least", "median", "most", "seeds", "used")
    return "## Place and route\n\n" + _table(headings, rows, "  rrrrr")
