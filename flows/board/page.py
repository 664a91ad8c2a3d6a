# SPDX-License-Identifier: Apache-2.0
"""Tables of ``docs/boards.md``: boards by their data files, and results of `hwgen board build`.

``python -m flows.board.page docs/boards.md [DIR ...]`` writes them; each DIR is an output of
``hwgen board build``, and without any the table of results stays as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hwgen.board.registry import board, boards
from hwgen.errors import InputError

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
            data.uart.note,
        ])  # fmt: skip
    headings = ("board", "is", "device", "package", "MHz", "clk", "rx", "tx", "led", "button",
                "serial port")  # fmt: skip
    return _markdown(headings, rows)


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
    return _markdown(headings, rows)


def replaced(page: str, name: str, content: str) -> str:
    """Return a page with other text between the comments ``begin: NAME`` and ``end: NAME``.

    Raises
    ------
    InputError
        If the page lacks one of them.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    if begin not in page or end not in page:
        raise InputError(f"the page has no lines '{begin}' and '{end}'")
    head, rest = page.split(begin, 1)
    return f"{head}{begin}\n\n{content}\n{end}{rest.split(end, 1)[1]}"


def _count(used: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    row = next((used[name] for name in names if name in used), None)
    return "0" if row is None else f"{row['used']:,} of {row['available']:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (headings, ["---"] * len(headings), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main(path: Path, outputs: Sequence[Path]) -> None:
    """Write the tables into the page."""
    page = replaced(path.read_text(encoding="utf-8"), "boards", boards_table())
    if outputs:
        documents = [json.loads((output / "board.json").read_text()) for output in outputs]
        page = replaced(page, "results", results_table(documents))
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
