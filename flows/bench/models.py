# SPDX-License-Identifier: Apache-2.0
"""Cost of a token of models, on cores and targets, as a table in Markdown: ``make bench-models``.

``python -m flows.bench.models --row DIR CORE.yaml ... --target T ...``: each line is the decode
step of `hwgen model estimate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from flows.bench.common import Document, hwgen, markdown, parser, run
from flows.demonstration.written import energy_text
from hwgen.reports.datasheet import describe_size, share
from hwgen.reports.roofline import number

HEADINGS = ("model", "core", "target", "area or resources", "tokens/s", "J/token", "limited by",
            "of the bandwidth's floor")  # fmt: skip


def lines(config: str, documents: Sequence[Document]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a model on a core, a line for each target.

    Parameters
    ----------
    config : str
        File of the core.
    documents : sequence of dict
        Output of `hwgen model estimate --json` for each target.
    """
    first: tuple[str, ...] = (documents[0]["model"], f"`{config}`")
    for document in documents:
        entry, decode = document["estimate"], document["passes"]["decode"]
        metrics, device = entry["metrics"], entry["device"]
        size = describe_size(metrics)
        if device:
            size += f", {device['name']}, fits: {device['verdict']}"
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
    options = parser("models", __doc__)
    options.add_argument("--row", nargs=2, action="append", required=True, metavar=("DIR", "CORE"))
    options.add_argument("--target", action="append", required=True)
    options.add_argument("--memory", default="lpddr4x")
    chosen = options.parse_args(arguments)
    targets = [part for target in chosen.target for part in ("--target", target)]
    rows: list[tuple[str, ...]] = []
    for model, config in chosen.row:
        document = hwgen("model", "estimate", model, "--config", config, "--memory", chosen.memory,
                         *targets, "--fpga-energies")  # fmt: skip
        rows += lines(config, document.get("targets", [document]))
    click.echo(markdown(HEADINGS, rows), nl=False)


if __name__ == "__main__":
    run(main)
