# SPDX-License-Identifier: Apache-2.0
"""What a token of models takes, on cores and targets, as a table in Markdown.

``python -m flows.bench.models --row DIR CORE.yaml ... --target T ...``: each line is what `hwgen
model estimate` says of a decode step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from flows.demonstration.written import energy_text
from hwgen.reports.datasheet import number, share

_HEADINGS = ("model", "core", "target", "area or resources", "tokens/s", "J/token", "limited by",
             "of the bandwidth's floor")  # fmt: skip


def lines(config: str, found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a model on a core, a line for each target.

    Parameters
    ----------
    config : str
        File of the core.
    found : sequence of mapping
        What `hwgen model estimate --json` says of each target.
    """
    first: tuple[str, ...] = (found[0]["model"], f"`{config}`")
    for one in found:
        entry, decode = one["estimate"], one["passes"]["decode"]
        metrics, device = entry["metrics"], entry["device"]
        if metrics["area_mm2"] is not None:
            size = f"{number(metrics['area_mm2'])} mm²"
        else:
            size = f"{number(metrics['luts'])} LUTs, {number(metrics['dsps'])} DSPs"
        if device:
            size += f", {device['name']}"
        limits = entry["roofline"]["workloads"]["decode"] if entry["roofline"] else {}
        joules = decode["j_per_token"]
        yield (
            *first,
            f"{entry['technology']}, {entry['figures_at_mhz'] or entry['clock_mhz']:.4g} MHz",
            size,
            number(decode["tokens_per_s"]),
            "not known" if joules is None else energy_text(joules, entry),
            limits.get("limit") or "not known",
            share(decode["floor_share"]),
        )
        first = ("", "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Estimate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--row", nargs=2, action="append", required=True, metavar=("DIR", "CORE"))
    parser.add_argument("--target", action="append", required=True)
    parser.add_argument("--memory", default="lpddr4x")
    given = parser.parse_args(arguments)
    options = [part for target in given.target for part in ("--target", target)]
    click.echo(f"| {' | '.join(_HEADINGS)} |\n{'| --- ' * len(_HEADINGS)}|")
    for model, config in given.row:
        command = [sys.executable, "-m", "hwgen", "model", "estimate", model, "--config", config]
        command += ["--memory", given.memory, *options]
        command += ["--fpga-energies", "--json"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        document = json.loads(done.stdout)
        for cells in lines(config, document.get("targets", [document])):
            click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
