# SPDX-License-Identifier: Apache-2.0
"""List the block formats that weights can be packed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import emit_json, example, json_option
from hwgen.cli.support.names import FormatName
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.formats.block import BlockFormat


@click.command(
    epilog=example(
        "hwgen formats mxfp4",
        "A format is one file: docs/number-formats.md writes one.",
    )
)
@click.argument("name", metavar="[NAME|FILE]", default="", type=FormatName())
@json_option
def command(name: str, as_json: bool) -> None:
    """List the block formats that weights can be packed in, or say all of one.

    Also of a group of integers, as int4_g128_min, or of a file of your own.
    """
    from hwgen.core.files.block_formats import block_format_of
    from hwgen.formats.registry import GROUPS, block_format, shipped

    if name:
        entry = _entry(block_format_of(name))
        if as_json:
            emit_json(entry)
        else:
            _show_one(entry)
        return
    entries = [_entry(block_format(known)) for known in shipped()]
    if as_json:
        emit_json(entries)
        return
    _show(entries)
    click.echo(f"\nand groups of integers: {GROUPS}")


def _entry(fmt: BlockFormat) -> dict[str, Any]:
    """Return a format and what follows from it."""
    from hwgen.formats.block.file import document_of

    return {
        **document_of(fmt),
        "bits_per_weight": fmt.bits_per_value,
        "largest_element": fmt.element.max,
        "smallest_step": 2.0**fmt.element.exponent,
        "exact_dot_bits": fmt.dot_width(),
    }


def _show(entries: list[dict[str, Any]]) -> None:
    from rich.table import Table

    names = ("format", "element", "block", "scale", "bits each", "exact dot product", "what it is")
    table = Table(*names, box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for entry in entries:
        scale = entry["scale"]
        table.add_row(
            entry["name"],
            entry["element"],
            str(entry["block"]),
            scale["format"] + (f", {scale['second']}" if scale.get("second") else ""),
            f"{entry['bits_per_weight']:.4g}",
            f"{entry['exact_dot_bits']} bits",
            entry.get("summary", ""),
        )
    console().print(table)


def _show_one(entry: dict[str, Any]) -> None:
    import yaml

    click.echo(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True), nl=False)
