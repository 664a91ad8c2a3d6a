# SPDX-License-Identifier: Apache-2.0
"""Output of ``hwgen model estimate``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.estimate import print_roofline
from hwgen.cli.support.common import new_table, print_columns, print_device_warnings
from hwgen.reports.datasheet import describe_size, fits, power_basis, share, standing
from hwgen.reports.roofline import SERVED, describe_joules, joules_of, number
from hwgen.reports.terminal import console
from hwgen.technologies import technology

_MOST_NAME = 32  # characters of a layer's name in a table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hwgen.workloads.network import Network


def print_speeds(name: str, speeds: Any, entry: Any) -> None:
    """Print the speeds of passes, and what limits each layer."""
    out = console()
    out.print(f"{name} on {entry['name']}, {entry['technology']} at {clock_of(entry)}")
    notes = list(entry["notes"])
    if notes and notes[0].startswith(NOT_INCLUDED):
        out.print(f"{notes.pop(0)}", style="yellow", soft_wrap=True)
    by_token = "tokens" in next(iter(speeds.values()))
    counts = ("tokens", "context") if by_token else ()
    each_is = "token" if by_token else "frame"
    headings = (*counts, "ms", f"{each_is}s/s", f"J/{each_is}", "of the bandwidth's floor")
    table = new_table("pass", *headings)
    for key, each in speeds.items():
        table.add_row(
            key,
            *(f"{each[field]:,}" for field in counts),
            *(number(each[field]) for field in ("ms", f"{each_is}s_per_s", f"j_per_{each_is}")),
            share(each["floor_share"]),
        )
    out.print(table)
    for key in speeds:
        if (cycles := entry["metrics"].get(f"cycles({key})")) is not None:
            certain = standing(entry["certainty"].get(f"cycles({key})"))
            out.print(f"{key}: {cycles:,.0f} cycles ({certain})", soft_wrap=True)
        if text := describe_joules(speeds[key], each_is):
            out.print(f"{key}: {text}", soft_wrap=True)
    out.print(size_and_power(entry), soft_wrap=True)
    if "prefill" in speeds:
        out.print(f"time to the first token: {number(speeds['prefill']['ms'])} ms")
    if entry["roofline"]:
        print_roofline(entry, out)
    else:
        out.print(SERVED)
    for note in notes:
        out.print(f"note: {note}", soft_wrap=True)


NOT_INCLUDED = "not in these figures: "
"""First words of the note that names operations that an estimate leaves out."""


def rate_and_energy(speed: Any) -> tuple[str, float | None, float | None]:
    """Return ``token`` or ``frame``, how many a second, and the energy of each."""
    per = "token" if "tokens" in speed else "frame"
    return per, speed[f"{per}s_per_s"], speed[f"j_per_{per}"]


def size_and_power(entry: Any) -> str:
    """Return area or resources, power, and what the energies rest on, in one line."""
    metrics = entry["metrics"]
    own = {} if "parts" in entry else entry["certainty"]
    size = describe_size(metrics, standing(own.get("area_mm2")))
    if metrics["area_mm2"] is not None:
        size = f"area {size}"
    if metrics["power_w"] is None:
        return f"{size}; power is not known"
    name = entry["activity"]["name"]
    if technology(entry["technology"]).kind != "standard_cells":
        basis = "published energies of another fabric"
    elif name == "assumed":
        basis = "assumed activity, often several times too low; --activity typical is simulated"
    else:
        basis = f"{name} operands in simulated netlists"
    within = standing(own.get("power_w"))
    power = f"{number(metrics['power_w'])} W" + (f" ({within})" if within else "")
    return f"{size}, power {power}; energies by {basis}"


def clock_of(entry: Any) -> str:
    """Return the clock that the figures of an estimate are at, with its unit and where from."""
    clock, asked = entry["figures_at_mhz"] or entry["clock_mhz"], entry["clock_mhz"]
    text = f"{clock:.4g} MHz"
    if entry["clock_basis"] == "assumed":
        return f"{text} (asked for; Fmax unknown)"
    if clock < asked:
        within = standing(entry["certainty"].get("fmax_mhz"))
        return f"{text} (its Fmax, {within}; {asked:.4g} MHz are asked for)"
    return text


def clock_text(entry: Any) -> str:
    """Return the clock that the figures of an estimate are at."""
    clock = f"{entry['figures_at_mhz'] or entry['clock_mhz']:.4g}"
    return f"{clock}, Fmax unknown" if entry["clock_basis"] == "assumed" else clock


_OF_DESIGNS = ("W", "includes")
"""Columns of tables of several designs: a page is too narrow for them beside `fits`."""


def print_targets(
    name: str,
    speeds: list[Any],
    entries: list[Any],
    included: Sequence[str],
    designs: Sequence[str] = (),
) -> None:
    """Print the speed of the last pass, a row for each technology, or for each of several designs.

    Rows of designs have the paths of their configurations, their power, and what the figures
    include as well; a column that is empty in all rows is left out.
    """
    out = console()
    passes = speeds[0]
    last = next(reversed(passes))
    by_token = "tokens" in passes[last]
    each_is = "token" if by_token else "frame"
    what = "a frame" if not by_token else (
        f"{last} of {passes[last]['tokens']:,} behind {passes[last]['context']:,}"
    )  # fmt: skip
    of_each = {} if designs else {entries[0]["name"]: None}
    out.print(f"{name}{''.join(f' on {each}' for each in of_each)}: {what}")
    speeds_of = (f"{each_is}s/s", f"J/{each_is}", "of the floor")
    headings = ["target", "MHz", "mm²", "W", "LUTs", "DSPs", "fits", *speeds_of, "includes",
                "limited by"]  # fmt: skip
    rows = []
    for each, entry, includes in zip(speeds, entries, included, strict=True):
        metrics, speed = entry["metrics"], each[last]
        rows.append((
            entry["technology"],
            clock_text(entry),
            *(number(metrics[key]) for key in ("area_mm2", "power_w", "luts_used", "dsps")),
            fits(entry),
            *(number(speed[key]) for key in (f"{each_is}s_per_s", f"j_per_{each_is}")),
            share(speed["floor_share"]),
            includes,
            limit_of(entry, last) or "-",
        ))  # fmt: skip
    if designs:
        headings.insert(0, "design")
        rows = [(path, *row) for path, row in zip(short_paths(designs), rows, strict=True)]
    left = ("target", "fits", "includes", "limited by")
    print_columns(headings, rows, left, () if designs else _OF_DESIGNS)
    out.print(joules_of(each_is, served=all(entry["roofline"] for entry in entries)))
    for text in dict.fromkeys(filter(None, map(power_basis, entries))):
        out.print(text, soft_wrap=True)
    print_device_warnings(entry["device"] for entry in entries)
    notes: dict[str, list[str]] = {}
    for row, entry in enumerate(entries):
        for note in dict.fromkeys(entry["notes"]):
            notes.setdefault(note, []).append(designs[row] if designs else entry["name"])
    for note, names in notes.items():
        of = "" if len(names) == len(entries) else f"{', '.join(dict.fromkeys(names))}: "
        out.print(f"note: {of if designs else ''}{note}", soft_wrap=True)


def short_paths(paths: Sequence[str]) -> list[str]:
    """Return paths, without the directory that all are in if one is too long for a table."""
    if max(map(len, paths)) <= _MOST_NAME + 8 or len(set(paths)) == 1:
        return list(paths)
    common = os.path.commonpath([os.path.abspath(path) for path in paths])
    return [os.path.relpath(path, common) for path in map(os.path.abspath, paths)]


def limit_of(entry: Any, name: str) -> str | None:
    """Return the resource that limits most of the time of a pass, None where it is unknown."""
    limits = entry["roofline"]
    result: str | None = limits["workloads"][name]["limit"] if limits else None
    return result


def check_report(
    output: Path, configs: Sequence[Path], targets: Sequence[str], *, force: bool
) -> None:
    """Refuse a report that cannot be written, before anything is computed."""
    from hwgen.cli.report import check_sheet

    if len(targets) > 1:
        raise click.UsageError(f"--report is of one --target, not {len(targets)}")
    if len(configs) > 1:
        raise click.UsageError(f"--report is of one --config, not {len(configs)}")
    check_sheet(output, "--report", force=force)


def write_report(
    output: Path, model: dict[str, Any], sheet: dict[str, Any], *, force: bool
) -> None:
    """Write the data sheet of an accelerator with a model: its passes, and their rooflines."""
    from hwgen.cli.report import write_sheet

    write_sheet(output, sheet["manifest"]["name"], {**sheet, "model": model}, force=force)


def print_layers(network: Network, weight_bits: float, activation_bits: float) -> None:
    """Print the products of a frame: sizes, work, and bytes in the formats of an accelerator."""
    table = new_table(
        "layers", "times", "M", "K", "N", "million MACs", "weights kB", "activations kB"
    )
    for layer in network.layers:
        if layer.product is not None:
            m, k, n = layer.product
            kilobytes = (
                layer.repeat * bits * elements / 8e3
                for bits, elements in ((weight_bits, k * n), (activation_bits, m * k))
            )
            table.add_row(
                shortened(layer.name), f"{layer.repeat:,}", f"{m:,}", f"{k:,}", f"{n:,}",
                number(layer.repeat * layer.product.macs / 1e6), *map(number, kilobytes),
            )  # fmt: skip
    console().print(table)


def shortened(name: str, most: int = _MOST_NAME) -> str:
    """Return the end of a name that is long."""
    return name if len(name) <= most else "…" + name[1 - most :]


def layers_document(network: Network) -> list[dict[str, Any]]:
    """Return the products of a frame: name, times, sizes and work."""
    return [
        {"name": layer.name, "times": layer.repeat, **layer.product._asdict(),
         "macs": layer.repeat * layer.product.macs}
        for layer in network.layers if layer.product is not None
    ]  # fmt: skip
