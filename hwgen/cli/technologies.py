# SPDX-License-Identifier: Apache-2.0
"""List the technologies that accelerators can be for."""

from __future__ import annotations

import math
from typing import Any

import click

from hwgen.cli.support.common import emit_json, example, json_option
from hwgen.cli.support.names import TargetName
from hwgen.reports.terminal import console


@click.command(
    epilog=example(
        "hwgen technologies ecp5",
        "A technology is one file: docs/adding-a-technology.md writes one.",
    )
)
@click.argument("name", metavar="[TECHNOLOGY]", default="", type=TargetName())
@click.option(
    "--as-table",
    is_flag=True,
    help="Print the costs of a calibrated technology as a table of costs, to begin one of your own:"
    " docs/cost-table.md.",
)
@click.option(
    "--times",
    metavar="AREA,ENERGY,DELAY",
    help="Factors of all areas, energies and delays of the table, as 0.5,0.6,0.8; leakage takes"
    " that of energy.",
)
@json_option
def command(name: str, as_table: bool, times: str | None, as_json: bool) -> None:
    """List the technologies that accelerators can be for, or say all of one TECHNOLOGY."""
    from hwgen.technologies import target_of, technologies, technology

    if times is not None and not as_table:
        raise click.UsageError("--times belongs to --as-table")
    if as_table:
        if not name or as_json:
            raise click.UsageError("--as-table: name a TECHNOLOGY; its table is YAML")
        name, _ = target_of(name)
        _print_table(name, _factors(times))
        return
    if name:
        name, _ = target_of(name)
        described = technology(name)
        entry = {**_entry(name), **described.model_dump(mode="json", exclude_none=True)}
        if as_json:
            emit_json(entry)
        else:
            _show_one(entry)
        return
    entries = [_entry(name) for name in technologies()]
    if as_json:
        emit_json(entries)
    else:
        _show(entries)


def _factors(text: str | None) -> tuple[float, float, float]:
    """Return the factors of areas, energies and delays."""
    parts = "1,1,1" if text is None else text
    try:
        area, energy, delay = (float(part) for part in parts.split(","))
    except ValueError:
        area = energy = delay = math.nan
    if not all(0 < factor < 1e6 for factor in (area, energy, delay)):
        raise click.UsageError(
            f"--times: must be three positive numbers AREA,ENERGY,DELAY, not {parts[:40]!r}"
        )
    return area, energy, delay


def _print_table(name: str, factors: tuple[float, float, float]) -> None:
    """Print the costs of a calibrated technology as a table of costs of the user's."""
    import yaml

    from cost_model.estimate.technology import technology
    from hwgen.errors import InputError

    tech = technology(name)
    costs = tech.structure.get("costs", {})
    if "area_um2" not in costs:
        raise InputError(f"{name}: is an FPGA; tables of costs are of standard cells")
    area, energy, delay = factors
    scaled = factors != (1.0, 1.0, 1.0)

    def of(quantity: str, factor: float) -> dict[str, float]:
        return {step: _rounded(cost * factor) for step, cost in costs[quantity].items()}

    table: dict[str, Any] = {
        "name": f"my-{name}",
        "kind": "cost_table",
        "summary": f"costs like those of {name}",
        "source": f"hwgen's calibration to {name}"
        + (f"; areas x {area:g}, energies x {energy:g}, delays x {delay:g}" if scaled else ""),
        "uncertainty": {
            metric: max(float(tech.structure["uncertainty"][metric]), _SCALED if scaled else 0.0)
            for metric in ("area", "power")
        },
        "area_um2": of("area_um2", area),
        "energy_fj": of("energy_fj", energy),
        "leakage_nw": of("leakage_nw", energy),
    }
    if "ns" in tech.timing:
        within = float(tech.timing.get("uncertainty", 0.0))
        table["delays"] = {
            "outside": tech.timing["outside"],
            "uncertainty": max(within, _SCALED if scaled else 0.0),
            "ns": {step: _rounded(ns * delay) for step, ns in tech.timing["ns"].items()},
        }
    click.echo(yaml.safe_dump(table, sort_keys=False), nl=False)


_SCALED = 0.3
"""Uncertainty of figures that are another technology's times one factor."""


def _rounded(value: float) -> float:
    """Return a number to four digits, as it is printed."""
    return float(f"{value:.4g}")


def _entry(name: str) -> dict[str, Any]:
    """Return a technology as JSON values."""
    from cost_model.estimate.technology import is_calibrated
    from cost_model.netlist.fabric.fabric import has_rules
    from flows.synthesis.liberty import liberty_files
    from hwgen.errors import InputError, ToolMissing
    from hwgen.technologies import file_of, technology
    from hwgen.technologies.cost_table import CostTable

    try:
        tech = technology(name)
    except InputError as error:  # the file of one package must not hide the others
        return {"name": name, "problem": str(error)}
    entry: dict[str, Any] = {
        "name": name,
        "kind": tech.kind,
        "summary": tech.summary,
        "file": str(file_of(name)),
        "calibrated": is_calibrated(name),
    }
    if tech.kind == "fpga":
        return {
            **entry,
            "rules": has_rules(name),
            "place_and_route": tech.place_and_route is not None,
            "devices": list(tech.devices),
        }
    if isinstance(tech, CostTable):
        return {**entry, "source": tech.source, "liberty_files": None}
    try:
        paths = [str(path) for path in liberty_files(tech)]
    except ToolMissing as error:
        missing = f"{error}. They come from {tech.liberty_origin}" if tech.liberty_origin else error
        return {**entry, "liberty_files": None, "liberty_missing": str(missing)}
    return {**entry, "liberty_files": paths}


def _show(entries: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("technology", "kind", "costs", "Liberty files", "place and route", "what it is",
                  box=None, pad_edge=False)  # fmt: skip
    table.columns[0].no_wrap = True
    for entry in entries:
        if "problem" in entry:
            table.add_row(entry["name"], "cannot be used", "", "", "", "see below")
            continue
        if entry["kind"] == "cost_table":
            table.add_row(
                entry["name"], "cost table", "user's table", "-", "-", entry["summary"]
            )  # fmt: skip
            continue
        cells = entry["kind"] == "standard_cells"
        table.add_row(
            entry["name"],
            "standard cells" if cells else "FPGA",
            "calibrated" if entry["calibrated"] else "none",
            ("found" if entry["liberty_files"] else "not found") if cells else "-",
            "-" if cells else "nextpnr" if entry["place_and_route"] else "none",
            entry["summary"],
        )
    console().print(table)
    for entry in entries:
        if "problem" in entry:
            click.echo(f"\n{entry['problem']}")
    if devices := [(e["name"], e["devices"]) for e in entries if e.get("devices")]:
        click.echo("\ndevices (target.device):")
        for name, names in devices:
            click.echo(f"  {name}: {', '.join(names)}")
    for entry in entries:
        if lacking := entry.get("liberty_missing"):
            click.echo(f"\n{lacking}")


def _show_one(entry: dict[str, Any]) -> None:
    import yaml

    click.echo(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True), nl=False)
