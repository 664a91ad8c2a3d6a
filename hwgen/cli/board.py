# SPDX-License-Identifier: Apache-2.0
"""Put a stream core on an FPGA board: design, bitstream, loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import emit_json, example, json_option, new_table
from hwgen.cli.support.groups import AliasedGroup
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.board.model import BoardData


@click.group(
    cls=AliasedGroup,
    epilog=example("hwgen board build --board icebreaker -c configs/boards/digits.yaml -o build/x"),
)
def command() -> None:
    """Put a stream core on an FPGA board: design, bitstream, loading."""


@command.command("list", epilog=example("hwgen board list"))
@json_option
def list_command(as_json: bool) -> None:
    """List the boards that there are, with device, clock and pins."""
    from hwgen.board.registry import boards

    entries = [_entry(name) for name in boards()]
    if as_json:
        emit_json(entries)
        return
    table = new_table("board", "device", "package", "MHz", "rx", "tx", "led", "button", left=_LEFT)
    for entry in entries:
        if "problem" in entry:
            console(stderr=True).print(entry["problem"], soft_wrap=True)
            continue
        pins = entry["pins"]
        table.add_row(
            entry["name"], entry["device"], entry["package"], f"{entry['clock']['mhz']:g}",
            *(pins.get(port, "-") for port in ("rx", "tx", "led", "button")),
        )  # fmt: skip
    console().print(table)


_LEFT = ("device", "package", "rx", "tx", "led", "button")


def _entry(name: str) -> dict[str, Any]:
    """Return a board as JSON values."""
    from hwgen.board.registry import board
    from hwgen.errors import InputError

    try:
        data: BoardData = board(name)
    except InputError as error:  # the file of one package must not hide the others
        return {"name": name, "problem": str(error)}
    return {**data.model_dump(mode="json", exclude_none=True), "pins": data.pins}
