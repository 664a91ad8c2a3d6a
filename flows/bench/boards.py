# SPDX-License-Identifier: Apache-2.0
"""Tables of ``docs/boards.md``: boards by their data files, and results of `hwgen board build`.

``python -m flows.bench.boards docs/boards.md [DIR ...]`` writes them; each DIR is an output of
``hwgen board build``, and without any the table of results stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.bench.common import markdown, parser, run, write_sections
from hwgen.board.model import LINKS, BoardData
from hwgen.board.registry import board, boards

_LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4", "CPE_LT", "CPE")
_MEMORIES = ("ICESTORM_RAM", "DP16KD", "BSRAM", "RAM_HALF", "RAM")


def boards_table() -> str:
    """Return the table of all boards, with device, clock and pins."""
    rows = []
    for name in boards():
        data = board(name)
        pins = data.pins
        rows.append([
            f"`{name}`", data.summary, f"`{data.device}`", data.package, f"{data.clock.mhz:g}",
            *(pins.get(port, "-") for port in ("clk", "rx", "tx", "led", "button")),
            data.uart.note, _bus(data),
        ])  # fmt: skip
    headings = ("board", "is", "device", "package", "MHz", "clk", "rx", "tx", "led", "button",
                "serial port", "cs, sck, mosi, miso")  # fmt: skip
    return markdown(headings, rows)


def _bus(data: BoardData) -> str:
    """Return the pins of a serial peripheral bus, and where they lead."""
    if data.spi is None:
        return "-"
    pins = ", ".join(getattr(data.spi, name) for name in LINKS["spi"])
    return f"{pins}: {data.spi.note}"


def results_table(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of builds, from the contents of their ``board.json``."""
    rows = []
    for document in sorted(documents, key=lambda each: str(each["board"])):
        used, estimated = document["utilization"], document["estimated"]
        rows.append([
            f"`{document['board']}`", f"`{document['device']}`",
            _count(used, _LOGIC), f"{estimated['luts']['used']:,}",
            _count(used, _MEMORIES), f"{estimated['brams']['used']:,}",
            f"{document['clock_mhz']:g}", f"{document['fmax_mhz']:.1f}",
            _number(document["estimated_fmax_mhz"]), f"{document['bitstream_bytes']:,}",
        ])  # fmt: skip
    headings = ("board", "device", "logic cells", "LUTs by estimate", "memories", "by estimate",
                "clock, MHz", "routed Fmax, MHz", "by estimate", "bytes")  # fmt: skip
    return markdown(headings, rows)


def _count(used: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    row = next((used[name] for name in names if name in used), None)
    return "0" if row is None else f"{row['used']:,} of {row['available']:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables into a page."""
    options = parser("boards", __doc__)
    options.add_argument("page", type=Path, help="docs/boards.md")
    options.add_argument("outputs", nargs="*", type=Path, metavar="DIR",
                         help="output of hwgen board build")  # fmt: skip
    chosen = options.parse_args(arguments)
    tables = {"boards": boards_table()}
    if chosen.outputs:
        documents = [json.loads((path / "board.json").read_text()) for path in chosen.outputs]
        tables["results"] = results_table(documents)
    write_sections(chosen.page, tables)
    return 0


if __name__ == "__main__":
    run(main)
