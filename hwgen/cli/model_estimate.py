# SPDX-License-Identifier: Apache-2.0
"""What ``hwgen model estimate`` prints."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from hwgen.cli.common import console
from hwgen.cli.estimate import print_roofline
from hwgen.datasheet import number
from hwgen.roofline import SERVED


def print_speeds(name: str, found: Any, entry: Any) -> None:
    """Print the speeds of passes, and what limits each layer."""
    out = console()
    out.print(f"{name} on {entry['name']}, {entry['technology']} at {_clock(entry)} MHz")
    table = Table("pass", box=None, pad_edge=False)
    headings = ("tokens", "context", "ms", "tokens/s", "J/token", "of the bandwidth's floor")
    for heading in headings:
        table.add_column(heading, justify="right")
    for key, each in found.items():
        share = each["floor_share"]
        table.add_row(
            key,
            f"{each['tokens']:,}",
            f"{each['context']:,}",
            *(number(each[field]) for field in ("ms", "tokens_per_s", "j_per_token")),
            "-" if share is None else f"{100 * share:.1f} %",
        )
    out.print(table)
    if "prefill" in found:
        out.print(f"time to the first token: {number(found['prefill']['ms'])} ms")
    if entry["roofline"]:
        print_roofline(entry, out)
    else:
        out.print(SERVED)
    for note in entry["notes"]:
        out.print(f"note: {note}", soft_wrap=True)


def _clock(entry: Any) -> str:
    """Return the clock that the figures of an estimate are at."""
    return f"{entry['figures_at_mhz'] or entry['clock_mhz']:.4g}"


def print_targets(name: str, found: list[Any], entries: list[Any]) -> None:
    """Print the speed of the last pass, a row for each technology."""
    out = console()
    passes = found[0]
    last = next(reversed(passes))
    out.print(
        f"{name} on {entries[0]['name']}: {last} of {passes[last]['tokens']:,} behind"
        f" {passes[last]['context']:,}"
    )
    table = Table("target", box=None, pad_edge=False)
    headings = ("MHz", "mm²", "LUTs", "DSPs", "tokens/s", "J/token", "of the floor")
    for heading in headings:
        table.add_column(heading, justify="right")
    for each, entry in zip(found, entries, strict=True):
        metrics, speed = entry["metrics"], each[last]
        share = speed["floor_share"]
        table.add_row(
            entry["technology"],
            _clock(entry),
            *(number(metrics[key]) for key in ("area_mm2", "luts", "dsps")),
            *(number(speed[key]) for key in ("tokens_per_s", "j_per_token")),
            "-" if share is None else f"{100 * share:.1f} %",
        )
    out.print(table)
    for note in dict.fromkeys(note for entry in entries for note in entry["notes"]):
        out.print(f"note: {note}", soft_wrap=True)
